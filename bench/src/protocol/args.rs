//! The arguments of a child process.

use std::path::PathBuf;
use std::time::Duration;

use crate::names::{EngineName, Workload};

/// The task of a child process.
pub struct ChildArgs {
    pub engine: EngineName,
    pub objects: usize,
    pub settings: Settings,
}

/// The settings that all children of a run share.
#[derive(Clone, Debug)]
pub struct Settings {
    pub workloads: Vec<Workload>,
    /// A list response with the pods of the run. Without it, objects are generated.
    pub input: Option<PathBuf>,
    /// The list response that the workload `cache` uses for its relist.
    pub second_list: Option<PathBuf>,
    /// The time for which the workload `stall` offers updates, and for which the workload
    /// `readers` reads the store.
    pub length: Duration,
    /// Whether a relist is also measured in the variant `owned`, in which only the engine holds the
    /// lists.
    pub owned: bool,
}

impl Settings {
    /// Returns whether a workload is part of the task.
    pub fn includes(&self, workload: Workload) -> bool {
        self.workloads.contains(&workload)
    }
}

impl ChildArgs {
    /// Returns whether a workload is part of the task.
    pub fn includes(&self, workload: Workload) -> bool {
        self.settings.includes(workload)
    }
}
