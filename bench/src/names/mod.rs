//! Engines and workloads by the names that the command line, the protocol and the tables have.

mod engine;
mod workload;

pub use engine::EngineName;
pub use workload::Workload;
