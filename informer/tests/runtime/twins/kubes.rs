//! The controller of `counter.rs`, compiled with kube's runtime.

pub use kube::runtime;
pub use std::convert::identity as in_form;

#[path = "counter.rs"]
pub mod counter;
