//! Sharding: several replicas of a program share the objects of a cluster, each reconciling a part.
//!
//! Each object belongs to one of the *shards* of a group. Each replica is a *member* of the group,
//! and each shard has a `Lease` that names the member that holds it.

// * `hash.rs`: the shard of an object, and the selector of a server that shards.
// * `shards.rs`: numbers and sets of shards.
// * `gate.rs`, `permit.rs`: whether work on a shard may start, and when it has ended.
// * `assign.rs`: the member that is to hold each shard.
// * `protocol/`: the protocol of a member, without I/O, and an exhaustive search for a history in
//   which two members work on the same shard at the same time.
// * `object.rs`, `api.rs`, `error.rs`: the Leases of a group as objects, the requests for them, and
//   their errors.

mod api;
mod assign;
mod error;
mod gate;
mod hash;
mod object;
mod permit;
mod protocol;
mod shards;
