//! Leader election against an API server in this process, with a paused clock.

// The examples share the arguments that choose a cluster.
#![allow(clippy::duplicate_mod)]

mod configured;
#[path = "../common/deployed.rs"]
mod deployed;
mod elections;
#[cfg(feature = "runtime")]
mod events;
mod examples;
mod faults;
#[path = "../../src/sharding/tests/messages.rs"]
mod messages;
mod rig;
#[cfg(feature = "runtime")]
mod triggers;
#[cfg(feature = "runtime")]
mod work;
