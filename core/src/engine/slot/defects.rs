//! The code of some deliberate defects (`sync/mutants.rs`). Compiled only under
//! `--cfg deltafifo_loom` or `--cfg deltafifo_shuttle`.

use super::known::KnownArc;
use super::{Rule, RunningSlot, Slot, State};
use crate::engine::sync::{Arc, Ordering};

impl<T> KnownArc<T> {
    /// Reads the known object, with the defect `KnownReadUnlocked`: the object can be released
    /// between reading the pointer and raising the count.
    pub(super) fn read_unlocked(&self) -> Option<Arc<T>> {
        let seen = self.object.load(Ordering::Acquire);
        // A step at which another thread may run. Relaxed: the value is not used.
        self.object.load(Ordering::Relaxed);
        // SAFETY: none; that is the defect. loom's `Arc` detects it.
        (!seen.is_null()).then(|| unsafe {
            Arc::increment_strong_count(seen.cast::<T>());
            Arc::from_raw(seen.cast::<T>())
        })
    }
}

impl<T> Slot<T> {
    /// Returns whether a push is rejected because a handler is running for the key and there is no
    /// known object yet: the defect `RunningIsDecidedAtOnce`.
    pub(super) fn skips(&self, rule: Rule) -> bool {
        rule == Rule::IfExists && self.state() == State::Running && !self.is_known()
    }
}

impl<T> RunningSlot<T> {
    /// Makes the slot idle (its word is then `EMPTY`) and claims it again, with the defect
    /// `RetireFromEmpty`: another thread can use the slot while it is idle. Returns `None` if
    /// another thread has queued, claimed or retired the slot in that time. Fails with the
    /// unchanged token if deltas were pushed since the last take.
    pub(crate) fn through_empty(self) -> Result<Option<Self>, Self> {
        let again = Self { slot: self.slot };
        self.idle()?;
        Ok(again.slot().word.claim().then_some(again))
    }
}
