//! The programs, compiled with this project's runtime.

use deltafifo_informer::runtime;

/// Whether the runtime is this project's.
const OURS: bool = true;

#[path = "behaviour.rs"]
mod behaviour;
#[path = "faults.rs"]
mod faults;
#[path = "programs/mod.rs"]
mod programs;
