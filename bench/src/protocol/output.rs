//! The standard output of a child process, to which only this module may print. Printing fails if
//! nothing reads the output any more.

use std::io::{self, Write};

use super::{Line, Progress, Row};

/// Prints a line.
pub fn line(line: &Line) -> io::Result<()> {
    let text = serde_json::to_string(line)?;
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()
}

/// Prints the current activity.
pub fn progress(what: impl Into<String>) -> io::Result<()> {
    line(&Line::Progress(Progress { what: what.into(), done: 0, total: 0 }))
}

/// Prints rows.
pub fn rows(rows: impl IntoIterator<Item = Row>) -> io::Result<()> {
    rows.into_iter().try_for_each(|row| line(&Line::Row(row)))
}
