//! The programs, compiled with kube's runtime.

use kube::runtime;

/// Whether the runtime is this project's.
const OURS: bool = false;

#[path = "behaviour.rs"]
mod behaviour;
#[path = "faults.rs"]
mod faults;
#[path = "programs/mod.rs"]
mod programs;
