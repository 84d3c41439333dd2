//! All that is reported, as JSON has it.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use super::summary::distinct;
use super::{Machine, Run, Summary, Verdict};

/// All that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// When and how: one run, or several whose files were joined.
    #[serde(alias = "run", deserialize_with = "one_or_several")]
    pub runs: Vec<Run>,
    /// Where.
    pub machine: Machine,
    /// In what the joined files differ beside their rows.
    #[serde(default)]
    pub differences: Vec<String>,
    /// What.
    pub rows: Vec<Summary>,
}

impl Report {
    /// What one run brought.
    #[must_use]
    pub fn of(run: Run, machine: Machine, rows: Vec<Summary>) -> Self {
        Self { runs: vec![run], machine, differences: Vec::new(), rows }
    }

    /// Reads what `--json` wrote.
    ///
    /// # Errors
    /// When the file cannot be read, or is something else.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_reader(BufReader::new(File::open(path)?))?)
    }

    /// What [`Self::read`] reads.
    #[must_use]
    pub fn json(&self) -> String {
        // All keys are text, so that there is nothing that JSON could not hold.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// What a reader must know before the figures.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.differences.clone();
        for run in &self.runs {
            if let Verdict::Disagree(_) = run.verdict {
                warnings.push(run.verdict.sentence());
            }
            warnings.extend(run.failed.iter().map(|failed| format!("A turn failed: {failed}")));
            if !run.complete {
                let date = &run.date;
                warnings.push(format!(
                    "The run of {date} was ended before it was complete: some figures have fewer rounds than others, or are \
                     missing."
                ));
            }
        }
        warnings
    }

    /// The engines, in the order in which they were measured.
    #[must_use]
    pub fn engines(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.engine.as_str()))
    }
}

/// Files of before runs could be joined have one, and not in a list.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Run>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Runs {
        One(Run),
        Several(Vec<Run>),
    }
    Ok(match Runs::deserialize(deserializer)? {
        Runs::One(run) => vec![run],
        Runs::Several(runs) => runs,
    })
}
