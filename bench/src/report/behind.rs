//! The list of figures in which another engine is better than deltafifo.

use super::Summary;
use super::figure::{count, times};
use super::groups::groups;
use crate::names::EngineName;

/// The introduction of the list.
pub(super) const BEHIND: &str = "Figures in which another engine is ahead of deltafifo, with the \
                                 ratio. The floor and kube-rs' writer do less work.";

/// A figure in which another engine is better.
pub(super) struct Behind {
    /// The name of the figure, and the number of objects.
    pub figure: String,
    /// The better engines with their ratios, the best first.
    pub ahead: Vec<String>,
}

/// Returns the figures in which another engine is better, in the order of the tables. Variants of
/// deltafifo with other settings do not count as other engines.
pub(super) fn behind(rows: &[Summary]) -> Vec<Behind> {
    groups(&rows.iter().collect::<Vec<_>>()).iter().filter_map(|group| of_group(group)).collect()
}

fn of_group(group: &[&Summary]) -> Option<Behind> {
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
    let figure = format!("{}, {}", ours.title(), count(ours.objects));
    Some(Behind {
        figure,
        ahead: ahead
            .iter()
            .map(|(factor, engine)| format!("{engine} {}", times(*factor)))
            .collect(),
    })
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
        assert_eq!(found.len(), 1, "deltafifo-skip is not another engine");
        assert_eq!(found[0].figure, "events, 1,000");
        assert_eq!(found[0].ahead, ["dashmap 3.00 ×", "mutex 1.50 ×"]);
    }
}
