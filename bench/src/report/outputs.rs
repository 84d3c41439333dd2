//! Where the figures go: files, and the terminal after them, since who reads that may have gone away.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::directory::{Directory, Unwritable};
use super::{Report, file, print};

/// See the module.
#[derive(Debug)]
pub struct Outputs {
    json: Option<PathBuf>,
    report: Option<Directory>,
}

impl Outputs {
    /// Sees that everything can be written, before anything is measured. What is there already stays until it is.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn open(json: Option<&Path>, report: Option<&Path>) -> Result<Self, Unwritable> {
        json.map_or(Ok(()), file::check)?;
        Ok(Self { json: json.map(Path::to_owned), report: report.map(Directory::make).transpose()? })
    }

    /// Writes everything. That nobody reads the standard output any more is no failure.
    ///
    /// # Errors
    /// [`Unwritable`].
    pub fn write(&self, report: &Report) -> Result<(), Unwritable> {
        if let Some(json) = &self.json {
            file::write(json, &report.json())?;
        }
        if let Some(directory) = &self.report {
            directory.write(report)?;
        }
        let mut terminal = io::stdout().lock();
        match writeln!(terminal, "{}", print(report)).and_then(|()| terminal.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Unwritable::Terminal(error)),
            _ => Ok(()),
        }
    }
}
