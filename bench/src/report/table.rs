//! The tables for the terminal.

use std::fmt::Write;

use super::behind::{BEHIND, behind};
use super::figure::{bytes, figure};
use super::groups::{base, groups};
use super::sanity::sanity;
use super::{Report, Summary};

/// The text in the row of an engine that was not measured.
pub(super) const MISSING: &str = "NOT MEASURED: a turn failed, or the run was ended before it";

/// Returns the whole report as text. A figure that an engine does not have is a `-`.
pub fn print(report: &Report) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{}, {} cores, {}, Linux {}; {} in Rust",
        machine.cpu,
        machine.cores,
        bytes(machine.memory_bytes),
        machine.kernel,
        machine.allocator
    );
    let engines = report.engines();
    for engine in &engines {
        let _ = writeln!(
            text,
            "  {engine:<20} {}",
            machine.engines.get(*engine).map_or("-", String::as_str)
        );
    }
    for group in groups(&report.rows.iter().collect::<Vec<_>>()) {
        text.push_str(&table(&group, &engines, &report.missing(&group)));
    }
    for run in &report.runs {
        let _ = writeln!(text, "\n{}", run.verdict.sentence());
    }
    for sentence in sanity(&report.rows) {
        let _ = writeln!(text, "\n{sentence}");
    }
    text.push_str(&behind_text(&report.rows));
    for warning in report.warnings() {
        let _ = writeln!(text, "\nWARNING: {warning}");
    }
    text
}

/// Returns the list of figures in which another engine is better, one a line.
fn behind_text(rows: &[Summary]) -> String {
    let mut text = format!("\n{BEHIND}\n");
    for behind in behind(rows) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:<44} {}", behind.figure, behind.ahead.join(", "));
    }
    text
}

/// Returns the table of one group.
fn table(rows: &[&Summary], engines: &[&str], missing: &[&str]) -> String {
    let mut text = String::new();
    let Some(base) = base(rows) else { return text };
    let against = format!("÷ {}", base.engine);
    let _ = writeln!(
        text,
        "\n{:<28} {:>11} {:>23} {:>11} {:>15}",
        format!("{}, {} objects", base.title(), base.objects),
        "median",
        "min .. max",
        "peak − start",
        against
    );
    for engine in engines {
        let Some(row) = rows.iter().find(|row| row.engine == *engine) else {
            let why = if missing.contains(engine) { MISSING } else { "" };
            let line =
                format!("  {engine:<26} {:>11} {:>23} {:>12} {:>15}  {why}", "-", "-", "-", "-");
            let _ = writeln!(text, "{}", line.trim_end());
            continue;
        };
        let figure = |value| figure(value, &row.unit);
        let peak = row.peak_over_start().map_or_else(|| "-".to_owned(), bytes);
        let line = format!(
            "  {engine:<26} {:>11} {:>23} {:>12} {:>15}  {}",
            figure(row.median),
            format!("{} .. {}", figure(row.min), figure(row.max)),
            peak,
            row.times_slower_than(base)
                .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2} ×")),
            row.remarks()
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
