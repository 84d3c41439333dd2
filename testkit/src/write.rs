//! The responses to requests that read or write one object, and to deletions of a collection.

use http::{Response, StatusCode};
use json_patch::PatchOperation;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Resource;
use crate::answer::{self, Call};
use crate::body::Body;
use crate::object::{Draft, Key, Object, Shape, text};
use crate::options::ListOptions;
use crate::status::{self, Refused};
use crate::walk::Position;
use crate::{change, list};

const PATCHES: &str = "application/json-patch+json, application/merge-patch+json";

pub(crate) fn get(call: &Call<'_>) -> Refused<Response<Body>> {
    let options = ListOptions::read(call)?;
    let newest = call.server.store.lock().version;
    if let Some(wanted) = options.version.filter(|wanted| *wanted > newest) {
        return Err(Box::new(status::too_large(wanted, newest)));
    }
    let key = path_key(call);
    let current = call.server.with_current(call.place, &key, |_, current| current);
    let current = current.ok_or_else(|| status::not_found(&call.resource, &key.name))?;
    Ok(show(call, StatusCode::OK, &current.object))
}

pub(crate) fn create(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let resource = &call.resource;
    check_dry_run(call)?;
    let draft = Draft::parse(body, resource)?;
    if !text(&draft.metadata, "resourceVersion").is_empty() {
        return Err(Box::new(status::unknown_error(
            "resourceVersion should not be set on objects to be created",
        )));
    }
    let key = call.server.key_of(&draft, resource, call.request.namespace())?;
    let object = call.server.with_current(call.place, &key, |store, current| match current {
        Some(_) => Err(Box::new(status::already_exists(resource, &key.name))),
        None => Ok(change::create(store, call.place, key.clone(), draft)),
    })?;
    Ok(show(call, StatusCode::CREATED, &object))
}

pub(crate) fn update(call: &Call<'_>, body: &[u8], is_status: bool) -> Refused<Response<Body>> {
    let resource = &call.resource;
    let draft = Draft::parse(body, resource)?;
    if resource.is_custom() && text(&draft.metadata, "resourceVersion").is_empty() {
        let fault = "Invalid value: 0: must be specified for an update";
        let name = call.request.name().unwrap_or_default();
        return Err(Box::new(status::invalid(resource, name, "metadata.resourceVersion", fault)));
    }
    modify(call, is_status, |_| Ok(draft))
}

pub(crate) fn patch(call: &Call<'_>, body: &[u8], is_status: bool) -> Refused<Response<Body>> {
    let patch = Patch::read(call.request.content_type(), body)?;
    modify(call, is_status, |current| {
        let mut json = current.to_json(&call.resource, Shape::Whole);
        patch.apply(&mut json, &call.resource, &current.key.name)?;
        Draft::new(json, &call.resource)
    })
}

pub(crate) fn delete(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let resource = &call.resource;
    let Preconditions { uid, resource_version } = DeleteOptions::read(call, body)?.preconditions;
    let key = path_key(call);
    let (object, is_gone) = call.server.with_current(call.place, &key, |store, current| {
        let current = current.ok_or_else(|| status::not_found(resource, &key.name))?;
        change::check_same(resource, &current.object, &uid, &resource_version)?;
        Refused::Ok(change::delete(store, call.place, current))
    })?;
    if is_gone {
        let status = status::to_json(&status::deleted(resource, &key.name, object.uid()));
        return Ok(answer::json(StatusCode::OK, Body::whole(status.to_string())));
    }
    Ok(show(call, StatusCode::OK, &object))
}

pub(crate) fn delete_collection(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    DeleteOptions::read(call, body)?;
    let options = ListOptions::read(call)?;
    let walk = {
        let store = call.server.store.lock();
        let collection = &store.collections[call.place];
        collection.walk(store.version, &Position::start(), options.filter, usize::MAX)
    };
    let mut deleted = Vec::new();
    for object in walk {
        // Another client may have deleted the object since the walk started.
        let gone = call.server.with_current(call.place, &object.key, |store, current| {
            current.map(|current| change::delete(store, call.place, current).0)
        });
        deleted.extend(gone);
    }
    let version = call.server.store.lock().version;
    Ok(list::reply(
        call,
        &json!({ "resourceVersion": version.to_string() }),
        Box::new(deleted.into_iter()),
    ))
}

/// Replaces the object with the result of `make`. If `is_status`, replaces only the status.
fn modify(
    call: &Call<'_>,
    is_status: bool,
    make: impl FnOnce(&Object) -> Refused<Draft>,
) -> Refused<Response<Body>> {
    let resource = &call.resource;
    check_dry_run(call)?;
    let key = path_key(call);
    let object = call.server.with_current(call.place, &key, |store, current| {
        let current = current.ok_or_else(|| status::not_found(resource, &key.name))?;
        let mut draft = make(&current.object)?;
        change::check_name(&key, &draft)?;
        let (uid, version) =
            (text(&draft.metadata, "uid"), text(&draft.metadata, "resourceVersion"));
        change::check_same(resource, &current.object, uid, version)?;
        if is_status {
            let status = draft.rest.remove("status");
            draft = current.object.draft.clone();
            match status {
                Some(status) => draft.rest.insert("status".to_owned(), status),
                None => draft.rest.remove("status"),
            };
        }
        Refused::Ok(change::replace(store, call.place, current, draft))
    })?;
    Ok(show(call, StatusCode::OK, &object))
}

fn show(call: &Call<'_>, code: StatusCode, object: &Object) -> Response<Body> {
    answer::json(code, Body::whole(object.to_json(&call.resource, call.shape()).to_string()))
}

/// Returns the key that the path names.
fn path_key(call: &Call<'_>) -> Key {
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    Key { namespace: part(call.request.namespace()), name: part(call.request.name()) }
}

fn check_dry_run(call: &Call<'_>) -> Refused<()> {
    if call.request.parameter("dryRun").is_some() { Err(no_dry_run()) } else { Ok(()) }
}

fn no_dry_run() -> Box<kube::core::Status> {
    Box::new(status::bad_request("the test server does not support dry runs: leave dryRun out"))
}

enum Patch {
    Merge(Value),
    Operations(Vec<PatchOperation>),
}

impl Patch {
    fn read(content_type: &str, body: &[u8]) -> Refused<Self> {
        let patch = match content_type {
            "application/merge-patch+json" => serde_json::from_slice(body).map(Self::Merge),
            "application/json-patch+json" => serde_json::from_slice(body).map(Self::Operations),
            _ => return Err(Box::new(status::unsupported_media_type(PATCHES))),
        };
        Ok(patch.map_err(|error| status::bad_request(&format!("invalid patch: {error}")))?)
    }

    fn apply(&self, object: &mut Value, resource: &Resource, name: &str) -> Refused<()> {
        match self {
            Self::Merge(patch) => json_patch::merge(object, patch),
            Self::Operations(patch) => {
                for operation in patch {
                    if !tests_nothing(operation, object) {
                        json_patch::patch(object, std::slice::from_ref(operation)).map_err(
                            |error| status::invalid(resource, name, "patch", &error.to_string()),
                        )?;
                    }
                }
            }
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

/// The fields of `DeleteOptions` that the server supports.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeleteOptions {
    preconditions: Preconditions,
    dry_run: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Preconditions {
    uid: String,
    resource_version: String,
}

impl DeleteOptions {
    fn read(call: &Call<'_>, body: &[u8]) -> Refused<Self> {
        check_dry_run(call)?;
        if body.is_empty() {
            return Ok(Self::default());
        }
        let options: Self = serde_json::from_slice(body)
            .map_err(|error| status::bad_request(&format!("invalid DeleteOptions: {error}")))?;
        if options.dry_run.is_empty() { Ok(options) } else { Err(no_dry_run()) }
    }
}
