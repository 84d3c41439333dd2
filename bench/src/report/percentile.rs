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

/// A point of a curve: quantile and seconds.
type Place = (f64, f64);

/// Returns the curve of a row, as its process recorded it.
fn places(row: &Row) -> Vec<Place> {
    row.extra
        .get("curve")
        .and_then(|curve| serde_json::from_value(curve.clone()).ok())
        .unwrap_or_default()
}

/// Returns the curve that summarises several rounds. `middle` is the index of the median among the
/// rounds' values of a percentile, in ascending order.
///
/// For each percentile the curve has the median of the values of the rounds, with the number of
/// samples of the round that has this median. So different points may come from different rounds.
/// In a round with too few samples for a percentile, the largest sample counts as its value; if
/// that is the median, the percentile is left out. The point of the largest sample is always
/// included.
pub(super) fn curve(rounds: &[&Row], middle: usize) -> Value {
    let curves: Vec<(Vec<Place>, u64)> =
        rounds.iter().map(|row| (places(row), samples(&row.extra).unwrap_or(u64::MAX))).collect();
    let Some((first, _)) = curves.first() else { return Value::Null };
    let at = |(place, (quantile, _)): (usize, &Place)| {
        let is_shown = |samples| *quantile >= 1.0 || has(samples, *quantile);
        let mut shown: Vec<(f64, u64)> = curves
            .iter()
            .filter_map(|(places, samples)| {
                let place = if is_shown(*samples) { places.get(place) } else { places.last() };
                Some((place?.1, *samples))
            })
            .collect();
        shown.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (seconds, samples) = *shown.get(middle)?;
        is_shown(samples).then(|| serde_json::json!([quantile, seconds, samples]))
    };
    first.iter().enumerate().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::Workload;

    fn row(variant: &str, samples: u64) -> Row {
        let mut row = Row::new(Workload::Stall, variant, "s", 1.0);
        row.extra.insert("samples".into(), samples.into());
        row.extra.insert("largest".into(), 9.0.into());
        row.extra.insert("curve".into(), json!([[0.5, 1.0], [0.99, 2.0], [1.0, 9.0]]));
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

    #[test]
    fn curve_has_the_figures_of_the_rows() {
        let (few, many, slow) = (row("add-p50", 30), row("add-p50", 5_000), {
            let mut slow = row("add-p50", 5_000);
            slow.extra["curve"] = json!([[0.5, 0.5], [0.99, 12.0], [1.0, 13.0]]);
            slow
        });
        // 30 samples are too few for the 99th percentile.
        assert_eq!(curve(&[&few], 0), json!([[0.5, 1.0, 30], [1.0, 9.0, 30]]));
        // Each point is the worse of the two.
        assert_eq!(
            curve(&[&slow, &many], 1),
            json!([[0.5, 1.0, 5000], [0.99, 12.0, 5000], [1.0, 13.0, 5000]])
        );
        // The worse of the two is the largest of a few samples.
        assert_eq!(curve(&[&many, &few], 1), json!([[0.5, 1.0, 30], [1.0, 9.0, 30]]));
    }
}
