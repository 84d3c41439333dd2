//! The controllers, compiled with kube's runtime.

// The tests of the informer choose the form of the stored objects; here it stays typed.
use std::convert::identity as in_form;

pub use kube::runtime;

#[path = "../../../informer/tests/runtime/twins/counter.rs"]
pub mod counter;
#[path = "mirror.rs"]
pub mod mirror;
#[path = "users.rs"]
pub mod users;
