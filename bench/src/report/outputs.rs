//! The outputs of the tool: first the files, and then the terminal, whose reader may be gone.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::file::{self, Unwritable};
use super::medians::medians;
use super::{Report, print};
#[cfg(feature = "peers")]
use super::{page::page, plots::plots};

/// The file of a report that is written last.
const LAST: &str = "figures.md";

/// The outputs of the tool.
#[derive(Debug)]
pub struct Outputs {
    json: Option<PathBuf>,
    /// The directory of a report.
    report: Option<PathBuf>,
}

impl Outputs {
    /// Creates the directory of the report. Checks that the file of `json` and one file in this
    /// directory can be written, before anything is measured. Existing files are kept until the new
    /// ones are complete.
    pub fn open(json: Option<&Path>, report: Option<&Path>) -> Result<Self, Unwritable> {
        json.map_or(Ok(()), file::check)?;
        if let Some(directory) = report {
            fs::create_dir_all(directory).map_err(file::at(directory))?;
            file::check(&directory.join(LAST))?;
        }
        Ok(Self { json: json.map(Path::to_owned), report: report.map(Path::to_owned) })
    }

    /// Writes all outputs, with `closing` as the last text on the terminal. A standard output
    /// without a reader is not an error.
    pub fn write(&self, report: &Report, closing: &str) -> Result<(), Unwritable> {
        if let Some(json) = &self.json {
            file::write(json, &report.json())?;
        }
        let text = print(report);
        if let Some(directory) = &self.report {
            let put = |name: &str, text: &str| file::write(&directory.join(name), text);
            #[cfg(feature = "peers")]
            {
                let plots = plots(report).map_err(|error| Unwritable::Draw(error.to_string()))?;
                for (name, svg) in &plots {
                    put(&format!("{name}.svg"), svg)?;
                }
                put("report.html", &page(report, &plots))?;
            }
            put("rows.json", &report.json())?;
            put("report.txt", &text)?;
            put(LAST, &medians(report))?;
        }
        let mut terminal = io::stdout().lock();
        match writeln!(terminal, "{text}{closing}").and_then(|()| terminal.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Unwritable::Terminal(error)),
            _ => Ok(()),
        }
    }
}
