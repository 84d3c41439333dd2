//! Groups of rows that are compared with each other.

use super::summary::Summary;
use crate::names::EngineName;

/// Returns each value once, in the order of first occurrence.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// Returns the rows in groups of equal workload, number of objects and variant. The rows of a
/// group are compared with each other.
pub(super) fn groups<'a>(rows: &[&'a Summary]) -> Vec<Vec<&'a Summary>> {
    let mut groups = Vec::new();
    for workload in distinct(rows.iter().map(|row| &row.workload)) {
        let rows: Vec<_> = rows.iter().copied().filter(|row| row.workload == *workload).collect();
        let mut kinds = distinct(rows.iter().map(|row| (row.objects, &row.variant)));
        // The rows of joined files may be in any order.
        kinds.sort_by_key(|(objects, _)| *objects);
        for kind in kinds {
            groups.push(
                rows.iter().copied().filter(|row| (row.objects, &row.variant) == kind).collect(),
            );
        }
    }
    groups
}

/// Returns the row of a group with which the other rows are compared: that of deltafifo, or the
/// first row if deltafifo has none. Returns `None` if the group is empty.
pub(super) fn base<'a>(group: &[&'a Summary]) -> Option<&'a Summary> {
    group
        .iter()
        .copied()
        .find(|row| row.engine == EngineName::DeltaFifo.name())
        .or(group.first().copied())
}
