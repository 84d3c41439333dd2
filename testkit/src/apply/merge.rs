//! The merge of an applied configuration into an object, and the removal of fields that a
//! configuration no longer has.

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
/// order of the applied list. An element that only the live list has keeps its place before the
/// next common element.
fn merged(live: &[Value], applied: &[Value], at: &Place<'_>) -> Option<Vec<Value>> {
    let (live, applied) = (at.elements(live)?, at.elements(applied)?);
    let is_common = |name: &str| applied.iter().any(|(known, _)| known == name);
    let mut merged = Vec::with_capacity(live.len() + applied.len());
    let mut rest = live.iter().peekable();
    for (name, value) in &applied {
        while let Some((_, own)) = rest.next_if(|(own, _)| !is_common(own)) {
            merged.push(Value::clone(own));
        }
        match live.iter().find(|(known, _)| known == name) {
            Some((_, own)) => {
                let mut both = Value::clone(own);
                merge(&mut both, value, at);
                merged.push(both);
                let _ = rest.next_if(|(own, _)| own == name);
            }
            None => merged.push(Value::clone(value)),
        }
    }
    merged.extend(rest.filter(|(own, _)| !is_common(own)).map(|(_, own)| Value::clone(own)));
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
            list.retain_mut(|element| {
                let name = names.next().unwrap_or_default();
                drop.children
                    .get(&name)
                    .is_none_or(|drop| !is_pruned(element, drop, keep.children.get(&name), at))
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
