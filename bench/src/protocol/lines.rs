//! The lines that a child process prints.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[cfg(test)]
use crate::names::EngineName;
use crate::names::Workload;

/// A line of the protocol.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The current activity of the child.
    Progress(Progress),
    /// A figure.
    Row(Row),
    /// The end of the output: the engine, with the versions of its parts.
    Done { version: String },
}

/// The current activity of a child. A child in Go also prints the number of steps that it has
/// finished.
#[derive(Debug, Serialize, Deserialize)]
pub struct Progress {
    /// The activity, in a few words.
    pub what: String,
    /// Number of finished steps.
    #[serde(default)]
    pub done: u64,
    /// Number of all steps; 0 if unknown.
    #[serde(default)]
    pub total: u64,
}

/// A figure of one engine in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub workload: String,
    /// The name of the figure within its workload; empty if the workload has only one figure.
    pub variant: String,
    /// The unit: `s`, `1/s` or `B`.
    pub unit: String,
    pub value: f64,
    /// Counts, digests, memory and other values.
    pub extra: Map<String, Value>,
}

impl Row {
    /// Creates a row with an empty `extra`.
    pub fn new(workload: Workload, variant: &str, unit: &str, value: f64) -> Self {
        let (workload, variant, unit) = (workload.to_string(), variant.to_owned(), unit.to_owned());
        Self { workload, variant, unit, value, extra: Map::new() }
    }

    /// Creates the row of a rate: `count` items in the given time.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn rate(
        workload: Workload,
        variant: &str,
        count: usize,
        elapsed: Duration,
        extra: Map<String, Value>,
    ) -> Self {
        let rate = count as f64 / elapsed.as_secs_f64();
        Self { extra, ..Self::new(workload, variant, "1/s", rate) }
    }
}

/// A row, with the engine and the number of objects that it was measured with.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of the engine, or of the client of a server.
    pub engine: String,
    pub objects: usize,
    pub row: Row,
}

#[cfg(test)]
impl Measured {
    pub fn new(engine: EngineName, objects: usize, row: Row) -> Self {
        Self { engine: engine.to_string(), objects, row }
    }
}
