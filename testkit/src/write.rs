//! The responses to requests that read or write one object, and to deletions of a collection.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{self, Call};
use crate::author::Author;
use crate::body::Body;
use crate::delete::{DeleteOptions, Deletion};
use crate::known::Trait;
use crate::object::{Draft, Key, Object, Shape, text};
use crate::options::ListOptions;
use crate::patch::Patch;
use crate::request::is_true;
use crate::status::{self, Refused};
use crate::walk::Position;
use crate::{apply, change, delete as deletion, list};

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
    let author = Author::client(call.request, false);
    let object = call.server.with_current(call.place, &key, |store, current| match current {
        Some(_) => Err(Box::new(status::already_exists(resource, &key.name))),
        None => change::create(store, call.place, key.clone(), draft, &author),
    })?;
    Ok(show(call, StatusCode::CREATED, &object))
}

pub(crate) fn update(call: &Call<'_>, body: &[u8], is_status: bool) -> Refused<Response<Body>> {
    let resource = &call.resource;
    let draft = Draft::parse(body, resource)?;
    if resource.is_custom() && text(&draft.metadata, "resourceVersion").is_empty() {
        let fault = "Invalid value: 0: must be specified for an update";
        let name = call.request.name().unwrap_or_default();
        return Err(Box::new(status::invalid_update(resource, name, fault)));
    }
    modify(call, is_status, |_| Ok(draft))
}

/// Replaces the finalizers in the specification of a namespace.
pub(crate) fn finalize(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let mut given = Draft::parse(body, &call.resource)?;
    modify(call, false, |current| {
        let mut draft = current.draft.clone();
        draft.rest.remove("spec");
        let mut spec = given.rest.remove("spec").unwrap_or_else(|| json!({}));
        if let Value::Object(spec) = &mut spec
            && spec.get("finalizers").is_some_and(|finalizers| *finalizers == json!([]))
        {
            spec.remove("finalizers");
        }
        draft.rest.insert("spec".to_owned(), spec);
        Ok(draft)
    })
}

pub(crate) fn patch(call: &Call<'_>, body: &[u8], is_status: bool) -> Refused<Response<Body>> {
    let forces = call.request.parameter("force").is_some_and(is_true);
    let refuse =
        |reason, field, fault| Err(Box::new(status::options("PatchOptions", reason, field, fault)));
    match Patch::read(&call.resource, call.request.content_type(), body)? {
        Patch::Apply(configuration) => {
            if call.request.parameter("fieldManager").is_none_or(str::is_empty) {
                let fault = "Required value: is required for apply patch";
                return refuse("FieldValueRequired", "fieldManager", fault);
            }
            apply(call, configuration, is_status, forces)
        }
        _ if forces => {
            let fault = "Forbidden: may not be specified for non-apply patch";
            refuse("FieldValueForbidden", "force", fault)
        }
        patch => modify(call, is_status, |current| {
            let mut json = current.to_json(&call.resource, Shape::Whole);
            patch.apply(&mut json, &call.resource, &current.key.name)?;
            Draft::new(json, &call.resource)
        }),
    }
}

/// Applies a configuration to an object, or creates the object.
fn apply(
    call: &Call<'_>,
    configuration: Value,
    is_status: bool,
    forces: bool,
) -> Refused<Response<Body>> {
    let resource = &call.resource;
    check_dry_run(call)?;
    let key = path_key(call);
    check_configuration(call, &configuration)?;
    let draft = Draft::new(configuration, resource)?;
    let author = Author::client(call.request, is_status);
    let (code, object) = call.server.with_current(call.place, &key, |store, current| {
        let Some(current) = current else {
            if is_status {
                return Err(Box::new(status::not_found(resource, &key.name)));
            }
            change::check_name(&key, &draft)?;
            check_new(call, &draft)?;
            let draft = apply::apply(resource, None, &draft, &author, forces)?;
            let object = change::create(store, call.place, key.clone(), draft, &author)?;
            return Ok((StatusCode::CREATED, object));
        };
        let before = &current.object.draft;
        let applied = apply::apply(resource, Some(before), &draft, &author, forces)?;
        change::check_name(&key, &draft)?;
        check_version(call, &current.object, &draft)?;
        let object = change::settle(store, call.place, current, applied, &author)?;
        Ok((StatusCode::OK, object))
    })?;
    Ok(show(call, code, &object))
}

/// Refuses a configuration of another kind, or with managers of fields.
fn check_configuration(call: &Call<'_>, configuration: &Value) -> Refused<()> {
    let refuse = |message: &str| Err(Box::new(status::bad_request(message)));
    let field = |name: &str| configuration.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (field("kind"), field("apiVersion"));
    if (kind, api_version) != (call.resource.kind(), call.resource.api_version()) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return refuse(&format!("invalid object type: {group}/{version}, Kind={kind}"));
    }
    let managers = configuration.pointer("/metadata/managedFields");
    if managers.is_some_and(|managers| *managers != json!([])) {
        return refuse("metadata.managedFields must be nil");
    }
    Ok(())
}

/// Refuses a new object with a uid.
fn check_new(call: &Call<'_>, draft: &Draft) -> Refused<()> {
    let uid = text(&draft.metadata, "uid");
    if uid.is_empty() {
        return Ok(());
    }
    let name = text(&draft.metadata, "name");
    let why = format!(
        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    );
    Err(Box::new(status::conflict_because(&call.resource, name, &why)))
}

pub(crate) fn delete(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let resource = &call.resource;
    let (options, deletion) = options(call, body)?;
    let key = path_key(call);
    let (object, is_gone) = call.server.with_current(call.place, &key, |store, current| {
        let current = current.ok_or_else(|| status::not_found(resource, &key.name))?;
        if let Some(preconditions) = &options.preconditions {
            preconditions.check(resource, &current.object)?;
        }
        Refused::Ok(deletion::delete(store, call.place, current, deletion))
    })?;
    if is_gone && !resource.has(Trait::ShownWhenDeleted) {
        let status = status::to_json(&status::deleted(resource, &key.name, object.uid()));
        return Ok(answer::json(StatusCode::OK, Body::whole(status.to_string())));
    }
    Ok(show(call, StatusCode::OK, &object))
}

pub(crate) fn delete_collection(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let (_, deletion) = options(call, body)?;
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
            current.map(|current| deletion::delete(store, call.place, current, deletion).0)
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
    let author = Author::client(call.request, is_status);
    let object = call.server.with_current(call.place, &key, |store, current| {
        let current = current.ok_or_else(|| status::not_found(resource, &key.name))?;
        let draft = make(&current.object)?;
        change::check_name(&key, &draft)?;
        check_version(call, &current.object, &draft)?;
        change::replace(store, call.place, current, draft, &author)
    })?;
    Ok(show(call, StatusCode::OK, &object))
}

/// Refuses the write if the draft names another uid or version than the object's.
fn check_version(call: &Call<'_>, current: &Object, draft: &Draft) -> Refused<()> {
    let (uid, version) = (text(&draft.metadata, "uid"), text(&draft.metadata, "resourceVersion"));
    change::check_same(&call.resource, current, uid, version)
}

fn show(call: &Call<'_>, code: StatusCode, object: &Object) -> Response<Body> {
    answer::json(code, Body::whole(object.alone(&call.resource, call.shape(), true).to_string()))
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

/// Reads the options of a deletion, from the body and the query.
fn options(call: &Call<'_>, body: &[u8]) -> Refused<(DeleteOptions, Deletion)> {
    check_dry_run(call)?;
    let options: DeleteOptions = if body.is_empty() {
        DeleteOptions::default()
    } else {
        serde_json::from_slice(body)
            .map_err(|error| status::bad_request(&format!("invalid DeleteOptions: {error}")))?
    };
    if options.dry_run.as_ref().is_some_and(|stages| !stages.is_empty()) {
        return Err(no_dry_run());
    }
    let deletion = Deletion::new(&options, |name| call.request.parameter(name))?;
    Ok((options, deletion))
}
