//! Whether a run is worth anything, as its report says.

use serde::{Deserialize, Serialize};

use super::{Report, Summary, check};
use crate::engines::EngineName;
use crate::protocol::Row;
use crate::rounds::Measured;
use crate::workloads::Workload;

/// What the check of a run found: see [`check`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing is known, as before the run's end.
    #[default]
    Unknown,
    /// All engines ended with the same stores and counts, and found and took the same.
    Agree,
    /// Two did not: these.
    Disagree(String),
}

impl Verdict {
    /// Of all rows of a run, however far it came.
    #[must_use]
    pub fn of(rows: &[Measured]) -> Self {
        check(rows).map_or_else(|disagreement| Self::Disagree(disagreement.to_string()), |()| Self::Agree)
    }

    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Unknown => "whether all engines did the same work is not in the file".to_owned(),
            Self::Agree => "checked: all engines ended with the same stores, counts and answers".to_owned(),
            Self::Disagree(disagreement) => format!("WORTH NOTHING: {disagreement}"),
        }
    }
}

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

/// The rows of engines and workloads that this version knows, as a run has them: each was the median of its rounds. Clients of
/// a server are none of these: whether they had all objects was looked at in each turn.
fn measured(rows: &[Summary]) -> Vec<Measured> {
    let measured = |row: &Summary| {
        Workload::ALL.into_iter().find(|workload| workload.name() == row.workload)?;
        let engine = EngineName::ALL.into_iter().find(|engine| engine.name() == row.engine)?;
        let Summary { workload, variant, objects, unit, median, extra, .. } = row.clone();
        Some(Measured { engine, objects, row: Row { workload, variant, unit, value: median, extra } })
    };
    rows.iter().filter_map(measured).collect()
}
