//! A row: a figure, the figure of an unsharded controller, and the bar.

use serde_json::{Value, json};

/// A measured figure with its bar.
pub(crate) struct Row {
    name: String,
    unit: &'static str,
    value: f64,
    /// The largest value that holds.
    bar: Option<f64>,
    /// The figure of a controller without a group.
    unsharded: Option<f64>,
}

/// Converts a count.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn count(count: usize) -> f64 {
    count as f64
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self { name: name.into(), unit, value, bar: None, unsharded: None }
    }

    pub(crate) fn bar(self, bar: f64) -> Self {
        Self { bar: Some(bar), ..self }
    }

    pub(crate) fn unsharded(self, unsharded: f64) -> Self {
        Self { unsharded: Some(unsharded), ..self }
    }

    fn is_held(&self) -> Option<bool> {
        self.bar.map(|bar| self.value <= bar)
    }

    fn verdict(&self) -> &'static str {
        self.is_held().map_or("", |is_held| if is_held { "held" } else { "missed" })
    }

    pub(crate) fn print_head() {
        println!("{:72} {:>10} {:>10} {:>10}  unit", "row", "figure", "bar", "unsharded");
    }

    pub(crate) fn print(&self) {
        let figure =
            |value: f64| if value < 100.0 { format!("{value:.3}") } else { format!("{value:.0}") };
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), figure);
        let (name, unit, verdict) = (&self.name, self.unit, self.verdict());
        let [value, bar, unsharded] = [Some(self.value), self.bar, self.unsharded].map(optional);
        println!("{name:72} {value:>10} {bar:>10} {unsharded:>10}  {unit}  {verdict}");
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "row": self.name, "unit": self.unit, "value": self.value, "bar": self.bar,
            "unsharded": self.unsharded, "held": self.is_held(),
        })
    }
}
