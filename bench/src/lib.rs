//! Compares deltafifo with common designs for the same task, and with the real client-go.
#![forbid(unsafe_code)]

pub mod data;
pub mod digest;
pub mod engines;
pub mod machine;
pub mod names;
pub mod peers;
pub mod protocol;
pub mod report;
pub mod rounds;
#[cfg(feature = "peers")]
pub mod server;
pub mod versions;
pub mod warm;
pub mod workloads;
