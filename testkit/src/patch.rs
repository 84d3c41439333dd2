//! The formats of patches.

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::Resource;
use crate::apply::schema::{ListType, Place};
use crate::status::{self, Refused};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The body of a `PATCH`.
pub(crate) enum Patch {
    Merge(Value),
    Operations(Vec<PatchOperation>),
    /// A merge patch that merges some lists of built-in kinds by keys.
    Strategic(Value),
    /// A configuration for server-side apply.
    Apply(Value),
}

impl Patch {
    /// Reads a patch. Refuses other formats, YAML that is not JSON, and strategic merge patches of
    /// custom resources.
    pub(crate) fn read(resource: &Resource, content_type: &str, body: &[u8]) -> Refused<Self> {
        let patch = match content_type {
            MERGE => serde_json::from_slice(body).map(Self::Merge),
            JSON => serde_json::from_slice(body).map(Self::Operations),
            APPLY => serde_json::from_slice(body).map(Self::Apply),
            STRATEGIC if !resource.is_custom() => serde_json::from_slice(body).map(Self::Strategic),
            _ => {
                let all = [JSON, MERGE, APPLY, STRATEGIC];
                let accepted = all[..if resource.is_custom() { 3 } else { 4 }].join(", ");
                return Err(Box::new(status::unsupported_media_type(&accepted)));
            }
        };
        Ok(patch.map_err(|error| {
            status::bad_request(&format!("the patch is not valid, or not JSON: {error}"))
        })?)
    }

    /// Applies the patch to an object. A configuration changes nothing here.
    pub(crate) fn apply(&self, object: &mut Value, resource: &Resource, name: &str) -> Refused<()> {
        match self {
            Self::Merge(patch) => json_patch::merge(object, patch),
            Self::Strategic(patch) => strategic(object, patch, &Place::root(resource)),
            Self::Operations(patch) => {
                let mut moved = 0;
                for operation in patch {
                    check_size(operation, object, &mut moved)?;
                    if !tests_nothing(operation, object) {
                        json_patch::patch(object, std::slice::from_ref(operation)).map_err(
                            |error| status::invalid(resource, name, "patch", &error.to_string()),
                        )?;
                    }
                }
            }
            Self::Apply(_) => {}
        }
        Ok(())
    }
}

/// Returns whether an operation tests that the value at a path is null, although the path does not
/// exist. RFC 6902 makes this an error, but the real server accepts it, and clients that write the
/// first finalizer depend on it.
fn tests_nothing(operation: &PatchOperation, object: &Value) -> bool {
    matches!(operation, PatchOperation::Test(test) if test.value.is_null() && object.pointer(test.path.as_str()).is_none())
}

/// The largest number of bytes that the operations of a JSON patch copy or move, as in the real
/// server. Without a limit, copies of copies take all memory.
const MOST_MOVED: usize = 3 << 20;
/// The largest number of levels in a JSON patch and its results, as in a body: functions that
/// recurse into a value need stack for each.
const MOST_LEVELS: usize = 128;

/// Refuses an operation of a JSON patch after which the object would be too deep, or with which the
/// patch would have copied or moved too much. `moved` is the number of bytes so far.
fn check_size(operation: &PatchOperation, object: &Value, moved: &mut usize) -> Refused<()> {
    let (path, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, object.pointer(copy.from.as_str())),
        PatchOperation::Move(it) => (&it.path, object.pointer(it.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    // A path that does not exist is refused later.
    let Some(value) = value else { return Ok(()) };
    if path.as_str().matches('/').count() + levels(value) > MOST_LEVELS {
        let message = format!("the patch makes the object deeper than {MOST_LEVELS} levels");
        return Err(Box::new(status::bad_request(&message)));
    }
    if matches!(operation, PatchOperation::Copy(_) | PatchOperation::Move(_)) {
        *moved += value.to_string().len();
        if *moved > MOST_MOVED {
            return Err(Box::new(status::patch_too_large(MOST_MOVED)));
        }
    }
    Ok(())
}

/// Returns the number of levels of a value, at least 1.
fn levels(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(levels).max(),
        Value::Object(map) => map.values().map(levels).max(),
        _ => None,
    };
    1 + inner.unwrap_or_default()
}

/// The instruction of a map in a strategic merge patch: `replace` or `delete`.
const INSTRUCTION: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

/// Merges a strategic merge patch into a value.
fn strategic(value: &mut Value, patch: &Value, at: &Place<'_>) {
    let Value::Object(patch) = patch else {
        value.clone_from(patch);
        return;
    };
    if patch.get(INSTRUCTION).is_some_and(|instruction| instruction == "replace") {
        let rest = patch.iter().filter(|(name, _)| *name != INSTRUCTION);
        *value = Value::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect());
        return;
    }
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { return };
    if let Some(Value::Array(retained)) = patch.get(RETAIN) {
        map.retain(|name, _| retained.iter().any(|known| known == name));
    }
    for (name, list) in patch {
        if let Some(name) = name.strip_prefix(DELETE_VALUES) {
            let gone = list.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(Value::Array(values)) = map.get_mut(name) {
                values.retain(|value| !gone.contains(value));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        let is_deleted = list.get(INSTRUCTION).is_some_and(|instruction| instruction == "delete");
        if list.is_null() || is_deleted {
            map.remove(name);
            continue;
        }
        let at = at.field(name);
        let known = map.entry(name.clone()).or_insert(Value::Null);
        match list {
            Value::Array(list) => {
                let order = patch.get(&format!("{ORDER}{name}")).and_then(Value::as_array);
                strategic_list(known, list, order.unwrap_or(list), &at);
            }
            other => strategic(known, other, &at),
        }
    }
}

/// Merges a list of a strategic merge patch. An element of the patch merges into the live element
/// with the same merge key, or is added. In a set, the key is the element itself. `order` is the
/// order that the patch requests.
fn strategic_list(value: &mut Value, patch: &[Value], order: &[Value], at: &Place<'_>) {
    let live = match value {
        Value::Array(live) => std::mem::take(live),
        _ => Vec::new(),
    };
    let key = match at.patched_list() {
        ListType::Keyed(keys) => Some(keys[0].name),
        ListType::Set => None,
        ListType::Atomic => {
            *value = patch.to_vec().into();
            return;
        }
    };
    let is = |patch: &Value, instruction: &str| {
        patch.get(INSTRUCTION).is_some_and(|known| known == instruction)
    };
    let same = |left: &Value, right: &Value| match key {
        Some(key) => left.get(key) == right.get(key),
        None => left == right,
    };
    let mut values = live.clone();
    if patch.iter().any(|patch| is(patch, "replace")) {
        values.clear();
    }
    for patch in patch.iter().filter(|patch| !is(patch, "replace")) {
        if is(patch, "delete") {
            values.retain(|element| !same(element, patch));
            continue;
        }
        let known = values.iter().position(|element| same(element, patch));
        let at_end = values.len();
        if known.is_none() {
            values.push(Value::Null);
        }
        let element = &mut values[known.unwrap_or(at_end)];
        if key.is_some() {
            strategic(element, patch, &at.element());
        } else {
            element.clone_from(patch);
        }
    }
    let find = |list: &[Value], value: &Value| list.iter().position(|known| same(known, value));
    *value = arrange(values, |value| find(order, value), |value| find(&live, value)).into();
}

/// Orders a merged list: the elements of the patch in its order, and between them the others, where
/// the live list had them before an element of the patch.
fn arrange(
    values: Vec<Value>,
    in_patch: impl Fn(&Value) -> Option<usize>,
    in_live: impl Fn(&Value) -> Option<usize>,
) -> Vec<Value> {
    let (mut of_patch, others): (Vec<Value>, Vec<Value>) =
        values.into_iter().partition(|value| in_patch(value).is_some());
    of_patch.sort_by_key(&in_patch);
    let mut others = others.into_iter().peekable();
    let mut arranged = Vec::new();
    for value in of_patch {
        let place = in_live(&value);
        while let Some(other) = others.next_if(|other| place.is_some() && in_live(other) < place) {
            arranged.push(other);
        }
        arranged.push(value);
    }
    arranged.extend(others);
    arranged
}
