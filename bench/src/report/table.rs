//! The report as text, with a table for each figure.

use std::fmt::Write;

use super::behind::{BEHIND, behind};
use super::figure::{bytes, figure};
use super::groups::{base, groups};
use super::{Report, Summary};
use crate::machine::Machine;

/// Returns the whole report as text. A figure that an engine does not have is a `-`.
pub fn print(report: &Report) -> String {
    let mut text = format!("\n{}\n", machine(&report.machine));
    let engines = report.engines();
    // Writing to a String cannot fail.
    for engine in &engines {
        let description = report.machine.engines.get(*engine).map_or("-", String::as_str);
        let _ = writeln!(text, "  {engine:<20} {description}");
    }
    for group in groups(&report.rows.iter().collect::<Vec<_>>()) {
        text.push_str(&table(&group, &engines));
    }
    for run in &report.runs {
        let _ = writeln!(text, "\n{}", run.verdict.sentence());
    }
    let _ = writeln!(text, "\n{BEHIND}");
    for (figure, ahead) in behind(&report.rows) {
        let _ = writeln!(text, "  {figure:<44} {ahead}");
    }
    for warning in report.warnings() {
        let _ = writeln!(text, "\nWARNING: {warning}");
    }
    text
}

/// Returns the properties of the machine in one line.
pub(super) fn machine(machine: &Machine) -> String {
    let Machine { cpu, cores, memory_bytes, kernel, allocator, .. } = machine;
    let memory = bytes(*memory_bytes);
    format!("{cpu}, {cores} cores, {memory}, Linux {kernel}; {allocator} in Rust")
}

/// Returns the table of one group.
fn table(rows: &[&Summary], engines: &[&str]) -> String {
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
            let _ =
                writeln!(text, "  {engine:<26} {:>11} {:>23} {:>12} {:>15}", "-", "-", "-", "-");
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
