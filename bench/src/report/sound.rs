//! Checks that the figures of a report are valid, and collects its warnings.

use super::check::{Checked, difference};
use super::limits::exceeded;
use super::run::Verdict;
use super::whole::Report;

/// The reason why the figures of a report are not valid.
#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    #[error("{0}")]
    Disagree(String),
    #[error("turns that failed: {0}; their figures above are missing, or of fewer rounds")]
    Failed(usize),
}

impl Report {
    /// Returns the warnings that a reader needs before the figures.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.differences.clone();
        warnings.extend(self.disagreement().filter(|_| self.runs.len() > 1));
        warnings.extend(exceeded(&self.rows));
        for run in &self.runs {
            if let Verdict::Disagree(_) = run.verdict {
                warnings.push(run.verdict.sentence());
            }
            warnings.extend(run.skipped.iter().cloned());
            warnings.extend(
                run.failed.iter().map(|failed| format!("A turn failed: {}", failed.message)),
            );
            if !run.complete {
                let (date, unfinished) = (&run.date, run.unfinished.len());
                warnings.push(format!(
                    "The run of {date} was ended before it was complete, {unfinished} turns before \
                     its end: some figures have fewer rounds than others, or are missing."
                ));
            }
        }
        warnings
    }

    /// Checks that the figures are valid.
    pub fn sound(&self) -> Result<(), Unsound> {
        let in_a_run = self.runs.iter().find_map(|run| match &run.verdict {
            Verdict::Disagree(disagreement) => Some(disagreement.clone()),
            Verdict::Unknown | Verdict::Agree => None,
        });
        let failed = self.runs.iter().map(|run| run.failed.len()).sum();
        match in_a_run.or_else(|| self.disagreement()) {
            Some(disagreement) => Err(Unsound::Disagree(disagreement)),
            None if failed > 0 => Err(Unsound::Failed(failed)),
            None => Ok(()),
        }
    }

    /// Returns the first difference between the results of the rows, over all joined files.
    pub(super) fn disagreement(&self) -> Option<String> {
        let difference = difference(self.rows.iter().filter_map(Checked::summary))?;
        Some(format!("The rows do not belong together, or are of different data: {difference}"))
    }
}
