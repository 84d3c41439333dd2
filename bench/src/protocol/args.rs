//! What a child is started with.

use std::path::PathBuf;
use std::time::Duration;

use crate::names::{EngineName, Workload};

/// What a child is asked to do.
#[derive(Clone, Debug)]
pub struct ChildArgs {
    /// On this engine,
    pub engine: EngineName,
    /// these workloads,
    pub workloads: Vec<Workload>,
    /// with this many objects,
    pub objects: usize,
    /// made from this list response, or generated;
    pub input: Option<PathBuf>,
    /// this is how long a stall run offers, and readers read.
    pub length: Duration,
    /// Whether a relist is measured also with lists that belong to the engine alone.
    pub owned: bool,
}

impl ChildArgs {
    /// Whether a workload is to be run.
    pub(crate) fn asks(&self, workload: Workload) -> bool {
        self.workloads.contains(&workload)
    }
}
