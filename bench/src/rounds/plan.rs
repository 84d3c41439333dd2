//! The plan of a run.

use std::path::PathBuf;
use std::time::Duration;

use crate::names::{EngineName, Workload};

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The engines, in order.
    pub engines: Vec<EngineName>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The numbers of objects.
    pub objects: Vec<usize>,
    /// A list response to build the objects from; without it they are generated.
    pub input: Option<PathBuf>,
    /// The number of rounds.
    pub rounds: usize,
    /// How long a stall run offers, and how long readers read.
    pub length: Duration,
    /// Whether a relist is also measured with lists that only the engine holds.
    pub owned: bool,
    /// The longest time that the run should take. If the estimate after the first turn exceeds it,
    /// the run starts again with fewer objects.
    pub limit: Option<Duration>,
}
