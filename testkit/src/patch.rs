//! The formats of patches.

use std::collections::{HashMap, HashSet};
use std::mem;

use json_patch::PatchOperation;
use serde_json::{Value, json};

use crate::Resource;
use crate::apply::schema::{ListType, Place};
use crate::object::Fields;
use crate::status::{self, Refused};
use crate::steps::Counted;
use crate::yaml;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The body of a `PATCH`.
pub(crate) enum Patch {
    Merge(Value),
    Operations(Vec<PatchOperation>),
    /// A merge patch that merges some lists of built-in kinds by keys.
    Strategic(Fields),
    /// A configuration for server-side apply.
    Apply(Value),
}

impl Patch {
    /// Reads a patch. Refuses other formats, and strategic merge patches of custom resources.
    pub(crate) fn read(resource: &Resource, content_type: &str, body: &[u8]) -> Refused<Self> {
        let json =
            |error: serde_json::Error| format!("the patch is not valid, or not JSON: {error}");
        let patch = match content_type {
            MERGE => serde_json::from_slice::<Fields>(body)
                .map(|patch| Self::Merge(patch.into()))
                .map_err(json),
            JSON => serde_json::from_slice(body).map(Self::Operations).map_err(json),
            APPLY => yaml::read(body).map(Self::Apply),
            STRATEGIC if !resource.is_custom() => {
                // As in the real server, null is an empty patch.
                let patch = serde_json::from_slice::<Option<Fields>>(body);
                patch.map(|patch| Self::Strategic(patch.unwrap_or_default())).map_err(json)
            }
            _ => {
                let all = [JSON, MERGE, APPLY, STRATEGIC];
                let accepted = all[..if resource.is_custom() { 3 } else { 4 }].join(", ");
                return Err(Box::new(status::unsupported_media_type(&accepted)));
            }
        };
        let patch = patch.map_err(|why| status::bad_request(&why))?;
        match &patch {
            Self::Operations(all) if all.len() > MOST_OPERATIONS => {
                Err(Box::new(status::too_many_operations(MOST_OPERATIONS, all.len())))
            }
            _ => Ok(patch),
        }
    }

    /// Applies the patch to an object. A configuration changes nothing here.
    pub(crate) fn apply(&self, object: &mut Value, resource: &Resource, name: &str) -> Refused<()> {
        match self {
            Self::Merge(patch) => json_patch::merge(object, patch),
            Self::Strategic(patch) => {
                if let Value::Object(object) = object {
                    strategic(object, patch, &Place::root(resource))?;
                }
            }
            Self::Operations(patch) => {
                let mut work = Work::default();
                for operation in patch {
                    work.add(operation, object)?;
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

/// The largest number of operations of a JSON patch, as in the real server.
const MOST_OPERATIONS: usize = 10_000;
/// The largest number of bytes that the operations of a JSON patch copy or move, as in the real
/// server. Without a limit, copies of copies take all memory.
const MOST_MOVED: usize = 3 << 20;
/// The largest number of list elements that the operations of a JSON patch shift. An insertion at
/// the start of a list shifts all of them. Without a limit, 10,000 of them take minutes.
const MOST_SHIFTED: usize = 1 << 24;
/// The largest number of levels in a JSON patch and its results, as in a body: functions that
/// recurse into a value need stack for each.
const MOST_LEVELS: usize = 128;

/// The work that the operations of a JSON patch have caused so far.
#[derive(Default)]
struct Work {
    /// The number of bytes that were copied or moved.
    moved: usize,
    /// The number of list elements that were shifted.
    shifted: usize,
}

impl Work {
    /// Adds the work of an operation. Refuses an operation after which the object would be too
    /// deep, or with which the patch would have caused too much work.
    fn add(&mut self, operation: &PatchOperation, object: &Value) -> Refused<()> {
        let (path, value, from) = match operation {
            PatchOperation::Add(add) => (&add.path, Some(&add.value), None),
            PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value), None),
            PatchOperation::Copy(copy) => (&copy.path, object.pointer(copy.from.as_str()), None),
            PatchOperation::Move(it) => {
                (&it.path, object.pointer(it.from.as_str()), Some(&it.from))
            }
            PatchOperation::Remove(remove) => (&remove.path, None, None),
            PatchOperation::Test(_) => return Ok(()),
        };
        if !matches!(operation, PatchOperation::Replace(_)) {
            self.shifted += shifted(object, path.as_str());
            self.shifted += from.map_or(0, |from| shifted(object, from.as_str()));
            if self.shifted > MOST_SHIFTED {
                let effect = format!("shift more than {MOST_SHIFTED} elements of lists");
                return Err(Box::new(status::patch_too_large(&effect)));
            }
        }
        // A path that does not exist is refused later.
        let Some(value) = value else { return Ok(()) };
        if path.as_str().matches('/').count() + levels(value) > MOST_LEVELS {
            let message = format!("the patch makes the object deeper than {MOST_LEVELS} levels");
            return Err(Box::new(status::bad_request(&message)));
        }
        if matches!(operation, PatchOperation::Copy(_) | PatchOperation::Move(_)) {
            self.moved += value.to_string().len();
            if self.moved > MOST_MOVED {
                let effect = format!("copy or move more than {MOST_MOVED} bytes");
                return Err(Box::new(status::patch_too_large(&effect)));
            }
        }
        Ok(())
    }
}

/// Returns the number of elements behind a path, if it is a place in a list.
fn shifted(object: &Value, path: &str) -> usize {
    let Some((list, index)) = path.rsplit_once('/') else { return 0 };
    let length = object.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
    index.parse().map_or(0, |index| length.saturating_sub(index))
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

/// Merges a strategic merge patch into a map.
fn strategic(map: &mut Fields, patch: &Fields, at: &Place<'_>) -> Refused<()> {
    match instruction(patch) {
        None => {}
        Some("replace") => {
            *map = without_instructions(patch);
            return Ok(());
        }
        Some("delete") => {
            map.clear();
            return Ok(());
        }
        Some(_) => return Err(Box::new(status::unknown_patch_type(INSTRUCTION, patch))),
    }
    if let Some(retained) = patch.get(RETAIN) {
        retain(map, patch, retained)?;
    }
    for (name, value) in patch {
        if let Some(name) = name.strip_prefix(DELETE_VALUES) {
            delete_values(map, name, value)?;
        } else if let Some(name) = name.strip_prefix(ORDER) {
            let order = list_of(value)?;
            // If the patch also has elements of the list, their merge applies the order.
            if !patch.contains_key(name)
                && let Some(Value::Array(live)) = map.get_mut(name)
            {
                *live = merged_list(&mem::take(live), &[], Some(order), &at.field(name))?;
            }
        } else if !name.starts_with('$') {
            let order = patch.get(&format!("{ORDER}{name}")).map(list_of).transpose()?;
            merge_field(map, name, value, order, &at.field(name))?;
        }
    }
    Ok(())
}

/// Merges a field of a strategic merge patch. `order` is the order that the patch requests for the
/// elements of a list.
fn merge_field(
    map: &mut Fields,
    name: &str,
    patch: &Value,
    order: Option<&[Value]>,
    at: &Place<'_>,
) -> Refused<()> {
    let merged = match (map.get_mut(name), patch) {
        (Some(Value::Object(live)), Value::Object(patch)) => {
            strategic(live, patch, at)?;
            (instruction(patch) != Some("delete")).then(|| mem::take(live).into())
        }
        (Some(Value::Array(live)), Value::Array(patch)) => {
            Some(merged_list(&mem::take(live), patch, order, at)?.into())
        }
        (_, Value::Array(patch)) if order.is_some() => {
            Some(merged_list(&[], patch, order, at)?.into())
        }
        // As in the real server, the elements of a new list need no keys.
        (_, patch) => without_instruction(patch).filter(|value| !value.is_null()),
    };
    match merged {
        Some(merged) => drop(map.insert(name.to_owned(), merged)),
        None => drop(map.remove(name)),
    }
    Ok(())
}

/// Returns the instruction of a map, or `""` for one that is not a string.
fn instruction(patch: &Fields) -> Option<&str> {
    patch.get(INSTRUCTION).map(|instruction| instruction.as_str().unwrap_or_default())
}

/// Returns a new value without the parts that only instruct the merge, and without null fields.
/// Returns `None` for a map with an instruction.
fn without_instruction(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(INSTRUCTION) => None,
        Value::Object(map) => Some(without_instructions(map).into()),
        Value::Array(list) => Some(list.iter().filter_map(without_instruction).collect()),
        other => Some(other.clone()),
    }
}

fn without_instructions(map: &Fields) -> Fields {
    let kept = map.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    kept.filter_map(|(name, value)| Some((name.clone(), without_instruction(value)?))).collect()
}

/// Returns the elements of the list in an instruction.
fn list_of(value: &Value) -> Refused<&[Value]> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| {
        let name = match value {
            Value::Object(_) => "map[string]interface {}",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_f64() => "float64",
            Value::Number(_) => "int64",
            Value::Null | Value::Array(_) => "%!s(<nil>)",
        };
        let why = format!("expected a []interface {{}}, but received a {name}");
        Box::new(status::unknown_error(&why))
    })
}

/// Removes the fields that a patch does not retain. Refuses a patch that sets one of them.
fn retain(map: &mut Fields, patch: &Fields, retained: &Value) -> Refused<()> {
    let refuse = || Box::new(status::bad_request("invalid patch format of retainKeys"));
    let retained = retained.as_array().ok_or_else(refuse)?;
    let names: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let mut set = patch.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    if set.any(|(name, _)| !names.contains(name.as_str())) {
        return Err(refuse());
    }
    map.retain(|name, _| names.contains(name.as_str()));
    Ok(())
}

/// Removes values from a list, or the whole list if they are null.
fn delete_values(map: &mut Fields, name: &str, gone: &Value) -> Refused<()> {
    match (map.get_mut(name), gone) {
        (_, Value::Null) => drop(map.remove(name)),
        (Some(Value::Array(values)), Value::Array(gone)) => {
            check_types(values, gone)?;
            let gone: HashSet<Counted<&Value>> = gone.iter().map(Counted).collect();
            values.retain(|value| !gone.contains(&Counted(value)));
        }
        _ => {}
    }
    Ok(())
}

/// Returns a list after a strategic merge patch. An element of the patch merges into the live
/// element with the same merge key, or is added. In a set, the key is the element itself. `order`
/// is the order that the patch requests; without it, the order of the patch counts. Refuses
/// elements without the key.
fn merged_list(
    live: &[Value],
    patch: &[Value],
    order: Option<&[Value]>,
    at: &Place<'_>,
) -> Refused<Vec<Value>> {
    let key = match at.patched_list() {
        ListType::Keyed(keys) => Some(keys[0].name),
        ListType::Set => None,
        ListType::Atomic => return Ok(patch.iter().filter_map(without_instruction).collect()),
    };
    check_types(live, patch)?;
    if let Some(order) = order {
        check_order(patch, order, key)?;
    }
    let mut gone: HashSet<Counted<&Value>> = HashSet::new();
    let mut is_replaced = false;
    for element in patch.iter().filter_map(Value::as_object) {
        match instruction(element) {
            None => {}
            Some("replace") => is_replaced = true,
            Some("delete") => drop(gone.insert(merge_key_of(element, key)?)),
            Some("merge") => {
                let why = "merging lists cannot yet be specified in the patch";
                return Err(Box::new(status::unknown_error(why)));
            }
            Some(_) => return Err(Box::new(status::unknown_patch_type(INSTRUCTION, element))),
        }
    }
    let mut merged: Vec<(Counted<&Value>, Value)> = Vec::new();
    // The index of the first element of each key.
    let mut places: HashMap<Counted<&Value>, usize> = HashMap::new();
    for element in live.iter().filter(|_| !is_replaced) {
        let name = merge_key(element, key)?;
        if !gone.contains(&name) && (key.is_some() || !places.contains_key(&name)) {
            places.entry(name.clone()).or_insert(merged.len());
            merged.push((name, element.clone()));
        }
    }
    for element in patch.iter().filter(|element| element.get(INSTRUCTION).is_none()) {
        let name = merge_key(element, key)?;
        match (places.get(&name).filter(|_| !is_replaced), element) {
            (Some(place), Value::Object(element)) => {
                if let Value::Object(live) = &mut merged[*place].1 {
                    strategic(live, element, &at.element())?;
                }
            }
            (Some(_), _) => {}
            (None, element) => {
                places.insert(name.clone(), merged.len());
                merged.extend(without_instruction(element).map(|element| (name, element)));
            }
        }
    }
    let (in_patch, in_live) = (firsts(order.unwrap_or(patch), key), firsts(live, key));
    Ok(arrange(merged, &in_patch, &in_live))
}

/// Refuses a list that merges unless all live elements, and all of the patch, have one type.
fn check_types(live: &[Value], patch: &[Value]) -> Refused<()> {
    let mut all = live.iter().chain(patch);
    let first = all.next();
    let why = match first {
        None => return Ok(()),
        Some(Value::Array(_)) => "lists of lists are not supported".to_owned(),
        Some(first) => {
            let is_other = |other: &Value| mem::discriminant(other) != mem::discriminant(first);
            if !first.is_null() && !all.any(is_other) {
                return Ok(());
            }
            let lists = status::in_go(&json!([live, patch]));
            format!("list element types are not identical: {lists}")
        }
    };
    Err(Box::new(status::unknown_error(&why)))
}

/// Refuses a patch whose elements are not in the order that it requests.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Refused<()> {
    let is_new = |element: &&Value| element.get(INSTRUCTION).is_none();
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for element in patch.iter().filter(is_new) {
        let name = merge_key(element, key)?;
        loop {
            let Some(next) = rest.next() else {
                let (patch, order) = (status::in_go(&json!(patch)), status::in_go(&json!(order)));
                return Err(Box::new(status::unknown_error(&format!(
                    "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
                ))));
            };
            if merge_key(next, key)? == name {
                break;
            }
        }
    }
    Ok(())
}

/// Returns the values that must be equal for two elements to merge: the value of the key, or the
/// element itself in a set. Refuses an element without the key.
fn merge_key<'v>(element: &'v Value, key: Option<&str>) -> Refused<Counted<&'v Value>> {
    match element {
        Value::Object(element) => merge_key_of(element, key),
        element if key.is_none() => Ok(Counted(element)),
        element => Err(Box::new(status::no_merge_key(element, key.unwrap_or_default()))),
    }
}

/// Returns the value of the key of an element that is a map. Refuses an element without the key.
fn merge_key_of<'v>(element: &'v Fields, key: Option<&str>) -> Refused<Counted<&'v Value>> {
    let key = key.unwrap_or_default();
    let value = element.get(key).map(Counted);
    value.ok_or_else(|| Box::new(status::no_merge_key(&element.clone().into(), key)))
}

/// Returns the index of the first element of each key.
fn firsts<'v>(list: &'v [Value], key: Option<&str>) -> HashMap<Counted<&'v Value>, usize> {
    // The first element is the last one that is inserted.
    let all = list.iter().enumerate().rev();
    all.filter_map(|(at, element)| Some((merge_key(element, key).ok()?, at))).collect()
}

/// Orders a merged list: the elements of the patch in its order, and between them the others, where
/// the live list had them before an element of the patch. The elements have their keys.
fn arrange(
    merged: Vec<(Counted<&Value>, Value)>,
    in_patch: &HashMap<Counted<&Value>, usize>,
    in_live: &HashMap<Counted<&Value>, usize>,
) -> Vec<Value> {
    let (mut of_patch, others): (Vec<_>, Vec<_>) =
        merged.into_iter().partition(|(key, _)| in_patch.contains_key(key));
    of_patch.sort_by_cached_key(|(key, _)| in_patch.get(key).copied());
    let mut others = others.into_iter().peekable();
    let mut arranged = Vec::new();
    for (key, value) in of_patch {
        let place = in_live.get(&key);
        let is_before =
            |other: &(Counted<&Value>, Value)| place.is_some() && in_live.get(&other.0) < place;
        while let Some((_, other)) = others.next_if(is_before) {
            arranged.push(other);
        }
        arranged.push(value);
    }
    arranged.extend(others.map(|(_, other)| other));
    arranged
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DELETE_VALUES, Patch, RETAIN};
    use crate::Resource;
    use crate::steps::assert_linear;

    const COUNT: usize = 500;

    /// Returns a pod after a strategic merge patch.
    fn patched(mut pod: Value, patch: Value) -> Value {
        let patch = serde_json::from_value(patch).unwrap();
        Patch::Strategic(patch).apply(&mut pod, &Resource::pods(), "a").unwrap();
        pod
    }

    /// Returns a pod after a patch that takes a few steps for each of [`COUNT`] elements.
    fn linearly_patched(pod: Value, patch: Value) -> Value {
        let mut after = Value::Null;
        assert_linear(COUNT, || after = patched(pod, patch));
        after
    }

    fn list(element: impl Fn(usize) -> Value) -> Value {
        (0..COUNT).map(element).collect()
    }

    #[test]
    fn elements_of_merged_lists_are_visited_a_few_times_each() {
        let containers =
            |image: &str| list(|number| json!({ "name": number.to_string(), "image": image }));
        let deleted = list(|number| json!({ "name": number.to_string(), "$patch": "delete" }));
        let new = list(|number| json!({ "name": (COUNT + number).to_string() }));
        for (patch, count) in [(containers("2"), COUNT), (deleted, 0), (new, 2 * COUNT)] {
            let patch = json!({ "spec": { "containers": patch } });
            let before = json!({ "spec": { "containers": containers("1") } });
            let pod = linearly_patched(before, patch);
            assert_eq!(pod["spec"]["containers"].as_array().map(Vec::len), Some(count));
        }
    }

    #[test]
    fn values_of_sets_are_visited_a_few_times_each() {
        let values = || list(|number| number.to_string().into());
        let before = || json!({ "metadata": { "finalizers": values() } });
        let merged = json!({ "metadata": { "finalizers": values() } });
        let pod = linearly_patched(before(), merged);
        assert_eq!(pod, before());
        let deleted = json!({ "metadata": { format!("{DELETE_VALUES}finalizers"): values() } });
        let pod = linearly_patched(before(), deleted);
        assert_eq!(pod["metadata"]["finalizers"], json!([]));
    }

    #[test]
    fn keys_that_a_patch_does_not_retain_are_removed() {
        let pod = patched(
            json!({ "metadata": { "labels": { "a": "x", "b": "x" } } }),
            json!({ "metadata": { "labels": { RETAIN: ["b", "c"], "c": "y" } } }),
        );
        assert_eq!(pod["metadata"]["labels"], json!({ "b": "x", "c": "y" }));
    }
}
