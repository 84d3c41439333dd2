//! The faults that strike a group of replicas, and other events that move shards.

use std::fmt;

/// An event that moves shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A replica is killed with SIGKILL.
    Kill,
    /// A replica is stopped with SIGSTOP for three lease durations.
    Stop,
    /// A replica gets SIGTERM, and releases its shards.
    Terminate,
    /// A replica is started.
    Join,
    /// Each replica gets SIGTERM, after another one has joined in its place.
    Roll,
    /// The connections of a replica are cut for three lease durations, and new ones are refused.
    Cut,
    /// The Lease of a shard is deleted.
    ShardDeleted,
    /// The Lease of a member is deleted.
    MemberDeleted,
    /// The Lease of the group is deleted. Then a replica joins, and creates it.
    GroupDeleted,
    /// The API server is killed, and started again after a lease duration.
    ApiKilled,
    /// etcd is stopped, and started again after a lease duration.
    EtcdGone,
}

impl Fault {
    pub const ALL: [Self; 11] = [
        Self::Kill,
        Self::Stop,
        Self::Terminate,
        Self::Join,
        Self::Roll,
        Self::Cut,
        Self::ShardDeleted,
        Self::MemberDeleted,
        Self::GroupDeleted,
        Self::ApiKilled,
        Self::EtcdGone,
    ];

    /// Returns whether no write may be late (`judge`), even without a `resourceVersion`.
    pub fn permits_no_late_write(self) -> bool {
        matches!(self, Self::Kill) || self.is_graceful()
    }

    /// Returns whether shards move only by releases.
    pub fn is_graceful(self) -> bool {
        matches!(self, Self::Terminate | Self::Join | Self::Roll)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kills",
            Self::Stop => "stops",
            Self::Terminate => "terms",
            Self::Join => "joins",
            Self::Roll => "rolls",
            Self::Cut => "cuts",
            Self::ShardDeleted => "shard-deletions",
            Self::MemberDeleted => "member-deletions",
            Self::GroupDeleted => "group-deletions",
            Self::ApiKilled => "api-kills",
            Self::EtcdGone => "etcd-outages",
        })
    }
}
