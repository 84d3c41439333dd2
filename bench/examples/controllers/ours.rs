//! With our runtime.

pub use deltafifo_informer::runtime;

#[path = "once.rs"]
pub mod once;
