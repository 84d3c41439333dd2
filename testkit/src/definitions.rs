//! Custom resource definitions: the server serves the resource of each one that is created.

use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::{Value, json};

use crate::Resource;
use crate::change::{self, now};
use crate::object::{Draft, text};
use crate::store::Store;

/// Serves the resources of the definitions in the collection at `place`, and marks the definitions
/// as established. Does nothing for other collections, and for definitions that it has seen.
pub(crate) fn register(store: &mut Store, place: usize) {
    let collection = &store.collections[place];
    if !collection.resource.is_definition() {
        return;
    }
    let is_new = |draft: &Draft| draft.at(["status", "acceptedNames"]).is_none();
    let new = collection.stored.iter().filter(|(_, object)| is_new(&object.draft));
    let new: Vec<_> = new.map(|(key, object)| (key.clone(), resource(&object.draft))).collect();
    for (key, resource) in new {
        let Some(resource) = resource else { continue };
        store.register(resource);
        if let Some(current) = store.collections[place].stored(&key) {
            let mut draft = current.object.draft.clone();
            let status = status(&draft);
            draft.rest.insert("status".to_owned(), status);
            change::put(store, place, current, draft);
        }
    }
}

/// Returns the resource of a definition: its stored version, or `None` if the definition is not
/// complete.
fn resource(definition: &Draft) -> Option<Resource> {
    let spec = definition.rest.get("spec")?.as_object()?;
    let names = spec.get("names")?.as_object()?;
    let group = text(spec, "group");
    let versions = spec.get("versions")?.as_array()?;
    let is_stored = |version: &&Value| version["storage"] == true;
    let version = versions.iter().find(is_stored)?;
    let name = version["name"].as_str()?;
    let api = ApiResource {
        group: group.to_owned(),
        version: name.to_owned(),
        api_version: format!("{group}/{name}"),
        kind: text(names, "kind").to_owned(),
        plural: text(names, "plural").to_owned(),
    };
    if [&api.group, &api.kind, &api.plural].into_iter().any(String::is_empty) {
        return None;
    }
    let scope = match text(spec, "scope") {
        "Cluster" => Scope::Cluster,
        _ => Scope::Namespaced,
    };
    let has_status = version["subresources"].get("status").is_some();
    let mut resource = Resource::custom(api, scope).status_subresource(has_status);
    let texts = |list: Option<&Value>| -> Vec<String> {
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    for name in texts(names.get("shortNames")) {
        resource = resource.short_name(&name);
    }
    for field in version["selectableFields"].as_array().into_iter().flatten() {
        let path = field["jsonPath"].as_str().unwrap_or_default();
        resource = resource.selectable_field(path.trim_start_matches('.'));
    }
    Some(resource.with_schema(version["schema"]["openAPIV3Schema"].clone()))
}

/// Returns the status of a definition whose resource is served.
fn status(definition: &Draft) -> Value {
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "",
            "lastTransitionTime": now(),
        })
    };
    let spec = |field: &str| definition.at(["spec", field]).cloned().unwrap_or_default();
    let stored = spec("versions");
    let stored = stored.as_array().into_iter().flatten();
    let stored: Vec<&Value> = stored
        .filter(|version| version["storage"] == true)
        .map(|version| &version["name"])
        .collect();
    json!({
        "acceptedNames": spec("names"),
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts"),
            condition("Established", "InitialNamesAccepted"),
        ],
    })
}
