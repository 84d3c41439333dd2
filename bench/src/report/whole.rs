//! The report as a whole, and its JSON form.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
    pub format: u64,
    /// The run, or the runs whose files were joined.
    pub runs: Vec<Run>,
    /// The machine on which the figures were measured.
    pub machine: Machine,
    /// Warnings about differences between the joined files, for example in the machine. They are
    /// sentences for the report.
    #[serde(default)]
    pub differences: Vec<String>,
    pub rows: Vec<Summary>,
}

/// The advice for a file that is not a report.
const ADVICE: &str = "--from takes a file that --json wrote, or a report's rows.json";

/// The error of a file that is not a report of this version. The message follows the file's name.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("cannot be read: {ADVICE}")]
    File(#[from] io::Error),
    #[error("is not a report of relist, or was cut or edited: {ADVICE}")]
    NotAReport(#[from] serde_json::Error),
    #[error(
        "was written by another version of relist (format {0}, this one reads format {FORMAT}): \
         measure again, or use the version that wrote it"
    )]
    Version(u64),
}

/// Returns a report of one run of another tool, which begins now, in the JSON form of
/// `Report` but with rows of the tool's own form.
#[must_use]
pub fn foreign_report(tool: &str, rows: &[Value]) -> Value {
    json!({ "runs": [Run::begins(tool, 1)], "machine": Machine::here(), "rows": rows })
}

impl Report {
    /// Creates the report of one run.
    pub fn of(run: Run, machine: Machine, rows: Vec<Summary>) -> Self {
        Self { format: FORMAT, runs: vec![run], machine, differences: Vec::new(), rows }
    }

    /// Reads a report that `--json` wrote.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Head {
            format: u64,
        }

        let bytes = fs::read(path)?;
        match serde_json::from_slice(&bytes)? {
            Head { format: FORMAT } => Ok(serde_json::from_slice(&bytes)?),
            Head { format } => Err(Unreadable::Version(format)),
        }
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
}
