//! Latency histograms, for all workloads that measure a distribution.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

use crate::names::Workload;
use crate::protocol::Row;

/// The longest time that is recorded, in nanoseconds: an hour. A longer time counts as an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Number of significant digits of each time.
const DIGITS: u8 = 3;
/// The quantiles of the field `curve`.
const CURVE: [f64; 13] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0];

/// The name of a quantile in variants, and the quantile.
pub type Quantile = (&'static str, f64);

pub const P50: Quantile = ("p50", 0.5);
pub const P99: Quantile = ("p99", 0.99);
pub const P99_9: Quantile = ("p99.9", 0.999);
pub const P99_99: Quantile = ("p99.99", 0.9999);
pub const MAX: Quantile = ("max", 1.0);

/// A histogram of times.
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are in order"))
    }

    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST));
    }

    /// Returns the number of recorded times.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    fn seconds(&self, quantile: f64) -> f64 {
        Duration::from_nanos(self.0.value_at_quantile(quantile)).as_secs_f64()
    }

    /// Returns the rows of these quantiles. Each has the number of samples and the largest sample,
    /// because a percentile of few samples is not shown (`report/percentile.rs`). The row of the
    /// median also has the field `curve`: pairs of a quantile and its time in seconds.
    pub fn rows(
        &self,
        workload: Workload,
        prefix: &str,
        quantiles: &[Quantile],
        extra: &Map<String, Value>,
    ) -> Vec<Row> {
        let row = |(name, quantile): &Quantile| {
            let mut extra = extra.clone();
            extra.insert("samples".into(), self.len().into());
            extra.insert("largest".into(), self.seconds(MAX.1).into());
            if *name == P50.0 {
                let curve = CURVE.iter().map(|at| vec![*at, self.seconds(*at)]);
                extra.insert("curve".into(), curve.collect());
            }
            let variant = format!("{prefix}{name}");
            Row { extra, ..Row::new(workload, &variant, "s", self.seconds(*quantile)) }
        };
        quantiles.iter().map(row).collect()
    }
}

impl std::ops::AddAssign<&Self> for Latencies {
    fn add_assign(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(seconds: f64, micros: f64) -> bool {
        (seconds * 1e6 / micros - 1.0).abs() < 2e-3
    }

    #[test]
    fn quantiles_are_those_of_the_recorded_times() {
        let (mut all, mut slow) = (Latencies::new(), Latencies::new());
        (1..=900).for_each(|micros| all.record(Duration::from_micros(micros)));
        (901..=1000).for_each(|micros| slow.record(Duration::from_micros(micros)));
        all += &slow;
        assert_eq!(all.len(), 1000);
        for (share, micros) in
            [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)]
        {
            assert!(near(all.seconds(share), micros), "{share}: {}", all.seconds(share));
        }
        slow.record(Duration::from_secs(10_000));
        assert!(near(slow.seconds(1.0), 3.6e9), "what is too long counts as the longest");
    }

    #[test]
    fn rows_have_their_samples_and_the_row_of_the_median_has_the_curve() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        let rows = latencies.rows(Workload::Stall, "add-", &[P50, MAX], &Map::new());
        let variants: Vec<_> = rows.iter().map(|row| row.variant.as_str()).collect();
        assert_eq!(variants, ["add-p50", "add-max"]);
        for row in &rows {
            assert_eq!(row.extra["samples"], 1000);
            assert_eq!(row.extra["largest"], rows[1].value);
        }
        let curve: Vec<(f64, f64)> =
            serde_json::from_value(rows[0].extra["curve"].clone()).expect("pairs");
        assert_eq!(curve.iter().map(|point| point.0).collect::<Vec<_>>(), CURVE);
        assert!(near(curve[2].1, 500.0) && near(curve[12].1, 1000.0), "{curve:?}");
        assert!(!rows[1].extra.contains_key("curve"));
    }
}
