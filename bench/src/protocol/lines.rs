//! The lines that a child process prints.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::names::{EngineName, Workload};

/// A line of the protocol.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The current activity of the child.
    Progress(Progress),
    /// A figure.
    Row(Row),
    /// The end of the output.
    Done(Done),
    /// The answer to a request for the version.
    Version(String),
}

/// The current activity of a child. Children in Go also report how far they are.
#[derive(Debug, Serialize, Deserialize)]
pub struct Progress {
    /// The activity, in a few words.
    pub what: String,
    /// Number of finished steps.
    #[serde(default)]
    pub done: u64,
    /// Number of all steps; 0 if unknown.
    #[serde(default)]
    pub total: u64,
}

/// A figure; `extra` has everything else that is known about its run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The figure's name within the workload; empty if the workload has one figure.
    pub variant: String,
    /// The unit: `s`, `1/s` or `B`.
    pub unit: String,
    /// The figure.
    pub value: f64,
    /// Counts, digests, memory and other values.
    pub extra: Map<String, Value>,
}

impl Row {
    /// Creates a row with an empty `extra`.
    #[must_use]
    pub fn new(workload: Workload, variant: &str, unit: &str, value: f64) -> Self {
        let (workload, variant, unit) = (workload.to_string(), variant.to_owned(), unit.to_owned());
        Self { workload, variant, unit, value, extra: Map::new() }
    }
}

/// A row with its engine and number of objects.
#[derive(Clone, Debug)]
pub struct Measured<E = EngineName> {
    /// The engine, or the client of a server.
    pub engine: E,
    /// The number of objects.
    pub objects: usize,
    /// The figure.
    pub row: Row,
}

/// The last line of a child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// The engine, with the versions of its parts.
    pub version: String,
}

/// The standard output of a child.
pub struct Output {
    to: io::Stdout,
}

impl Output {
    /// Creates the output. Nothing else may print to standard output.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is one standard output")]
    pub fn new() -> Self {
        Self { to: io::stdout() }
    }

    /// Prints a line.
    ///
    /// # Errors
    /// If the reader is gone.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_string(line)?;
        writeln!(self.to, "{text}")?;
        self.to.flush()
    }

    /// Prints the current activity.
    ///
    /// # Errors
    /// If the reader is gone.
    pub fn progress(&mut self, what: &str) -> io::Result<()> {
        self.line(&Line::Progress(Progress { what: what.to_owned(), done: 0, total: 0 }))
    }
}
