//! The wirings, over the runtime of the module that includes them.

use super::runtime;

pub mod cached;
pub mod context;
pub mod filtered;
pub mod finalized;
pub mod mapped;
pub mod readers;
pub mod related;
pub mod subscribed;
pub mod warmed;
