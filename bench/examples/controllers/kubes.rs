//! With kube's runtime.

pub use kube::runtime;

#[path = "once.rs"]
pub mod once;
