//! The wirings, compiled with this project's runtime.

use deltafifo_informer::runtime;

/// Whether the runtime is this project's.
const OURS: bool = true;

#[path = "programs/mod.rs"]
mod programs;
#[path = "tests/mod.rs"]
mod tests;
