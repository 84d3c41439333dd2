//! The durations of a group, and the requests, answers and steps of a member.

use std::time::Duration;

use super::view::{LeaseName, Readiness, Record};

/// The durations of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupTiming {
    /// The time for which others wait before they fence a member that does not renew its Lease.
    pub(crate) lease_duration: Duration,
    /// The time for which a member works without another renewal.
    pub(crate) renew_deadline: Duration,
    /// The shortest time between attempts after a failure, and the time limit of a request.
    pub(crate) retry_period: Duration,
    /// The time for which work of a shard may continue after the shard was assigned to another.
    pub(crate) drain_timeout: Duration,
    /// The time for which a member is ready before it is settled.
    pub(crate) settle: Duration,
    /// The time by which a member fences another later than the member before it in the order of
    /// their rendezvous scores.
    pub(crate) fence_stagger: Duration,
}

impl GroupTiming {
    /// Returns the time between two renewals of a member's Lease.
    pub(crate) fn renew_period(&self) -> Duration {
        (self.lease_duration / 3).min(self.renew_deadline / 2)
    }
}

/// A request to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request<T> {
    pub(crate) name: LeaseName<T>,
    /// The number of the attempt.
    pub(crate) number: u64,
    pub(crate) write: Write<T>,
}

/// A write of a Lease. Each write also contains the lease duration of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write<T> {
    /// Creates the Lease with this holder and no transitions.
    Create { holder: Option<T>, readiness: Readiness },
    /// Replaces this version of the Lease.
    Replace { base: Record<T>, holder: Option<T>, transitions: i32, readiness: Readiness },
    /// Deletes this version of the Lease.
    Delete { base: Record<T> },
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer<T> {
    /// The state that was written, or `None` if the Lease was deleted.
    Written(Option<Record<T>>),
    /// The write was refused because the Lease has another version, exists already, or is deleted.
    Conflict,
    /// The request failed or was not answered in time, and may still be applied. The next one for
    /// this Lease follows after `pause` at the earliest. If it was to delete the Lease of another
    /// member, no deletion of such a Lease follows before that; then the answer may also be that
    /// the server has refused the deletion, or keeps the Lease until its finalizers are removed.
    Unclear { pause: Duration },
}

/// The next step of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MemberStep<T> {
    /// Send this request, and pass its answer to [`answered`](super::Protocol::answered).
    Send(Request<T>),
    /// List the objects of the shard, consistently and beginning after this step. Call
    /// [`filled`](super::Protocol::filled) with the number once the store has each listed object in
    /// the listed version or a later one, and has no other object of the shard in a version before
    /// the list's.
    Fill { shard: u8, number: u64 },
    /// Enqueue all keys of the shard, and admit its work from now on.
    Enqueue { shard: u8 },
    /// Drop the futures of the shard's work.
    Drop { shard: u8 },
    /// Wait for an input, or until this time of the monotonic clock.
    Wait(Option<Duration>),
    /// The membership has ended. No step follows.
    Ended(MemberEnd),
}

/// The reason why a membership has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MemberEnd {
    /// The member was stopped. If it was live, it has released its shards and deleted its Lease,
    /// unless the Lease was lost before.
    Stopped,
    /// No renewal was answered and seen before the deadline.
    Deadline,
    /// The member's Lease was fenced, edited or deleted.
    Replaced,
    /// A Lease of the group has other settings.
    Mismatch,
}
