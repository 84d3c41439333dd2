//! The controller with our runtime.

pub use deltafifo_informer::runtime;

#[path = "counter.rs"]
pub mod counter;
