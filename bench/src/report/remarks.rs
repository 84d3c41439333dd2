//! What a person is to know of a figure beside the figure: what `extra` says and the row's name does not.

use serde_json::Value;

use super::Summary;
use super::figure::count;

impl Summary {
    /// In words; empty if there is nothing.
    pub(super) fn remarks(&self) -> String {
        let mut remarks = Vec::new();
        // A latency of few offers is not that of many: an open loop that got no turn has figures of what it did.
        let number =
            |name| self.extra.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        if let (Some(made), Some(intended)) = (number("offers_made"), number("offers_intended"))
            && made < intended
        {
            remarks.push(format!("only {} of {} offers made", count(made), count(intended)));
        }
        if let Some(unhandled) = number("unhandled").filter(|unhandled| *unhandled > 0) {
            remarks.push(format!("{} unhandled", count(unhandled)));
        }
        if self.extra.get("relist_starved").and_then(Value::as_bool) == Some(true) {
            remarks.push("a relist did not end until the readers were stopped".to_owned());
        }
        if let Some(deltas) = self.extra.get("deltas_per_pop").and_then(Value::as_f64) {
            remarks.push(format!("{deltas:.2} deltas per pop"));
        }
        if let Some(objects) = self.extra.get("objects_per_call").and_then(Value::as_f64) {
            remarks.push(format!("{objects:.0} objects a call"));
        }
        // client-go's RealFIFO is popped by one, whatever the row is called.
        let consumers = self.extra.get("consumers").and_then(Value::as_u64);
        if let Some(consumers) = consumers.filter(|_| consumers != named_consumers(&self.variant)) {
            remarks.push(format!("{consumers} consumer{}", if consumers == 1 { "" } else { "s" }));
        }
        remarks.join(", ")
    }
}

/// How many consumers a variant is called after: `zipf-2x4` and `1us-4-consumers-rate` after four.
fn named_consumers(variant: &str) -> Option<u64> {
    let parts: Vec<_> = variant.split('-').collect();
    let spelled = parts.windows(2).find(|pair| pair[1].starts_with("consumer")).map(|pair| pair[0]);
    let crossed = || parts.iter().find_map(|part| part.split_once('x').map(|(_, consumers)| consumers));
    spelled.or_else(crossed)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn remarks(extra: &Value) -> String {
        let row = json!({
            "workload": "stall", "variant": "add-p99", "engine": "mutex", "objects": 10, "unit": "s",
            "min": 1.0, "median": 1.0, "max": 1.0, "extra": extra
        });
        serde_json::from_value::<Summary>(row).expect("a row").remarks()
    }

    #[test]
    fn of_offers_only_what_is_missing_is_said_and_of_calls_what_they_found() {
        assert_eq!(remarks(&json!({})), "");
        assert_eq!(remarks(&json!({ "offers_made": 5000, "offers_intended": 5000, "unhandled": 0 })), "");
        let few = json!({ "offers_made": 47, "offers_intended": 5000, "unhandled": 3 });
        assert_eq!(remarks(&few), "only 47 of 5,000 offers made, 3 unhandled");
        assert_eq!(remarks(&json!({ "objects_per_call": 1999.7 })), "2000 objects a call");
        let starved = json!({ "relist_starved": true, "gets": 9 });
        assert_eq!(remarks(&starved), "a relist did not end until the readers were stopped");
    }

    #[test]
    fn variants_name_their_consumers() {
        let cases = [
            ("zipf-2x4-burst", Some(4)),
            ("uniform-1x1", Some(1)),
            ("10us-4-consumers-add-p50", Some(4)),
            ("0us-1-consumer-rate", Some(1)),
            ("", None),
            ("add-max", None),
        ];
        for (variant, consumers) in cases {
            assert_eq!(named_consumers(variant), consumers, "{variant}");
        }
    }
}
