//! What time it is.

use std::time::{Duration, Instant};

use crate::engine::sync::MODEL;

/// For what expires: a function that a test can replace.
pub(crate) type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// The machine's own.
pub(crate) fn system() -> Clock {
    Box::new(Instant::now)
}

/// When a handler was given its key, to the few milliseconds of a timer's tick: enough to find slow ones, and paid for
/// with every pop, where the exact time costs five times as much (`bench/LOG.md`).
#[derive(Clone, Copy)]
pub(crate) struct Started(coarsetime::Instant);

impl Started {
    /// `None` in a model: an iteration that depended on the time would not be the same when it is tried again.
    #[inline]
    pub(crate) fn now() -> Option<Self> {
        // Without the cache, which is one line for all threads.
        (!MODEL).then(|| Self(coarsetime::Instant::now_without_cache_update()))
    }

    #[inline]
    pub(crate) fn elapsed(self) -> Duration {
        (coarsetime::Instant::now_without_cache_update() - self.0).into()
    }
}
