//! The tables of the medians of a report, one for each number of objects, and their Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::figure::{count, figure};
use super::groups::{distinct, groups};
use super::table::machine;
use super::{Report, Run, Summary};

pub(super) const TITLE: &str = "Medians of all figures";
pub(super) const RULE: &str = "Of an even number of rounds, the worse of the two in the middle. A percentile that its\n\
     samples do not have is the largest sample.";

/// A table as text. Every row has as many cells as the header.
pub(super) struct Table {
    /// The title; empty for a table that describes the runs.
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Returns the medians of all figures as Markdown.
pub(super) fn medians(report: &Report) -> String {
    let mut text = format!("# {TITLE}\n\n{RULE}\n");
    for Table { title, header, rows } in tables(report) {
        let title = if title.is_empty() { title } else { format!("## {title}\n\n") };
        let rule = " --- |".repeat(header.len());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{title}| {} |\n|{rule}", header.join(" | "));
        for row in rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
    text
}

/// Returns the tables of the runs, of notes, and of the medians for each number of objects.
pub(super) fn tables(report: &Report) -> Vec<Table> {
    let run = |Run { command, rounds, commit, date, .. }: &Run| {
        vec![format!("`{command}`"), rounds.to_string(), commit.clone(), date.clone()]
    };
    let warnings = report.warnings().into_iter().map(|warning| format!("WARNING: {warning}"));
    let notes = [machine(&report.machine)].into_iter().chain(warnings);
    let table = |header: &[&str], rows| Table {
        title: String::new(),
        header: header.iter().map(ToString::to_string).collect(),
        rows,
    };
    let mut tables = vec![
        table(&["run", "rounds", "commit", "date"], report.runs.iter().map(run).collect()),
        table(&["notes"], notes.map(|note| vec![note]).collect()),
    ];
    for objects in report.rows.iter().map(|row| row.objects).collect::<BTreeSet<_>>() {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.objects == objects).collect();
        tables.push(of_objects(objects, &rows));
    }
    tables
}

/// Returns the medians for one number of objects. A figure that an engine does not have is an empty
/// cell.
fn of_objects(objects: usize, rows: &[&Summary]) -> Table {
    let engines = distinct(rows.iter().map(|row| row.engine.as_str()));
    let row = |group: Vec<&Summary>| {
        let cell = |engine: &&str| {
            let row = group.iter().find(|row| row.engine == *engine);
            row.map_or_else(String::new, |row| figure(row.median, &row.unit))
        };
        let title = group.first().map_or_else(String::new, |row| row.title());
        [title].into_iter().chain(engines.iter().map(cell)).collect()
    };
    Table {
        title: format!("{} objects", count(objects)),
        header: ["figure"].iter().chain(&engines).map(ToString::to_string).collect(),
        rows: groups(rows).into_iter().map(row).collect(),
    }
}
