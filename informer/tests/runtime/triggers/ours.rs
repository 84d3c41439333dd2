//! The scenarios, compiled with this project's runtime.

pub use deltafifo_informer::runtime;

#[path = "scenarios.rs"]
mod scenarios;
pub use scenarios::*;
