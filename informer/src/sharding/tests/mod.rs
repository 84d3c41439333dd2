//! Tests of groups over an API server in this process, with a paused clock.

mod configured;
mod faults;
mod histories;
mod members;
mod rig;
