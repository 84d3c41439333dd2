//! The report as a whole, and its JSON form.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::groups::distinct;
use super::run::Run;
use super::summary::Summary;
use crate::machine::Machine;

/// The version of the format. It is incremented when a field changes its meaning, or a new field is
/// required.
const FORMAT: u64 = 2;

/// A report: the figures of one run or of several joined runs, and the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The version of the format.
    pub format: u64,
    /// The run, or the runs whose files were joined.
    pub runs: Vec<Run>,
    /// The machine on which the figures were measured.
    pub machine: Machine,
    /// Warnings about differences between the joined files, for example in the machine. They are
    /// sentences for the report.
    #[serde(default)]
    pub differences: Vec<String>,
    /// The figures.
    pub rows: Vec<Summary>,
}

/// The advice for a file that is not a report.
const ADVICE: &str = "--from takes a file that --json wrote, or a report's rows.json";

/// The error of a file that is not a report of this version. The message follows the file's name.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("cannot be read: {ADVICE}")]
    File(#[from] io::Error),
    /// The file is empty, for example because the disk was full when it was written.
    #[error("is empty: measure again with --json, or name another file")]
    Empty,
    #[error("is not JSON: {ADVICE}")]
    Garbage(#[source] serde_json::Error),
    #[error(
        "was written by another version of relist ({found}, this one reads format {FORMAT}): \
         measure again, or use the version that wrote it"
    )]
    Version {
        /// The version of the format in the file, or the note that the file has none.
        found: String,
    },
    /// The JSON is not a report of the tool, or was edited.
    #[error("is not a report of relist, or was edited: {ADVICE}")]
    Changed(#[source] serde_json::Error),
}

impl Report {
    /// Creates the report of one run.
    pub fn of(run: Run, machine: Machine, rows: Vec<Summary>) -> Self {
        Self { format: FORMAT, runs: vec![run], machine, differences: Vec::new(), rows }
    }

    /// Reads a report that `--json` wrote.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let bytes = fs::read(path)?;
        if bytes.trim_ascii().is_empty() {
            return Err(Unreadable::Empty);
        }
        let whole: Value = serde_json::from_slice(&bytes).map_err(Unreadable::Garbage)?;
        let format = whole.get("format");
        // Reports had rows before they had a version.
        if whole.get("rows").is_some() && format.and_then(Value::as_u64) != Some(FORMAT) {
            let found = match format {
                Some(format) => format!("format {format}"),
                None => "without a format".to_owned(),
            };
            return Err(Unreadable::Version { found });
        }
        serde_json::from_value(whole).map_err(Unreadable::Changed)
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> String {
        // Serialisation cannot fail: all keys are strings.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns the engines in the order of their first rows. Engines without a row are last.
    pub fn engines(&self) -> Vec<&str> {
        let missed = self.runs.iter().flat_map(|run| run.failed.iter().chain(&run.unfinished));
        let measured = self.rows.iter().map(|row| row.engine.as_str());
        distinct(measured.chain(missed.map(|missed| missed.engine.as_str())))
    }

    /// Returns the engines that should have a row in a group and have none.
    pub(super) fn missing(&self, group: &[&Summary]) -> Vec<&str> {
        let Some(first) = group.first() else { return Vec::new() };
        let missed = self.runs.iter().flat_map(|run| run.failed.iter().chain(&run.unfinished));
        let here = missed.filter(|missed| {
            missed.objects == first.objects && missed.workloads.contains(&first.workload)
        });
        let engines = distinct(here.map(|missed| missed.engine.as_str()));
        engines.into_iter().filter(|engine| group.iter().all(|row| row.engine != *engine)).collect()
    }
}
