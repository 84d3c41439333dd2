//! Joins several files into one report, so that separate measurements are on one page. A single
//! file goes through the same checks.

use super::figure::bytes;
use super::groups::distinct;
use super::plain::plain;
use super::{Report, Summary};
use crate::machine::Machine;

/// The error of a row that occurs twice.
#[derive(Debug, thiserror::Error)]
#[error(
    "{row} is in {first} and in {second}, and two medians cannot be joined: \
     leave one of the files out, or measure one of them again without it"
)]
pub struct Repeated {
    row: String,
    first: String,
    second: String,
}

/// Joins reports, which are given with the names of their files. The result notes the differences
/// between the files, and has the machine of the first one. Returns `None` if there are no files,
/// and [`Repeated`] if a row occurs twice.
pub fn join(files: Vec<(String, Report)>) -> Result<Option<Report>, Repeated> {
    let rows = files
        .iter()
        .flat_map(|(file, report)| report.rows.iter().map(move |row| (file.as_str(), row)));
    let mixed = check(&rows.collect::<Vec<_>>())?;
    let mut files = files.into_iter();
    let Some((first, mut joined)) = files.next() else { return Ok(None) };
    let first = plain(&first);
    for (name, report) in files {
        let name = plain(&name);
        let pairs = properties(&joined).into_iter().zip(properties(&report));
        let unlike = pairs.filter(|(one, other)| one != other);
        joined.differences.extend(unlike.map(|((property, one), (_, other))| {
            format!(
                "The files were not measured alike: {property} is {one} in {first}, \
                 but {other} in {name}."
            )
        }));
        joined.differences.extend(report.differences);
        add_engines(&mut joined.machine, &report.machine, &name);
        joined.runs.extend(report.runs);
        joined.rows.extend(report.rows);
    }
    joined.differences.extend(mixed);
    Ok(Some(joined))
}

/// Checks that no row, given with the name of its file, occurs twice. Returns a note that names the
/// workloads in which figures of different files are compared: a ratio is only valid within one
/// run. Returns `None` if there are no such workloads.
fn check(rows: &[(&str, &Summary)]) -> Result<Option<String>, Repeated> {
    let mut mixed = Vec::new();
    for (at, (second, row)) in rows.iter().enumerate() {
        for (first, other) in &rows[..at] {
            if figure(other) != figure(row) {
                continue;
            }
            if other.engine == row.engine {
                let (title, engine, objects) = (row.title(), &row.engine, row.objects);
                let row = format!("{title} of {engine} with {objects} objects");
                return Err(Repeated { row, first: (*first).into(), second: (*second).into() });
            }
            if first != second {
                mixed.push(row.workload.as_str());
            }
        }
    }
    let note = |mixed: String| {
        format!(
            "A table has engines of different files: their ratios are not of one run ({mixed})."
        )
    };
    Ok((!mixed.is_empty()).then(|| note(distinct(mixed).join(", "))))
}

/// Returns the values that together identify a figure, which each engine has once.
fn figure(row: &Summary) -> (&str, &str, usize) {
    (&row.workload, &row.variant, row.objects)
}

/// Returns the properties that should be equal in all files.
fn properties(report: &Report) -> [(&'static str, String); 6] {
    let machine = &report.machine;
    [
        ("the processor", machine.cpu.clone()),
        ("the number of cores", machine.cores.to_string()),
        ("the memory", bytes(machine.memory_bytes)),
        ("the kernel", machine.kernel.clone()),
        ("the allocator", machine.allocator.clone()),
        ("the commit", report.runs.first().map_or_else(String::new, |run| run.commit.clone())),
    ]
}

/// Adds the descriptions of another file's engines. An engine that is described differently there
/// gets both descriptions.
fn add_engines(machine: &mut Machine, other: &Machine, name: &str) {
    for (engine, description) in other.engines.clone() {
        let known = machine.engines.entry(engine).or_insert_with(|| description.clone());
        if *known != description {
            *known = format!("{known}; in {name}: {description}");
        }
    }
}
