//! The controller of `counter.rs`, compiled with this project's runtime.

pub use crate::rig::in_form;
pub use deltafifo_informer::runtime;

#[path = "counter.rs"]
pub mod counter;
