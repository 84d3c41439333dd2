//! Custom resource definitions: the server serves the resource of each one that is created.

use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::{Value, json};

use crate::change::{self, now};
use crate::object::{Draft, text};
use crate::status::{self, Refused};
use crate::store::Store;
use crate::{Resource, scale};

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

/// The largest number of selectable fields of a version, as in the real server.
const MOST_FIELDS: usize = 8;
/// The largest number of bytes of the keys of a list with their defaults. Each element of a list
/// gets a name that contains them.
const LONGEST_KEYS: usize = 512;

/// Refuses a definition with invalid paths of a scale, or one with which each object could take
/// much more work and memory than its size.
pub(crate) fn check(resource: &Resource, definition: &Draft) -> Refused<()> {
    let refuse = |field: &str, fault: &str| {
        let name = text(&definition.metadata, "name");
        let field = format!("spec.versions.{field}");
        Err(Box::new(status::invalid(resource, name, &field, fault)))
    };
    let versions = definition.at(["spec", "versions"]).and_then(Value::as_array);
    for version in versions.into_iter().flatten() {
        if version["selectableFields"].as_array().is_some_and(|fields| fields.len() > MOST_FIELDS) {
            let fault = format!("Too many: must have at most {MOST_FIELDS} items");
            return refuse("selectableFields", &fault);
        }
        if !has_short_keys(&version["schema"]) {
            let fault = format!(
                "Too long: the keys of a list, with their defaults, must have at most {LONGEST_KEYS} bytes"
            );
            return refuse("schema", &fault);
        }
        let scale = version["subresources"].get("scale").filter(|scale| !scale.is_null());
        if let Some((field, fault)) = scale.and_then(scale::fault_of_paths) {
            return refuse(&format!("subresources.scale.{field}"), &fault);
        }
    }
    Ok(())
}

/// Returns whether all lists of a schema have short keys.
fn has_short_keys(schema: &Value) -> bool {
    let below = |value: &Value| match value {
        Value::Array(list) => list.iter().all(has_short_keys),
        Value::Object(map) => map.values().all(has_short_keys),
        _ => true,
    };
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let properties = schema.pointer("/items/properties");
    let length = |key: &str| {
        let default = properties.and_then(|all| all.get(key)?.get("default"));
        // Quotes, a colon and a comma.
        4 + key.len() + default.map_or(0, |default| default.to_string().len())
    };
    let mut left = LONGEST_KEYS;
    let is_short = |key: &str| {
        left = left.saturating_sub(length(key));
        left > 0
    };
    keys.into_iter().flatten().filter_map(Value::as_str).all(is_short) && below(schema)
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
    let paths = scale::Paths::read(&version["subresources"]["scale"]);
    let resource = resource.with_scale(paths);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{check, has_short_keys};
    use crate::Resource;
    use crate::object::Draft;

    /// Returns the schema of a list in a list, with these keys and this default of the first.
    fn schema(keys: usize, default: &str) -> Value {
        let keys: Vec<String> = (0..keys).map(|number| format!("k{number}")).collect();
        let list = json!({
            "x-kubernetes-list-map-keys": keys,
            "items": { "properties": { "k0": { "default": default } } },
        });
        json!({ "properties": { "spec": { "items": list } } })
    }

    #[test]
    fn keys_of_lists_are_short() {
        assert!(has_short_keys(&schema(6, "gateway.networking.k8s.io")));
        assert!(!has_short_keys(&schema(100, "")));
        assert!(!has_short_keys(&schema(1, &"a".repeat(1_000))));
    }

    #[test]
    fn definition_has_a_few_selectable_fields() {
        let definitions = Resource::known().find(Resource::is_definition).unwrap();
        let version = |fields: usize| {
            let fields: Value = (0..fields).map(|_| json!({ "jsonPath": ".spec.a" })).collect();
            let spec = json!({ "versions": [{ "selectableFields": fields }] });
            Draft::new(json!({ "spec": spec }), &definitions).unwrap()
        };
        assert!(check(&definitions, &version(8)).is_ok());
        assert_eq!(check(&definitions, &version(9)).unwrap_err().code, 422);
    }
}
