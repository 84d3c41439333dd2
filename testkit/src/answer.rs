//! Routes a request to the function that answers it.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use kube::core::Status;
use serde_json::Value;

use crate::Resource;
use crate::author::WritablePart;
use crate::body::Body;
use crate::object::Shape;
use crate::request::{FINALIZE, Form, Request, SCALE, Verb};
use crate::server::ServerState;
use crate::status::{self, Refused};
use crate::store::Collection;
use crate::table::Included;
use crate::{discovery, list, watch, write, yaml};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// The format in which typed clients in Go send objects of built-in kinds.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The part of a refusal that says how a client sends JSON instead.
const NO_PROTOBUF: &str = "; the test server does not read protobuf: set the content type of the \
     client to application/json, or use `kubectl create -f` in place of `kubectl create KIND`";

/// A request for a resource that is served.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<ServerState>,
    pub(crate) request: &'a Request,
    /// The index of the resource's collection in the store.
    pub(crate) place: usize,
    pub(crate) resource: Arc<Resource>,
    /// The part of the object that the path names.
    pub(crate) part: WritablePart,
    /// Whether the request is a dry run, which changes nothing.
    pub(crate) is_dry: bool,
}

impl Call<'_> {
    /// Reads the body in the format that its content type names.
    pub(crate) fn read(&self, body: &[u8]) -> Refused<Value> {
        let value = if is(self.request, YAML) {
            yaml::read(body)
        } else {
            let json = serde_json::from_slice(body);
            json.map_err(|error| format!("the body of the request is not JSON: {error}"))
        };
        value.map_err(|why| Box::new(status::bad_request(&why)))
    }

    /// Returns the parts of each object that the response shows.
    pub(crate) fn shape(&self) -> Shape {
        match self.request.form() {
            Form::Whole => Shape::Whole,
            Form::Metadata => Shape::Partial,
            Form::Table => Shape::Row(match self.request.parameter("includeObject") {
                Some("None") => Included::Nothing,
                Some("Object") => Included::Object,
                _ => Included::Metadata,
            }),
        }
    }
}

/// Answers a request. A watch starts with the last `repeated` changes before its version.
pub(crate) fn answer(
    server: &Arc<ServerState>,
    request: &Request,
    body: &[u8],
    repeated: usize,
) -> Response<Body> {
    try_answer(server, request, body, repeated).unwrap_or_else(|status| refusal(&status))
}

fn try_answer(
    server: &Arc<ServerState>,
    request: &Request,
    body: &[u8],
    repeated: usize,
) -> Refused<Response<Body>> {
    let Some(target) = request.target() else {
        return discovery::answer(server, request)
            .unwrap_or_else(|| not_found(server, request.path()));
    };
    let (place, resource) = {
        let store = server.store.lock();
        match store.place_of_target(target) {
            Some(place) => (place, Arc::clone(&store.collections[place].resource)),
            None if store.serves_group_of(target) => {
                return Err(Box::new(status::unknown_resource()));
            }
            None => {
                drop(store);
                return not_found(server, request.path());
            }
        }
    };
    let verb = request.verb();
    let has_place = match (target.namespace.is_some(), resource.is_namespaced()) {
        (true, in_namespace) => in_namespace,
        (false, in_namespace) => {
            !in_namespace || matches!(verb, Verb::List | Verb::Watch | Verb::Other)
        }
    };
    let subresource = target.subresource.as_deref();
    let is_finalize = subresource == Some(FINALIZE) && resource.is_namespace();
    let part = match subresource {
        None => WritablePart::Main,
        Some("status") if resource.has_status() => WritablePart::Status,
        Some(SCALE) if resource.has_scale() => WritablePart::Scale,
        Some(_) if is_finalize => WritablePart::Main,
        Some(_) if resource.is_custom() => {
            let name = target.name.as_deref().unwrap_or_default();
            return Err(Box::new(status::not_found(&resource, name)));
        }
        Some(_) => return Err(Box::new(status::unknown_resource())),
    };
    let is_allowed = match verb {
        Verb::Create => has_place,
        // Namespaces are deleted one by one.
        Verb::DeleteCollection => has_place && !resource.is_namespace(),
        Verb::Get | Verb::Patch => !is_finalize,
        Verb::Delete => subresource.is_none(),
        Verb::List | Verb::Watch | Verb::Update | Verb::Other => true,
    };
    if !is_allowed {
        return Err(Box::new(not_allowed(request, &resource)));
    }
    if !has_place {
        return Err(Box::new(status::unknown_resource()));
    }
    let is_read = ["", JSON, YAML].into_iter().any(|known| is(request, known));
    if !is_read && !body.is_empty() && !matches!(verb, Verb::Patch | Verb::Other) {
        let hint = if is(request, PROTOBUF) { NO_PROTOBUF } else { "" };
        return Err(Box::new(status::unsupported_media_type(&format!("{JSON}, {YAML}{hint}"))));
    }
    let is_dry = match verb {
        Verb::Create => write::read_options("CreateOptions", request)?,
        Verb::Update => write::read_options("UpdateOptions", request)?,
        Verb::Patch => write::read_options("PatchOptions", request)?,
        // The body of a deletion can have its options.
        _ => false,
    };
    let mut call = Call { server, request, place, resource, part, is_dry };
    match verb {
        Verb::List => list::answer(&call),
        Verb::Watch => watch::answer(&call, repeated),
        Verb::Get => write::get(&call),
        Verb::Create => write::create(&call, body),
        Verb::Update if is_finalize => write::finalize(&call, body),
        Verb::Update => write::update(&call, body),
        Verb::Patch => write::patch(&call, body),
        Verb::Delete => write::delete(&mut call, body),
        Verb::DeleteCollection => write::delete_collection(&mut call, body),
        Verb::Other => Err(Box::new(not_allowed(request, &call.resource))),
    }
}

/// Returns the refusal of a method.
fn not_allowed(request: &Request, resource: &Resource) -> Status {
    if !resource.is_custom() {
        return status::method_not_allowed();
    }
    status::method_not_supported(
        resource,
        match *request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        },
    )
}

/// Returns whether the body has this content type.
fn is(request: &Request, content_type: &str) -> bool {
    request.content_type().eq_ignore_ascii_case(content_type)
}

pub(crate) fn json(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// Returns a Status as a response whose HTTP code is the Status's own.
pub(crate) fn refusal(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, Body::whole(status::to_json(status).to_string()));
    let wait = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if wait > 0 {
        response.headers_mut().insert(RETRY_AFTER, wait.into());
    }
    response
}

/// Returns the real server's response for a path that it does not serve: a Status for another
/// version of a group that it serves, and plain text for others.
fn not_found(server: &ServerState, path: &str) -> Refused<Response<Body>> {
    let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
    let is_group = |collection: &Collection| Some(collection.resource.api.group.as_str()) == group;
    if group.is_some_and(|group| !group.is_empty())
        && server.store.lock().collections.iter().any(is_group)
    {
        return Err(Box::new(status::unknown_resource()));
    }
    Ok(text(StatusCode::NOT_FOUND, "404 page not found\n"))
}

pub(crate) fn text(code: StatusCode, text: &str) -> Response<Body> {
    let mut response = json(code, Body::whole(text));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
