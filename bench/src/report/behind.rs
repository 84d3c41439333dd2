//! The list of figures in which another engine is better than deltafifo.

use super::Summary;
use super::figure::{count, times};
use super::groups::groups;
use crate::names::EngineName;

/// The introduction of the list.
pub(super) const BEHIND: &str = "Figures in which another engine is ahead of deltafifo, with the \
                                 ratio. The floor and kube-rs' writer do less work.";

/// Returns the figures in which another engine is better, in the order of the tables: the name of
/// the figure with the number of objects, and the better engines with their ratios, the best first.
/// Variants of deltafifo with other settings do not count as other engines.
pub(super) fn behind(rows: &[Summary]) -> Vec<(String, String)> {
    groups(&rows.iter().collect::<Vec<_>>()).iter().filter_map(|group| of_group(group)).collect()
}

fn of_group(group: &[&Summary]) -> Option<(String, String)> {
    let ours = group.iter().find(|row| row.engine == EngineName::DeltaFifo.name())?;
    let others = group.iter().filter(|row| !row.engine.starts_with(EngineName::DeltaFifo.name()));
    let mut ahead: Vec<(f64, &str)> = others
        .filter_map(|row| Some((ours.times_slower_than(row)?, row.engine.as_str())))
        // A ratio that would be shown as 1.00 is left out.
        .filter(|(factor, _)| *factor >= 1.005)
        .collect();
    if ahead.is_empty() {
        return None;
    }
    ahead.sort_by(|one, other| other.0.total_cmp(&one.0));
    let ahead = ahead.iter().map(|(factor, engine)| format!("{engine} {}", times(*factor)));
    let ahead = ahead.collect::<Vec<_>>().join(", ");
    Some((format!("{}, {}", ours.title(), count(ours.objects)), ahead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Workload;
    use crate::protocol::{Measured, Row};

    #[test]
    fn every_figure_in_which_another_engine_is_ahead_is_listed() {
        let row = |engine, workload, unit: &str, value| {
            Measured::new(engine, 1000, Row::new(workload, "", unit, value))
        };
        let rows = [
            row(EngineName::DeltaFifo, Workload::Relist, "s", 2.0),
            row(EngineName::DeltaFifoSkip, Workload::Relist, "s", 1.0),
            row(EngineName::Mutex, Workload::Relist, "s", 3.0),
            row(EngineName::DeltaFifo, Workload::Events, "1/s", 2.0),
            row(EngineName::Mutex, Workload::Events, "1/s", 3.0),
            row(EngineName::DashMap, Workload::Events, "1/s", 6.0),
            row(EngineName::ClientGoRealFifo, Workload::Events, "1/s", 2.001),
            row(EngineName::Mutex, Workload::Churn, "s", 1.0),
        ];
        let found = behind(&Summary::of(&rows, 1));
        let events = ("events, 1,000".to_owned(), "dashmap 3.00 ×, mutex 1.50 ×".to_owned());
        assert_eq!(found, [events], "deltafifo-skip is not another engine");
    }
}
