//! Minimum, median and maximum of the rows of all rounds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::percentile;
use super::remarks::losses;
use crate::protocol::{Measured, Row};

/// A figure of an engine, over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    pub workload: String,
    /// The figure's name within the workload; empty if the workload has one figure.
    pub variant: String,
    pub engine: String,
    pub objects: usize,
    /// The unit: `s`, `1/s` or `B`.
    pub unit: String,
    pub min: f64,
    /// The median. If the number of rounds is even, the worse of the two values in the middle.
    pub median: f64,
    pub max: f64,
    /// The figure of each round, in order.
    pub rounds: Vec<f64>,
    /// The number of rounds without this figure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_rounds: usize,
    /// A note for each incomplete round except the median round: for example, that it has few
    /// samples, or that offers were not made in time. The note about the median round is made from
    /// `extra`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_rounds: Vec<String>,
    /// The other values of the median round.
    pub extra: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Summary {
    /// Summarises the rows of `rounds` rounds, in the order in which the figures first occur.
    pub fn of(rows: &[Measured], rounds: usize) -> Vec<Self> {
        let mut groups: Vec<Vec<&Measured>> = Vec::new();
        for measured in rows {
            match groups.iter_mut().find(|group| kind(group[0]) == kind(measured)) {
                Some(group) => group.push(measured),
                None => groups.push(vec![measured]),
            }
        }
        groups.into_iter().filter_map(|group| Self::of_group(&group, rounds)).collect()
    }

    /// Summarises the rows of one figure. The median of an even number of rounds is the worse of
    /// the two values in the middle, so that every median is a value that was measured. Returns
    /// `None` if `group` is empty.
    fn of_group(group: &[&Measured], rounds: usize) -> Option<Self> {
        let of_rounds: Vec<f64> =
            group.iter().map(|measured| percentile::figure(&measured.row)).collect();
        let mut sorted: Vec<(f64, &Row)> =
            of_rounds.iter().copied().zip(group.iter().map(|one| &one.row)).collect();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let middle =
            if group.first()?.row.unit == RATE { (group.len() - 1) / 2 } else { group.len() / 2 };
        let (median, shown) = *sorted.get(middle)?;
        let others = sorted.iter().map(|(_, row)| *row).filter(|row| !std::ptr::eq(*row, shown));
        Some(Self {
            workload: shown.workload.clone(),
            variant: shown.variant.clone(),
            engine: group.first()?.engine.clone(),
            objects: group.first()?.objects,
            unit: shown.unit.clone(),
            min: sorted.first()?.0,
            median,
            max: sorted.last()?.0,
            missing_rounds: rounds.saturating_sub(group.len()),
            other_rounds: others
                .map(|row| losses(&row.variant, &row.extra))
                .filter(|lost| !lost.is_empty())
                .collect(),
            rounds: of_rounds,
            extra: shown.extra.clone(),
        })
    }

    /// Returns the workload and variant.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.workload, self.variant).trim_end().to_owned()
    }

    /// Returns the growth of the memory from the start of the measurement to its peak, in bytes.
    /// Returns `None` if the summary does not have both values.
    pub fn peak_over_start(&self) -> Option<u64> {
        let bytes = |name| self.extra.get(name).and_then(Value::as_u64);
        Some(bytes("peak_bytes")?.saturating_sub(bytes("start_bytes")?))
    }

    /// Returns how many times worse than `base` this figure is, as the ratio of the medians. The
    /// ratio is above 1 if `base` has the larger rate, the shorter time or less memory. Returns
    /// `None` if the ratio is not finite, as for a time of zero.
    pub fn times_slower_than(&self, base: &Self) -> Option<f64> {
        let ratio =
            if self.unit == RATE { base.median / self.median } else { self.median / base.median };
        ratio.is_finite().then_some(ratio)
    }
}

/// The unit of rates: a larger value is better.
const RATE: &str = "1/s";

/// Returns the values that identify a figure: they are equal in all of its rows.
fn kind(of: &Measured) -> (&str, usize, &str, &str) {
    (&of.engine, of.objects, &of.row.workload, &of.row.variant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{EngineName, Workload};

    fn measured(engine: EngineName, objects: usize, value: f64) -> Measured {
        Measured::new(engine, objects, Row::new(Workload::Relist, "", "s", value))
    }

    #[test]
    fn rounds_become_a_median_with_its_spread() {
        let mut rows: Vec<_> =
            [3.0, 1.0, 2.0].map(|value| measured(EngineName::Mutex, 10, value)).into();
        rows.extend([measured(EngineName::Floor, 10, 0.5), measured(EngineName::Mutex, 20, 9.0)]);
        let sums = Summary::of(&rows, 3);
        assert_eq!(sums.len(), 3);
        assert_eq!((sums[0].min, sums[0].median, sums[0].max), (1.0, 2.0, 3.0));
        assert_eq!(
            (sums[0].rounds.as_slice(), sums[0].missing_rounds),
            ([3.0, 1.0, 2.0].as_slice(), 0)
        );
        assert_eq!(sums[1].missing_rounds, 2);
        assert_eq!((sums[2].objects, sums[2].median), (20, 9.0));
        assert_eq!(sums[0].times_slower_than(&sums[1]), Some(4.0));
        let zero = Summary { median: 0.0, ..sums[1].clone() };
        assert_eq!(sums[0].times_slower_than(&zero), None);
    }

    #[test]
    fn median_of_two_rounds_is_the_worse_one() {
        let time = [1.0, 2.0].map(|value| measured(EngineName::Mutex, 10, value));
        let (least, most) = (1.0, 2.0);
        let sum = &Summary::of(&time, 2)[0];
        assert_eq!((sum.min, sum.median, sum.max), (least, most, most));
        let rate = time.map(|two| Measured { row: Row { unit: "1/s".into(), ..two.row }, ..two });
        let sum = &Summary::of(&rate, 2)[0];
        assert_eq!((sum.min, sum.median, sum.max), (least, least, most));
    }
}
