//! When a percentile is one. A row that is called after a percentile which its samples do not have
//! shows the largest of them instead, and a plot leaves the percentile out.

use serde_json::{Map, Value};

use crate::protocol::Row;

/// So many samples must lie beyond a percentile: with fewer it is where one or two of them
/// happened to fall.
const BEYOND: f64 = 10.0;

/// Whether so many samples have a percentile.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn has(samples: u64, quantile: f64) -> bool {
    // Less what 0.999 and its like are wrong by.
    samples as f64 * (1.0 - quantile) >= BEYOND - 1e-6
}

/// 0.999 of `add-p99.9`; nothing of `add-max`, which the fewest samples have.
fn quantile(variant: &str) -> Option<f64> {
    let (_, percent) = variant.rsplit_once('-')?;
    Some(percent.strip_prefix('p')?.parse::<f64>().ok()? / 100.0)
}

/// How many samples a row of a distribution is from.
fn samples(extra: &Map<String, Value>) -> Option<u64> {
    extra.get("samples")?.as_u64()
}

/// Whether a row has its largest sample in the place of the percentile that it is called after.
pub(super) fn is_the_largest(variant: &str, extra: &Map<String, Value>) -> bool {
    samples(extra).zip(quantile(variant)).is_some_and(|(samples, quantile)| !has(samples, quantile))
}

/// What a row shows.
pub(super) fn figure(row: &Row) -> f64 {
    let largest = row.extra.get("largest").and_then(Value::as_f64);
    largest.filter(|_| is_the_largest(&row.variant, &row.extra)).unwrap_or(row.value)
}

/// One place of a curve: its quantile, and the seconds there.
type Place = (f64, f64);

/// The curve of a row, as its process noted it.
fn places(row: &Row) -> Vec<Place> {
    row.extra
        .get("curve")
        .and_then(|curve| serde_json::from_value(curve.clone()).ok())
        .unwrap_or_default()
}

/// What is plotted of several rounds: at each percentile what a row of it shows, that of the round
/// in the middle, with that round's number of samples. So no two figures of a distribution need be
/// of one round, in the plot as in the rows. Where the round in the middle has too few samples,
/// the percentile is left out; the largest sample is always there.
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
    fn a_percentile_has_ten_samples_beyond_it() {
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
    fn a_curve_has_what_the_rows_show() {
        let (few, many, slow) = (row("add-p50", 30), row("add-p50", 5_000), {
            let mut slow = row("add-p50", 5_000);
            slow.extra["curve"] = json!([[0.5, 0.5], [0.99, 12.0], [1.0, 13.0]]);
            slow
        });
        // Of few samples the 99th percentile is none.
        assert_eq!(curve(&[&few], 0), json!([[0.5, 1.0, 30], [1.0, 9.0, 30]]));
        // Each is the worse of the two.
        assert_eq!(
            curve(&[&slow, &many], 1),
            json!([[0.5, 1.0, 5000], [0.99, 12.0, 5000], [1.0, 13.0, 5000]])
        );
        // The worse of the two is the largest of few.
        assert_eq!(curve(&[&many, &few], 1), json!([[0.5, 1.0, 30], [1.0, 9.0, 30]]));
    }
}
