//! Formats measured values as text.

use indicatif::{DecimalBytes, HumanCount};

/// Returns a value with its unit, with about three digits.
pub fn figure(value: f64, unit: &str) -> String {
    match unit {
        "1/s" => format!("{:.3} M/s", value / 1e6),
        "s" if value >= 0.1 => format!("{value:.3} s"),
        "s" if value >= 1e-4 => format!("{:.2} ms", value * 1e3),
        "s" if value >= 1e-6 || value == 0.0 => format!("{:.1} µs", value * 1e6),
        "s" => format!("{:.1} ns", value * 1e9),
        "B" => format!("{value:.1} B"),
        _ => format!("{value} {unit}"),
    }
}

/// Returns a size as text, as in `2.00 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    DecimalBytes(bytes).to_string()
}

/// Returns a ratio, as in `2.00 ×`.
pub(super) fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0} ×") } else { format!("{ratio:.2} ×") }
}

/// Returns a number with a comma after every three digits.
pub(super) fn count(objects: usize) -> String {
    HumanCount(objects as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_units() {
        let cases = [
            (0.0, "s", "0.0 µs"),
            (3.2e-8, "s", "32.0 ns"),
            (5e-6, "s", "5.0 µs"),
            (0.0123, "s", "12.30 ms"),
            (4.2391, "s", "4.239 s"),
            (2_100_000.0, "1/s", "2.100 M/s"),
            (63.64, "B", "63.6 B"),
        ];
        for (value, unit, shown) in cases {
            assert_eq!(figure(value, unit), shown);
        }
        assert_eq!((times(1.0).as_str(), times(40.37).as_str()), ("1.00 ×", "40 ×"));
    }
}
