//! Leader election against an API server in this process, with a paused clock.

mod configured;
mod elections;
#[cfg(feature = "runtime")]
mod events;
mod examples;
mod faults;
mod rig;
#[cfg(feature = "runtime")]
mod work;
