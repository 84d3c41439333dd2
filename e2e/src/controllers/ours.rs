//! The controllers, compiled with this project's runtime.

pub use deltafifo_informer::runtime;

#[path = "../../../informer/tests/runtime/twins/counter.rs"]
pub mod counter;
#[path = "mirror.rs"]
pub mod mirror;
#[path = "users.rs"]
pub mod users;
