//! The code of deliberate defects (`mutants.rs`). Compiled only for tests.

use std::time::Duration;

use super::member::Renewal;
use super::{Clocks, Flight, LeaseName, Protocol, Purpose, Record, ShardState};

impl<T: Clone + Ord + AsRef<str>> Protocol<T> {
    /// Returns the number of the attempt in progress for a Lease. With the defect `OldAnswersCount`
    /// every answer has this number.
    pub(super) fn number_in_flight(&self, name: &LeaseName<T>) -> Option<u64> {
        let attempts = match name {
            LeaseName::Shard(shard) => &self.shards[usize::from(*shard)].attempts,
            LeaseName::Member(name) if *name != self.identity => &self.view.peer(name)?.attempts,
            LeaseName::Member(_) | LeaseName::Group => &self.own.attempts,
        };
        attempts.flight.map(|flight| flight.number)
    }

    /// Returns the number of the fill in progress. With the defect `OldFillsCount` every fill has
    /// this number.
    pub(super) fn fill_in_progress(&self, shard: u8) -> Option<u64> {
        match self.shards[usize::from(shard)].state {
            ShardState::Filling { fill, .. } => fill,
            _ => None,
        }
    }

    /// Counts a version of the member's Lease in the view as a renewal that was sent now: the
    /// defect `ViewCountsAsRenewal`.
    pub(super) fn renew_at(&mut self, now: Clocks, version: u64) {
        let flight = Flight { number: 0, purpose: Purpose::Renew, base: 0, sent: now };
        let deadline = self.deadline(flight);
        self.own.unseen.push(Renewal { version, deadline });
    }
}

impl<T: Clone> ShardState<T> {
    /// Takes the record of any holder for a release, with the defect `ReleasesAnothersShard`.
    /// Returns whether the shard is being released and there is a record.
    pub(super) fn adopts(&mut self, record: Option<&Record<T>>) -> bool {
        let (Self::Releasing { claim }, Some(record)) = (self, record) else { return false };
        *claim = record.clone();
        true
    }
}

impl<T> ShardState<T> {
    /// Returns whether the order to drop the work was given. With the defect `ReleasesDroppedWork`
    /// the shard is released then.
    pub(super) fn is_dropped(&self) -> bool {
        matches!(self, Self::Draining { is_dropped: true, .. })
    }
}

/// Returns a deadline that never passes by the wall clock: the defect `MemberIgnoresWallClock`.
pub(super) fn without_wall(deadline: Clocks) -> Clocks {
    Clocks { wall: Duration::MAX, ..deadline }
}

/// Returns a deadline that never passes by the monotonic clock: the defect
/// `MemberIgnoresMonotonicClock`.
pub(super) fn without_monotonic(deadline: Clocks) -> Clocks {
    Clocks { monotonic: Duration::MAX, ..deadline }
}

/// Returns whether an observer that has waited since `since` has reached `time`, a time of the
/// monotonic clock, if its wait is measured by the wall clock: the defect `ObserverUsesWallClock`.
pub(super) fn has_passed_by_wall(since: Clocks, time: Duration, now: Clocks) -> bool {
    since.after(time.saturating_sub(since.monotonic)).wall <= now.wall
}
