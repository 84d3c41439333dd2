//! All that is reported, as JSON has it.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::groups::distinct;
use super::run::Run;
use super::summary::Summary;
use crate::machine::Machine;

/// What the files of this version are marked with. It grows when a field gets another meaning, or
/// a new one must be there.
const FORMAT: u64 = 2;

/// All that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Which version of the tool reads it.
    pub format: u64,
    /// When and how: one run, or several whose files were joined.
    pub runs: Vec<Run>,
    /// Where.
    pub machine: Machine,
    /// In what the joined files differ beside their rows.
    #[serde(default)]
    pub differences: Vec<String>,
    /// What.
    pub rows: Vec<Summary>,
}

/// A file is no report of this version.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// There is no such file, or it may not be read.
    #[error("cannot be read: {0}: --from takes a file that --json wrote, or a report's rows.json")]
    File(#[from] io::Error),
    /// Nothing is in it.
    #[error(
        "is empty, as a disk that is full leaves it: measure again with --json, or name another file"
    )]
    Empty,
    /// It is no JSON.
    #[error("is not JSON ({0}): --from takes a file that --json wrote, or a report's rows.json")]
    Garbage(serde_json::Error),
    /// It was written by another version.
    #[error(
        "was written by another version of relist (format {found}, this one reads {FORMAT}): measure again, or draw it with \
         the version that wrote it"
    )]
    Version {
        /// What it says, or that it says nothing.
        found: String,
    },
    /// It is something else, or was changed.
    #[error(
        "is no report of relist, or was changed by hand ({0}): --from takes a file that --json wrote as it is"
    )]
    Changed(serde_json::Error),
}

impl Report {
    /// What one run brought.
    #[must_use]
    pub fn of(run: Run, machine: Machine, rows: Vec<Summary>) -> Self {
        Self { format: FORMAT, runs: vec![run], machine, differences: Vec::new(), rows }
    }

    /// Reads what `--json` wrote.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let bytes = fs::read(path)?;
        if bytes.trim_ascii().is_empty() {
            return Err(Unreadable::Empty);
        }
        let whole: Value = serde_json::from_slice(&bytes).map_err(Unreadable::Garbage)?;
        let format = whole.get("format");
        // Before there were formats, too, a report had rows.
        if whole.get("rows").is_some() && format.and_then(Value::as_u64) != Some(FORMAT) {
            let found =
                format.map_or_else(|| "of before there were any".to_owned(), Value::to_string);
            return Err(Unreadable::Version { found });
        }
        serde_json::from_value(whole).map_err(Unreadable::Changed)
    }

    /// What [`Self::read`] reads.
    #[must_use]
    pub fn json(&self) -> String {
        // All keys are text, so that there is nothing that JSON could not hold.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The engines, in the order in which they were measured; those that brought nothing last.
    #[must_use]
    pub fn engines(&self) -> Vec<&str> {
        let missed = self.runs.iter().flat_map(|run| run.failed.iter().chain(&run.not_run));
        let measured = self.rows.iter().map(|row| row.engine.as_str());
        distinct(measured.chain(missed.map(|missed| missed.engine.as_str())))
    }

    /// The engines that should have a row in a group of rows, and have none.
    pub(super) fn missing(&self, group: &[&Summary]) -> Vec<&str> {
        let Some(first) = group.first() else { return Vec::new() };
        let missed = self.runs.iter().flat_map(|run| run.failed.iter().chain(&run.not_run));
        let here = missed.filter(|missed| {
            missed.objects == first.objects && missed.workloads.contains(&first.workload)
        });
        let engines = distinct(here.map(|missed| missed.engine.as_str()));
        engines.into_iter().filter(|engine| group.iter().all(|row| row.engine != *engine)).collect()
    }
}
