//! The lines that a child prints.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::names::{EngineName, Workload};

/// A line of the protocol.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// What the child is at.
    Progress(Progress),
    /// One figure.
    Row(Row),
    /// The end of a run; nothing follows.
    Done(Done),
    /// The answer to a question for the version alone.
    Version(String),
}

/// What a child is at. Children in Go also say how far.
#[derive(Debug, Serialize, Deserialize)]
pub struct Progress {
    /// A few words.
    pub what: String,
    /// So many,
    #[serde(default)]
    pub done: u64,
    /// of so many; 0 if it is not known.
    #[serde(default)]
    pub total: u64,
}

/// One figure. What else is known about the run is in `extra`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Workload.
    pub workload: String,
    /// Which of the workload's figures; empty where there is one.
    pub variant: String,
    /// `s`, `1/s` or `B`.
    pub unit: String,
    /// The figure.
    pub value: f64,
    /// Counts, digest, memory and more.
    pub extra: Map<String, Value>,
}

impl Row {
    /// A row with nothing extra.
    #[must_use]
    pub fn new(workload: Workload, variant: &str, unit: &str, value: f64) -> Self {
        let (workload, variant, unit) = (workload.to_string(), variant.to_owned(), unit.to_owned());
        Self { workload, variant, unit, value, extra: Map::new() }
    }
}

/// A row, and of what it is.
#[derive(Clone, Debug)]
pub struct Measured<E = EngineName> {
    /// The engine, or the client of a server,
    pub engine: E,
    /// with so many objects.
    pub objects: usize,
    /// The figure.
    pub row: Row,
}

/// The end of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// What was measured, with the versions of its parts.
    pub version: String,
}

/// A child's standard output.
pub struct Output {
    to: io::Stdout,
}

impl Output {
    /// Nothing else may be printed.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is one standard output")]
    pub fn new() -> Self {
        Self { to: io::stdout() }
    }

    /// Prints a line.
    ///
    /// # Errors
    /// When nobody reads any more.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_string(line)?;
        writeln!(self.to, "{text}")?;
        self.to.flush()
    }

    /// Says what the child is at.
    ///
    /// # Errors
    /// As above.
    pub fn progress(&mut self, what: &str) -> io::Result<()> {
        self.line(&Line::Progress(Progress { what: what.to_owned(), done: 0, total: 0 }))
    }
}
