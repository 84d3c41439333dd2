//! The results of a run.

use std::collections::BTreeMap;

use crate::protocol::Measured;
use crate::report::Missed;

#[derive(Default)]
pub struct Outcome {
    /// All rows, including those of turns that did not complete: each row is complete by itself.
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
    /// Records the description of an engine. An engine in Go has other settings in turns that
    /// measure memory; both descriptions are kept, so that the report shows the settings of each
    /// figure.
    pub fn describe(&mut self, engine: String, description: &str) {
        let known = self.engines.entry(engine).or_insert_with(|| description.to_owned());
        if !known.contains(description) {
            *known = format!("{known}; where memory was measured: {description}");
        }
    }

    /// Returns whether everything was measured.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.interrupted.is_none()
    }
}

/// The error of a run that was interrupted.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted after {done} of {of} turns; the report has only the measurements until then")]
pub struct Interrupted {
    pub done: usize,
    pub of: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_times_and_memory_are_both_described() {
        let mut outcome = Outcome::default();
        for (engine, description) in
            [("go", "go GOGC=400"), ("mutex", "equal"), ("mutex", "equal"), ("go", "go GOGC=100")]
        {
            outcome.describe(engine.to_owned(), description);
        }
        assert_eq!(outcome.engines["mutex"], "equal");
        assert_eq!(outcome.engines["go"], "go GOGC=400; where memory was measured: go GOGC=100");
    }
}
