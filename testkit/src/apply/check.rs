//! The faults of an applied configuration.

use std::collections::HashSet;

use serde_json::Value;

use super::fields::{MOST_CAUSES, Path, Step, shortened};
use super::schema::Place;

/// Returns the paths of the list elements of a configuration that have no name, or the name of
/// another element, each with its fault. These lists cannot merge. Returns some of many.
pub(super) fn faults(value: &Value, at: &Place<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    find(value, at, None, &mut faults);
    if faults.len() > MOST_CAUSES {
        faults.truncate(MOST_CAUSES);
        faults.push("there are more errors".to_owned());
    }
    faults
}

/// Adds the faults of a value, until there are more than a refusal contains.
fn find(value: &Value, at: &Place<'_>, path: Option<&Path<'_>>, faults: &mut Vec<String>) {
    let here = || path.map(shortened).unwrap_or_default();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                find(
                    value,
                    &at.field(name),
                    Some(&Path { above: path, step: Step::Field(name) }),
                    faults,
                );
            }
        }
        Value::Array(list) => {
            let (kind, inside) = (at.list(), at.element());
            let mut known = HashSet::new();
            for (index, element) in list.iter().enumerate() {
                if faults.len() > MOST_CAUSES {
                    return;
                }
                match kind.name_of(element) {
                    None => {
                        let inside_path = Path { above: path, step: Step::Index(index) };
                        find(element, &inside, Some(&inside_path), faults);
                    }
                    Some(Err(why)) => {
                        faults.push(format!("{}: element {index}: {}", here(), shortened(why)));
                    }
                    Some(Ok(name)) if known.contains(&name) => {
                        let step = shortened(Step::Node(&name));
                        faults.push(format!("{}: duplicate entries for key {step}", here()));
                    }
                    Some(Ok(name)) => {
                        let inside_path = Path { above: path, step: Step::Node(&name) };
                        find(element, &inside, Some(&inside_path), faults);
                        known.insert(name);
                    }
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MOST_CAUSES, faults};
    use crate::Resource;
    use crate::apply::fields::LONGEST;
    use crate::apply::schema::Place;

    #[test]
    fn faults_are_few_and_short() {
        let one = json!({ "name": "a".repeat(5_000), "image": "1" });
        let containers: Value = (0..1_000).map(|_| one.clone()).collect();
        let pod = json!({ "spec": { "containers": containers } });
        let faults = faults(&pod, &Place::root(&Resource::pods()));
        assert_eq!(faults.len(), MOST_CAUSES + 1);
        assert!(faults.iter().all(|fault| fault.len() <= 3 * LONGEST));
        assert_eq!(faults.last().unwrap(), "there are more errors");
    }
}
