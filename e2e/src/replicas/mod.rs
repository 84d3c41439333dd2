//! Groups of replicas on a real API server. Each replica is a process (`replica`) that is a member
//! of a group, and reconciles the config maps of its shards: it writes the fencing token of the
//! shard, its identity and the change that it has seen into the map, with or without the
//! `resourceVersion`. Another writer (`changes`) changes the maps. Faults (`fault`, `group`) strike
//! the replicas, their Leases and the servers. After each fault the group must come to rest
//! (`view`): every shard has a live owner, and every map was reconciled after its last change.
//!
//! A judge (`judge`) then reads the watch history of the group (`history`), and nothing else. The
//! times come from the same history (`phases`, `figures`).
//!
//! This proves that in these runs no owner of a shard wrote with a `resourceVersion` after a later
//! owner had written, and that no change was missed. It also counts late writes, those after a
//! later owner has claimed the shard. It says nothing about other timings, clocks of several
//! machines, or an etcd with several members. Times and numbers of late writes are those of one
//! run.

mod changes;
pub mod fault;
mod figures;
mod group;
#[cfg(test)]
mod histories;
mod history;
mod judge;
mod phases;
pub mod replica;
mod view;

pub use figures::Figures;
pub use group::Group;
pub use history::Recorder;

use crate::timing::Timing;

/// The number of shards of a group.
const SHARDS: u32 = 16;
/// The number of replicas of a group, outside of a fault.
const MEMBERS: usize = 3;

/// The options of a replica, as its command line arguments.
#[derive(Clone, Copy, clap::Args)]
pub struct ReplicaOptions {
    #[command(flatten)]
    pub timing: Timing,
    /// Hold only the objects of the replica's shards, which the uids decide
    #[arg(long)]
    pub split: bool,
}

impl ReplicaOptions {
    /// Returns the arguments that contain these options.
    fn arguments(self) -> Vec<String> {
        let mut arguments = Vec::from(self.timing.arguments());
        if self.split {
            arguments.push("--split".to_owned());
        }
        arguments
    }
}
