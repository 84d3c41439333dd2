//! Whether the figures of a report are valid, and its warnings.

use super::check::check;
use super::summary::Summary;
use super::verdict::Verdict;
use super::whole::Report;
use crate::names::{EngineName, Workload};
use crate::protocol::{Measured, Row};

/// The reason why the figures of a report are not valid.
#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    /// The results of the engines differ.
    #[error("{0}")]
    Disagree(String),
    /// Some turns failed.
    #[error("turns that failed: {0}; their figures are missing, or of fewer rounds, see above")]
    Failed(usize),
}

impl Report {
    /// Returns the warnings to read before the figures.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.differences.clone();
        warnings.extend(self.disagreement().filter(|_| self.runs.len() > 1));
        for run in &self.runs {
            if let Verdict::Disagree(_) = run.verdict {
                warnings.push(run.verdict.sentence());
            }
            warnings.extend(run.skipped.iter().cloned());
            warnings
                .extend(run.failed.iter().map(|failed| format!("A turn failed: {}", failed.said)));
            if !run.complete {
                let (date, not_run) = (&run.date, run.not_run.len());
                warnings.push(format!(
                    "The run of {date} was ended before it was complete, {not_run} turns before its end: some figures have \
                     fewer rounds than others, or are missing."
                ));
            }
        }
        warnings
    }

    /// Checks that the figures are valid.
    ///
    /// # Errors
    /// [`Unsound`].
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

    /// Returns the difference between the results of the rows, whichever files they are from.
    pub(super) fn disagreement(&self) -> Option<String> {
        let disagreement = check(&measured(&self.rows)).err()?;
        Some(format!("The rows do not belong together, or are of different data: {disagreement}"))
    }
}

/// Converts the medians to rows of a run, for the engines and workloads of this version. Clients of
/// a server are left out: each turn has checked that they had all objects.
fn measured(rows: &[Summary]) -> Vec<Measured> {
    let measured = |row: &Summary| {
        Workload::ALL.into_iter().find(|workload| workload.name() == row.workload)?;
        let engine = EngineName::ALL.into_iter().find(|engine| engine.name() == row.engine)?;
        let Summary { workload, variant, objects, unit, median, extra, .. } = row.clone();
        Some(Measured {
            engine,
            objects,
            row: Row { workload, variant, unit, value: median, extra },
        })
    };
    rows.iter().filter_map(measured).collect()
}
