//! What should have been measured and was not.

use serde::{Deserialize, Serialize};

use super::plain::plain;
use super::{Report, Summary};

/// A turn of an engine that did not come to its end. What it had told before is in the rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Missed {
    /// The engine,
    pub engine: String,
    /// with so many objects,
    pub objects: usize,
    /// was to do these.
    pub workloads: Vec<String>,
    /// The turn, and why it failed; or only the turn, if the run was ended before it.
    pub said: String,
}

impl Missed {
    /// A turn that said something, perhaps with paths of this machine.
    #[must_use]
    pub fn new(engine: String, objects: usize, workloads: Vec<String>, said: &str) -> Self {
        Self { engine, objects, workloads, said: plain(said) }
    }
}

impl Report {
    /// The engines that should have a row in a group of rows, and have none.
    pub(super) fn missing(&self, group: &[&Summary]) -> Vec<&str> {
        let Some(first) = group.first() else { return Vec::new() };
        let missed = self.runs.iter().flat_map(|run| run.failed.iter().chain(&run.not_run));
        let here =
            missed.filter(|missed| missed.objects == first.objects && missed.workloads.contains(&first.workload));
        let engines = super::summary::distinct(here.map(|missed| missed.engine.as_str()));
        engines.into_iter().filter(|engine| group.iter().all(|row| row.engine != *engine)).collect()
    }
}
