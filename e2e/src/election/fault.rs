//! The faults of a trial.

use std::fmt;

use super::candidate::LOST;

/// A fault that ends the term of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The leader's process is killed with SIGKILL.
    Kill,
    /// The leader's process is stopped with SIGSTOP for three lease durations.
    Stop,
    /// The leader's process gets SIGTERM, and releases its lease.
    Terminate,
    /// The leader's connections are cut, and new ones are refused.
    Cut,
    /// The API server is killed, and started again after a lease duration.
    ApiKilled,
    /// etcd is stopped, and started again after a lease duration.
    EtcdGone,
    /// The lease is deleted.
    LeaseDeleted,
}

impl Fault {
    pub const ALL: [Self; 7] = [
        Self::Kill,
        Self::Stop,
        Self::Terminate,
        Self::Cut,
        Self::ApiKilled,
        Self::EtcdGone,
        Self::LeaseDeleted,
    ];

    /// Returns whether the fault strikes the API server or etcd, and so ends the terms of all
    /// leases.
    pub fn is_of_servers(self) -> bool {
        matches!(self, Self::ApiKilled | Self::EtcdGone)
    }

    /// Returns whether no write may be late (`judge`), even without a `resourceVersion`.
    pub fn permits_no_late_write(self) -> bool {
        matches!(self, Self::Kill | Self::Terminate)
    }

    /// Returns the exit code of the leader; `None` if a signal ends it.
    pub fn exit_code(self) -> Option<i32> {
        match self {
            Self::Kill => None,
            Self::Terminate => Some(0),
            _ => Some(LOST.into()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kills",
            Self::Stop => "stops",
            Self::Terminate => "terms",
            Self::Cut => "cuts",
            Self::ApiKilled => "api-kills",
            Self::EtcdGone => "etcd-outages",
            Self::LeaseDeleted => "deletions",
        })
    }
}
