//! Sharding: several replicas of a program share the objects of a cluster, and each reconciles a
//! part of them.
//!
//! Each object belongs to one of the *shards* of a group. Each replica is a *member* of the group.
//! Each shard has a `Lease`, which names the member that holds the shard. The members divide the
//! shards among themselves. No leader and no other component is needed.
//!
//! ```
//! use deltafifo_informer::sharding::ShardGroup;
//! # use std::time::Duration;
//! # use deltafifo_testkit::{ApiServer, Resource};
//! # use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
//! # use kube::core::{ApiResource, ObjectMeta, discovery::Scope};
//! # use tokio::sync::oneshot;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let leases = Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced);
//! # let client = ApiServer::builder().resource(leases).build().client();
//! # let (stop, stopped) = oneshot::channel::<()>();
//! # let sigterm = async { drop(stopped.await) };
//! let group = ShardGroup::builder(client, "shop", "counter")
//!     .identity("counter-7f9c-x2x4k")
//!     .shards(16)
//!     .build()?;
//! let run = tokio::spawn(group.run_until(sigterm));
//!
//! group.owned().wait_for(|owned| owned.len() == 16).await?;
//! # let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
//! # let object = ConfigMap { metadata, ..ConfigMap::default() };
//! let permit = group.admit(&object).ok_or("another replica works on this object")?;
//! println!("works in term {} of shard {}", permit.transitions(), permit.shard());
//! let client = permit.client(); // refuses writes once the permit is lost
//! # drop(client);
//! drop(permit);
//! # stop.send(()).map_err(|()| "the group has ended")?;
//! run.await??;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Two replicas never hold permits of one shard at the same time. This holds under the conditions
//!   of [leader election](crate::leader_election#guarantees), and if no user removes a holder by
//!   hand, or deletes the Lease of a shard and creates one without a holder.
//! - [`Permit::client`] sends no mutating request after the permit is lost. It has the limits of
//!   [`Term::client`](crate::leader_election::Term::client). A write that must not come from a
//!   former owner needs a `resourceVersion`, or the permit's fencing token.
//! - Before a member works on a shard, its stores show every write that the server has confirmed to
//!   the former owner. These are the stores of all sharded controllers, and of all [informers in
//!   split mode](crate::SharedInformer::in_shards). Two kinds of related stores are excepted: those
//!   of an [optional](crate::Controller::optional) kind that the server refuses, and, with
//!   [`Config::wait_for_related(false)`](crate::runtime::controller::Config::wait_for_related),
//!   those that have not synced. Then the controllers reconcile every object of the shard.
//! - If the owner of a shard fails while another member is live, the shard has an owner again after
//!   at most the lease duration, a few seconds and the time of a list.
//!
//! A group does not guarantee that work is done exactly once, or an order between objects.
//! `on_deleted` is not called for an object that is deleted while its shard has no owner: use
//! finalizers.
//!
//! # Members
//!
//! A replica becomes a member when the informers of its [sharded](crate::Controller::sharded)
//! controllers have synced, because it cannot work on a shard before. These faults prevent work on
//! shards, or the move of a shard. The member reports each of them every minute, except requests
//! that fail repeatedly ([`ShardGroupBuilder::on_error`]). The other variants of [`GroupError`]
//! document further faults.
//!
//! - An informer never syncs: the replica takes no shards ([`GroupError::NotSynced`]).
//! - Renewals of a member's Lease are not answered, or its watch does not show them, within the
//!   renew deadline: the member holds no shards ([`GroupError::NotLive`]).
//! - A member has claimed shards and cannot list their objects: no member works on these shards
//!   ([`GroupError::NotFilled`]).
//! - Work on a shard continues after the drain timeout: no other member gets the shard
//!   ([`GroupError::NotDrained`]).
//! - The server refuses to change the Leases of shards: no member works on shards that are free, or
//!   that are to move. A member repeats claims after pauses of up to a minute, and releases each
//!   retry period ([`GroupError::Lease`]).
//! - A webhook removes the label of the group from the Leases of members: no member sees them, so
//!   none becomes live. Each member deletes its Lease, and creates it again after pauses of up to a
//!   minute ([`GroupError::Unlabelled`]).
//! - A webhook or another client removes the annotation that states the readiness of a member from
//!   the Leases of members: members that hold shards keep them and take free ones, and members
//!   without shards get none ([`GroupError::Unannotated`]).
//!
//! The interval at which a member renews its own Lease is a third of the lease duration, or half of
//! the renew deadline if that is shorter. While its watch is late, the interval is the retry
//! period, because a renewal counts only once the watch has shown it. While its Lease does not say
//! that it is ready, the interval is the retry period, too, unless the member stops.
//!
//! The Leases of shards are written only when shards move. A member that stops releases each of its
//! shards when the work on it has ended, and another member claims the shard at once. If a member
//! does not renew its Lease for the lease duration, another member *fences* it: it removes the name
//! of the first member from that Lease, so that the first member cannot renew it. Then the shards
//! are free.
//!
//! Once all members are settled and no shard drains, the numbers of shards of two members differ by
//! at most one. When a member joins, few shards move besides those that it takes. A member takes
//! shards from others only after it was ready for the [settle time](ShardGroupBuilder::settle).
//!
//! If there are no Leases of shards, the first members create them and wait for the lease duration,
//! because the owner of a Lease that was deleted may still be working. To avoid this wait, apply a
//! manifest of the Leases `<group>`, `<group>-shard-000`, `<group>-shard-001` and so on, with the
//! label `deltafifo/group: <group>` and without a `spec`. Apply it before the members start, and
//! not again while they run. If the Lease of a shard was deleted, the manifest would create a free
//! one, although the owner of the shard may still be working.
//!
//! # Limits
//!
//! - A group has at most 128 shards, and should have at most 50 members.
//! - The number of shards and [`ShardBy`] are fixed for the life of a group. A member that finds
//!   other settings ends with an error. To change them, stop all members and delete all Leases of
//!   the group, or choose another name for it.
//! - A process has one group. Another group with another name would work on all objects as well.
//! - Every replica's informers hold all objects, except those that are built [for its
//!   shards](crate::SharedInformer::in_shards).
//! - The server's resource versions must be numbers, as those of Kubernetes are.
//!
//! # RBAC
//!
//! In the group's namespace, the service account needs these verbs for `leases` in the API group
//! `coordination.k8s.io`: `list`, `watch`, `create`, `update` and `delete`. The names of members'
//! Leases are not known in advance, so a rule must not have `resourceNames`.
//!
//! # Metrics
//!
//! | metric | kind | meaning |
//! | --- | --- | --- |
//! | `shard_group_members` | gauge | Live members of the group in this process: 1 or 0 |
//! | `shard_group_owned_shards` | gauge | Shards that this process owns |
//! | `shard_group_draining_shards` | gauge | Shards that this process no longer owns, and whose running work has not ended; 0 if the run of the group was dropped |
//! | `shard_group_claims_total` | counter | Claims of shards that were answered |
//! | `shard_group_releases_total` | counter | Releases of shards that were answered |
//! | `shard_group_lost_memberships_total` | counter | Memberships of this process that ended because the Lease expired, was changed or was deleted |
//! | `shard_group_refused_selectors_total` | counter | Lists and watches with a `shardSelector` that the server refused or failed to answer, and answered without it |
//! | `shard_group_fill_duration_seconds` | histogram | Time from the first order to fill shards, with the wait for shards that other members release, until the stores of all controllers and informers of shards have their objects |
//!
//! The labels are `name`, the name of the group, and `namespace`, that of its Leases. If the sum of
//! the owned shards of all replicas is less than the number of shards for longer than the lease
//! duration, no replica works on some objects.

// * `hash.rs`: the shard of an object, and the selector of a server that shards.
// * `shards.rs`: numbers and sets of shards.
// * `source/`: an informer that contains the objects of some shards only.
// * `assign.rs`: the member that is to hold each shard.
// * `spread.rs`: finds shards that have far more objects than others.
// * `protocol/`: the protocol of a member, without I/O, and an exhaustive search for a history in
//   which two members work on the same shard at the same time.
// * `object.rs`, `api.rs`: the Leases of a group as objects, and the requests for them.
// * `driver/`, `known.rs`: run the protocol, with the newest known states of the Leases.
// * `gate.rs`, `permit.rs`: the permits of the work on shards.
// * `drains.rs`: the shards whose work has not ended.
// * `stated.rs`: the readiness that a member has written, to notice changes by others.
// * `participants.rs`: the controllers and informers that take part in hand-overs.
// * `group.rs`, `builder.rs`, `error.rs`, `metrics.rs`: the group, as the program sees it.

mod api;
mod assign;
mod builder;
mod drains;
mod driver;
mod error;
mod gate;
mod group;
mod hash;
mod known;
mod metrics;
#[cfg(test)]
mod mutants;
mod object;
mod participants;
mod permit;
mod protocol;
mod shards;
mod source;
#[cfg(feature = "runtime")]
mod spread;
mod stated;
#[cfg(test)]
mod tests;

pub use crate::lease::{LeaseError, is_lost};
pub use builder::ShardGroupBuilder;
pub use error::{BuildError, CheckError, GroupError, RunError};
#[cfg(all(test, feature = "runtime"))]
pub(crate) use gate::Gate;
pub use group::ShardGroup;
pub(crate) use hash::ObjectId;
pub use hash::ShardBy;
#[cfg(feature = "runtime")]
pub(crate) use participants::{Announcement, Participant, Participation};
#[cfg(feature = "runtime")]
pub(crate) use permit::PausedPermit;
pub use permit::Permit;
pub use shards::ShardSet;
#[cfg(feature = "runtime")]
pub(crate) use source::Selection;
pub(crate) use source::{ShardFeeder, ShardPlan};
#[cfg(feature = "runtime")]
pub(crate) use spread::Spread;
