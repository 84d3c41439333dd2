//! The server, its builder, and the service that a client calls.

use std::collections::VecDeque;
use std::error;
use std::fmt;
use std::future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tower_service::Service;

use crate::answer;
use crate::body::Body;
use crate::collect::Collector;
use crate::fault::{Faults, Kind};
use crate::request::Request;
use crate::shards::ShardSelectors;
use crate::store::Store;
use crate::{Resource, status};

/// A Kubernetes API server inside this process. Clones are cheap, and share one state.
///
/// It is a [`tower_service::Service`]; [`client`](Self::client) returns a [`kube::Client`] that
/// sends its requests to the server. The [crate](crate) documentation lists the features.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) state: Arc<ServerState>,
}

/// The state of a server. All clones of the server share it.
pub(crate) struct ServerState {
    pub(crate) store: Mutex<Store>,
    pub(crate) faults: Faults,
    pub(crate) requests: Mutex<VecDeque<Arc<Request>>>,
    pub(crate) settings: Settings,
    /// A signal that is sent when a request arrives, or a watch is opened or ended.
    changed: watch::Sender<()>,
}

pub(crate) struct Settings {
    pub(crate) frame_size: usize,
    pub(crate) watch_buffer: usize,
    pub(crate) watch_lists: WatchLists,
    pub(crate) shard_selectors: ShardSelectors,
    /// The largest number of recorded requests.
    recorded: usize,
    /// The interval of periodic bookmarks, if there are any.
    pub(crate) bookmarks: Option<Duration>,
}

/// The response to watches that start with the existing objects (`sendInitialEvents`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchLists {
    /// The server serves these watches, as Kubernetes 1.34 and later does.
    #[default]
    Served,
    /// The server refuses these watches with 422, as an older one does, or one whose feature gate
    /// is off.
    Forbidden,
    /// The server refuses these watches with 500, as one over an old etcd does.
    Failing,
}

/// The largest size of a request's body, which is the real server's default.
pub(crate) const LARGEST_BODY: usize = 3 << 20;
/// A time longer than any process lives, and short enough for tokio's clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The configuration of a server, which [`ApiServer::builder`] creates.
#[derive(Debug)]
#[must_use = "build() makes the server"]
pub struct Builder {
    resources: Vec<Resource>,
    frame_size: usize,
    log_size: usize,
    watch_buffer: usize,
    watch_lists: WatchLists,
    shard_selectors: ShardSelectors,
    recorded: usize,
    bookmarks: Option<Duration>,
    controllers: bool,
    managed_fields: bool,
}

impl Builder {
    /// Serves this resource. [`ApiServer::register`] adds one later.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Serves these resources, for example [`Resource::known`].
    pub fn resources(mut self, resources: impl IntoIterator<Item = Resource>) -> Self {
        self.resources.extend(resources);
        self
    }

    /// Sets whether the server does the work of two controllers of a real cluster: to delete or
    /// orphan the dependents of deleted objects, and to empty namespaces that are being deleted. By
    /// default it does not, like a kube-apiserver without a controller manager. A finalizer
    /// `foregroundDeletion` or `orphan` then stays until the test or a client removes it.
    ///
    /// The server does this work within the write that causes it, before the response to the write.
    /// So the work is as deterministic as the writes are. Each deletion and change has a version of
    /// its own. If an owner reference has a uid that this server has not assigned, the dependent is
    /// not deleted. Generated objects are not deleted.
    ///
    /// ```
    /// # use deltafifo_testkit::{ApiServer, Resource};
    /// # use serde_json::json;
    /// let server = ApiServer::builder()
    ///     .resource(Resource::config_maps())
    ///     .resource(Resource::pods())
    ///     .controllers(true)
    ///     .build();
    /// let owner = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "web" } });
    /// server.apply(&owner)?;
    /// let owner = server.get(&Resource::config_maps(), "default", "web").unwrap();
    /// let reference = json!({
    ///     "apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": owner["metadata"]["uid"],
    /// });
    /// let metadata = json!({ "name": "web-0", "ownerReferences": [reference] });
    /// server.apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata }))?;
    ///
    /// server.delete(&Resource::config_maps(), "default", "web")?;
    /// assert!(server.get(&Resource::pods(), "default", "web-0").is_none());
    /// # Ok::<_, deltafifo_testkit::Error>(())
    /// ```
    pub fn controllers(mut self, controllers: bool) -> Self {
        self.controllers = controllers;
        self
    }

    /// Sets whether the server records in `metadata.managedFields` which client has set which
    /// field, for all objects that clients write. By default it does so only from the first
    /// server-side apply of an object on; until then its fields count as those of the manager
    /// `before-first-apply`. Records take time and memory with each write.
    pub fn managed_fields(mut self, managed_fields: bool) -> Self {
        self.managed_fields = managed_fields;
        self
    }

    /// Sets the largest size of a frame of a list or watch in bytes. The default is 16 KiB; 0
    /// counts as 1. A small size splits objects, and even characters, between frames.
    pub fn frame_size(mut self, bytes: usize) -> Self {
        self.frame_size = bytes.max(1);
        self
    }

    /// Sets the number of changes that are kept for each resource. The default is 10,000. Older
    /// versions are refused for watches, lists and page tokens.
    pub fn log_size(mut self, changes: usize) -> Self {
        self.log_size = changes;
        self
    }

    /// Sets the number of changes and bookmarks that are buffered for a watch that is not read. The
    /// default is 100,000. One more change ends the watch after the buffered ones, as in the real
    /// server. Changes from before the watch was opened do not count. Buffered changes keep both
    /// versions of their objects in memory. The limit is [`Semaphore::MAX_PERMITS`] - 1: a larger
    /// number counts as this one.
    pub fn watch_buffer(mut self, changes: usize) -> Self {
        // `Watcher` reserves one more place for its last signal.
        self.watch_buffer = changes.min(Semaphore::MAX_PERMITS - 1);
        self
    }

    /// Sets the response to watches that start with the existing objects. The default is to serve
    /// them.
    pub fn watch_lists(mut self, watch_lists: WatchLists) -> Self {
        self.watch_lists = watch_lists;
        self
    }

    /// Sets the response to lists and watches with `shardSelector`. The default is to ignore the
    /// parameter. An invalid selector that is not ignored is refused with 500, as by the real
    /// server.
    pub fn shard_selectors(mut self, shard_selectors: ShardSelectors) -> Self {
        self.shard_selectors = shard_selectors;
        self
    }

    /// Sets the number of requests that are recorded for [`requests`](ApiServer::requests). One
    /// more drops the oldest. By default all are recorded, for tests that count them.
    pub fn recorded_requests(mut self, requests: usize) -> Self {
        self.recorded = requests;
        self
    }

    /// Sends a bookmark every `period` to each watch that requested bookmarks. The period is
    /// measured by tokio's clock, from the opening of the watch. The real server sends one about
    /// once a minute. By default only the test [sends](ApiServer::bookmark) bookmarks, and so
    /// controls their order. If the clock is paused, it advances from one bookmark to the next
    /// while a watch is read. A period of less than a millisecond counts as a millisecond. A period
    /// beyond 30 years, such as [`Duration::MAX`], means never.
    pub fn bookmarks(mut self, period: Duration) -> Self {
        self.bookmarks = (period < FAR).then_some(period.max(Duration::from_millis(1)));
        self
    }

    /// Creates the server, without objects.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let collector = Collector::new(self.controllers);
        let mut store = Store::new(self.log_size, collector, self.managed_fields);
        for resource in self.resources {
            store.register(resource);
        }
        let settings = Settings {
            frame_size: self.frame_size,
            watch_buffer: self.watch_buffer,
            watch_lists: self.watch_lists,
            shard_selectors: self.shard_selectors,
            recorded: self.recorded,
            bookmarks: self.bookmarks,
        };
        let state = ServerState {
            store: Mutex::new(store),
            faults: Faults::default(),
            requests: Mutex::default(),
            settings,
            changed: watch::Sender::new(()),
        };
        ApiServer { state: Arc::new(state) }
    }
}

impl ApiServer {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder {
            resources: Vec::new(),
            frame_size: 16 << 10,
            log_size: 10_000,
            watch_buffer: 100_000,
            watch_lists: WatchLists::default(),
            shard_selectors: ShardSelectors::default(),
            recorded: usize::MAX,
            bookmarks: None,
            controllers: false,
            managed_fields: false,
        }
    }

    /// Returns a client of this server, with the default namespace `default`. The client does not
    /// retry.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime, because the client spawns a task. Watches with a
    /// timeout, which kube always sets, need a runtime with timers (`enable_time`).
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl ServerState {
    /// Wakes the callers of [`wait`](Self::wait), which then check their condition again.
    pub(crate) fn pulse(&self) {
        self.changed.send_replace(());
    }

    /// Records a request, and drops the oldest one if there are too many.
    fn record(&self, request: Arc<Request>) {
        let mut requests = self.requests.lock();
        requests.push_back(request);
        if requests.len() > self.settings.recorded {
            requests.pop_front();
        }
    }

    /// Waits until `check` returns a value. Calls `check` after each [`pulse`](Self::pulse).
    pub(crate) async fn wait<T>(&self, mut check: impl FnMut() -> Option<T>) -> T {
        // Subscribed before the first check, so that no pulse is missed.
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(found) = check() {
                return found;
            }
            // Never an error: `self` owns the sender.
            let _ = changed.changed().await;
        }
    }
}

impl<B> Service<http::Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let request = Arc::new(Request::read(&parts));
        let state = Arc::clone(&self.state);
        state.record(Arc::clone(&request));
        state.pulse();
        Box::pin(async move {
            let mut repeated = 0;
            let mut body_fault = None;
            match state.faults.strike(&request) {
                None => {}
                Some(Kind::Status(status)) => return Ok(answer::refusal(&status)),
                Some(Kind::Refused) => {
                    let message = "the test server refused the connection";
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, message));
                }
                Some(Kind::Silence) => future::pending().await,
                Some(Kind::Body(fault)) => body_fault = Some(fault),
                Some(Kind::Repeat(changes)) => repeated = changes,
            }
            let mut body = pin!(body);
            let answer = match Limited::new(body.as_mut(), LARGEST_BODY).collect().await {
                Ok(body) => answer::answer(&state, &request, &body.to_bytes(), repeated),
                Err(error) if error.is::<LengthLimitError>() => {
                    // A client reads the response when it has sent the whole body.
                    while let Some(Ok(_)) = body.frame().await {}
                    answer::refusal(&status::body_too_large(LARGEST_BODY))
                }
                Err(error) => answer::refusal(&status::bad_request(&format!(
                    "the body of the request cannot be read: {error}"
                ))),
            };
            Ok(answer.map(|body| body.with_fault(body_fault)))
        })
    }
}
