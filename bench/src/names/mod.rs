//! Engines and workloads by their names on the command line, in the protocol and in the tables.

mod engine;
mod workload;

pub use engine::EngineName;
pub use workload::Workload;
