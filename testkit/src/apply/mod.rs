//! Server-side apply: the owners of fields, conflicts, and the merge of applied configurations.
//!
//! The module `schema` knows which lists merge by keys, and which maps are replaced as a whole. The
//! rest of a schema is not needed: a field that is in no schema merges like any other.

mod check;
mod compare;
mod fields;
mod last_applied;
mod managers;
mod merge;
pub(crate) mod schema;

use kube::core::Status;
use serde_json::{Map, Value, json};

use crate::Resource;
use crate::author::{Author, WritablePart};
use crate::change::now;
use crate::object::{Draft, Fields, text};
use crate::status::{self, Refused};
use crate::{scale, types};
use compare::{compare, fields_of};
use fields::{FieldSet, MOST_CAUSES, shortened};
use managers::{FIELD, Manager, Managers};
use merge::{merge, prune};
use schema::Place;

/// The metadata fields that no manager has.
const UNMANAGED: [&str; 10] = [
    "name",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "generation",
    FIELD,
    "resourceVersion",
    "selfLink",
];
/// The manager of the fields of an object that had no managers before it was first applied.
const BEFORE: &str = "before-first-apply";

/// Returns the object as one value, without the fields that no manager has.
fn managed(draft: &Draft) -> Value {
    let mut whole: Map<String, Value> = draft.rest.clone();
    let metadata: Fields = draft
        .metadata
        .iter()
        .filter(|(field, _)| !UNMANAGED.contains(&field.as_str()))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    if !metadata.is_empty() {
        whole.insert("metadata".to_owned(), metadata.into());
    }
    whole.into()
}

fn manager(author: &Author<'_>, resource: &Resource, applies: bool) -> Manager {
    Manager {
        name: author.manager(),
        applies,
        api_version: resource.api_version().to_owned(),
        subresource: author.subresource().to_owned(),
    }
}

/// Makes the author the owner of the fields in which the draft differs from the object before.
/// `before` is `None` for a new object.
pub(crate) fn track(
    resource: &Resource,
    before: Option<&Draft>,
    draft: &mut Draft,
    author: &Author<'_>,
) {
    let known = |draft: &Draft| Managers::read(&draft.metadata);
    let is_reset = |given: &Value| *given == json!([{}]) || *given == json!([]);
    if draft.metadata.get(FIELD).is_some_and(is_reset) {
        draft.metadata.remove(FIELD);
        return;
    }
    // A client that leaves the managers out keeps them, and so does one that sends invalid ones.
    let is_valid = managers::is_valid(draft.metadata.get(FIELD));
    let given = Some(known(draft)).filter(|given| is_valid && !given.is_empty());
    let mut managers = given.or_else(|| before.map(known)).unwrap_or_default();
    let at = Place::root(resource);
    let old = before.map_or_else(|| Map::new().into(), managed);
    let found = compare(Some(&old), Some(&managed(draft)), &at);
    let all = found.changed_and_removed();
    if author.part == WritablePart::Scale && !all.is_empty() {
        let path = scale::path_of_replicas(resource);
        let number = |draft: &Draft| draft.at(path.iter().copied()).and_then(Value::as_i64);
        let is_zero = number(draft) == Some(0);
        // In the real server, the manager of a new object of a built-in kind has its default.
        let is_default = !resource.is_custom() && before.and_then(number).is_none();
        let path = FieldSet::of_path(&path);
        if is_zero {
            managers.remove(&path);
        }
        // As in the real server, a number that no manager has gets none, and 0 has none.
        if is_zero || !is_default && !managers.have(&path) {
            managers.write(&mut draft.metadata);
            return;
        }
    }
    let own = manager(author, resource, false);
    let mut fields = managers.fields(&own);
    fields.subtract(&found.removed);
    fields.add(&found.changed);
    managers.set(&own, fields, &now());
    managers.take_from_others(&own, &all);
    managers.merge_oldest();
    managers.write(&mut draft.metadata);
}

/// Returns the object after a configuration was applied to it. `before` is `None` if the
/// configuration creates the object.
///
/// Refuses the configuration with 409 if it changes fields of other managers, unless it is forced,
/// and with 500 if it has unknown metadata or metadata of other types, or a list with two elements
/// of one name, as the real server does.
pub(crate) fn apply(
    resource: &Resource,
    before: Option<&Draft>,
    applied: &Draft,
    author: &Author<'_>,
    is_forced: bool,
) -> Refused<Draft> {
    let at = Place::root(resource);
    let own = manager(author, resource, true);
    let now = now();
    let configuration = configuration_of(applied, author, resource);
    let of_metadata = types::undeclared(&applied.metadata)
        .or_else(|| types::fault(&applied.metadata, &Fields::new()));
    let faults =
        of_metadata.map_or_else(|| check::faults(&configuration, &at), |fault| vec![fault]);
    if !faults.is_empty() {
        return Err(Box::new(not_typed(resource, applied, &faults)));
    }
    if has_managers(&applied.metadata) {
        return Err(Box::new(status::bad_request("metadata.managedFields must be nil")));
    }
    let live = before.map_or_else(|| Map::new().into(), managed);
    let mut managers = first_managers(resource, before, &live, author, &own, &now);
    let fields = if configuration.as_object().is_some_and(Map::is_empty) {
        FieldSet::default()
    } else {
        fields_of(&configuration, &at)
    };
    let mut merged = live.clone();
    merge(&mut merged, &configuration, &at);
    let last = managers.fields(&own);
    let mut kept = managers.fields_of_others(&own);
    kept.add(&fields);
    prune(&mut merged, &last, &kept, &at);

    let found = compare(Some(&live), Some(&merged), &at);
    let mut conflicts = conflicts_of(resource, before, &live, &managers, &own, &found.changed);
    if author.part == WritablePart::Scale {
        for (manager, _) in &mut conflicts {
            scale::API_VERSION.clone_into(&mut manager.api_version);
        }
    }
    if !conflicts.is_empty() && !is_forced {
        return Err(Box::new(refusal(conflicts)));
    }
    managers.set(&own, fields, &now);
    managers.take_from_others(&own, &found.changed_and_removed());

    let Value::Object(rest) = merged else {
        return Err(Box::new(status::internal_error("a merged object is not a JSON object")));
    };
    let mut draft = with_unmanaged_metadata(rest, before.unwrap_or(applied));
    if own.name == last_applied::MANAGER {
        last_applied::renew(&mut draft.metadata, resource, applied);
    }
    managers.write(&mut draft.metadata);
    draft.normalize();
    Ok(draft)
}

/// Returns the managed fields of a configuration, without those that the author may not write.
fn configuration_of(applied: &Draft, author: &Author<'_>, resource: &Resource) -> Value {
    let mut value = managed(applied);
    if let Value::Object(fields) = &mut value {
        match author.part {
            WritablePart::Status => fields.retain(|field, _| field == "status"),
            WritablePart::Main if resource.has_status() => drop(fields.remove("status")),
            WritablePart::Main | WritablePart::Scale | WritablePart::Everything => {}
        }
    }
    value
}

/// Returns the managers of the object before a configuration is applied. If the object has no
/// managers, [`BEFORE`] becomes the manager of all its fields. In a write of the scale, `BEFORE`
/// also becomes the manager of a number of replicas without one. `live` is the object without the
/// metadata that no manager has.
fn first_managers(
    resource: &Resource,
    before: Option<&Draft>,
    live: &Value,
    author: &Author<'_>,
    own: &Manager,
    now: &str,
) -> Managers {
    let mut managers = before.map(|before| Managers::read(&before.metadata)).unwrap_or_default();
    if managers.is_empty() && before.is_some() {
        let first = Manager { name: BEFORE.to_owned(), applies: false, ..own.clone() };
        let first = Manager { subresource: String::new(), ..first };
        let all = compare(Some(&Map::new().into()), Some(live), &Place::root(resource)).changed;
        managers.set(&first, all, now);
    }
    if author.part == WritablePart::Scale {
        let number = FieldSet::of_path(&scale::path_of_replicas(resource));
        let is_live = live.pointer("/spec/replicas").is_some_and(|number| *number != 0);
        if is_live && !managers.have(&number) {
            let name = BEFORE.to_owned();
            managers.set(&Manager { name, applies: false, ..own.clone() }, number, now);
        }
    }
    managers
}

/// Returns the changed fields that belong to other managers, with these managers. `kubectl` may
/// change a field that still has the value in the annotation of the last applied configuration.
fn conflicts_of(
    resource: &Resource,
    before: Option<&Draft>,
    live: &Value,
    managers: &Managers,
    own: &Manager,
    changed: &FieldSet,
) -> Vec<(Manager, FieldSet)> {
    let mut conflicts = managers.conflicts(own, changed);
    if own.name == last_applied::MANAGER && !conflicts.is_empty() {
        let allowed = before.and_then(|before| last_applied::unchanged(resource, before, live));
        for (_, fields) in &mut conflicts {
            fields.subtract(allowed.as_ref().unwrap_or(&FieldSet::default()));
        }
        conflicts.retain(|(_, fields)| !fields.is_empty());
    }
    conflicts
}

/// Returns a merged object, with the metadata of `source` that no manager has.
fn with_unmanaged_metadata(mut rest: Fields, source: &Draft) -> Draft {
    let mut metadata = match rest.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Fields::new(),
    };
    for field in UNMANAGED {
        if let Some(value) = source.metadata.get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    Draft { metadata, rest }
}

/// Returns whether a configuration has managers of fields. As in the real server, a list with a
/// null counts as none.
fn has_managers(metadata: &Fields) -> bool {
    match metadata.get(FIELD) {
        Some(Value::Array(list)) => !list.iter().any(Value::is_null),
        _ => false,
    }
}

/// Returns the refusal of a configuration with lists that cannot merge.
fn not_typed(resource: &Resource, applied: &Draft, faults: &[String]) -> Status {
    let part = |field| text(&applied.metadata, field);
    let (name, namespace, kind) = (part("name"), part("namespace"), resource.kind());
    let (group, version) = (&resource.api.group, &resource.api.version);
    let faults = match faults {
        [fault] => fault.clone(),
        faults => format!("errors:\n  {}", faults.join("\n  ")),
    };
    status::unknown_error(&format!(
        "failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {faults}"
    ))
}

/// Returns the 409 of a configuration that changes fields of other managers. It names some of many
/// fields.
fn refusal(mut conflicts: Vec<(Manager, FieldSet)>) -> Status {
    conflicts.sort_by_cached_key(|(manager, _)| manager.title());
    let count: usize = conflicts.iter().map(|(_, fields)| fields.count()).sum();
    let mut left = MOST_CAUSES;
    let mut paths: Vec<(String, Vec<String>)> = Vec::new();
    for (manager, fields) in conflicts {
        let some = fields.paths(left);
        left -= some.len();
        if !some.is_empty() {
            paths.push((shortened(manager.title()), some));
        }
    }
    let causes = paths.iter().flat_map(|(title, paths)| {
        paths.iter().map(move |path| (format!("conflict with {title}"), path.clone()))
    });
    let causes: Vec<(String, String)> = causes.collect();
    let message = match (causes.as_slice(), paths.as_slice()) {
        ([(why, path)], _) => format!("Apply failed with 1 conflict: {why}: {path}"),
        (_, paths) => {
            let groups = paths
                .iter()
                .map(|(title, paths)| format!("conflicts with {title}:\n- {}", paths.join("\n- ")));
            let mut groups: Vec<String> = groups.collect();
            if count > causes.len() {
                groups.push(format!("and {} more", count - causes.len()));
            }
            format!("Apply failed with {count} conflicts: {}", groups.join("\n"))
        }
    };
    status::apply_conflict(&message, &causes)
}

#[cfg(test)]
mod tests {
    use super::fields::{FieldSet, LONGEST, MOST_CAUSES};
    use super::managers::Manager;
    use super::refusal;

    #[test]
    fn refusal_of_many_conflicts_names_some() {
        let manager = |number: usize| Manager {
            name: format!("{number}{}", "m".repeat(10_000)),
            applies: false,
            api_version: "v1".to_owned(),
            subresource: String::new(),
        };
        let mut fields = FieldSet::default();
        for number in 0..60 {
            fields.insert(format!("f:{number}"), FieldSet::leaf());
        }
        let status = refusal((0..60).map(|number| (manager(number), fields.clone())).collect());
        assert_eq!(status.details.unwrap().causes.len(), MOST_CAUSES);
        assert!(status.message.starts_with("Apply failed with 3600 conflicts: "));
        assert!(status.message.ends_with("\nand 3500 more"), "{}", status.message);
        assert!(status.message.len() <= 2 * LONGEST * MOST_CAUSES);
    }
}
