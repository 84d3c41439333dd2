//! The clock that measures handlers.

use std::time::Duration;

use crate::engine::sync::MODEL;

/// The time at which a handler received its key, with a resolution of a few milliseconds (a timer
/// tick). This is enough to find slow handlers. Every pop reads it, and the exact time costs four
/// times as much (`bench/LOG.md`).
#[derive(Clone, Copy)]
pub(crate) struct Started(coarsetime::Instant);

impl Started {
    /// Returns the current time, or `None` in a loom or shuttle model: a schedule that depends on
    /// time could not be replayed.
    #[inline]
    pub(crate) fn now() -> Option<Self> {
        // The variant with a cache would write a cache line that all threads share.
        (!MODEL).then(|| Self(coarsetime::Instant::now_without_cache_update()))
    }

    #[inline]
    pub(crate) fn elapsed(self) -> Duration {
        (coarsetime::Instant::now_without_cache_update() - self.0).into()
    }
}
