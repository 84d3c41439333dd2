//! The result of the check of a run.

use serde::{Deserialize, Serialize};

use super::check::check;
use crate::protocol::Measured;

/// The result of [`check`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Not known, as before the end of the run.
    #[default]
    Unknown,
    /// All engines had the same stores, counts, look-ups and keys.
    Agree,
    /// Two engines differ; has the message.
    Disagree(String),
}

impl Verdict {
    /// Checks all rows of a run, even if it was interrupted.
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
