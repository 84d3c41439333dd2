//! The directory of a report. It contains a page that needs no other file, and the plots and rows
//! as files of their own.

use std::fs;
use std::path::{Path, PathBuf};

use super::file::{self, Unwritable};
use super::{Report, page, plots};

/// The directory of a report, checked to be writable.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Creates the directory, and checks that a page can be written there. An existing page is kept
    /// until the new one is complete.
    pub fn make(path: &Path) -> Result<Self, Unwritable> {
        fs::create_dir_all(path).map_err(file::at(path))?;
        file::check(&path.join("index.html"))?;
        Ok(Self(path.to_owned()))
    }

    /// Writes `index.html`, an SVG for every plot, and `rows.json`.
    pub fn write(&self, report: &Report) -> Result<(), Unwritable> {
        let sections =
            plots::sections(report).map_err(|error| Unwritable::Draw(error.to_string()))?;
        for plot in sections.iter().flat_map(|section| &section.plots) {
            self.put(&format!("{}.svg", plot.name), &plot.svg)?;
        }
        self.put("rows.json", &report.json())?;
        self.put("index.html", &page::page(report, &sections))
    }

    fn put(&self, name: &str, text: &str) -> Result<(), Unwritable> {
        file::write(&self.0.join(name), text)
    }
}
