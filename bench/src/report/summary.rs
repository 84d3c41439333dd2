//! The rows of all rounds, and from them minimum, median and maximum.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Machine;
use crate::engines::EngineName;
use crate::protocol::Row;

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// What.
    pub rows: Vec<Summary>,
}

/// One figure of one engine over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Workload.
    pub workload: String,
    /// Which of the workload's figures; empty where there is one.
    pub variant: String,
    /// Engine.
    pub engine: &'static str,
    /// Objects of the run.
    pub objects: usize,
    /// `s`, `1/s` or `B`.
    pub unit: String,
    /// Smallest,
    pub min: f64,
    /// middle,
    pub median: f64,
    /// and largest value.
    pub max: f64,
    /// What else is known, of the round with the median.
    pub extra: Map<String, Value>,
}

impl Summary {
    /// Sums up the rows of all rounds, in the order in which figures first came.
    #[must_use]
    pub fn of(rows: &[(EngineName, Row)], objects: usize) -> Vec<Self> {
        let mut groups: Vec<Vec<&(EngineName, Row)>> = Vec::new();
        for row in rows {
            let same = |group: &&mut Vec<&(EngineName, Row)>| {
                group.iter().any(|(engine, other)| {
                    *engine == row.0 && other.workload == row.1.workload && other.variant == row.1.variant
                })
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        groups.into_iter().filter_map(|group| Self::of_group(group, objects)).collect()
    }

    /// The upper of the two in the middle of an even number of rounds: every figure is one that was measured.
    fn of_group(mut rounds: Vec<&(EngineName, Row)>, objects: usize) -> Option<Self> {
        rounds.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let (engine, median) = rounds.get(rounds.len() / 2)?;
        Some(Self {
            workload: median.workload.clone(),
            variant: median.variant.clone(),
            engine: engine.name(),
            objects,
            unit: median.unit.clone(),
            min: rounds.first()?.1.value,
            median: median.value,
            max: rounds.last()?.1.value,
            extra: median.extra.clone(),
        })
    }

    /// How much memory the run took at its peak beyond what was resident at its start.
    #[must_use]
    pub fn peak_over_start(&self) -> Option<u64> {
        let bytes = |name| self.extra.get(name).and_then(Value::as_u64);
        Some(bytes("peak_bytes")?.saturating_sub(bytes("start_bytes")?))
    }

    /// How many times as fast `base` is as this.
    #[must_use]
    pub fn times_slower_than(&self, base: &Self) -> f64 {
        if self.unit == "1/s" { base.median / self.median } else { self.median / base.median }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Workload;

    #[test]
    fn rounds_become_a_median_with_its_spread() {
        let rows: Vec<_> = [3.0, 1.0, 2.0]
            .map(|value| (EngineName::Mutex, Row::new(Workload::Relist, "", "s", value)))
            .into_iter()
            .chain([(EngineName::Floor, Row::new(Workload::Relist, "", "s", 0.5))])
            .collect();
        let sums = Summary::of(&rows, 10);
        assert_eq!(sums.len(), 2);
        assert_eq!((sums[0].min, sums[0].median, sums[0].max), (1.0, 2.0, 3.0));
        assert!((sums[0].times_slower_than(&sums[1]) - 4.0).abs() < 1e-9);
    }
}
