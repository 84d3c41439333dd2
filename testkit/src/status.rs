//! Statuses of failed requests, worded as the real server words them, for
//! [faults](crate::Fault::status) and for [ERROR events](crate::ApiServer::error_watches).
//!
//! ```
//! use deltafifo_testkit::status;
//!
//! let busy = status::too_many_requests(3);
//! assert_eq!((busy.code, busy.reason.as_str()), (429, "TooManyRequests"));
//! assert_eq!(busy.details.unwrap().retry_after_seconds, 3);
//! ```

use std::fmt;

use kube::core::response::{StatusCause, StatusDetails, reason};
use kube::core::{ListMeta, Status};
use serde_json::{Map, Value, json};

use crate::Resource;

/// The result of functions that can refuse a request.
pub(crate) type Refused<T> = Result<T, Box<Status>>;

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
const TOKEN_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
     the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
     Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
     deleted between the time the first chunk was returned and now may show up in the list.";

fn failure(code: u16, reason: &str, message: &str) -> Status {
    Status::failure(message, reason).with_code(code)
}

fn details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

fn about(resource: &Resource, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: resource.api.group.clone(),
        kind: resource.plural().to_owned(),
        ..details()
    }
}

fn cause(reason: &str, message: &str, field: &str) -> StatusCause {
    StatusCause { reason: reason.to_owned(), message: message.to_owned(), field: field.to_owned() }
}

/// Returns a 401: the client is not authenticated.
#[must_use]
pub fn unauthorized() -> Status {
    failure(401, reason::UNAUTHORIZED, "Unauthorized")
}

/// Returns a 403: the client is not authorised.
#[must_use]
pub fn forbidden(resource: &Resource) -> Status {
    let message = format!(
        "{} is forbidden: User \"testkit\" cannot access resource \"{}\" in API group \"{}\" at the cluster scope",
        resource.title(),
        resource.plural(),
        resource.api.group
    );
    failure(403, reason::FORBIDDEN, &message).with_details(about(resource, ""))
}

/// Returns a 404: the object does not exist.
#[must_use]
pub fn not_found(resource: &Resource, name: &str) -> Status {
    failure(404, reason::NOT_FOUND, &format!("{} {name:?} not found", resource.title()))
        .with_details(about(resource, name))
}

/// Returns a 404: the group and version are served, but have no such resource.
#[must_use]
pub fn unknown_resource() -> Status {
    failure(404, reason::NOT_FOUND, "the server could not find the requested resource")
        .with_details(details())
}

/// Returns a 409: the object to create exists.
#[must_use]
pub fn already_exists(resource: &Resource, name: &str) -> Status {
    failure(409, reason::ALREADY_EXISTS, &format!("{} {name:?} already exists", resource.title()))
        .with_details(about(resource, name))
}

/// Returns the refusal of an object to create that exists and whose name could be generated.
pub(crate) fn not_unique(exists: Status) -> Status {
    let why = "the server was not able to generate a unique name for the object";
    let details = exists.details.map(|it| StatusDetails { retry_after_seconds: 1, ..it });
    Status { message: format!("{}, {why}", exists.message), details, ..exists }
}

/// Returns the 409 of an object to create that exists and is being deleted.
pub(crate) fn being_deleted(resource: &Resource, name: &str) -> Status {
    let status = already_exists(resource, name);
    Status { message: format!("object is being deleted: {}", status.message), ..status }
}

/// Returns a 409: the object has a newer version than the update expects.
#[must_use]
pub fn conflict(resource: &Resource, name: &str) -> Status {
    conflict_because(resource, name, MODIFIED)
}

/// Returns the 409 of a deletion whose precondition names another uid or version. The real server
/// names the kind here, not the plural.
pub(crate) fn precondition_failed(resource: &Resource, name: &str, why: &str) -> Status {
    let kind = resource.kind();
    failure(
        409,
        reason::CONFLICT,
        &format!("Operation cannot be fulfilled on {kind} {name:?}: {why}"),
    )
    .with_details(StatusDetails { kind: kind.to_owned(), ..about(resource, name) })
}

pub(crate) fn conflict_because(resource: &Resource, name: &str, why: &str) -> Status {
    failure(
        409,
        reason::CONFLICT,
        &format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.title()),
    )
    .with_details(about(resource, name))
}

/// Returns a 410: the server no longer has the version or page token.
#[must_use]
pub fn expired(message: &str) -> Status {
    failure(410, reason::EXPIRED, message)
}

/// Returns the 410 of a watch whose version is too old. `oldest` is the oldest version from which
/// a watch can start.
#[must_use]
pub fn too_old(version: u64, oldest: u64) -> Status {
    expired(&format!("too old resource version: {version} ({oldest})"))
}

/// Returns the 410 of an expired page token. `rest` is a token for the rest of the list at the
/// newest version.
pub(crate) fn token_expired(rest: String) -> Status {
    let metadata = ListMeta { continue_: Some(rest), ..ListMeta::default() };
    Status { metadata: Some(metadata), ..expired(TOKEN_TOO_OLD) }
}

/// Returns a 429: the client should try again after this many seconds, which the header
/// `Retry-After` also has.
#[must_use]
pub fn too_many_requests(retry_after_seconds: u32) -> Status {
    failure(429, reason::TOO_MANY_REQUESTS, "Too many requests, please try again later.")
        .with_details(StatusDetails { retry_after_seconds, ..details() })
}

/// Returns a 500: the server failed.
#[must_use]
pub fn internal_error(why: &str) -> Status {
    failure(500, reason::INTERNAL_ERROR, &format!("Internal error occurred: {why}"))
        .with_details(StatusDetails { causes: vec![cause("", why, "")], ..details() })
}

/// Returns a 503: the server cannot answer now.
#[must_use]
pub fn service_unavailable() -> Status {
    failure(
        503,
        reason::SERVICE_UNAVAILABLE,
        "the server is currently unable to handle the request",
    )
}

/// Returns a 504: the server did not finish in time.
#[must_use]
pub fn timeout(why: &str, retry_after_seconds: u32) -> Status {
    failure(504, reason::TIMEOUT, &format!("Timeout: {why}"))
        .with_details(StatusDetails { retry_after_seconds, ..details() })
}

/// Returns a 504 with the cause `ResourceVersionTooLarge`: the version is in the future.
#[must_use]
pub fn too_large(version: u64, current: u64) -> Status {
    let status = timeout(&format!("Too large resource version: {version}, current: {current}"), 1);
    let causes = vec![cause("ResourceVersionTooLarge", "Too large resource version", "")];
    status.with_details(StatusDetails { causes, retry_after_seconds: 1, ..details() })
}

/// Returns the 403 of an object that is created in a namespace that is being deleted.
pub(crate) fn namespace_terminating(resource: &Resource, name: &str, namespace: &str) -> Status {
    let message = format!(
        "{} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
        resource.title(),
    );
    let why = format!("namespace {namespace} is being terminated");
    failure(403, reason::FORBIDDEN, &message).with_details(StatusDetails {
        causes: vec![cause("NamespaceTerminating", &why, "metadata.namespace")],
        ..about(resource, name)
    })
}

/// Returns the 409 of an applied configuration. The causes are messages and paths of fields.
pub(crate) fn apply_conflict(message: &str, causes: &[(String, String)]) -> Status {
    let causes = causes.iter().map(|(why, path)| cause("FieldManagerConflict", why, path));
    failure(409, reason::CONFLICT, message)
        .with_details(StatusDetails { causes: causes.collect(), ..details() })
}

/// Returns the 413 of a request whose body has more than `limit` bytes.
pub(crate) fn body_too_large(limit: usize) -> Status {
    let message = format!("Request entity too large: limit is {limit}");
    failure(413, reason::REQUEST_ENTITY_TOO_LARGE, &message)
}

/// Returns 413 for a JSON patch whose operations have an effect that takes too much work.
pub(crate) fn patch_too_large(effect: &str) -> Status {
    let message = format!("the operations of the patch {effect}: divide the patch");
    failure(413, reason::REQUEST_ENTITY_TOO_LARGE, &message)
}

/// Returns 413 for a JSON patch with too many operations.
pub(crate) fn too_many_operations(most: usize, count: usize) -> Status {
    let message = format!("The allowed maximum operations in a JSON patch is {most}, got {count}");
    failure(413, reason::REQUEST_ENTITY_TOO_LARGE, &message)
}

/// Returns the 400 of a body that is not an object of the resource.
pub(crate) fn undecodable(resource: &Resource, why: &str) -> Status {
    let (kind, version) = (resource.kind(), resource.api_version());
    bad_request(&format!("{kind} in version {version:?} cannot be handled: {why}"))
}

/// Returns the 422 of a patch whose result is not an object of the resource. The real server names
/// neither the kind nor the object here.
pub(crate) fn invalid_patch(why: &str) -> Status {
    let (field, fault) = ("patch", format!("Invalid value: {why}"));
    let causes = vec![cause("FieldValueInvalid", &fault, field)];
    failure(422, reason::INVALID, &format!(" \"\" is invalid: {field}: {fault}"))
        .with_details(StatusDetails { causes, ..details() })
}

pub(crate) fn bad_request(message: &str) -> Status {
    failure(400, reason::BAD_REQUEST, message)
}

pub(crate) fn method_not_allowed() -> Status {
    failure(
        405,
        reason::METHOD_NOT_ALLOWED,
        "the server does not allow this method on the requested resource",
    )
    .with_details(details())
}

/// Returns the 405 of a custom resource, which names the operation.
pub(crate) fn method_not_supported(resource: &Resource, verb: &str) -> Status {
    let message = format!("{verb} is not supported on resources of kind {:?}", resource.title());
    failure(405, reason::METHOD_NOT_ALLOWED, &message).with_details(about(resource, ""))
}

pub(crate) fn unsupported_media_type(accepted: &str) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    failure(415, reason::UNSUPPORTED_MEDIA_TYPE, &message)
}

/// Returns a 500 for an error to which the real server gives no reason.
pub(crate) fn unknown_error(message: &str) -> Status {
    failure(500, reason::UNKNOWN, message)
}

/// Returns the 500 of a strategic merge patch of a list in which an element lacks the key by which
/// the elements merge.
pub(crate) fn no_merge_key(element: &Value, key: &str) -> Status {
    unknown_error(&format!("map: {} does not contain declared merge key: {key}", GoValue(element)))
}

/// Returns the 500 of a strategic merge patch with an unknown instruction in a map.
pub(crate) fn unknown_patch_type(instruction: &str, map: &Map<String, Value>) -> Status {
    let given = match &map[instruction] {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(value) => format!("%!s(bool={value})"),
        Value::Number(number) if number.is_f64() => format!("%!s(float64={number})"),
        Value::Number(number) => format!("%!s(int64={number})"),
        other => in_go(other),
    };
    let map = in_go(&map.clone().into());
    unknown_error(&format!("unknown patch type: {given} in map: {map}"))
}

/// Returns a value as the real server prints it in a message.
pub(crate) fn in_go(value: &Value) -> String {
    GoValue(value).to_string()
}

/// A value as the real server prints it in a message.
struct GoValue<'a>(&'a Value);

impl fmt::Display for GoValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = |at| if at == 0 { "" } else { " " };
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{}", space(at), GoValue(item))?;
                }
                f.write_str("]")
            }
            Value::Object(fields) => {
                f.write_str("map[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}:{}", space(at), GoValue(value))?;
                }
                f.write_str("]")
            }
            Value::Bool(_) | Value::Number(_) => self.0.fmt(f),
        }
    }
}

/// Returns a 422: a field of the object is invalid.
pub(crate) fn invalid(resource: &Resource, name: &str, field: &str, fault: &str) -> Status {
    invalid_because("FieldValueInvalid", resource, name, field, fault)
}

/// Returns a 422: a field of the object is invalid, for this reason.
pub(crate) fn invalid_because(
    reason_of_field: &str,
    resource: &Resource,
    name: &str,
    field: &str,
    fault: &str,
) -> Status {
    let group = &resource.api.group;
    let dot = if group.is_empty() { "" } else { "." };
    let kind = resource.kind();
    failure(
        422,
        reason::INVALID,
        &format!("{kind}{dot}{group} {name:?} is invalid: {field}: {fault}"),
    )
    .with_details(StatusDetails {
        kind: kind.to_owned(),
        causes: vec![cause(reason_of_field, fault, field)],
        ..about(resource, name)
    })
}

/// Returns the 422 of an update without a version, in which the real server names the plural.
pub(crate) fn invalid_update(resource: &Resource, name: &str, fault: &str) -> Status {
    let field = "metadata.resourceVersion";
    let title = resource.title();
    failure(422, reason::INVALID, &format!("{title} {name:?} is invalid: {field}: {fault}"))
        .with_details(StatusDetails {
            causes: vec![cause("FieldValueInvalid", fault, field)],
            ..about(resource, name)
        })
}

/// Returns a 422: the query parameters of a list or watch cannot be combined.
pub(crate) fn invalid_options(field: &str, why: &str) -> Status {
    options("ListOptions", "FieldValueForbidden", field, &format!("Forbidden: {why}"))
}

/// Returns a 422: an option of a request, of this kind of options, is invalid for this reason.
pub(crate) fn options(kind: &str, reason_of_field: &str, field: &str, fault: &str) -> Status {
    let message = format!("{kind}.meta.k8s.io \"\" is invalid: {field}: {fault}");
    failure(422, reason::INVALID, &message).with_details(StatusDetails {
        group: "meta.k8s.io".to_owned(),
        kind: kind.to_owned(),
        causes: vec![cause(reason_of_field, fault, field)],
        ..details()
    })
}

/// Returns the 500 of a server over etcd 3.4 for a watch that starts with the existing objects.
pub(crate) fn no_watch_lists() -> Status {
    let message = "a watch stream was requested by the client but the required storage feature RequestWatchProgress is \
                   disabled";
    failure(500, reason::INTERNAL_ERROR, message)
}

/// Returns the response to the deletion of an object.
pub(crate) fn deleted(resource: &Resource, name: &str, uid: &str) -> Status {
    Status::success().with_details(StatusDetails { uid: uid.to_owned(), ..about(resource, name) })
}

/// Returns the Status as JSON, with the fields that kube's type leaves out.
pub(crate) fn to_json(status: &Status) -> Value {
    let mut json = serde_json::to_value(status).unwrap_or_default();
    if let Value::Object(fields) = &mut json {
        fields.insert("kind".to_owned(), "Status".into());
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.entry("metadata").or_insert_with(|| json!({}));
    }
    json
}
