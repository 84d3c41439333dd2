//! Notes about incomplete rounds.

use serde_json::{Map, Value};

use super::figure::{count, samples};
use super::percentile::is_the_largest;

/// Describes how a round is incomplete: for example it has few samples, or offers were not made in
/// time. The text is empty if the round is complete.
pub(super) fn losses(variant: &str, extra: &Map<String, Value>) -> String {
    let mut losses = Vec::new();
    if let Some(samples) = number(extra, "samples").filter(|_| is_the_largest(variant, extra)) {
        let samples = self::samples(samples);
        losses.push(format!("the largest of {samples}, too few for a percentile"));
    }
    if let (Some(made), Some(intended)) =
        (number(extra, "offers_made"), number(extra, "offers_intended"))
        && made < intended
    {
        losses.push(format!("only {} of {} offers made", count(made), count(intended)));
    }
    if let Some(unhandled) = number(extra, "unhandled").filter(|unhandled| *unhandled > 0) {
        losses.push(format!("{} unhandled after a minute", count(unhandled)));
    }
    if extra.get("relist_starved").and_then(Value::as_bool) == Some(true) {
        losses.push("a relist did not end until the readers were stopped".to_owned());
    }
    if extra.contains_key("peak_note") {
        losses.push("the peak is that of the whole process".to_owned());
    }
    losses.join(", ")
}

pub(super) fn number(extra: &Map<String, Value>, name: &str) -> Option<usize> {
    usize::try_from(extra.get(name)?.as_u64()?).ok()
}
