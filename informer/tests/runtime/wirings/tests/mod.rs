//! Tests of the wirings. They are compiled twice, like the wirings.

use super::programs::{
    cached, context, filtered, finalized, mapped, readers, related, subscribed, warmed,
};
use super::{OURS, runtime};

mod others;
mod plain;
#[cfg(unix)]
mod signals;
mod streams;
