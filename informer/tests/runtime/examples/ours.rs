//! The programs, compiled with this project's runtime.

use deltafifo_informer::runtime;

#[path = "behaviour.rs"]
mod behaviour;
#[path = "programs/mod.rs"]
mod programs;
