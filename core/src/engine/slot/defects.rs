//! What some mutants do instead (`sync/mutants.rs`). Only compiled in models.

use super::RunningSlot;
use super::known::Known;
use crate::engine::sync::{Arc, Ordering};

impl<T> Known<T> {
    /// `KnownReadUnlocked`: between the look and the count the object can be released.
    pub(super) fn read_unlocked(&self) -> Option<Arc<T>> {
        let seen = self.object.load(Ordering::Acquire);
        // A step, in which another thread may go on. Relaxed: what it says is not used.
        self.object.load(Ordering::Relaxed);
        // SAFETY: none; that is the defect. loom's `Arc` notices.
        (!seen.is_null()).then(|| unsafe {
            Arc::increment_strong_count(seen.cast::<T>());
            Arc::from_raw(seen.cast::<T>())
        })
    }
}

impl<T> RunningSlot<T> {
    /// `RetireFromEmpty`: the slot is idle for a moment, in which another consumer may retire it. Without a slot when
    /// somebody has it again.
    pub(crate) fn through_empty(self) -> Result<Option<Self>, Self> {
        let again = Self { slot: self.slot };
        self.idle()?;
        Ok(again.slot().word.claim().then_some(again))
    }
}
