//! The scenarios, compiled with kube's runtime.

pub use kube::runtime;

#[path = "scenarios.rs"]
mod scenarios;
pub use scenarios::*;
