//! The responses to requests that read or write one object, and to deletions of a collection.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{self, Call};
use crate::author::{Author, WritablePart};
use crate::body::Body;
use crate::delete::{DeleteOptions, Deletion};
use crate::known::Trait;
use crate::object::{Draft, Fields, Key, Object, Shape, text};
use crate::options::ListOptions;
use crate::patch::Patch;
use crate::request::{Request, is_true};
use crate::status::{self, Refused};
use crate::store::{Current, Store};
use crate::{Resource, apply, change, delete as deletion, list, scale};

/// The message of the real server, which cannot apply the scale of a custom resource.
const NO_APPLIED_SCALE: &str = "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1";

pub(crate) fn get(call: &Call<'_>) -> Refused<Response<Body>> {
    let options = ListOptions::read(call)?;
    let newest = call.server.store.lock().version;
    if let Some(wanted) = options.version.filter(|wanted| *wanted > newest) {
        return Err(Box::new(status::too_large(wanted, newest)));
    }
    let key = path_key(call);
    let current = call.server.with_current(call.place, &key, |_, current| current);
    let current = current.ok_or_else(|| status::not_found(&call.resource, &key.name))?;
    if call.part == WritablePart::Scale {
        let scale = scale::shown(&current.object, &call.resource)?;
        return Ok(answer::json(StatusCode::OK, Body::whole(scale.to_string())));
    }
    Ok(show(call, StatusCode::OK, &current.object))
}

pub(crate) fn create(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let resource = &call.resource;
    let mut draft = Draft::decode(call.read(body)?, resource)?;
    // The real server ignores the managers of a new object.
    draft.metadata.remove("managedFields");
    if !text(&draft.metadata, "resourceVersion").is_empty() {
        return Err(Box::new(status::unknown_error(
            "resourceVersion should not be set on objects to be created",
        )));
    }
    let author = Author::client(call.request, call.part);
    let namespace = call.request.namespace();
    let object = call.server.with_new_key(&draft, resource, namespace, call.is_dry, |key| {
        with_current(call, key, |store, current| {
            let (key, draft) = (key.clone(), draft.clone());
            change::create(store, call.place, key, current.as_ref(), draft, &author)
        })
    })?;
    Ok(show(call, StatusCode::CREATED, &object))
}

pub(crate) fn update(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let resource = &call.resource;
    if call.part == WritablePart::Scale {
        let scale = Draft::decode(call.read(body)?, &scale::resource())?;
        change::check_name(&path_key(call), &scale)?;
        return modify(call, |current| scale::scaled(&current.draft, &scale, resource));
    }
    let draft = Draft::decode(call.read(body)?, resource)?;
    change::check_name(&path_key(call), &draft)?;
    if resource.is_custom() && matches!(text(&draft.metadata, "resourceVersion"), "" | "0") {
        let fault = "Invalid value: 0: must be specified for an update";
        let name = call.request.name().unwrap_or_default();
        return Err(Box::new(status::invalid_update(resource, name, fault)));
    }
    modify(call, |_| Ok(draft))
}

/// Replaces the finalizers in the specification of a namespace.
pub(crate) fn finalize(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let mut given = Draft::decode(call.read(body)?, &call.resource)?;
    change::check_name(&path_key(call), &given)?;
    modify(call, |current| {
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

pub(crate) fn patch(call: &Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let forces = call.request.parameter("force").is_some_and(is_true);
    let refuse =
        |reason, field, fault| Err(Box::new(status::options("PatchOptions", reason, field, fault)));
    let patch = Patch::read(&call.resource, call.request.content_type(), body)?;
    match patch {
        Patch::Apply(configuration) => {
            if call.request.parameter("fieldManager").is_none_or(str::is_empty) {
                let fault = "Required value: is required for apply patch";
                return refuse("FieldValueRequired", "fieldManager", fault);
            }
            apply(call, configuration, forces)
        }
        _ if forces => {
            let fault = "Forbidden: may not be specified for non-apply patch";
            refuse("FieldValueForbidden", "force", fault)
        }
        patch if call.part == WritablePart::Scale => modify(call, |current| {
            let (mut json, kind) = (scale::of(current, &call.resource), scale::resource());
            patch.apply(&mut json, &kind, &current.key.name)?;
            let scale = Draft::patched(json, &kind, &Fields::new())?;
            scale::scaled(&current.draft, &scale, &call.resource)
        }),
        patch => modify(call, |current| {
            let mut json = current.to_json(&call.resource, Shape::Whole);
            patch.apply(&mut json, &call.resource, &current.key.name)?;
            let draft = Draft::patched(json, &call.resource, &current.draft.metadata)?;
            change::check_kept(&call.resource, current, &draft, "uid")?;
            Ok(draft)
        }),
    }
}

/// Applies a configuration to an object, or creates the object.
fn apply(call: &Call<'_>, configuration: Value, forces: bool) -> Refused<Response<Body>> {
    let resource = &call.resource;
    let key = path_key(call);
    let draft = if call.part == WritablePart::Scale {
        check_configuration(&scale::resource(), &configuration)?;
        scale::configuration(&Draft::new(configuration, &scale::resource())?, resource)?
    } else {
        check_configuration(resource, &configuration)?;
        Draft::new(configuration, resource)?
    };
    let author = Author::client(call.request, call.part);
    let (code, object) = with_current(call, &key, |store, current| {
        let Some(current) = current else {
            if call.part != WritablePart::Main {
                return Err(Box::new(status::not_found(resource, &key.name)));
            }
            let applied = apply::apply(resource, None, &draft, &author, forces)?;
            change::check_name(&key, &draft)?;
            check_new(call, &draft)?;
            let object = change::create(store, call.place, key.clone(), None, applied, &author)?;
            return Ok((StatusCode::CREATED, object));
        };
        if call.part == WritablePart::Scale && resource.is_custom() {
            return Err(Box::new(status::unknown_error(NO_APPLIED_SCALE)));
        }
        let before = &current.object.draft;
        let mut applied = apply::apply(resource, Some(before), &draft, &author, forces)?;
        change::check_name(&key, &draft)?;
        change::check_kept(resource, &current.object, &draft, "uid")?;
        check_version(call, &current.object, &draft)?;
        // Like another write, the configuration cannot change these fields.
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            if let Some(given) = draft.metadata.get(field).filter(|given| !given.is_null()) {
                applied.metadata.insert(field.to_owned(), given.clone());
            }
        }
        let object = change::replace_with_managers(store, call.place, current, applied, &author)?;
        Ok((StatusCode::OK, object))
    })?;
    Ok(show(call, code, &object))
}

/// Refuses a configuration of another kind.
fn check_configuration(resource: &Resource, configuration: &Value) -> Refused<()> {
    let field = |name: &str| configuration.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (field("kind"), field("apiVersion"));
    if (kind, api_version) != (resource.kind(), resource.api_version()) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let message = format!("invalid object type: {group}/{version}, Kind={kind}");
        return Err(Box::new(status::bad_request(&message)));
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

pub(crate) fn delete(call: &mut Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let options = options(call, body)?;
    let deletion = Deletion::new(&options)?;
    let resource = &call.resource;
    let key = path_key(call);
    let (object, is_gone) = with_current(call, &key, |store, current| {
        let current = current.ok_or_else(|| status::not_found(resource, &key.name))?;
        check_preconditions(resource, &options, &current.object)?;
        Refused::Ok(deletion::delete(store, call.place, current, deletion))
    })?;
    if is_gone && !resource.has(Trait::ShownWhenDeleted) {
        let status = status::to_json(&status::deleted(resource, &key.name, object.uid()));
        return Ok(answer::json(StatusCode::OK, Body::whole(status.to_string())));
    }
    Ok(show(call, StatusCode::OK, &object))
}

pub(crate) fn delete_collection(call: &mut Call<'_>, body: &[u8]) -> Refused<Response<Body>> {
    let options = options(call, body)?;
    let deletion = Deletion::new(&options)?;
    let (metadata, objects) = list::page(call)?;
    let objects: Vec<_> = objects.collect();
    for object in &objects {
        // Another client may have deleted the object since it was listed.
        with_current(call, &object.key, |store, current| {
            let Some(current) = current else { return Refused::Ok(()) };
            check_preconditions(&call.resource, &options, &current.object)?;
            deletion::delete(store, call.place, current, deletion);
            Ok(())
        })?;
    }
    // As in the real server, the response has the objects as they were listed.
    Ok(list::reply(call, &metadata, Box::new(objects.into_iter())))
}

/// Replaces the part of the object that the path names with that of the result of `make`.
fn modify(
    call: &Call<'_>,
    make: impl FnOnce(&Object) -> Refused<Draft>,
) -> Refused<Response<Body>> {
    let resource = &call.resource;
    let key = path_key(call);
    let author = Author::client(call.request, call.part);
    let object = with_current(call, &key, |store, current| {
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
    let json = match call.part {
        WritablePart::Scale => scale::of(object, &call.resource),
        _ => object.alone(&call.resource, call.shape(), true),
    };
    answer::json(code, Body::whole(json.to_string()))
}

/// Returns the key that the path names.
fn path_key(call: &Call<'_>) -> Key {
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    Key { namespace: part(call.request.namespace()), name: part(call.request.name()) }
}

/// Calls `act` with the locked store and the current state of `key`. In a dry run, the store
/// returns the results of writes and stores nothing.
fn with_current<R>(
    call: &Call<'_>,
    key: &Key,
    act: impl FnOnce(&mut Store, Option<Current>) -> R,
) -> R {
    call.server.with_current(call.place, key, |store, current| {
        store.run(call.is_dry, |store| act(store, current))
    })
}

/// The largest number of bytes of the name of a field manager in a request, as in the real server.
const LONGEST_MANAGER: usize = 128;

/// Checks the query of a write, with options of this kind. Returns whether it is a dry run.
pub(crate) fn read_options(options: &str, request: &Request) -> Refused<bool> {
    let is_dry = is_dry(options, request.parameters("dryRun"))?;
    let refuse =
        |reason, field, fault: &str| Err(Box::new(status::options(options, reason, field, fault)));
    let manager = request.parameter("fieldManager").unwrap_or_default();
    if manager.len() > LONGEST_MANAGER {
        let fault = format!("Too long: may not be more than {LONGEST_MANAGER} bytes");
        return refuse("FieldValueTooLong", "fieldManager", &fault);
    }
    if let Some((at, invalid)) = manager.char_indices().find(|(_, letter)| letter.is_control()) {
        let code = u32::from(invalid);
        let why = format!("invalid character U+{code:04X} (at position {at})");
        return refuse(
            "FieldValueInvalid",
            "fieldManager",
            &format!("Invalid value: {manager:?}: {why}"),
        );
    }
    match request.parameter("fieldValidation") {
        None | Some("" | "Ignore" | "Strict" | "Warn") => Ok(is_dry),
        Some(other) => {
            let known = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
            let fault = format!("Unsupported value: {other:?}: supported values: {known}");
            refuse("FieldValueNotSupported", "fieldValidation", &fault)
        }
    }
}

/// Returns whether the values of `dryRun` ask for a dry run. Refuses any other value than `All`,
/// in options of this kind.
fn is_dry<'a>(options: &str, stages: impl IntoIterator<Item = &'a str>) -> Refused<bool> {
    let stages: Vec<&str> = stages.into_iter().collect();
    if stages.iter().any(|stage| *stage != "All") {
        let fault = format!("Unsupported value: {}: supported values: \"All\"", json!(stages));
        let reason = "FieldValueNotSupported";
        return Err(Box::new(status::options(options, reason, "dryRun", &fault)));
    }
    Ok(!stages.is_empty())
}

fn check_preconditions(
    resource: &Resource,
    options: &DeleteOptions,
    object: &Object,
) -> Refused<()> {
    let preconditions = options.preconditions.as_ref();
    preconditions.map_or(Ok(()), |preconditions| preconditions.check(resource, object))
}

/// Reads the options of a deletion from the body, or from the query if there is no body. Makes the
/// call a dry run if they ask for one.
fn options(call: &mut Call<'_>, body: &[u8]) -> Refused<DeleteOptions> {
    let options = if body.is_empty() {
        DeleteOptions::of_query(call.request)?
    } else {
        let refuse =
            |why: String| Box::new(status::bad_request(&format!("invalid DeleteOptions: {why}")));
        match call.read(body)? {
            Value::Null => DeleteOptions::default(),
            Value::Object(options) if !matches!(text(&options, "kind"), "" | "DeleteOptions") => {
                return Err(refuse(format!("its kind is {}", options["kind"])));
            }
            options @ Value::Object(_) => {
                serde_json::from_value(options).map_err(|error| refuse(error.to_string()))?
            }
            other => return Err(refuse(format!("{other} is not an object"))),
        }
    };
    let stages = options.dry_run.iter().flatten().map(String::as_str);
    call.is_dry = is_dry("DeleteOptions", stages)?;
    Ok(options)
}
