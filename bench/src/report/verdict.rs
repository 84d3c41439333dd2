//! Whether a run is worth anything, as its report says.

use serde::{Deserialize, Serialize};

use super::{Report, check};
use crate::rounds::Measured;

/// What the check of a run found: see [`check`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The file was written when this was not written down.
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
        let disagreement = self.runs.iter().find_map(|run| match &run.verdict {
            Verdict::Disagree(disagreement) => Some(Unsound::Disagree(disagreement.clone())),
            Verdict::Unknown | Verdict::Agree => None,
        });
        let failed = self.runs.iter().map(|run| run.failed.len()).sum();
        match disagreement {
            Some(disagreement) => Err(disagreement),
            None if failed > 0 => Err(Unsound::Failed(failed)),
            None => Ok(()),
        }
    }
}
