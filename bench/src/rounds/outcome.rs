//! What a run brought.

use std::collections::BTreeMap;

use crate::names::EngineName;
use crate::protocol::Measured;
use crate::report::Missed;

/// What a run brought.
#[derive(Debug)]
pub struct Outcome<E = EngineName> {
    /// All rows, also those of turns that ended before their time: a row that was told is complete.
    pub measured: Vec<Measured<E>>,
    /// What the engines say they are, by their names.
    pub engines: BTreeMap<String, String>,
    /// The turns that failed, and why.
    pub failed: Vec<Missed>,
    /// The turns that did not come to their end because this process was asked to end.
    pub not_run: Vec<Missed>,
    /// What cannot be run here, and why.
    pub skipped: Vec<String>,
    /// How far it came, if this process was asked to end.
    pub interrupted: Option<Interrupted>,
}

impl<E> Outcome<E> {
    /// Whether everything was measured.
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

/// This process was asked to end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "interrupted; {done} of {of} turns were done, and only what was measured by then is reported"
)]
pub struct Interrupted {
    pub(crate) done: usize,
    pub(crate) of: usize,
}
