//! What time it is, for what expires: a function that a test can replace.

use std::time::Instant;

pub(crate) type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// The machine's own.
pub(crate) fn system() -> Clock {
    Box::new(Instant::now)
}
