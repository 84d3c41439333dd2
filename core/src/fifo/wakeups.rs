//! Wake-ups to deliver once a step is complete: consumers waiting for keys, producers waiting for
//! room, callers waiting for the initial sync. Wakers are user code, so they run last, with
//! everything counted and queued and no lock held. (`engine/sync/event.rs` catches their panics.)

use super::DeltaFifo;
use crate::Meta;
use crate::lifecycle::Ended;

/// The wake-ups of one step.
#[must_use = "a consumer, a producer or a caller may be waiting"]
pub(super) struct Wakeups {
    /// The number of keys that were queued.
    pub(super) queued: usize,
    pub(super) ended: Ended,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    #[inline]
    pub(super) fn wake(&self, wakeups: &Wakeups) {
        self.queue.wake(wakeups.queued);
        self.life.announce(wakeups.ended);
    }

    /// Adds this number of deltas, which a relist is about to push, to the depth gauge. If `marks`
    /// is set, also adds as many marks of the initial population.
    pub(super) fn counted(&self, deltas: usize, marks: bool) {
        if deltas > 0 {
            self.life.depth.add(deltas);
            self.life.initial.marked(if marks { deltas } else { 0 });
        }
    }

    /// Subtracts this number of deltas, which were [counted](Self::counted) with the same `marks`
    /// and not pushed. Returns the waits that ended.
    pub(super) fn uncounted(&self, deltas: usize, marks: bool) -> Ended {
        self.life.settled(deltas, if marks { deltas } else { 0 })
    }
}
