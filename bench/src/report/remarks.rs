//! Remarks about a figure: rounds that are missing or incomplete, and facts in [`Summary::extra`]
//! that are not part of the row's name.

use serde_json::{Map, Value};

use super::figure::count;
use super::percentile::is_the_largest;
use super::summary::Summary;

impl Summary {
    /// Returns the remarks; empty if there are none.
    pub(super) fn remarks(&self) -> String {
        let mut remarks = Vec::new();
        if self.missing_rounds > 0 {
            remarks.push(format!(
                "ONLY {} of {} rounds",
                self.rounds.len(),
                self.rounds.len() + self.missing_rounds
            ));
        }
        if let Some(samples) =
            number(&self.extra, "samples").filter(|_| !is_the_largest(&self.variant, &self.extra))
        {
            remarks.push(format!("{} samples", count(samples)));
        }
        let lost = losses(&self.variant, &self.extra);
        if !lost.is_empty() {
            remarks.push(lost);
        }
        if let (Some(made), Some(offers)) =
            (number(&self.extra, "offers_made"), number(&self.extra, "offers"))
            && offers < made
        {
            remarks.push(format!("{} offers between relists left out", count(made - offers)));
        }
        remarks.extend(self.other_rounds.iter().map(|lost| format!("another round: {lost}")));
        if let Some(deltas) = self.extra.get("deltas_per_pop").and_then(Value::as_f64) {
            remarks.push(format!("{deltas:.2} deltas per pop"));
        }
        if let Some(objects) = self.extra.get("objects_per_call").and_then(Value::as_f64) {
            remarks.push(format!("{objects:.0} objects a call"));
        }
        remarks.join(", ")
    }
}

/// Describes how a round is incomplete: for example it has few samples, or offers were not made in
/// time. The text is empty if the round is complete.
pub(super) fn losses(variant: &str, extra: &Map<String, Value>) -> String {
    let mut losses = Vec::new();
    if let Some(samples) = number(extra, "samples").filter(|_| is_the_largest(variant, extra)) {
        let (number, plural) = (count(samples), if samples == 1 { "" } else { "s" });
        losses.push(format!("the largest of {number} sample{plural}, too few for a percentile"));
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

fn number(extra: &Map<String, Value>, name: &str) -> Option<usize> {
    usize::try_from(extra.get(name)?.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::{EngineName, Workload};
    use crate::protocol::{Measured, Row};

    fn remarks(extra: &Value) -> String {
        let row = json!({
            "workload": "stall", "variant": "add-p99", "engine": "mutex", "objects": 10, "unit": "s",
            "min": 1.0, "median": 1.0, "max": 1.0, "rounds": [1.0], "extra": extra
        });
        serde_json::from_value::<Summary>(row).expect("a row").remarks()
    }

    #[test]
    fn missing_offers_and_found_objects_are_remarked() {
        assert_eq!(remarks(&json!({})), "");
        assert_eq!(
            remarks(&json!({ "offers_made": 5000, "offers_intended": 5000, "unhandled": 0 })),
            ""
        );
        let few = json!({ "offers_made": 47, "offers_intended": 5000, "unhandled": 3 });
        assert_eq!(remarks(&few), "only 47 of 5,000 offers made, 3 unhandled after a minute");
        assert_eq!(remarks(&json!({ "objects_per_call": 1999.7 })), "2000 objects a call");
        let one = remarks(&json!({ "samples": 1 }));
        assert_eq!(one, "the largest of 1 sample, too few for a percentile");
        let between = json!({ "offers_made": 5000, "offers_intended": 5000, "offers": 4000, "samples": 4000 });
        assert_eq!(remarks(&between), "4,000 samples, 1,000 offers between relists left out");
        let starved = json!({ "relist_starved": true, "gets": 9 });
        assert_eq!(remarks(&starved), "a relist did not end until the readers were stopped");
    }

    #[test]
    fn missing_rounds_and_losses_of_other_rounds_are_remarked() {
        let round = |made: u32| {
            let mut row = Row::new(Workload::Stall, "add-max", "s", 1.0 / f64::from(made));
            row.extra =
                serde_json::from_value(json!({ "offers_made": made, "offers_intended": 50 }))
                    .expect("a map");
            Measured::new(EngineName::Mutex, 10, row)
        };
        let rows = Summary::of(&[round(50), round(9), round(40)], 4);
        let expected = "ONLY 3 of 4 rounds, only 40 of 50 offers made, \
                        another round: only 9 of 50 offers made";
        assert_eq!(rows[0].remarks(), expected);
    }
}
