//! The server: what it is made of, and how a client reaches it.

use std::fmt;
use std::future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tower_service::Service;

use crate::answer;
use crate::body::Body;
use crate::fault::{Faults, Kind};
use crate::request::Request;
use crate::store::Store;
use crate::{Resource, status};

/// A Kubernetes API server in this process. Cheap to clone: all clones are the same server.
///
/// It is a [`tower_service::Service`]; [`client`](Self::client) puts a [`kube::Client`] on it. See
/// the [crate](crate) for what it does.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Mutex<Store>,
    pub(crate) faults: Faults,
    pub(crate) requests: Mutex<Vec<Arc<Request>>>,
    pub(crate) settings: Settings,
    /// Says that a request came, or that a watch was opened or ended.
    changed: watch::Sender<()>,
}

pub(crate) struct Settings {
    pub(crate) frame_size: usize,
    pub(crate) watch_buffer: usize,
    pub(crate) watch_lists: WatchLists,
    /// How often a watch gets a bookmark by itself.
    pub(crate) bookmarks: Option<Duration>,
}

/// What becomes of watches that are to begin with a list (`sendInitialEvents`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchLists {
    /// They are served, as by Kubernetes 1.34 and later.
    #[default]
    Served,
    /// 422: an older server, or one whose feature gate is off.
    Forbidden,
    /// 500: a server over an old etcd.
    Failing,
}

/// Longer than anybody waits, and short enough that no clock overflows.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// What a server is made of: [`ApiServer::builder`].
#[derive(Debug)]
#[must_use = "build() makes the server"]
pub struct Builder {
    resources: Vec<Resource>,
    frame_size: usize,
    log_size: usize,
    watch_buffer: usize,
    watch_lists: WatchLists,
    bookmarks: Option<Duration>,
}

impl Builder {
    /// Serves this resource; [`ApiServer::register`] does so later.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// The most bytes in a frame of a list or watch, by default 16 KiB. Few of them cut objects,
    /// and characters, in pieces.
    pub fn frame_size(mut self, bytes: usize) -> Self {
        self.frame_size = bytes.max(1);
        self
    }

    /// How many changes of each resource are remembered, by default 10,000. Older versions are
    /// refused: watches from them, lists of them, their page tokens.
    pub fn log_size(mut self, changes: usize) -> Self {
        self.log_size = changes;
        self
    }

    /// How many changes and bookmarks wait for a watch that does not read them, by default
    /// 100,000. One more change, and it ends after those, as at the real server. What it missed
    /// before it was opened does not count. What waits keeps its objects in memory, as they were
    /// and as they became.
    pub fn watch_buffer(mut self, changes: usize) -> Self {
        // One more is for what is told last.
        self.watch_buffer = changes.min(Semaphore::MAX_PERMITS - 1);
        self
    }

    /// What becomes of watches that are to begin with a list; by default they are served.
    pub fn watch_lists(mut self, watch_lists: WatchLists) -> Self {
        self.watch_lists = watch_lists;
        self
    }

    /// Sends a bookmark every `period`, by tokio's clock and from its opening on, to each watch
    /// that asked for bookmarks. The real server does so about once a minute. By default there are
    /// none but those that a test [sends](ApiServer::bookmark), so that it says what comes when;
    /// with a clock that is paused, time passes from one to the next as long as a watch is read. A
    /// period of less than a millisecond counts as one; one that nobody lives to see, as
    /// [`Duration::MAX`], is never.
    pub fn bookmarks(mut self, period: Duration) -> Self {
        self.bookmarks = (period < FAR).then_some(period.max(Duration::from_millis(1)));
        self
    }

    /// Makes the server, with no objects.
    #[must_use]
    pub fn build(self) -> ApiServer {
        let mut store = Store::new(self.log_size);
        for resource in self.resources {
            store.register(resource);
        }
        let settings = Settings {
            frame_size: self.frame_size,
            watch_buffer: self.watch_buffer,
            watch_lists: self.watch_lists,
            bookmarks: self.bookmarks,
        };
        let shared = Shared {
            store: Mutex::new(store),
            faults: Faults::default(),
            requests: Mutex::default(),
            settings,
            changed: watch::Sender::new(()),
        };
        ApiServer { shared: Arc::new(shared) }
    }
}

impl ApiServer {
    /// A server to be described.
    pub fn builder() -> Builder {
        Builder {
            resources: Vec::new(),
            frame_size: 16 << 10,
            log_size: 10_000,
            watch_buffer: 100_000,
            watch_lists: WatchLists::default(),
            bookmarks: None,
        }
    }

    /// A client of this server, with the default namespace `default`. It retries nothing by itself.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the client has a task of its own. Watches with a timeout, and
    /// kube asks for one always, need a runtime with timers (`enable_time`).
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

impl Shared {
    /// Lets those look again who wait for something.
    pub(crate) fn pulse(&self) {
        self.changed.send_replace(());
    }

    /// Looks until there is something to see.
    pub(crate) async fn wait<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        // From here on no pulse is missed.
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            // Never an error: the sender is in `self`.
            let _ = changed.changed().await;
        }
    }
}

impl<B> Service<http::Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
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
        let shared = Arc::clone(&self.shared);
        shared.requests.lock().push(Arc::clone(&request));
        shared.pulse();
        Box::pin(async move {
            let mut again = 0;
            let mut spoil = None;
            match shared.faults.strike(&request) {
                None => {}
                Some(Kind::Status(status)) => return Ok(answer::refusal(&status)),
                Some(Kind::Refused) => {
                    let message = "the test server refused the connection";
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, message));
                }
                Some(Kind::Silence) => future::pending().await,
                Some(Kind::Body(how)) => spoil = Some(how),
                Some(Kind::Again(changes)) => again = changes,
            }
            let answer = match body.collect().await {
                Ok(body) => answer::answer(&shared, &request, &body.to_bytes(), again),
                Err(error) => answer::refusal(&status::bad_request(&format!(
                    "the request's body breaks off: {error}"
                ))),
            };
            Ok(answer.map(|body| body.spoiled(spoil)))
        })
    }
}
