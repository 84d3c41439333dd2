//! The code of deliberate defects (`mutants.rs`). Compiled only for tests.

use std::time::Duration;

use super::{Answer, Clocks, HeldLease, Protocol, Record};

impl<T: Eq, B> Protocol<T, B> {
    /// Returns the number of the attempt in progress. With the defect `OldAnswersCount` every
    /// answer has this number.
    pub(super) fn number_in_flight(&self) -> Option<u64> {
        self.flight.map(|flight| flight.number)
    }

    /// Returns whether the answer names this candidate as the holder. With the defect
    /// `ReadCountsAsClaim` such an answer makes it the holder.
    pub(super) fn is_named_by(&self, answer: &Answer<T, B>) -> bool {
        let Answer::State(Some(record)) = answer else { return false };
        record.holder.as_ref() == Some(&self.identity)
    }
}

impl<T: Clone, B: Clone> HeldLease<T, B> {
    /// Takes the record that was read, with the defect `ReleasesAnothersLease`: another candidate
    /// may hold the lease. Returns whether there is a record.
    pub(super) fn adopts(&mut self, read: Option<&Record<T, B>>) -> bool {
        let Some(record) = read else { return false };
        self.record = record.clone();
        self.is_doubtful = false;
        true
    }
}

impl Clocks {
    /// Returns a deadline that never passes by the wall clock: the defect `HolderIgnoresWallClock`.
    pub(super) fn without_wall(self) -> Self {
        Self { wall: Duration::MAX, ..self }
    }

    /// Returns a deadline that never passes by the monotonic clock: the defect
    /// `HolderIgnoresMonotonicClock`.
    pub(super) fn without_monotonic(self) -> Self {
        Self { monotonic: Duration::MAX, ..self }
    }

    /// Returns whether a lease that was first seen at this time, and is free at `free_at` of the
    /// monotonic clock, is free by the wall clock: the defect `ObserverUsesWallClock`.
    pub(super) fn by_wall(self, free_at: Duration, now: Self) -> bool {
        self.after(free_at.saturating_sub(self.monotonic)).wall <= now.wall
    }
}
