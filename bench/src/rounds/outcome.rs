//! The results of a run.

use std::collections::BTreeMap;

use crate::names::EngineName;
use crate::protocol::Measured;
use crate::report::Missed;

/// The results of a run.
#[derive(Debug)]
pub struct Outcome<E = EngineName> {
    /// All rows, including those of turns that did not end: each row is complete.
    pub measured: Vec<Measured<E>>,
    /// The descriptions of the engines, by name.
    pub engines: BTreeMap<String, String>,
    /// The turns that failed, with the reason.
    pub failed: Vec<Missed>,
    /// The turns that did not end because the run was interrupted.
    pub not_run: Vec<Missed>,
    /// Engines that cannot be run here, with the reason.
    pub skipped: Vec<String>,
    /// The number of finished turns, if the run was interrupted.
    pub interrupted: Option<Interrupted>,
}

impl<E> Outcome<E> {
    /// Returns whether everything was measured.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.interrupted.is_none()
    }
}

impl<E> Default for Outcome<E> {
    fn default() -> Self {
        let (measured, engines, interrupted) = (Vec::new(), BTreeMap::new(), None);
        Self {
            measured,
            engines,
            failed: Vec::new(),
            not_run: Vec::new(),
            skipped: Vec::new(),
            interrupted,
        }
    }
}

/// The run was interrupted.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "interrupted; {done} of {of} turns were done, and only what was measured by then is reported"
)]
pub struct Interrupted {
    pub(crate) done: usize,
    pub(crate) of: usize,
}
