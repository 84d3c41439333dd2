//! Plots with one figure for each engine: times of lists, rates, memory.

use super::super::Summary;
use super::super::groups::groups;
use super::canvas::Drawn;
use super::scale::{Scale, label};
use super::{Plot, largest, ranges};

/// Returns the plots of a workload's times, for one number of objects.
pub fn times(rows: &[Summary], workload: &str) -> Drawn<Vec<Plot>> {
    alike(&largest(rows, |row| row.workload == workload && row.unit == "s"))
}

/// Returns the plots of a workload's rates, for one number of objects.
pub fn rates(rows: &[Summary], workload: &str) -> Drawn<Vec<Plot>> {
    alike(&largest(rows, |row| row.workload == workload && row.unit == "1/s"))
}

/// Returns the plots of the bytes per key. Each has its own scale from zero, because the variants
/// are not compared with each other.
pub fn memory(rows: &[Summary], workload: &str) -> Drawn<Vec<Plot>> {
    let rows = largest(rows, |row| row.workload == workload && row.unit == "B");
    groups(&rows).iter().map(|group| plot(group, &Scale::from_zero(values(group)))).collect()
}

/// Returns one plot for each group, all with the same scale, so that the plots can be compared.
fn alike(rows: &[&Summary]) -> Drawn<Vec<Plot>> {
    let scale = Scale::logarithmic(values(rows), ranges::ROOM);
    groups(rows).iter().map(|group| plot(group, &scale)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a title has two digits")]
fn plot(group: &[&Summary], scale: &Scale) -> Drawn<Plot> {
    let (name, objects) =
        group.first().map_or_else(Default::default, |row| (row.title(), row.objects));
    let title = format!("{name}, {} objects", label(objects as f64, ""));
    Plot::new(&name, &title, |title| ranges::draw(title, group, scale))
}

fn values(rows: &[&Summary]) -> Vec<f64> {
    rows.iter().flat_map(|row| [row.min, row.median, row.max]).collect()
}
