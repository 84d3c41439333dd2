//! A test that the dashboard of the example `metrics` shows exactly the existing metrics.

use std::collections::BTreeSet;

use deltafifo_informer::metrics::{ALL, Kind};
use serde_json::Value;

/// Collects every query of the dashboard, at any depth.
fn queries<'j>(json: &'j Value, found: &mut Vec<&'j str>) {
    match json {
        Value::Array(all) => all.iter().for_each(|one| queries(one, found)),
        Value::Object(all) => {
            for (key, value) in all {
                match value.as_str() {
                    Some(text) if ["expr", "query", "definition"].contains(&key.as_str()) => {
                        found.push(text);
                    }
                    _ => queries(value, found),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn dashboard_shows_exactly_the_existing_metrics() {
    let dashboard: Value =
        serde_json::from_str(include_str!("../../examples/metrics/dashboard.json")).unwrap();
    let mut all = Vec::new();
    queries(&dashboard, &mut all);
    let words =
        all.iter().flat_map(|query| query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let shown: BTreeSet<_> = words
        .filter(|word| word.starts_with("reflector_") || word.starts_with("informer_"))
        .collect();
    let is_of = |shown: &str, name: &str, kind: Kind| match shown.strip_prefix(name) {
        Some("_bucket" | "_sum" | "_count") => kind == Kind::Histogram,
        Some("") => kind != Kind::Histogram,
        _ => false,
    };
    for shown in &shown {
        assert!(
            ALL.iter().any(|metric| is_of(shown, metric.name, metric.kind)),
            "missing: {shown}"
        );
    }
    for metric in ALL {
        assert!(
            shown.iter().any(|shown| is_of(shown, metric.name, metric.kind)),
            "{} is not shown",
            metric.name
        );
    }
}
