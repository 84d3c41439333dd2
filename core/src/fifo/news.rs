//! What others are told when a step is over: sleeping consumers of keys, and who waits for room or
//! for the initial population of its end. Telling runs wakers, which are user code. So all of it
//! comes last, with everything counted and queued and no lock held. (What a waker panics with ends
//! in `sync/event.rs`.)

use super::DeltaFifo;
use crate::Meta;

/// See the module.
#[must_use = "somebody may be waiting for it"]
pub(super) struct News {
    /// Keys that were queued.
    pub(super) queued: usize,
    /// Whether the depth fell below the mark.
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
