//! Wake-ups to deliver once a step is complete: consumers waiting for keys, producers waiting for
//! room, callers waiting for the initial sync. Wakers are user code, so they run last, with
//! everything counted and queued and no lock held. (`engine/sync/event.rs` catches their panics.)

use super::DeltaFifo;
use crate::Meta;

/// The wake-ups of one step.
#[must_use = "somebody may be waiting for it"]
pub(super) struct News {
    /// The number of keys that were queued.
    pub(super) queued: usize,
    /// Whether the gauge of pending deltas fell below the high-water mark.
    pub(super) room: bool,
    /// Whether the initial population ended.
    pub(super) synced: bool,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    #[inline]
    pub(super) fn tell(&self, news: &News) {
        self.queue.wake(news.queued);
        if news.room {
            self.depth.announce();
        }
        if news.synced {
            self.initial.announce();
        }
    }
}
