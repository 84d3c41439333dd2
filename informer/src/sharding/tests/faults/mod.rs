//! Tests of servers that fail, refuse requests or change Leases, and of Leases with unexpected
//! contents.

mod annotations;
mod contents;
mod labels;
mod outages;
mod refusals;
mod rig;
mod shard_writes;
mod stops;
