//! The programs, compiled with kube's runtime.

use kube::runtime;

#[path = "behaviour.rs"]
mod behaviour;
#[path = "programs/mod.rs"]
mod programs;
