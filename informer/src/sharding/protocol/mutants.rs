//! The mutants of the protocol, each with one deliberate defect. The exploration in `explore` must
//! find all of them, and the simulation of controllers (`sharding/tests/simulation`) some.

use std::cell::Cell;

thread_local! {
    /// The mutant of the members that this thread creates, if a test has chosen one.
    pub(crate) static CHOSEN_MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// A mutant of the protocol, named after its defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    DeadlineFromAnswer,
    WorksForLeaseDuration,
    MemberIgnoresWallClock,
    MemberIgnoresMonotonicClock,
    RenewalCountsUnseen,
    ViewCountsAsRenewal,
    FencesLiveMember,
    FencesWithoutVersion,
    TakesWithoutFence,
    AbsentMemberIsDead,
    ObserverUsesWallClock,
    ObserverUsesOwnDuration,
    ClaimsWithoutVersion,
    ClaimsWhileWorking,
    ClaimOverridesView,
    AbsentShardIsFree,
    CreatedShardIsFree,
    CreatorNeverEnds,
    ListKeepsGone,
    JoinsForever,
    AwaitsGroup,
    StaggersBehindExpired,
    OldAnswersCount,
    KeepsIdentity,
    FencesItselfBeforeIdle,
    KeepsShardOfAnother,
    ReleasesBeforeIdle,
    ReleasesDroppedWork,
    ReleasesAnothersShard,
    KeysNotEnqueued,
    OwnsAgainWithoutEnqueue,
    ListsBeforeClaim,
    StoreLacksList,
    StoreKeepsDeleted,
    OldFillsCount,
}

impl Mutant {
    /// All mutants, each with its defect.
    pub(super) const ALL: [(Self, &str); 35] = [
        (Self::DeadlineFromAnswer, "the deadline counts from the answer of a renewal"),
        (Self::WorksForLeaseDuration, "a member works for the lease duration"),
        (Self::MemberIgnoresWallClock, "a member's deadline is by the monotonic clock alone"),
        (Self::MemberIgnoresMonotonicClock, "a member's deadline is by the wall clock alone"),
        (Self::RenewalCountsUnseen, "a renewal counts before the view contains it"),
        (Self::ViewCountsAsRenewal, "a renewal counts that was seen but not answered"),
        (Self::FencesLiveMember, "an observer fences a member whose Lease has not expired"),
        (Self::FencesWithoutVersion, "an observer fences a member without a version"),
        (Self::TakesWithoutFence, "a shard of an expired member is taken without a fence"),
        (Self::AbsentMemberIsDead, "a member without a Lease is dead at once"),
        (Self::ObserverUsesWallClock, "an observer waits by the wall clock"),
        (Self::ObserverUsesOwnDuration, "an observer waits for its own lease duration"),
        (Self::ClaimsWithoutVersion, "a claim is written without a version"),
        (Self::ClaimsWhileWorking, "a shard is claimed while work of an earlier term continues"),
        (Self::ClaimOverridesView, "a claim counts although the view shows that it is over"),
        (Self::AbsentShardIsFree, "the creator of a shard's Lease holds the shard"),
        (Self::CreatedShardIsFree, "a Lease of a shard that was just created is like any other"),
        (Self::CreatorNeverEnds, "a stopped member that has created a shard's Lease never ends"),
        (Self::ListKeepsGone, "a Lease that a list lacks stays in the view"),
        (Self::JoinsForever, "a member renews a Lease for ever that its view never contains"),
        (Self::AwaitsGroup, "a member waits for the group's Lease, and does not create it"),
        (Self::StaggersBehindExpired, "a member lets one that has expired fence another first"),
        (Self::OldAnswersCount, "an answer to an earlier attempt counts"),
        (Self::KeepsIdentity, "a member joins again at once with its old identity"),
        (Self::FencesItselfBeforeIdle, "a lost member fences itself before its work has ended"),
        (Self::KeepsShardOfAnother, "a member that sees another holder goes on (c)"),
        (Self::ReleasesBeforeIdle, "a shard is released before its work has ended"),
        (
            Self::ReleasesDroppedWork,
            "a shard is released when its work must be dropped, before it is",
        ),
        (Self::ReleasesAnothersShard, "a release takes a fresh version of any holder (b)"),
        (Self::KeysNotEnqueued, "a new owner enqueues no keys"),
        (Self::OwnsAgainWithoutEnqueue, "a member owns again without enqueuing keys"),
        (Self::ListsBeforeClaim, "the list of a claim begins before its answer"),
        (Self::StoreLacksList, "an owner does not wait until the store holds the list"),
        (Self::StoreKeepsDeleted, "an owner's store may have objects that the list lacks"),
        (Self::OldFillsCount, "the list of an earlier claim counts"),
    ];
}
