//! The mutants of the protocol, each with one deliberate defect. The exploration in `explore` must
//! find all of them, and the simulation of elections (`leader_election/simulation`) some.

use std::cell::Cell;

thread_local! {
    /// The mutant of the candidates that this thread creates, if a test has chosen one.
    pub(crate) static CHOSEN_MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// A mutant of the protocol, named after its defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    DeadlineFromAnswer,
    HoldsForLeaseDuration,
    HolderIgnoresWallClock,
    HolderIgnoresMonotonicClock,
    TakesUnexpiredLease,
    WritesWithoutVersion,
    AbsentLeaseIsFree,
    OldAnswersCount,
    ObserverUsesWallClock,
    ObserverUsesOwnDuration,
    ReadCountsAsRenewal,
    ReadCountsAsClaim,
    ReleasesBeforeWorkHasEnded,
    ReleasesAnothersLease,
    KeepsLeadingUnderAnother,
    RenewalEndsDoubt,
    FormerByNameAlone,
}

impl Mutant {
    /// All mutants, each with its defect.
    pub(super) const ALL: [(Self, &str); 17] = [
        (Self::DeadlineFromAnswer, "the deadline counts from the answer of a renewal"),
        (Self::HoldsForLeaseDuration, "a holder holds for the lease duration"),
        (Self::HolderIgnoresWallClock, "a holder's deadline is by the monotonic clock alone"),
        (Self::HolderIgnoresMonotonicClock, "a holder's deadline is by the wall clock alone"),
        (Self::TakesUnexpiredLease, "an observer takes a lease that has not expired"),
        (Self::WritesWithoutVersion, "a claim is written without a version"),
        (Self::AbsentLeaseIsFree, "a lease that is absent is created and held at once"),
        (Self::OldAnswersCount, "an answer to an earlier attempt counts"),
        (Self::ObserverUsesWallClock, "an observer waits by the wall clock"),
        (Self::ObserverUsesOwnDuration, "an observer waits for its own lease duration"),
        (Self::ReadCountsAsRenewal, "a read that names the holder moves its deadline"),
        (Self::ReadCountsAsClaim, "a read that names a candidate makes it the holder"),
        (Self::ReleasesBeforeWorkHasEnded, "the lease is released before work has ended (a)"),
        (Self::ReleasesAnothersLease, "a release takes a fresh version of any holder (b)"),
        (Self::KeepsLeadingUnderAnother, "a holder that reads another's name goes on (c)"),
        (Self::RenewalEndsDoubt, "an answered renewal ends the doubt that a watch has caused (c)"),
        (Self::FormerByNameAlone, "an earlier term is recognised by its holder alone"),
    ];
}
