//! Lists and watches of an API server, through kube's client.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::core::Selector;
use kube::{Api, Client, Resource};

use super::body::{events, listed};
use super::unclonable::empty_body;
use super::{
    FIELDS, LABELS, ListRequest, ListStream, ListerWatcher, ObjectLimit, Query, QueryError,
    RequestError, WatchRequest, WatchStream,
};

/// The largest number of bytes that are read of the body of an error response.
const MOST_OF_A_STATUS: usize = 1 << 20;

/// A lister and watcher of one resource of an API server (client-go `NewListWatchFromClient`):
/// typed objects, custom resources, dynamic objects, or metadata only.
///
/// Requests are built here and sent with [`Client::send`], so the client's configuration,
/// authentication and middlewares apply. Bodies are read frame by frame.
///
/// ```
/// # use bytes::Bytes;
/// # use http::{Request, Response};
/// # use http_body_util::Empty;
/// # use kube::client::Body;
/// # use std::convert::Infallible;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let service = tower::service_fn(|_: Request<Body>| async {
/// #     Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
/// # });
/// # let client = kube::Client::new(service, "default");
/// use deltafifo_informer::KubeListerWatcher;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = KubeListerWatcher::new::<Pod>(client, &(), Some("shop"))
///     .labels("app=web")
///     .fields("spec.nodeName=node-7");
/// # let _ = pods;
/// # }
/// ```
#[doc(alias = "NewListWatchFromClient")]
pub struct KubeListerWatcher {
    client: Client,
    path: String,
    /// Parameters for the query of every request, or the error of one that cannot be added.
    query: Result<Query, QueryError>,
    types: (String, String),
    /// The resource and the namespace, in the form that [`ListerWatcher::scope`] returns.
    scope: (String, String),
    /// Whether to request metadata only.
    metadata_only: bool,
}

impl KubeListerWatcher {
    /// Creates a lister-watcher for objects of type `K`, in one namespace or in all. If `K` is a
    /// [`PartialObjectMeta`](kube::core::PartialObjectMeta), it requests metadata only.
    #[must_use]
    pub fn new<K: Resource>(
        client: Client,
        types: &K::DynamicType,
        namespace: Option<&str>,
    ) -> Self {
        let metadata_only = K::metadata_api();
        let (api_version, kind) = (K::api_version(types).into_owned(), K::kind(types).into_owned());
        Self {
            client,
            path: K::url_path(types, namespace),
            query: Ok(Query::default()),
            types: (api_version, kind),
            scope: (resource::<K>(types), namespace.unwrap_or_default().to_owned()),
            metadata_only,
        }
    }

    /// Creates a lister-watcher for the objects of an [`Api`].
    #[must_use]
    pub fn of_api<K: Resource>(api: Api<K>, types: &K::DynamicType) -> Self {
        let (path, namespace) = (api.resource_url().to_owned(), api.namespace().map(str::to_owned));
        Self { path, ..Self::new::<K>(api.into_client(), types, namespace.as_deref()) }
    }

    /// Creates a copy of this lister-watcher that is restricted to one namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        let (all, plural) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let all = all.rsplit_once("/namespaces/").map_or(all, |(all, _)| all);
        Self {
            path: format!("{all}/namespaces/{namespace}/{plural}"),
            scope: (self.scope.0.clone(), namespace.to_owned()),
            ..self.copy()
        }
    }

    /// Creates a copy of this lister-watcher, with this `shardSelector` in each request.
    #[cfg(feature = "leader-election")]
    pub(crate) fn selecting(&self, shards: Option<String>) -> Self {
        match shards {
            Some(shards) => self.copy().query("shardSelector", shards),
            None => self.copy(),
        }
    }

    fn copy(&self) -> Self {
        Self {
            client: self.client.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            types: self.types.clone(),
            scope: self.scope.clone(),
            metadata_only: self.metadata_only,
        }
    }

    /// Returns whether a list says that the server has selected its objects by a `shardSelector`.
    /// Lists of metadata and of custom resources do not say it (Kubernetes 1.36).
    #[cfg(feature = "leader-election")]
    pub(crate) fn lists_have_shard_info(&self) -> bool {
        // The groups of custom resources have a dot. Those of some built-in kinds have one, too.
        let is_of_custom_kind =
            self.types.0.split_once('/').is_some_and(|(group, _)| group.contains('.'));
        !self.metadata_only && !is_of_custom_kind
    }

    /// Requests only the metadata of the objects.
    #[doc(alias = "metadata_watcher")]
    #[doc(alias = "metadatainformer")]
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// Selects the objects with these labels (kube's `Config::labels`). Several calls apply
    /// together. An empty selector selects all objects.
    ///
    /// If the selector is invalid, every request fails with [`RequestError::Invalid`], and its
    /// source says what is wrong. Nothing is sent.
    ///
    /// ```
    /// # use deltafifo_informer::KubeListerWatcher;
    /// # use deltafifo_testkit::ApiServer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let client = ApiServer::builder().build().client();
    /// let selector: deltafifo::Selector = "app=web,tier in (front,edge)".parse().unwrap();
    /// let pods = KubeListerWatcher::new::<Pod>(client, &(), None).labels(selector.to_string());
    /// # let _ = pods;
    /// # }
    /// ```
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        self.query(LABELS, selector)
    }

    /// Acts like [`labels`](Self::labels), with kube's typed selector (kube's
    /// `Config::labels_from`).
    #[must_use]
    pub fn labels_from(self, selector: &Selector) -> Self {
        self.labels(selector.to_string())
    }

    /// Selects the objects with these fields (kube's `Config::fields`), for example
    /// `metadata.name=web`. Acts like [`labels`](Self::labels) otherwise. A server knows a few
    /// fields of each kind, and refuses the others.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.query(FIELDS, selector)
    }

    /// Adds another parameter that the server supports to the query of every request. The names
    /// `labelSelector` and `fieldSelector` act like [`labels`](Self::labels) and
    /// [`fields`](Self::fields).
    ///
    /// A parameter can have only one value, because a server would read only one. Parameters that
    /// the reflector sets in each request, such as `limit`, `resourceVersion` and `timeoutSeconds`,
    /// cannot be added; [`ReflectorBuilder`](crate::reflector::ReflectorBuilder) configures these.
    /// If a parameter cannot be added, every request fails with [`RequestError::Invalid`].
    #[must_use]
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        if let Ok(query) = &mut self.query
            && let Err(error) = query.add(key.into(), value.into())
        {
            self.query = Err(error);
        }
        self
    }

    /// Returns the error with which requests would fail because of an added parameter.
    pub(crate) fn check_query(&self) -> Result<(), QueryError> {
        self.query.as_ref().map(drop).map_err(Clone::clone)
    }

    fn accept(metadata_only: bool, list: bool) -> HeaderValue {
        HeaderValue::from_static(match (metadata_only, list) {
            (false, _) => "application/json",
            (true, false) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (true, true) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        })
    }

    fn uri(&self, query: &[(&str, &str)]) -> Result<String, RequestError> {
        let added =
            self.query.as_ref().map_err(|error| RequestError::Invalid(error.clone().into()))?;
        let path = format!("{}?", self.path);
        let behind = path.len();
        Ok(form_urlencoded::Serializer::for_suffix(path, behind)
            .extend_pairs(added.iter())
            .extend_pairs(query)
            .finish())
    }

    /// Lists objects as they are stored, or their metadata only.
    fn list_as(
        &self,
        request: ListRequest,
        limit: ObjectLimit,
        metadata_only: bool,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        Box::pin(async move {
            let objects = request.limit.to_string();
            let mut query = Vec::new();
            if request.limit > 0 {
                query.push(("limit", objects.as_str()));
            }
            if let Some(token) = &request.continue_token {
                // The token contains the version, and the server rejects a second one.
                query.push(("continue", token));
            } else if !request.resource_version.is_empty() {
                query.push(("resourceVersion", &request.resource_version));
                if request.not_older_than {
                    query.push(("resourceVersionMatch", "NotOlderThan"));
                }
            }
            let headers = HeaderMap::from_iter([(ACCEPT, Self::accept(metadata_only, true))]);
            Ok(listed(self.send(&query, headers).await?.into_body(), limit))
        })
    }

    /// Sends a GET request. Converts a response that is not 200 into an error.
    async fn send(
        &self,
        query: &[(&str, &str)],
        headers: HeaderMap,
    ) -> Result<Response<Body>, RequestError> {
        let body = empty_body().await.map_err(|e| RequestError::Unreachable(e.into()))?;
        let mut request = Request::get(self.uri(query)?)
            .body(body)
            .map_err(|e| RequestError::Invalid(e.into()))?;
        *request.headers_mut() = headers;
        let response =
            self.client.send(request).await.map_err(|e| RequestError::Unreachable(e.into()))?;
        if response.status() == StatusCode::OK {
            Ok(response)
        } else {
            Err(refusal(response).await)
        }
    }
}

/// Returns the name of a resource in the form that metrics use: `pods.v1`, `deployments.v1.apps`.
pub(crate) fn resource<K: Resource>(types: &K::DynamicType) -> String {
    let (plural, version, group) = (K::plural(types), K::version(types), K::group(types));
    if group.is_empty() {
        format!("{plural}.{version}")
    } else {
        format!("{plural}.{version}.{group}")
    }
}

/// Reads the error from a response that is not 200.
async fn refusal(response: Response<Body>) -> RequestError {
    let (parts, body) = response.into_parts();
    let seconds =
        parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = seconds.map(Duration::from_secs);
    let body = Limited::new(body, MOST_OF_A_STATUS).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let code = parts.status.as_u16();
    if let RequestError::Status { mut status, retry_after } =
        RequestError::from_status(&body, retry_after)
    {
        status.code = code;
        return RequestError::Status { status, retry_after };
    }
    // The body is not a `Status`; it may be a proxy's. Its text helps more than no message.
    let reason = parts.status.canonical_reason().unwrap_or_default().replace(' ', "");
    let message: String = String::from_utf8_lossy(&body).chars().take(200).collect();
    let status = kube::core::Status::failure(&message, &reason).with_code(code);
    RequestError::Status { status: Box::new(status), retry_after }
}

impl ListerWatcher for KubeListerWatcher {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.list_within(request, ObjectLimit::default())
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        self.watch_within(request, ObjectLimit::default())
    }

    fn list_within(
        &self,
        request: ListRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.list_as(request, limit, self.metadata_only)
    }

    fn list_metadata(
        &self,
        request: ListRequest,
    ) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        self.list_as(request, ObjectLimit::default(), true)
    }

    fn watch_within(
        &self,
        request: WatchRequest,
        limit: ObjectLimit,
    ) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        Box::pin(async move {
            let timeout = request.timeout_seconds.to_string();
            let mut query = vec![
                ("watch", "true"),
                ("allowWatchBookmarks", "true"),
                ("timeoutSeconds", &timeout),
            ];
            if !request.resource_version.is_empty() {
                query.push(("resourceVersion", &request.resource_version));
            }
            if request.send_initial_events {
                query.extend([
                    ("sendInitialEvents", "true"),
                    ("resourceVersionMatch", "NotOlderThan"),
                ]);
            }
            // Servers from 1.37 on compress each event separately, and the client's middleware
            // decodes only the first.
            let plain = (ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let headers =
                HeaderMap::from_iter([(ACCEPT, Self::accept(self.metadata_only, false)), plain]);
            let body = self.send(&query, headers).await?.into_body();
            Ok(events(body, request.send_initial_events, limit))
        })
    }

    fn types(&self) -> Option<(&str, &str)> {
        Some((&self.types.0, &self.types.1))
    }

    fn scope(&self) -> (&str, &str) {
        (&self.scope.0, &self.scope.1)
    }
}
