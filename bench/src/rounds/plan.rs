//! What a run is to measure.

use std::path::PathBuf;
use std::time::Duration;

use crate::names::{EngineName, Workload};

/// What a run is to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// These engines, in this order,
    pub engines: Vec<EngineName>,
    /// these workloads,
    pub workloads: Vec<Workload>,
    /// with each of these numbers of objects,
    pub objects: Vec<usize>,
    /// made from this list response, or generated,
    pub input: Option<PathBuf>,
    /// so many times;
    pub rounds: usize,
    /// this is how long a stall run offers, and readers read.
    pub length: Duration,
    /// Whether a relist is measured also with lists that belong to the engine alone.
    pub owned: bool,
    /// The most that the run should take: if the estimate after the first turn exceeds it, the run
    /// starts again with fewer objects.
    pub limit: Option<Duration>,
}
