//! What must be read beside a figure: a latency of few offers is not that of many. An open loop that got no turn, or whose
//! offers were still waiting at the end, has figures of what it did.

use serde_json::Value;

use super::Summary;
use super::figure::count;

/// Of a stall's row, how many offers were not made, or not handled in time; empty when all were.
pub(super) fn remark(row: &Summary) -> String {
    let number = |name| row.extra.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let mut remarks = Vec::new();
    if let (Some(made), Some(intended)) = (number("offers_made"), number("offers_intended"))
        && made < intended
    {
        remarks.push(format!("only {} of {} offers made", count(made), count(intended)));
    }
    if let Some(unhandled) = number("unhandled").filter(|unhandled| *unhandled > 0) {
        remarks.push(format!("{} unhandled", count(unhandled)));
    }
    remarks.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(extra: &Value) -> String {
        let row = json!({
            "workload": "stall", "variant": "add-p99", "engine": "mutex", "objects": 10, "unit": "s",
            "min": 1.0, "median": 1.0, "max": 1.0, "extra": extra
        });
        remark(&serde_json::from_value(row).expect("a row"))
    }

    #[test]
    fn only_what_is_missing_is_said() {
        assert_eq!(said(&json!({})), "");
        assert_eq!(said(&json!({ "offers_made": 5000, "offers_intended": 5000, "unhandled": 0 })), "");
        let few = json!({ "offers_made": 47, "offers_intended": 5000, "unhandled": 3 });
        assert_eq!(said(&few), "only 47 of 5,000 offers made, 3 unhandled");
    }
}
