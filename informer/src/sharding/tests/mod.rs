//! Tests of groups over an API server in this process, with a paused clock.

#[cfg(feature = "runtime")]
mod blocked;
mod configured;
#[cfg(feature = "runtime")]
mod controllers;
mod faults;
mod joining;
#[cfg(feature = "runtime")]
mod kinds;
mod members;
pub(super) mod messages;
mod metrics;
mod namespaces;
#[cfg(feature = "runtime")]
mod options;
#[cfg(feature = "runtime")]
mod own_writes;
#[cfg(feature = "runtime")]
mod retries;
mod rig;
#[cfg(feature = "runtime")]
mod simulation;
#[cfg(feature = "runtime")]
mod sources;
#[cfg(feature = "runtime")]
mod split;
#[cfg(feature = "runtime")]
mod spread;
