//! Rows that are compared with each other.

use super::summary::Summary;
use crate::names::EngineName;

/// Each value once, in the order in which they first come.
pub(super) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// The rows that are compared with each other: of one workload, number of objects and variant.
pub(super) fn groups<'a>(rows: &[&'a Summary]) -> Vec<Vec<&'a Summary>> {
    let mut groups = Vec::new();
    for workload in distinct(rows.iter().map(|row| &row.workload)) {
        let rows: Vec<_> = rows.iter().copied().filter(|row| row.workload == *workload).collect();
        let mut kinds = distinct(rows.iter().map(|row| (row.objects, &row.variant)));
        // Those of joined files may come in any order.
        kinds.sort_by_key(|(objects, _)| *objects);
        for kind in kinds {
            groups.push(
                rows.iter().copied().filter(|row| (row.objects, &row.variant) == kind).collect(),
            );
        }
    }
    groups
}

/// What the others of a group are compared with.
pub(super) fn base<'a>(group: &[&'a Summary]) -> Option<&'a Summary> {
    group
        .iter()
        .copied()
        .find(|row| row.engine == EngineName::DeltaFifo.name())
        .or(group.first().copied())
}
