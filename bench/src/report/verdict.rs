//! Whether a run is worth anything, as its report says.

use serde::{Deserialize, Serialize};

use super::check::check;
use crate::protocol::Measured;

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
        check(rows)
            .map_or_else(|disagreement| Self::Disagree(disagreement.to_string()), |()| Self::Agree)
    }

    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Unknown => "whether all engines did the same work is not in the file".to_owned(),
            Self::Agree => {
                "checked: all engines ended with the same stores, counts and answers".to_owned()
            }
            Self::Disagree(disagreement) => format!("WORTH NOTHING: {disagreement}"),
        }
    }
}
