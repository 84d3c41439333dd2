//! The merge of an applied configuration into an object, and the removal of fields that a
//! configuration no longer has.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::fields::FieldSet;
use super::schema::Place;

/// Merges an applied configuration into the live value.
pub(super) fn merge(live: &mut Value, applied: &Value, at: &Place<'_>) {
    match (live, applied) {
        (Value::Object(live), Value::Object(applied)) if !at.is_atomic_map() => {
            for (name, value) in applied {
                match live.get_mut(name) {
                    Some(live) => merge(live, value, &at.field(name)),
                    None => {
                        live.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(live), Value::Array(applied)) => match merged(live, applied, at) {
            Some(merged) => *live = merged,
            None => live.clone_from(applied),
        },
        (live, applied) => *live = applied.clone(),
    }
}

/// Returns the merged list, or `None` if the list is replaced as a whole. The elements are in the
/// order of the applied list. Elements that only the live list has stay between the common elements
/// that are around them. Live elements that share a name with each other and with an applied one
/// are replaced by it. The order is that of the library structured-merge-diff.
fn merged(live: &[Value], applied: &[Value], at: &Place<'_>) -> Option<Vec<Value>> {
    let (live, applied) = (at.elements(live)?, at.elements(applied)?);
    let mut known: HashMap<&str, Option<&Value>> = HashMap::with_capacity(live.len());
    for (name, value) in &live {
        known.entry(name).and_modify(|known| *known = None).or_insert(Some(value));
    }
    let names: HashSet<&str> = applied.iter().map(|(name, _)| name.as_str()).collect();
    let common = |(name, _): &&(String, _)| known.contains_key(name.as_str());
    let mut common = applied.iter().filter(common).map(|(name, _)| name).peekable();
    let mut taken = HashSet::new();
    let mut merged = Vec::with_capacity(live.len() + applied.len());
    let both = |name: &str, value: &Value| {
        let mut both = known.get(name).copied().flatten().unwrap_or(value).clone();
        merge(&mut both, value, &at.element());
        both
    };
    let (mut live, mut applied) = (live.iter().peekable(), applied.iter().peekable());
    while live.peek().is_some() || applied.peek().is_some() {
        if let (Some((own, _)), Some((name, value))) = (live.peek(), applied.peek()) {
            if own == name {
                merged.push(both(name, value));
                taken.insert(name.as_str());
                live.next();
                applied.next();
                common.next();
                continue;
            }
            // The element comes later in the applied list.
            if names.contains(own.as_str()) && common.peek().is_some_and(|next| *next != own) {
                live.next();
                continue;
            }
        }
        if let Some((own, value)) = live.peek() {
            if !names.contains(own.as_str()) {
                merged.push(Value::clone(value));
                live.next();
                continue;
            }
            if taken.contains(own.as_str()) {
                live.next();
            }
        }
        if let Some((name, value)) = applied.next() {
            merged.push(both(name, value));
            taken.insert(name.as_str());
            common.next_if(|next| *next == name);
        }
    }
    Some(merged)
}

/// Removes the fields of `drop` that are not in `keep`, nor above a field in `keep`. A map or list
/// that becomes empty goes, too, unless it is in `keep`.
pub(super) fn prune(value: &mut Value, drop: &FieldSet, keep: &FieldSet, at: &Place<'_>) {
    match value {
        Value::Object(map) => {
            for (name, drop) in &drop.children {
                let Some(field) = name.strip_prefix("f:") else { continue };
                if let Some(below) = map.get_mut(field)
                    && is_pruned(below, drop, keep.children.get(name), &at.field(field))
                {
                    map.remove(field);
                }
            }
        }
        Value::Array(list) => {
            let Some(elements) = at.elements(list) else { return };
            let names: Vec<String> = elements.into_iter().map(|(name, _)| name).collect();
            let mut names = names.into_iter();
            let inside = at.element();
            list.retain_mut(|element| {
                let name = names.next().unwrap_or_default();
                drop.children
                    .get(&name)
                    .is_none_or(|drop| !is_pruned(element, drop, keep.children.get(&name), &inside))
            });
        }
        _ => {}
    }
}

/// Prunes a value. Returns whether the value itself must go.
fn is_pruned(value: &mut Value, drop: &FieldSet, keep: Option<&FieldSet>, at: &Place<'_>) -> bool {
    let nothing = FieldSet::default();
    let keeps = keep.unwrap_or(&nothing);
    if drop.is_member && keeps.is_empty() {
        return true;
    }
    let was_empty = is_empty(value);
    prune(value, drop, keeps, at);
    !was_empty && is_empty(value) && !keeps.is_member
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::merge;
    use crate::apply::schema::Place;

    #[test]
    fn merged_list_has_the_order_of_structured_merge_diff() {
        let set = json!({ "x-kubernetes-list-type": "set" });
        let list = |text: &str| text.chars().map(String::from).collect::<Value>();
        // The expected lists are those of the library, version 6.4.2.
        for (live, applied, expected) in [
            ("abc", "xcyaz", "bxcyaz"),
            ("abcd", "db", "acdb"),
            ("ab", "ba", "ba"),
            ("abc", "", "abc"),
            ("", "ab", "ab"),
            ("abcde", "exb", "acdexb"),
            ("abcdef", "fxcbyq", "adefxcbyq"),
            ("abac", "ca", "bca"),
            ("aab", "ba", "ba"),
            ("abcad", "xda", "bcxda"),
            ("abcab", "c", "abcab"),
        ] {
            let mut merged = list(live);
            merge(&mut merged, &list(applied), &Place::Custom(&set));
            assert_eq!(merged, list(expected), "{live} {applied}");
        }
    }
}
