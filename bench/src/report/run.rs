//! The circumstances of a run: the command that repeats it, the workloads and engines that it left
//! out, and whether its figures are valid.

use std::env;
use std::path::Path;

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};

use super::check::{Checked, difference};
use super::commit::commit;
use super::plain::plain;
use crate::protocol::Measured;

/// The circumstances of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The time of the start, in UTC.
    pub date: String,
    /// The command line. Absolute paths are shortened to their last component.
    pub command: String,
    /// The commit of the source.
    pub commit: String,
    pub rounds: usize,
    /// Whether every turn of the run was measured.
    pub complete: bool,
    /// The turns that failed, with the reason.
    #[serde(default)]
    pub failed: Vec<Missed>,
    /// The turns that did not start, or did not end, because the run was interrupted.
    #[serde(default, rename = "not_run")]
    pub unfinished: Vec<Missed>,
    /// Engines that were left out, with the reason.
    #[serde(default)]
    pub skipped: Vec<String>,
    /// Whether all engines did the same work.
    #[serde(default)]
    pub verdict: Verdict,
}

/// A turn that did not complete. The rows that its process had printed are in the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Missed {
    pub engine: String,
    pub objects: usize,
    pub workloads: Vec<String>,
    /// A text that names the turn and the reason why it failed. It names only the turn if the run
    /// was interrupted before the turn ended.
    #[serde(rename = "said")]
    pub message: String,
}

impl Missed {
    /// Creates the entry of a turn. Paths of this machine are removed from the message.
    pub fn new(engine: String, objects: usize, workloads: Vec<String>, message: &str) -> Self {
        Self { engine, objects, workloads, message: plain(message) }
    }
}

/// The result of the check whether all engines did the same work.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The check has not been made. It is made at the end of the run.
    #[default]
    Unknown,
    /// All engines had the same stores and counts, and returned the same objects from indexes and
    /// the same keys from work queues.
    Agree,
    /// Two engines differ. The text describes the first difference.
    Disagree(String),
}

impl Verdict {
    /// Checks all rows of a run, even if it was interrupted.
    pub fn of(rows: &[Measured]) -> Self {
        difference(rows.iter().filter_map(Checked::measured)).map_or(Self::Agree, Self::Disagree)
    }

    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Unknown => {
                "the file does not say whether all engines did the same work".to_owned()
            }
            Self::Agree => {
                "checked: all engines ended with the same stores, counts and answers".to_owned()
            }
            Self::Disagree(difference) => format!("NOT VALID: {difference}"),
        }
    }
}

impl Run {
    /// Creates the description of a run of this tool that starts now.
    pub fn begins(tool: &str, rounds: usize) -> Self {
        let now = Timestamp::now();
        let arguments = env::args_os().skip(1).map(|argument| plain(&argument.to_string_lossy()));
        let command: Vec<_> = std::iter::once(tool.to_owned()).chain(arguments).collect();
        Self {
            date: now.round(Unit::Second).unwrap_or(now).to_string(),
            command: command.join(" "),
            commit: commit(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
                .unwrap_or_else(|| "unknown".to_owned()),
            rounds,
            complete: true,
            failed: Vec::new(),
            unfinished: Vec::new(),
            skipped: Vec::new(),
            verdict: Verdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_is_in_utc_with_seconds() {
        let date = Run::begins("relist", 1).date;
        assert!(date.starts_with("20") && date.ends_with('Z') && date.len() == 20, "{date}");
    }
}
