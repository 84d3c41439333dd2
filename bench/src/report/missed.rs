//! Turns without a result.

use serde::{Deserialize, Serialize};

use super::plain::plain;

/// A turn that did not end. The rows that its process had printed are in the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Missed {
    /// The engine.
    pub engine: String,
    /// The number of objects.
    pub objects: usize,
    /// The workloads of the turn.
    pub workloads: Vec<String>,
    /// The turn, and the reason of the failure; only the turn if the run was interrupted before it
    /// ended.
    pub said: String,
}

impl Missed {
    /// Creates the entry of a turn. Paths of this machine are removed from the message.
    #[must_use]
    pub fn new(engine: String, objects: usize, workloads: Vec<String>, said: &str) -> Self {
        Self { engine, objects, workloads, said: plain(said) }
    }
}
