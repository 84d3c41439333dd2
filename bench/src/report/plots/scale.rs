//! The scales of axes, and the places of their labels.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// A logarithmic axis, or one that starts at zero.
#[derive(Clone)]
pub struct Scale {
    logarithmic: bool,
    /// The ends of the axis. For a logarithmic axis the ends and the labels are logarithms.
    ends: Range<f64>,
    labels: Vec<f64>,
}

impl Scale {
    /// Creates a logarithmic axis with room for all positive values, and for about `room` labels.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>, room: f64) -> Self {
        let positive = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = positive
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low.log10(), high.log10()) } else { (-6.0, 0.0) };
        // At least one decade, so that noise does not look like a difference.
        let more = ((1.0 - (high - low)) / 2.0).max(0.04 * (high - low));
        Self::decades(low - more..high + more, room)
    }

    /// Creates a logarithmic axis between two powers of ten, given by their exponents.
    pub fn decades(ends: Range<f64>, room: f64) -> Self {
        let length = ends.end - ends.start;
        let steps: &[f64] = if 3.0 * length > room { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let every = (length / room).ceil();
        let mut labels = Vec::new();
        let mut decade = (ends.start / every).floor() * every;
        while decade <= ends.end {
            let on_axis = |label: &f64| (ends.start..=ends.end).contains(label);
            labels.extend(steps.iter().map(|step| decade + step.log10()).filter(on_axis));
            decade += every;
        }
        Self { logarithmic: true, ends, labels }
    }

    /// Creates an axis from zero to slightly more than the largest value.
    pub fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let high = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let high = if high > 0.0 { high * 1.05 } else { 1.0 };
        // The step is the smallest of 1, 2 and 5 times a power of ten that gives at most three
        // labels in addition to zero.
        let least = high / 4.0;
        let decade = 10_f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0].map(|step| step * decade).into_iter().find(|step| *step > least);
        let step = step.unwrap_or(10.0 * decade);
        let labels =
            (0_u8..4).map(|label| f64::from(label) * step).filter(|label| *label <= high).collect();
        Self { logarithmic: false, ends: 0.0..high, labels }
    }

    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    fn value(&self, place: f64) -> f64 {
        if self.logarithmic { 10_f64.powf(place) } else { place }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    /// Maps a value to a pixel. A value that is not on the axis, such as zero on a logarithmic
    /// axis, is mapped to the nearer end.
    #[expect(clippy::cast_possible_truncation, reason = "pixels")]
    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let place = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { *value };
        let place = place.clamp(self.ends.start, self.ends.end);
        let share = (place - self.ends.start) / (self.ends.end - self.ends.start);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.labels.iter().map(|place| self.value(*place)).collect()
    }

    fn range(&self) -> Range<f64> {
        self.value(self.ends.start)..self.value(self.ends.end)
    }
}

/// Returns a rounded value with its unit: `1/s`, `s`, `B`, or none.
pub fn label(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 6] =
        [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ")];
    let unit = if unit == "1/s" { "/s" } else { unit };
    let fits =
        |(factor, _): &&(f64, &str)| value >= factor * 0.999 && !(unit == "s" && *factor > 1.0);
    let (factor, prefix) = match PREFIXES.iter().find(fits) {
        Some(prefix) => *prefix,
        None if value > 0.0 => (1e-9, "n"),
        None => (1.0, ""),
    };
    // Removes rounding errors, as of 0.1 + 0.2.
    let rounded = (value / factor * 100.0).round() / 100.0;
    format!("{rounded} {prefix}{unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale, unit: &str) -> Vec<String> {
        scale.labels.iter().map(|place| label(scale.value(*place), unit)).collect()
    }

    #[test]
    fn few_decades_have_labels_between_them() {
        assert_eq!(
            labels(&Scale::logarithmic([0.0008, 5.0], 6.0), "s"),
            ["1 ms", "10 ms", "100 ms", "1 s"]
        );
        assert_eq!(
            labels(&Scale::logarithmic([2e5, 2.1e6], 6.0), "1/s"),
            ["200 k/s", "500 k/s", "1 M/s", "2 M/s"]
        );
        assert_eq!(
            labels(&Scale::logarithmic([1e-9, 100.0], 6.0), "s"),
            ["10 ns", "1 µs", "100 µs", "10 ms", "1 s", "100 s"]
        );
        assert_eq!(labels(&Scale::logarithmic([10_000.0, 4e6], 6.0), ""), ["10 k", "100 k", "1 M"]);
    }

    #[test]
    fn axis_from_zero_has_a_label_at_zero() {
        assert_eq!(labels(&Scale::from_zero([64.0, 950.0]), "B"), ["0 B", "500 B"]);
        assert_eq!(labels(&Scale::from_zero([2100.0]), "B"), ["0 B", "1 kB", "2 kB"]);
    }

    #[test]
    fn unusual_values_are_mapped_onto_the_axis() {
        let odd = [
            &[][..],
            &[0.0],
            &[0.0, 0.0],
            &[f64::NAN],
            &[f64::INFINITY],
            &[-1.0],
            &[3.0],
            &[1e-300, 1e300],
        ];
        for values in odd {
            for scale in [
                Scale::logarithmic(values.iter().copied(), 6.0),
                Scale::from_zero(values.iter().copied()),
            ] {
                assert!(scale.ends.start < scale.ends.end, "{values:?}");
                assert!(
                    !scale.labels.is_empty() && scale.labels.len() < 16,
                    "{values:?}: {:?}",
                    scale.labels
                );
                let places = [0.0, 1.0, 1e9].map(|value| scale.map(&value, (100, 300)));
                assert!(
                    places.iter().all(|place| (100..=300).contains(place)),
                    "{values:?}: {places:?}"
                );
            }
        }
    }
}
