//! Whether the figures of a report can be used as they are, and what a reader must know before.

use super::check::check;
use super::summary::Summary;
use super::verdict::Verdict;
use super::whole::Report;
use crate::names::{EngineName, Workload};
use crate::protocol::{Measured, Row};

/// Why figures should not be used as they are.
#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    /// The engines did not do the same.
    #[error("{0}")]
    Disagree(String),
    /// Some turns failed.
    #[error("turns that failed: {0}; their figures are missing, or of fewer rounds, see above")]
    Failed(usize),
}

impl Report {
    /// What a reader must know before the figures.
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

    /// Whether the figures can be used as they are.
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

    /// Where the rows that are shown, whichever files they are from, did not end alike.
    pub(super) fn disagreement(&self) -> Option<String> {
        let disagreement = check(&measured(&self.rows)).err()?;
        Some(format!("The rows do not belong together, or are of different data: {disagreement}"))
    }
}

/// The rows of engines and workloads that this version knows, as a run has them: each was the
/// median of its rounds. Clients of a server are none of these: whether they had all objects was
/// looked at in each turn.
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
