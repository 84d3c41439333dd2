//! The medians of a report as Markdown, with a table for each number of objects.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::figure::{count, figure};
use super::groups::{distinct, groups};
use super::table::machine;
use super::{Report, Run, Summary};

/// Returns the medians of all figures. A figure that an engine does not have is an empty cell.
pub(super) fn medians(report: &Report) -> String {
    let mut text = "# Medians of all figures\n\n\
                    Of an even number of rounds, the worse of the two in the middle. A percentile that its\n\
                    samples do not have is the largest sample.\n\n\
                    | run | rounds | commit | date |\n| --- | --- | --- | --- |\n"
        .to_owned();
    // Writing to a String cannot fail.
    for Run { command, rounds, commit, date, .. } in &report.runs {
        let _ = writeln!(text, "| `{command}` | {rounds} | {commit} | {date} |");
    }
    let _ = writeln!(text, "\n| notes |\n| --- |\n| {} |", machine(&report.machine));
    for warning in report.warnings() {
        let _ = writeln!(text, "| WARNING: {warning} |");
    }
    for objects in report.rows.iter().map(|row| row.objects).collect::<BTreeSet<_>>() {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.objects == objects).collect();
        text.push_str(&table(objects, &rows));
    }
    text
}

fn table(objects: usize, rows: &[&Summary]) -> String {
    let engines = distinct(rows.iter().map(|row| row.engine.as_str()));
    let mut text = format!(
        "\n## {} objects\n\n| figure | {} |\n|{}\n",
        count(objects),
        engines.join(" | "),
        " --- |".repeat(engines.len() + 1)
    );
    for group in groups(rows) {
        let cell = |engine: &&str| {
            let row = group.iter().find(|row| row.engine == *engine);
            row.map_or_else(String::new, |row| figure(row.median, &row.unit))
        };
        let cells: Vec<_> = engines.iter().map(cell).collect();
        let title = group.first().map_or_else(String::new, |row| row.title());
        let _ = writeln!(text, "| {title} | {} |", cells.join(" | "));
    }
    text
}
