//! The formats of patches.

use std::collections::{HashMap, HashSet};

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::Resource;
use crate::apply::schema::{ListType, Place};
use crate::status::{self, Refused};
use crate::steps::Counted;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// The part of a refusal that says what the author of a configuration in YAML can do.
const NO_YAML: &str = "; the test server does not read YAML: send the configuration as JSON, which \
     this content type includes";

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
        let patch = patch.map_err(|error| {
            let hint = if content_type == APPLY { NO_YAML } else { "" };
            status::bad_request(&format!("the patch is not valid, or not JSON: {error}{hint}"))
        })?;
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
            Self::Strategic(patch) => strategic(object, patch, &Place::root(resource))?,
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
                let what = format!("shift more than {MOST_SHIFTED} elements of lists");
                return Err(Box::new(status::patch_too_large(&what)));
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
                let what = format!("copy or move more than {MOST_MOVED} bytes");
                return Err(Box::new(status::patch_too_large(&what)));
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

/// Merges a strategic merge patch into a value.
fn strategic(value: &mut Value, patch: &Value, at: &Place<'_>) -> Refused<()> {
    let Value::Object(patch) = patch else {
        value.clone_from(patch);
        return Ok(());
    };
    if patch.get(INSTRUCTION).is_some_and(|instruction| instruction == "replace") {
        let rest = patch.iter().filter(|(name, _)| *name != INSTRUCTION);
        *value = Value::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect());
        return Ok(());
    }
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { return Ok(()) };
    if let Some(Value::Array(retained)) = patch.get(RETAIN) {
        let names = retained.iter().filter_map(Value::as_str);
        *map = names.filter_map(|name| map.remove_entry(name)).collect();
    }
    for (name, list) in patch {
        if let Some(name) = name.strip_prefix(DELETE_VALUES) {
            let gone = list.as_array().into_iter().flatten();
            let gone: HashSet<Counted<&Value>> = gone.map(Counted).collect();
            if let Some(Value::Array(values)) = map.get_mut(name) {
                values.retain(|value| !gone.contains(&Counted(value)));
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
                strategic_list(known, list, order.unwrap_or(list), &at)?;
            }
            other => strategic(known, other, &at)?,
        }
    }
    Ok(())
}

/// Merges a list of a strategic merge patch. An element of the patch merges into the live element
/// with the same merge key, or is added. In a set, the key is the element itself. `order` is the
/// order that the patch requests. Refuses elements without the key. In a new list, the real
/// server leaves these to the validation of the object.
fn strategic_list(
    value: &mut Value,
    patch: &[Value],
    order: &[Value],
    at: &Place<'_>,
) -> Refused<()> {
    let live = match value {
        Value::Array(live) => std::mem::take(live),
        _ => Vec::new(),
    };
    let key = match at.patched_list() {
        ListType::Keyed(keys) => Some(keys[0].name),
        ListType::Set => None,
        ListType::Atomic => {
            *value = patch.to_vec().into();
            return Ok(());
        }
    };
    let is = |patch: &Value, instruction: &str| {
        patch.get(INSTRUCTION).is_some_and(|known| known == instruction)
    };
    let is_replaced = patch.iter().any(|patch| is(patch, "replace"));
    // `None` is an element that the patch deletes.
    let mut values: Vec<Option<Value>> = Vec::new();
    let mut places: HashMap<Counted<&Value>, Vec<usize>> = HashMap::new();
    for element in live.iter().filter(|_| !is_replaced) {
        places.entry(name(element, key)?).or_default().push(values.len());
        values.push(Some(element.clone()));
    }
    for patch in patch.iter().filter(|patch| !is(patch, "replace")) {
        let name = name(patch, key)?;
        if is(patch, "delete") {
            for place in places.remove(&name).unwrap_or_default() {
                values[place] = None;
            }
            continue;
        }
        let known = places.entry(name).or_insert_with(|| {
            values.push(None);
            vec![values.len() - 1]
        });
        let element = values[known[0]].get_or_insert(Value::Null);
        if key.is_some() {
            strategic(element, patch, &at.element())?;
        } else {
            element.clone_from(patch);
        }
    }
    let (in_patch, in_live) = (firsts(order, key), firsts(&live, key));
    let find = |firsts: &HashMap<Counted<&Value>, usize>, value: &Value| {
        firsts.get(&name(value, key).ok()?).copied()
    };
    let values = values.into_iter().flatten().collect();
    *value = arrange(values, |value| find(&in_patch, value), |value| find(&in_live, value)).into();
    Ok(())
}

/// Returns what must be equal for two elements to merge: the values of the key, or the elements
/// of a set. Refuses an element without the key.
fn name<'v>(element: &'v Value, key: Option<&str>) -> Refused<Counted<&'v Value>> {
    let Some(key) = key else { return Ok(Counted(element)) };
    element.get(key).map(Counted).ok_or_else(|| Box::new(status::no_merge_key(element, key)))
}

/// Returns the index of the first element of each name.
fn firsts<'v>(list: &'v [Value], key: Option<&str>) -> HashMap<Counted<&'v Value>, usize> {
    // The first element is the last one that is inserted.
    let all = list.iter().enumerate().rev();
    all.filter_map(|(at, element)| Some((name(element, key).ok()?, at))).collect()
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
    of_patch.sort_by_cached_key(&in_patch);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DELETE_VALUES, Patch, RETAIN};
    use crate::Resource;
    use crate::steps::assert_linear;

    const COUNT: usize = 500;

    /// Returns a pod after a strategic merge patch.
    fn patched(mut pod: Value, patch: Value) -> Value {
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
