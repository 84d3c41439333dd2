//! The faults of an applied configuration.

use std::collections::HashSet;

use serde_json::Value;

use super::fields::step;
use super::schema::Place;

/// Returns the paths of the list elements of a configuration that have no name, or the name of
/// another element, with what is wrong. These lists cannot merge.
pub(super) fn faults(value: &Value, at: &Place<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    find(value, at, "", &mut faults);
    faults
}

fn find(value: &Value, at: &Place<'_>, path: &str, faults: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                find(value, &at.field(name), &format!("{path}.{name}"), faults);
            }
        }
        Value::Array(list) => {
            let (kind, inside) = (at.list(), at.element());
            let mut known = HashSet::new();
            for (index, element) in list.iter().enumerate() {
                let inside_path = match kind.name_of(element) {
                    None => format!("{path}[{index}]"),
                    Some(Err(why)) => {
                        faults.push(format!("{path}: element {index}: {why}"));
                        continue;
                    }
                    Some(Ok(name)) => {
                        let step = step(&name);
                        if !known.insert(name) {
                            faults.push(format!("{path}: duplicate entries for key {step}"));
                            continue;
                        }
                        format!("{path}{step}")
                    }
                };
                find(element, &inside, &inside_path, faults);
            }
        }
        _ => {}
    }
}
