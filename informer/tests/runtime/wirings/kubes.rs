//! The wirings, compiled with kube's runtime.

use kube::runtime;

/// Whether the runtime is this project's.
const OURS: bool = false;

#[path = "programs/mod.rs"]
mod programs;
#[path = "tests/mod.rs"]
mod tests;
