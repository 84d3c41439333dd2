//! Answers, without the parts in which two servers always differ.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The fields whose values are replaced by their names: they depend on time, or on chance.
const VARYING: [&str; 7] = [
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "resourceVersion",
    "uid",
];

/// The answer of one server.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    /// The body, the events of a watch as a list, or the text of a body that is not JSON.
    pub body: Value,
}

impl Answer {
    pub fn new(code: u16, body: &[u8]) -> Self {
        let text = || Value::from(String::from_utf8_lossy(body).into_owned());
        let events = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
        let body = match events.collect::<Result<Vec<Value>, _>>() {
            Ok(mut events) if events.len() == 1 && events[0].get("object").is_none() => {
                events.remove(0)
            }
            // Servers send bookmarks at different times.
            Ok(events) => events
                .into_iter()
                .filter(|event| event["type"] != "BOOKMARK" && !is_of_server(&event["object"]))
                .collect(),
            Err(_) => text(),
        };
        Self { code, body }
    }

    /// Returns a field of the metadata, or `""`.
    pub fn metadata(&self, field: &str) -> &str {
        self.body["metadata"][field].as_str().unwrap_or_default()
    }

    /// Returns the body without the parts that always differ.
    pub fn normal(&self) -> Value {
        let mut body = self.body.clone();
        normalise(&mut body);
        body
    }

    /// Returns the kind of the body, and the reason if it is a Status.
    pub fn kind(&self) -> (&str, &str) {
        let text = |field: &str| self.body[field].as_str().unwrap_or_default();
        (text("kind"), text("reason"))
    }
}

/// Returns whether the object is an Event of the real server about its own Service. The server
/// writes one if its check of IP addresses runs before the address of this Service is allocated.
fn is_of_server(object: &Value) -> bool {
    let involved = &object["involvedObject"];
    involved["kind"] == "Service" && involved["name"] == "kubernetes"
}

fn normalise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(text) if name == "message" => *text = without_numbers(text),
                    Value::String(text) if VARYING.contains(&name.as_str()) && !text.is_empty() => {
                        *value = format!("<{name}>").into();
                    }
                    Value::Array(list) if name == "managedFields" => managers(list),
                    Value::Array(list) if name == "causes" => causes(list),
                    Value::Array(cells) if name == "cells" => cells.iter_mut().for_each(age),
                    Value::Array(list) if name == "verbs" => list.sort_by_key(Value::to_string),
                    value => normalise(value),
                }
            }
            // Servers write an empty token or leave it out.
            if fields.get("continue").is_some_and(|token| token == "") {
                fields.remove("continue");
            }
        }
        Value::Array(list) => list.iter_mut().for_each(normalise),
        _ => {}
    }
}

/// Replaces an age in a table, such as `10s`.
fn age(cell: &mut Value) {
    let seconds = cell.as_str().and_then(|text| text.strip_suffix('s'));
    if seconds.is_some_and(|seconds| seconds.parse::<u32>().is_ok()) {
        *cell = "<age>".into();
    }
}

/// Replaces uids, and versions in parentheses, in a message.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let is_id = |word: &str| {
        let is_uid = word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
        is_uid || (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for part in text.split_inclusive(')') {
        match part.rsplit_once('(') {
            Some((before, inside)) if inside.strip_suffix(')').is_some_and(is_id) => {
                out += before;
                out += "(<id>)";
            }
            _ => out += part,
        }
    }
    out
}

/// Removes times and the order of managers, and from their fields the marks of maps and lists
/// themselves: whether a built-in kind has one depends on the type in Go.
fn managers(list: &mut [Value]) {
    for entry in list.iter_mut() {
        if let Value::Object(entry) = entry {
            entry.remove("time");
        }
        remove_marks(&mut entry["fieldsV1"]);
    }
    list.sort_by_key(|entry| {
        ["operation", "manager", "subresource"].map(|field| entry[field].to_string())
    });
}

fn remove_marks(fields: &mut Value) {
    if let Value::Object(fields) = fields {
        fields.remove(".");
        fields.values_mut().for_each(remove_marks);
    }
}

/// Sorts the causes, and removes repeated ones.
fn causes(list: &mut Vec<Value>) {
    list.sort_by_key(Value::to_string);
    list.dedup();
}

/// Returns the path at which `part` is not contained in `whole`, with both values, if there is
/// one. Lists of named objects are compared by name, and other lists by position.
pub fn difference(part: &Value, whole: &Value) -> Option<String> {
    find(part, whole, "", false)
}

/// Returns the path at which the values differ, with both values, if there is one.
pub fn inequality(left: &Value, right: &Value) -> Option<String> {
    find(left, right, "", true)
}

fn find(part: &Value, whole: &Value, path: &str, is_exact: bool) -> Option<String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            let missing = Map::new();
            let extra = if is_exact { whole } else { &missing };
            let names = part.keys().chain(extra.keys().filter(|name| !part.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let (part, whole) = (part.get(name), whole.get(name));
                let (part, whole) = (part.unwrap_or(&Value::Null), whole.unwrap_or(&Value::Null));
                find(part, whole, &format!("{path}.{name}"), is_exact)
            })
        }
        (Value::Array(part), Value::Array(whole)) if is_exact || !is_named(part) => {
            if part.len() != whole.len() {
                return Some(format!("{path} has {} and {} elements", part.len(), whole.len()));
            }
            let mut pairs = part.iter().zip(whole).enumerate();
            pairs.find_map(|(at, (part, whole))| {
                find(part, whole, &format!("{path}[{at}]"), is_exact)
            })
        }
        (Value::Array(part), Value::Array(whole)) => part.iter().find_map(|part| {
            let name = &part["name"];
            let same = whole.iter().find(|whole| whole["name"] == *name).unwrap_or(&Value::Null);
            find(part, same, &format!("{path}[{name}]"), is_exact)
        }),
        _ if part == whole => None,
        _ => Some(format!("{path} is {part} and {whole}")),
    }
}

/// Returns whether this is a list of objects with different names. An empty list is none: it would
/// be contained in any other list.
fn is_named(list: &[Value]) -> bool {
    let names: BTreeSet<&str> = list.iter().filter_map(|one| one["name"].as_str()).collect();
    !list.is_empty() && names.len() == list.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Answer, difference};

    #[test]
    fn named_objects_are_contained_in_a_longer_list() {
        let (part, whole) = (json!([{ "name": "b" }]), json!([{ "name": "a" }, { "name": "b" }]));
        assert_eq!(difference(&part, &whole), None);
        assert!(difference(&whole, &part).is_some());
    }

    #[test]
    fn events_of_the_server_and_bookmarks_are_left_out_of_a_watch() {
        let event = |kind: &str, name: &str| {
            let involved = json!({ "kind": kind, "name": name });
            json!({ "type": "ADDED", "object": { "involvedObject": involved } })
        };
        let kept = event("Pod", "kubernetes");
        let bookmark = json!({ "type": "BOOKMARK", "object": {} });
        let body = [&event("Service", "kubernetes"), &kept, &bookmark].map(ToString::to_string);
        assert_eq!(Answer::new(200, body.concat().as_bytes()).body, json!([kept]));
    }

    #[test]
    fn empty_list_is_contained_in_an_empty_list_only() {
        assert_eq!(difference(&json!([]), &json!([])), None);
        let found = difference(&json!({ "items": [] }), &json!({ "items": [{ "name": "a" }] }));
        assert_eq!(found.as_deref(), Some(".items has 0 and 1 elements"));
    }
}
