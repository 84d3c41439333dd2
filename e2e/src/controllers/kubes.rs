//! The controllers, compiled with kube's runtime.

pub use kube::runtime;

#[path = "../../../informer/tests/runtime/twins/counter.rs"]
pub mod counter;
#[path = "mirror.rs"]
pub mod mirror;
#[path = "users.rs"]
pub mod users;
