//! The controller of `counter.rs`, compiled with kube's runtime.

pub use kube::runtime;

#[path = "counter.rs"]
pub mod counter;
