//! The outputs of the tool: first the files, and then the terminal, whose reader may be gone.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

#[cfg(feature = "peers")]
use super::directory::Directory;
use super::file::{self, Unwritable};
use super::{Report, print};

/// The outputs of the tool.
#[derive(Debug)]
pub struct Outputs {
    json: Option<PathBuf>,
    #[cfg(feature = "peers")]
    report: Option<Directory>,
}

impl Outputs {
    /// Checks that the JSON file can be written, before anything is measured. An existing file is
    /// kept until the new one is complete.
    pub fn open(json: Option<&Path>) -> Result<Self, Unwritable> {
        json.map_or(Ok(()), file::check)?;
        Ok(Self {
            json: json.map(Path::to_owned),
            #[cfg(feature = "peers")]
            report: None,
        })
    }

    /// Adds the directory of a report, and checks that it can be written.
    #[cfg(feature = "peers")]
    pub fn with_report(self, report: Option<&Path>) -> Result<Self, Unwritable> {
        Ok(Self { report: report.map(Directory::make).transpose()?, ..self })
    }

    /// Writes all outputs, with `closing` as the last text on the terminal. A standard output
    /// without a reader is not an error.
    pub fn write(&self, report: &Report, closing: &str) -> Result<(), Unwritable> {
        if let Some(json) = &self.json {
            file::write(json, &report.json())?;
        }
        #[cfg(feature = "peers")]
        if let Some(directory) = &self.report {
            directory.write(report)?;
        }
        let mut terminal = io::stdout().lock();
        match writeln!(terminal, "{}{closing}", print(report)).and_then(|()| terminal.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Unwritable::Terminal(error)),
            _ => Ok(()),
        }
    }
}
