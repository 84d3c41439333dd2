//! Joins several files into one report, so that separate measurements are on one page. A single
//! file is checked in the same way.

use super::figure::bytes;
use super::groups::distinct;
use super::plain::plain;
use super::{Report, Summary};
use crate::machine::Machine;

/// A row that occurs more than once.
#[derive(Debug, thiserror::Error)]
pub enum NotOne {
    /// The row is in two files.
    #[error(
        "{row} of {engine} with {objects} objects is in {one} and again in {other}, and two medians are not one: leave one \
         of the files out, or measure one of them again without it"
    )]
    Twice {
        /// The row.
        row: String,
        /// Its engine.
        engine: String,
        /// Its number of objects.
        objects: usize,
        /// The first file.
        one: String,
        /// The other file.
        other: String,
    },
    /// The row is twice in one file.
    #[error(
        "{row} of {engine} with {objects} objects is in {file} twice, which relist never writes: take the file as it was \
         written, or measure again"
    )]
    Within {
        /// The row.
        row: String,
        /// Its engine.
        engine: String,
        /// Its number of objects.
        objects: usize,
        /// The file.
        file: String,
    },
}

/// Joins reports, given with the names of their files. The result notes their differences, and has
/// the machine of the first. Without files the result is `None`.
///
/// # Errors
/// [`NotOne`].
pub fn join(files: Vec<(String, Report)>) -> Result<Option<Report>, NotOne> {
    let mut files = files.into_iter();
    let Some((first, file)) = files.next() else { return Ok(None) };
    let mut owners = Vec::new();
    let mut joined = Report { rows: Vec::new(), ..file.clone() };
    take_rows(&mut joined, &mut owners, &first, file)?;
    for (name, report) in files {
        let (one, other) = (what(&joined), what(&report));
        let unlike = one.iter().zip(&other).filter(|(one, other)| one != other);
        joined.differences.extend(unlike.map(|((what, one), (_, other))| {
            let [first, name] = [&first, &name].map(|name| plain(name));
            format!("The files were not measured alike: {what} is {one} in {first}, but {other} in {name}.")
        }));
        joined.differences.extend(report.differences.iter().cloned());
        add_engines(&mut joined.machine, &report.machine, &plain(&name));
        joined.runs.extend(report.runs.iter().cloned());
        take_rows(&mut joined, &mut owners, &name, report)?;
    }
    let mixed = mixed(&joined, &owners);
    joined.differences.extend(mixed);
    Ok(Some(joined))
}

/// Adds the rows of a file; `owners` has the file of each row.
fn take_rows(
    joined: &mut Report,
    owners: &mut Vec<String>,
    file: &str,
    report: Report,
) -> Result<(), NotOne> {
    for row in report.rows {
        if let Some(at) = joined.rows.iter().position(|known| figure(known) == figure(&row)) {
            let (title, engine, objects, file) =
                (row.title(), row.engine, row.objects, file.to_owned());
            let one = owners[at].clone();
            return Err(if one == file {
                NotOne::Within { row: title, engine, objects, file }
            } else {
                NotOne::Twice { row: title, engine, objects, one, other: file }
            });
        }
        joined.rows.push(row);
        owners.push(file.to_owned());
    }
    Ok(())
}

/// Names the workloads in which figures of different runs are compared: a ratio is only valid
/// within a run.
fn mixed(joined: &Report, owners: &[String]) -> Option<String> {
    let rows = || joined.rows.iter().zip(owners);
    let is_mixed = |row: &Summary, owner: &String| {
        rows().any(|(other, of)| {
            of != owner
                && (&row.workload, &row.variant, row.objects)
                    == (&other.workload, &other.variant, other.objects)
        })
    };
    let mixed = distinct(
        rows().filter(|(row, owner)| is_mixed(row, owner)).map(|(row, _)| row.workload.as_str()),
    );
    (!mixed.is_empty()).then(|| {
        let mixed = mixed.join(", ");
        format!("Engines of different files stand in one table: their ratios are not of one run ({mixed}).")
    })
}

/// Returns what identifies a figure.
fn figure(row: &Summary) -> (&str, &str, &str, usize) {
    (&row.workload, &row.variant, &row.engine, row.objects)
}

/// Returns the properties that should be equal in all files.
fn what(report: &Report) -> [(&'static str, String); 6] {
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

/// Adds the engines of another file. An engine with two descriptions gets both.
fn add_engines(machine: &mut Machine, other: &Machine, name: &str) {
    for (engine, description) in other.engines.clone() {
        let known = machine.engines.entry(engine).or_insert_with(|| description.clone());
        if *known != description {
            *known = format!("{known}; in {name}: {description}");
        }
    }
}
