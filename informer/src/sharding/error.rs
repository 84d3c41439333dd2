//! Errors of a group.

use std::time::Duration;

use super::shards::ShardSet;
use crate::leader_election;
use crate::lease::LeaseError;

/// The reason why a group could not be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The namespace, the name of the group or the identity cannot be a part of the names of
    /// objects.
    #[error("the {part} {value:?} is not valid: {rule}")]
    Name {
        /// The name of the value.
        part: &'static str,
        /// The value.
        value: String,
        /// The rule that the value breaks.
        rule: &'static str,
    },
    /// The number of shards is not a power of two, or is too large.
    #[error("{0} shards are not possible; the number must be a power of two, at most 128")]
    Shards(u32),
    /// The durations of the Leases are not safe.
    #[error(transparent)]
    Durations(leader_election::BuildError),
    /// Another group of this process exists.
    #[error(
        "this process has a group already; clone it for all controllers, or drop all its clones first"
    )]
    Exists,
}

/// A failure that a group reports, and survives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A request for a Lease failed.
    #[error(transparent)]
    Lease(LeaseError),
    /// The server's resource versions are not numbers. One such Lease is reported each minute.
    #[error(
        "the resource version {version:?} of lease {lease} is not a number, so this member cannot \
         order changes, and holds no shard; use an API server that numbers versions, or leader election"
    )]
    Version {
        /// Namespace and name of the lease; `*` stands for the list of all.
        lease: String,
        /// The version.
        version: String,
    },
    /// A Lease that is to be created exists, and does not have the label of the group: another
    /// program has created it, or the server has removed the label, see
    /// [`Unlabelled`](Self::Unlabelled). The creation is repeated after pauses that double from the
    /// retry period to a minute. One such Lease is reported each minute.
    #[error(
        "lease {lease} exists without the label {label}, so it is not one of the group, which needs \
         the name; delete it, or choose another name for the group"
    )]
    Foreign {
        /// Namespace and name of the lease.
        lease: String,
        /// The label and its value.
        label: String,
    },
    /// The server has stored a Lease of the group without the label of the group, so the watches of
    /// the members do not show the Lease. A member whose own Lease is not shown holds no shard: it
    /// deletes that Lease, and creates it again after pauses that double from the retry period to a
    /// minute. One such Lease is reported each minute. Members do not delete the Leases of shards
    /// and of the group: once such a Lease is stored without the label, [`Foreign`](Self::Foreign)
    /// is reported.
    #[error(
        "the server has stored lease {lease} without the label {label}, so no member of the group \
         sees the lease; find the webhook or policy that removes the label, and exempt these \
         leases, then delete the leases of shards and of the group that have no label"
    )]
    Unlabelled {
        /// Namespace and name of the lease.
        lease: String,
        /// The label and its value.
        label: String,
        /// The error of the deletion of the Lease, if that failed.
        source: Option<Box<LeaseError>>,
    },
    /// The Lease of this member lacks the annotation that states how far the member is ready to
    /// hold shards, or has it with another value than this member has written: a webhook or a
    /// policy changes the writes, or another client changes the Lease after them. A member whose
    /// Lease does not say that it is ready gets no shard if it holds none. If it holds shards, it
    /// keeps them, and it takes free ones while no Lease says that its member is ready. A member
    /// whose Lease does not say that it stops is still assigned its share. Reported once a minute.
    #[error(
        "lease {lease} does not have the annotation {annotation} that this member has written, so \
         the group may assign a wrong number of shards to this member; find the webhook, policy or \
         controller that changes the annotation, and exempt these leases"
    )]
    Unannotated {
        /// Namespace and name of the lease.
        lease: String,
        /// The annotation and the value that was written.
        annotation: String,
    },
    /// The informers of the group's controllers in this process have not synced, or an informer of
    /// its shards cannot list, so this process does not join the group. Reported each minute.
    #[error(
        "this replica has not joined group {group} for {waited:?}, because a sharded controller is not \
         polled, or an informer has not synced; check the errors of the controllers and informers"
    )]
    NotSynced {
        /// Namespace and name of the group.
        group: String,
        /// The time since the replica has begun to wait.
        waited: Duration,
    },
    /// No renewal of this replica's Lease was answered and seen by its watch within the renew
    /// deadline of being sent, so it holds no shard. Reported each minute.
    #[error(
        "this replica has not become live in group {group} for {waited:?}, so it holds no shard: no \
         renewal of its lease was answered within the retry period and seen by its watch within \
         the renew deadline; check how long writes and watches of leases take, and the \
         permission to update them"
    )]
    NotLive {
        /// Namespace and name of the group.
        group: String,
        /// The time since the replica has created its first Lease while it was not live.
        waited: Duration,
    },
    /// A controller or an informer does not have the objects of shards that this member has
    /// claimed, so no member works on these shards. Reported each minute for each of them.
    #[error(
        "this member of group {group} has waited {waited:?} for {participant} to hold the objects of \
         shards that it has claimed, so nobody works on these shards; check that the informers run, \
         that their lists do not fail, and that all handlers read"
    )]
    NotFilled {
        /// Namespace and name of the group.
        group: String,
        /// The kind of the informer, or of the main objects of the controller.
        participant: String,
        /// The time since the member has begun to wait.
        waited: Duration,
    },
    /// Work on shards continues after the drain timeout, or after the run of the group was dropped,
    /// so this member neither releases nor claims them: no other member works on a shard that this
    /// one still holds. Work cannot be dropped while it blocks its thread, holds a clone of a
    /// [`Permit`](crate::sharding::Permit), or waits for the answer to a request of the permit's
    /// client. Reported each minute.
    #[error(
        "work on the shards {shards:?} of group {group} has not ended for {waited:?} after its \
         permits were lost, so this member neither releases nor claims them; find the work that \
         blocks its thread, holds a permit or waits for an answer, and restart the process if it \
         does not end"
    )]
    NotDrained {
        /// Namespace and name of the group.
        group: String,
        /// The shards.
        shards: ShardSet,
        /// The time since the drain timeout of the first of them, or since a new run of the group
        /// has begun to wait for the work of a run that was dropped.
        waited: Duration,
    },
    /// An object that [`admit`](crate::sharding::ShardGroup::admit) was called with does not have
    /// the property by which the group shards, so it is in no shard, and gets no permit. Reported
    /// at most once a minute.
    #[error(
        "object {object} has no {property}, by which group {group} shards, so no replica gets a permit \
         for it; pass the object as the server has it, or build the group with ShardBy::Key"
    )]
    NoShard {
        /// Namespace and name of the object, or its name.
        object: String,
        /// The property: `namespace` or `uid`.
        property: &'static str,
        /// Namespace and name of the group.
        group: String,
    },
    /// A Lease with the label of the group has a name that no Lease of the group has. Of several,
    /// only one is reported when the Leases are listed, and another one when it is changed, at most
    /// one each minute.
    #[error(
        "lease {lease} has the label of the group, but not a name of its leases, so it is \
         ignored; delete it"
    )]
    Unknown {
        /// Namespace and name of the lease.
        lease: String,
    },
}

/// The reason why a group has ended without being stopped.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// A Lease of the group was written by a member with other settings.
    #[error(
        "lease {lease} has the annotation {annotation}: {found:?}, but this member has {own:?}; a \
         group keeps its settings: give all members the same ones, or choose another group name"
    )]
    Mismatch {
        /// Namespace and name of the lease.
        lease: String,
        /// The name of the annotation.
        annotation: &'static str,
        /// The setting in the lease.
        found: String,
        /// The setting of this member.
        own: String,
    },
    /// The group is already running.
    #[error("the group is already running; run it once, and clone it for its controllers")]
    Running,
}

/// The error of a failed health check: the Lease of a member has expired, but its work continues.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the lease of this member of group {group} expired {overdue:?} ago, but its work has not ended; \
     restart the process"
)]
pub struct CheckError {
    pub(super) group: String,
    pub(super) overdue: Duration,
}
