//! Joins several files into one report, so that separate measurements are on one page. A single
//! file goes through the same checks.

use super::figure::bytes;
use super::groups::distinct;
use super::plain::plain;
use super::{Report, Summary};
use crate::machine::Machine;

/// The error of a row that is in more than one file.
#[derive(Debug, thiserror::Error)]
pub enum Repeated {
    #[error(
        "{row} is in {first} and in {second}, and two medians cannot be joined: \
         leave one of the files out, or measure one of them again without it"
    )]
    AcrossFiles { row: String, first: String, second: String },
    #[error("{row} is twice in {file}, which relist never writes: measure again")]
    WithinFile { row: String, file: String },
}

/// Joins reports, which are given with the names of their files. The result notes the differences
/// between the files, and has the machine of the first one. Returns `None` if there are no files,
/// and [`Repeated`] if a row occurs twice.
pub fn join(files: Vec<(String, Report)>) -> Result<Option<Report>, Repeated> {
    let mut files = files.into_iter();
    let Some((first, file)) = files.next() else { return Ok(None) };
    let mut owners = Vec::new();
    let mut joined = Report { rows: Vec::new(), ..file.clone() };
    take_rows(&mut joined, &mut owners, &first, file)?;
    for (name, report) in files {
        let (one, other) = (properties(&joined), properties(&report));
        let unlike = one.iter().zip(&other).filter(|(one, other)| one != other);
        let [first_name, other_name] = [&first, &name].map(|name| plain(name));
        joined.differences.extend(unlike.map(|((property, one), (_, other))| {
            format!(
                "The files were not measured alike: {property} is {one} in {first_name}, \
                 but {other} in {other_name}."
            )
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

/// Adds the rows of a file to `joined`. `owners` has the name of the file of each row.
fn take_rows(
    joined: &mut Report,
    owners: &mut Vec<String>,
    file: &str,
    report: Report,
) -> Result<(), Repeated> {
    for row in report.rows {
        if let Some(at) = joined.rows.iter().position(|known| figure(known) == figure(&row)) {
            let (title, engine, objects) = (row.title(), &row.engine, row.objects);
            let row = format!("{title} of {engine} with {objects} objects");
            let (first, second) = (owners[at].clone(), file.to_owned());
            return Err(if first == second {
                Repeated::WithinFile { row, file: first }
            } else {
                Repeated::AcrossFiles { row, first, second }
            });
        }
        joined.rows.push(row);
        owners.push(file.to_owned());
    }
    Ok(())
}

/// Returns a note that names the workloads in which figures of different runs are compared: a
/// ratio is only valid within one run. Returns `None` if there are no such workloads.
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
        format!(
            "A table has engines of different files: their ratios are not of one run ({mixed})."
        )
    })
}

/// Returns the values that together identify a figure.
fn figure(row: &Summary) -> (&str, &str, &str, usize) {
    (&row.workload, &row.variant, &row.engine, row.objects)
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
