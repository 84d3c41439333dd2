//! The results of a run.

use std::collections::BTreeMap;

use crate::protocol::Measured;
use crate::report::Missed;

/// The results of a run.
#[derive(Default)]
pub struct Outcome {
    /// All rows, including those of turns that did not end: each row is complete.
    pub measured: Vec<Measured>,
    /// The descriptions of the engines, by name.
    pub engines: BTreeMap<String, String>,
    /// The turns that failed, with the reason.
    pub failed: Vec<Missed>,
    /// The turns that did not end because the run was interrupted.
    pub unfinished: Vec<Missed>,
    /// Engines that cannot be run here, with the reason.
    pub skipped: Vec<String>,
    /// The number of finished turns, if the run was interrupted.
    pub interrupted: Option<Interrupted>,
}

impl Outcome {
    /// Returns whether everything was measured.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.interrupted.is_none()
    }
}

/// The run was interrupted.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted after {done} of {of} turns; the report has only the measurements until then")]
pub struct Interrupted {
    pub done: usize,
    pub of: usize,
}
