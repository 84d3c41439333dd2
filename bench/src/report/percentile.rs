//! The rule that percentiles need enough samples. A row with too few samples for its percentile
//! shows the largest sample instead, and a plot leaves the percentile out.

use serde_json::{Map, Value};

use crate::protocol::Row;

/// The smallest number of samples that must lie beyond a percentile. With fewer, the percentile
/// depends on one or two samples.
const BEYOND: f64 = 10.0;

/// Returns whether this many samples suffice for a quantile.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn has(samples: u64, quantile: f64) -> bool {
    // The small difference is for rounding errors, as of 0.999.
    samples as f64 * (1.0 - quantile) >= BEYOND - 1e-6
}

/// Returns the quantile in the name of a variant: 0.999 for `add-p99.9`. Returns `None` for
/// `add-max`, for which one sample suffices.
fn quantile(variant: &str) -> Option<f64> {
    let (_, percent) = variant.rsplit_once('-')?;
    Some(percent.strip_prefix('p')?.parse::<f64>().ok()? / 100.0)
}

/// Returns the number of samples of a row; `None` if the row has none.
fn samples(extra: &Map<String, Value>) -> Option<u64> {
    extra.get("samples")?.as_u64()
}

/// Returns whether a row shows its largest sample instead of the percentile in its name.
pub(super) fn is_the_largest(variant: &str, extra: &Map<String, Value>) -> bool {
    samples(extra).zip(quantile(variant)).is_some_and(|(samples, quantile)| !has(samples, quantile))
}

/// Returns the figure to show for a row: its largest sample if the row has too few samples for its
/// percentile, and otherwise its value.
pub(super) fn figure(row: &Row) -> f64 {
    let largest = row.extra.get("largest").and_then(Value::as_f64);
    largest.filter(|_| is_the_largest(&row.variant, &row.extra)).unwrap_or(row.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Workload;

    fn row(variant: &str, samples: u64) -> Row {
        let mut row = Row::new(Workload::Stall, variant, "s", 1.0);
        row.extra.insert("samples".into(), samples.into());
        row.extra.insert("largest".into(), 9.0.into());
        row
    }

    fn is(row: &Row, shown: f64) -> bool {
        figure(row).total_cmp(&shown).is_eq()
    }

    #[test]
    fn percentile_needs_ten_samples_beyond_it() {
        for (variant, least) in [
            ("add-p50", 20),
            ("handled-p99", 1_000),
            ("1-thread-p99.9", 10_000),
            ("p-p99.99", 100_000),
        ] {
            assert!(is(&row(variant, least), 1.0), "{variant}");
            assert!(is(&row(variant, least - 1), 9.0), "{variant}");
        }
        assert!(is(&row("add-max", 1), 1.0));
        assert!(is(&Row::new(Workload::Events, "uniform-1x1", "1/s", 1.0), 1.0));
    }
}
