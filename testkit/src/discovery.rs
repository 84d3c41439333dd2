//! The answers about the server itself: its version, groups, versions and resources.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::Resource;
use crate::answer::{self, text};
use crate::body::Body;
use crate::known::Trait;
use crate::request::{Request, SCALE};
use crate::scale;
use crate::server::ServerState;
use crate::status::{self, Refused};

/// The version of Kubernetes whose behaviour the server follows.
const MINOR: &str = "36";
const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Answers a request for a path that names no resource, or returns `None` if there is no such
/// path.
pub(crate) fn answer(
    server: &Arc<ServerState>,
    request: &Request,
) -> Option<Refused<Response<Body>>> {
    let path = request.path().strip_prefix('/')?;
    let path = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path);
    let resources: Vec<Arc<Resource>> = {
        let store = server.store.lock();
        store.collections.iter().map(|collection| Arc::clone(&collection.resource)).collect()
    };
    let parts: Vec<&str> = path.split('/').collect();
    let found = match parts.as_slice() {
        ["healthz" | "livez" | "readyz"] => return Some(Ok(text(StatusCode::OK, "ok"))),
        ["version"] => version(),
        ["api"] => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }),
        ["apis"] => groups(&resources),
        ["api", version] => resource_list("", version, &resources)?,
        ["apis", group] => one_group(group, &resources)?,
        ["apis", group, version] => resource_list(group, version, &resources)?,
        _ => return None,
    };
    if request.method() != Method::GET {
        return Some(Err(Box::new(status::method_not_allowed())));
    }
    Some(Ok(answer::json(StatusCode::OK, Body::whole(found.to_string()))))
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": MINOR,
        "gitVersion": format!("v1.{MINOR}.0-deltafifo-testkit"),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    })
}

fn groups(resources: &[Arc<Resource>]) -> Value {
    let mut groups: Vec<(&str, Vec<&Resource>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for resource in resources.iter().filter(|resource| !resource.api.group.is_empty()) {
        let group = resource.api.group.as_str();
        let place = *places.entry(group).or_insert_with(|| {
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(resource);
    }
    let groups: Vec<Value> = groups.iter().map(|(group, own)| group_json(group, own)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn one_group(group: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let own = resources.iter().filter(|resource| resource.api.group == group);
    let own: Vec<&Resource> = own.map(AsRef::as_ref).collect();
    (!group.is_empty() && !own.is_empty()).then(|| {
        let mut json = group_json(group, &own);
        json["kind"] = "APIGroup".into();
        json["apiVersion"] = "v1".into();
        json
    })
}

/// Returns a group with the versions of its resources.
fn group_json(group: &str, own: &[&Resource]) -> Value {
    let mut known = HashSet::new();
    let new = own.iter().filter(|resource| known.insert(resource.api.version.as_str()));
    let versions: Vec<Value> = new
        .map(|resource| {
            json!({ "groupVersion": resource.api_version(), "version": resource.api.version })
        })
        .collect();
    json!({ "name": group, "preferredVersion": versions.first(), "versions": versions })
}

fn resource_list(group: &str, version: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let own: Vec<&Arc<Resource>> = resources
        .iter()
        .filter(|resource| resource.api.group == group && resource.api.version == version)
        .collect();
    let api_version = match own.first() {
        Some(resource) => resource.api_version().to_owned(),
        // The core group is always there.
        None if (group, version) == ("", "v1") => version.to_owned(),
        None => return None,
    };
    let resources: Vec<Value> = own.into_iter().flat_map(|resource| entries(resource)).collect();
    let mut json =
        json!({ "kind": "APIResourceList", "groupVersion": api_version, "resources": resources });
    // The list of the core group has no version of its own, in the real server.
    if !group.is_empty() {
        json["apiVersion"] = "v1".into();
    }
    Some(json)
}

/// Returns the entries of a resource and of its subresources.
fn entries(resource: &Resource) -> Vec<Value> {
    // Namespaces are deleted one by one.
    let verbs = VERBS.into_iter();
    let verbs = verbs.filter(|verb| !resource.is_namespace() || *verb != "deletecollection");
    let mut own = json!({
        "name": resource.plural(),
        "singularName": resource.kind().to_lowercase(),
        "namespaced": resource.is_namespaced(),
        "kind": resource.kind(),
        "verbs": verbs.collect::<Vec<_>>(),
    });
    if !resource.short_names().is_empty() {
        own["shortNames"] = resource.short_names().into();
    }
    if resource.has(Trait::InAll) {
        own["categories"] = json!(["all"]);
    }
    let subresource = |name: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}/{name}", resource.plural()),
            "singularName": "",
            "namespaced": resource.is_namespaced(),
            "kind": resource.kind(),
            "verbs": verbs,
        })
    };
    let mut entries = vec![own];
    if resource.is_namespace() {
        entries.push(subresource("finalize", &["update"]));
    }
    if resource.has_scale() {
        let mut scale = subresource(SCALE, &["get", "patch", "update"]);
        let kind = scale::resource();
        scale["group"] = kind.api.group.as_str().into();
        scale["version"] = kind.api.version.as_str().into();
        scale["kind"] = kind.kind().into();
        entries.push(scale);
    }
    if resource.has_status() {
        entries.push(subresource("status", &["get", "patch", "update"]));
    }
    entries
}
