//! The arguments of a child process.

use std::path::PathBuf;
use std::time::Duration;

use crate::names::{EngineName, Workload};

/// The task of a child process.
#[derive(Clone, Debug)]
pub struct ChildArgs {
    /// The engine.
    pub engine: EngineName,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The number of objects.
    pub objects: usize,
    /// A list response to build the objects from; without it they are generated.
    pub input: Option<PathBuf>,
    /// How long a stall run offers, and how long readers read.
    pub length: Duration,
    /// Whether a relist is also measured with lists that only the engine holds.
    pub owned: bool,
}

impl ChildArgs {
    /// Returns whether a workload is part of the task.
    pub(crate) fn includes(&self, workload: Workload) -> bool {
        self.workloads.contains(&workload)
    }
}
