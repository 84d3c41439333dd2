//! Compares deltafifo with common designs for its task, and with the real client-go.
#![forbid(unsafe_code)]

mod causes;
mod cli;
pub mod data;
mod digest;
mod engines;
mod machine;
mod names;
pub mod process;
mod protocol;
mod report;
mod rounds;
#[cfg(feature = "peers")]
mod server;
mod tool;
mod versions;
mod warm;
#[cfg(feature = "peers")]
mod watch_requests;
mod workloads;

pub use report::foreign_report;
#[cfg(feature = "peers")]
pub use server::connect;
pub use tool::run_tool;
