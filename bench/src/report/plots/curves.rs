//! Plots of latency distributions, as in HDR plots: the quantile axis gives each further nine the
//! same width.
//!
//! A row has its curve in `extra`, under `curve`: quantile, seconds, and the number of samples. The
//! curve has the percentiles for which there are enough samples, and the largest sample. The line
//! does not reach the largest sample, because the values in between are not known.

use serde_json::Value;

use super::super::Summary;
use super::super::figure::samples;
use super::canvas::Drawn;
use super::lines::{self, Across, EngineLine, Point};
use super::scale::Scale;
use super::{Plot, largest};

/// The place of the largest sample on the axis: one decade beyond the last quantile, 0.99999.
const MAX: f64 = 1e6;
/// The percentile without which a curve gets a note that it has few samples.
const FEW: f64 = 0.99;
/// The suffix of the variants whose rows have a curve.
const CARRIER: &str = "p50";

/// Returns a plot for each distribution of a workload. All plots have the same scale.
pub fn plots(rows: &[Summary], workload: &str) -> Drawn<Vec<Plot>> {
    let rows = largest(rows, |row| row.workload == workload && row.variant.ends_with(CARRIER));
    let mut curves: Vec<(&str, Vec<EngineLine>)> = Vec::new();
    for row in rows {
        let Some(line) = line(row) else { continue };
        let variant = row.variant.trim_end_matches(CARRIER).trim_end_matches('-');
        match curves.iter_mut().find(|(other, _)| *other == variant) {
            Some((_, lines)) => lines.push(line),
            None => curves.push((variant, vec![line])),
        }
    }
    let points = curves.iter().flat_map(|(_, lines)| lines).flat_map(EngineLine::all);
    let scale = Scale::logarithmic(points.map(|point| point.y), lines::ROOM);
    let across = Across {
        scale: Scale::decades(0.0..MAX.log10(), lines::ROOM),
        described: "percentile",
        label: percentile,
    };
    let plot = |(variant, lines): &(&str, Vec<EngineLine>)| {
        let name = format!("{workload} {variant}");
        Plot::new(&name, &name, |title| lines::draw(title, lines, &across, &scale))
    };
    curves.iter().map(plot).collect()
}

/// Returns the label at `x` = 1 / (1 − quantile) on the quantile axis.
fn percentile(x: f64) -> String {
    match x {
        ..1.5 => "0".to_owned(),
        1.5..0.9e6 => format!("{}", ((100.0 - 100.0 / x) * 1e6).round() / 1e6),
        _ => "max".to_owned(),
    }
}

/// Returns the curve of a row; `None` if the row has no curve, or a curve that cannot be read.
fn line(row: &Summary) -> Option<EngineLine<'_>> {
    let places = row.extra.get("curve")?.as_array()?;
    let points: Option<Vec<_>> = places.iter().map(point).collect();
    let (apart, points): (Vec<_>, Vec<_>) = points?.into_iter().partition(|point| point.x >= MAX);
    let quantiles = places.iter().filter_map(|place| place.get(0)?.as_f64());
    let has_few = !quantiles.into_iter().any(|quantile| (FEW..1.0).contains(&quantile));
    let number = places.last()?.get(2).and_then(Value::as_u64).filter(|_| has_few);
    let number = number.and_then(|number| usize::try_from(number).ok());
    let note = number.map(samples).unwrap_or_default();
    Some(EngineLine { engine: &row.engine, points, apart: apart.into_iter().next(), note })
}

fn point(pair: &Value) -> Option<Point> {
    let (quantile, seconds) = (pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?);
    let x = (1.0 / (1.0 - quantile)).clamp(1.0, MAX);
    // Marks only at the axis labels: at 0.9, 0.99 and so on.
    let marked = (x.log10() - x.log10().round()).abs() < 1e-3;
    Some(Point { x, y: seconds, spread: None, marked })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_percentiles() {
        let labels = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6].map(percentile);
        assert_eq!(labels, ["0", "90", "99", "99.9", "99.99", "99.999", "max"]);
    }

    #[test]
    fn curve_of_few_samples_has_only_the_largest_and_a_note() {
        let row = |curve: Value| {
            let row = serde_json::json!({
                "workload": "stall", "variant": "add-p50", "engine": "mutex", "objects": 10, "unit": "s",
                "min": 1.0, "median": 1.0, "max": 1.0, "rounds": [1.0], "extra": { "curve": curve }
            });
            serde_json::from_value::<Summary>(row).expect("a row")
        };
        let few = row(serde_json::json!([[1.0, 3.0, 35]]));
        let few = line(&few).expect("a line");
        assert_eq!(
            (few.points.len(), few.apart.map(|point| point.y), few.note.as_str()),
            (0, Some(3.0), "35 samples")
        );
        let many = row(serde_json::json!([[0.5, 1.0, 2000], [0.99, 2.0, 2000], [1.0, 3.0, 2000]]));
        let many = line(&many).expect("a line");
        assert_eq!((many.points.len(), many.apart.is_some(), many.note.as_str()), (2, true, ""));
    }

    #[test]
    fn quantile_is_placed_by_its_nines() {
        let at = |quantile: f64| {
            point(&serde_json::json!([quantile, 0.5])).map(|point| (point.x.round(), point.marked))
        };
        assert_eq!(at(0.0), Some((1.0, true)));
        assert_eq!(at(0.75), Some((4.0, false)));
        assert_eq!(at(0.999), Some((1000.0, true)));
        assert_eq!(at(1.0), Some((1e6, true)));
        assert!(point(&serde_json::json!(["a", 1])).is_none());
        assert!(point(&serde_json::json!([0.5])).is_none());
    }
}
