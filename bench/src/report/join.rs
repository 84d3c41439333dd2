//! Several files become one report, so that what was measured on several evenings is on one page.

use super::figure::bytes;
use super::{Machine, Report, Summary, check};
use crate::engines::EngineName;
use crate::protocol::Row;
use crate::rounds::Measured;

/// Two files have the same row.
#[derive(Debug, thiserror::Error)]
#[error(
    "{row} of {engine} with {objects} objects is in {one} and again in {other}, and two medians are not one: leave one of \
     the files out, or measure one of them again without it"
)]
pub struct Twice {
    row: String,
    engine: String,
    objects: usize,
    one: String,
    other: String,
}

/// Joins reports with the names of their files. In what they differ is noted; the machine shown is that of the first.
/// Nothing comes of no files.
///
/// # Errors
/// [`Twice`].
pub fn join(files: Vec<(String, Report)>) -> Result<Option<Report>, Twice> {
    let several = files.len() > 1;
    let mut files = files.into_iter();
    let Some((first, mut joined)) = files.next() else { return Ok(None) };
    let mut owners = vec![first.clone(); joined.rows.len()];
    for (name, report) in files {
        for row in &report.rows {
            if let Some(at) = joined.rows.iter().position(|known| figure(known) == figure(row)) {
                let (engine, objects, one) = (row.engine.clone(), row.objects, owners[at].clone());
                return Err(Twice { row: row.title(), engine, objects, one, other: name });
            }
        }
        owners.resize(owners.len() + report.rows.len(), name.clone());
        let (one, other) = (what(&joined), what(&report));
        let unlike = one.iter().zip(&other).filter(|(one, other)| one != other);
        joined.differences.extend(unlike.map(|((what, one), (_, other))| {
            format!("The files were not measured alike: {what} is {one} in {first}, but {other} in {name}.")
        }));
        joined.differences.extend(report.differences);
        add_engines(&mut joined.machine, report.machine, &name);
        joined.runs.extend(report.runs);
        joined.rows.extend(report.rows);
    }
    // Of files of before, rows have fewer fields: this is said, and does not make them worthless.
    if several && let Err(disagreement) = check(&measured(&joined.rows)) {
        joined.differences.push(format!("The files do not belong together, or are of different data: {disagreement}"));
    }
    Ok(Some(joined))
}

/// The rows of engines that this version knows, as a run has them: each was the median of its rounds.
fn measured(rows: &[Summary]) -> Vec<Measured> {
    let measured = |row: &Summary| {
        let engine = EngineName::ALL.into_iter().find(|engine| engine.name() == row.engine)?;
        let Summary { workload, variant, objects, unit, median, extra, .. } = row.clone();
        Some(Measured { engine, objects, row: Row { workload, variant, unit, value: median, extra } })
    };
    rows.iter().filter_map(measured).collect()
}

/// What there must be once.
fn figure(row: &Summary) -> (&str, &str, &str, usize) {
    (&row.workload, &row.variant, &row.engine, row.objects)
}

/// What should be the same in all files.
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

/// An engine that was another, or had another setting, has both.
fn add_engines(machine: &mut Machine, other: Machine, name: &str) {
    for (engine, description) in other.engines {
        let known = machine.engines.entry(engine).or_insert_with(|| description.clone());
        if *known != description {
            *known = format!("{known}; in {name}: {description}");
        }
    }
}
