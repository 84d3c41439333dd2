//! Tests of sharded controllers: which replica reconciles which object, and when.

#[cfg(feature = "compact")]
mod compact;
mod moves;
mod refusals;
mod rig;
mod stores;
mod uids;
