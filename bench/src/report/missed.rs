//! What should have been measured and was not.

use serde::{Deserialize, Serialize};

use super::plain::plain;

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
