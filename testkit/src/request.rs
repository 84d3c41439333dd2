//! The requests, as the server parses them and as tests inspect them later.

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::request::Parts;
use percent_encoding::percent_decode_str;

/// The form of objects for which a client asks with the header `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Metadata,
    Table,
}

impl Form {
    /// Reads the header. Its first choice counts, because the server knows all forms.
    fn read(accept: &str) -> Self {
        let choice = accept.split(',').next().unwrap_or_default();
        let mut parts = choice.split(';').filter_map(|part| part.trim().strip_prefix("as="));
        parts.next_back().map_or(Self::Whole, |kind| match kind {
            "Table" => Self::Table,
            // A list is `PartialObjectMetadataList`.
            _ if kind.starts_with("PartialObjectMetadata") => Self::Metadata,
            _ => Self::Whole,
        })
    }
}

/// The subresource of a namespace that has the finalizers of its specification.
pub(crate) const FINALIZE: &str = "finalize";
/// The subresource that has the number of replicas of an object.
pub(crate) const SCALE: &str = "scale";

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `GET` of a collection.
    List,
    /// `GET` of a collection with `watch`.
    Watch,
    /// `GET` of one object.
    Get,
    /// `POST`.
    Create,
    /// `PUT`.
    Update,
    /// `PATCH`.
    Patch,
    /// `DELETE` of one object.
    Delete,
    /// `DELETE` of a collection.
    DeleteCollection,
    /// Any other method.
    Other,
}

/// A request that the server received.
///
/// ```
/// # use deltafifo_testkit::{ApiServer, Resource, Verb};
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube::api::{Api, ListParams};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::builder().resource(Resource::pods()).build();
/// let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
/// pods.list(&ListParams::default().limit(10)).await?;
///
/// let request = &server.requests()[0];
/// assert_eq!((request.verb(), request.limit()), (Verb::List, Some(10)));
/// assert_eq!(request.namespace(), Some("shop"));
/// assert_eq!(request.path(), "/api/v1/namespaces/shop/pods");
/// assert_eq!(request.query(), [("limit".to_owned(), "10".to_owned())]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    verb: Verb,
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    target: Option<Target>,
    form: Form,
    content_type: String,
    user_agent: Option<HeaderValue>,
}

/// The resource and object that a path names.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    fn parse(path: &str) -> Option<Self> {
        // As in the real server, an encoded slash separates parts, too.
        let path = percent_decode_str(path.strip_prefix('/')?).decode_utf8_lossy();
        let path = path.strip_suffix('/').unwrap_or(&path);
        let parts: Vec<&str> = path.split('/').collect();
        if parts.contains(&"") {
            return None;
        }
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // Subresources of the namespace itself.
            ["namespaces", _, "status" | FINALIZE] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(*name), None),
            [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: (*version).to_owned(),
            plural: (*plural).to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }
}

/// Parses a boolean parameter as the real server does: every value except `0` and `false` is true,
/// even the empty one.
pub(crate) fn is_true(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

impl Request {
    pub(crate) fn read(parts: &Parts) -> Self {
        let query: Vec<(String, String)> =
            form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        let watches = query.iter().any(|(name, value)| name == "watch" && is_true(value));
        let header = |name: HeaderName| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default()
        };
        let target = Target::parse(parts.uri.path());
        let one = target.as_ref().is_some_and(|target| target.name.is_some());
        let verb = match (&parts.method, one) {
            _ if target.is_none() => Verb::Other,
            (&Method::GET, true) => Verb::Get,
            (&Method::GET, false) if watches => Verb::Watch,
            (&Method::GET, false) => Verb::List,
            (&Method::POST, false) => Verb::Create,
            (&Method::PUT, true) => Verb::Update,
            (&Method::PATCH, true) => Verb::Patch,
            (&Method::DELETE, true) => Verb::Delete,
            (&Method::DELETE, false) => Verb::DeleteCollection,
            _ => Verb::Other,
        };
        Self {
            verb,
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            form: Form::read(header(ACCEPT)),
            content_type: header(CONTENT_TYPE)
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned(),
            user_agent: parts.headers.get(USER_AGENT).cloned(),
            query,
            target,
        }
    }

    /// Returns the operation.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// Returns the HTTP method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the names and values of the query, decoded, in order.
    #[must_use]
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// Returns the value of a query parameter, the first one if it is repeated, or `None` if the
    /// request does not have it.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a query parameter.
    pub(crate) fn parameters(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.query.iter().filter(move |(known, _)| known == name);
        values.map(|(_, value)| value.as_str())
    }

    /// Returns `resourceVersion`. If the request has none, returns `""`, which means the newest
    /// version.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.parameter("resourceVersion").unwrap_or_default()
    }

    /// Returns `limit`, if the request has one that is a number.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.parameter("limit")?.parse().ok()
    }

    /// Returns `continue`, the token of a page, if the request has one.
    #[must_use]
    pub fn continue_token(&self) -> Option<&str> {
        self.parameter("continue")
    }

    /// Returns whether the watch starts with the existing objects (`sendInitialEvents`).
    #[must_use]
    pub fn sends_initial_events(&self) -> bool {
        self.parameter("sendInitialEvents").is_some_and(is_true)
    }

    /// Returns whether the header `Accept` asks for metadata only.
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.form == Form::Metadata
    }

    /// Returns the plural that the path names, for example `pods`, or `None` if the path is not
    /// that of a resource.
    #[must_use]
    pub fn plural(&self) -> Option<&str> {
        self.target.as_ref().map(|target| target.plural.as_str())
    }

    /// Returns the namespace that the path names, if any.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.target.as_ref()?.namespace.as_deref()
    }

    /// Returns the name of the object that the path names, if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.target.as_ref()?.name.as_deref()
    }

    pub(crate) fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    pub(crate) fn content_type(&self) -> &str {
        &self.content_type
    }

    pub(crate) fn user_agent(&self) -> &str {
        self.user_agent.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
