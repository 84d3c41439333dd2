//! A gate in front of the API server. It cuts off the responses that a reflector is reading, and
//! holds the reflector's requests, so that a scenario can write to the server and restart it
//! unobserved. It records the requests and the errors.

use std::sync::Arc;

use deltafifo_informer::KubeListerWatcher;
use deltafifo_informer::lister_watcher::{
    ListRequest, ListStream, Listed, ListerWatcher, PageMeta, Request, RequestError, WatchRequest,
    WatchStream,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::fault::Fault;
use crate::servers::NAMESPACE;

/// The number that is added to a version. The server does not reach the sum during a scenario.
const AHEAD: u64 = 1_000_000_000;

/// A lister-watcher of the scenarios' objects, with a gate.
pub struct Gate {
    source: KubeListerWatcher,
    mode: watch::Sender<Mode>,
    seen: Arc<watch::Sender<Seen>>,
    ahead: Mutex<bool>,
}

/// The kind of requests that the gate lets through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Everything,
    /// Everything except the second and later pages of a list.
    FirstPages,
    Nothing,
}

/// A record of the requests, pages and errors that passed the gate.
#[derive(Clone, Default)]
pub struct Seen {
    /// The requests, in order.
    pub requests: Vec<Request>,
    /// The metadata of each list page.
    pub pages: Vec<PageMeta>,
    /// The errors in responses.
    pub faults: Vec<Fault>,
    /// The request that is held, if there is one.
    held: Option<Request>,
}

impl Gate {
    /// Creates an open gate.
    pub fn new(client: Client) -> Self {
        Self {
            source: KubeListerWatcher::new::<ConfigMap>(client, &(), Some(NAMESPACE)),
            mode: watch::Sender::new(Mode::Everything),
            seen: Arc::default(),
            ahead: Mutex::new(false),
        }
    }

    /// Cuts off the responses that are being read, and holds every request. Waits until a request
    /// is held; no other request is in progress then.
    pub async fn close(&self) {
        self.mode.send_replace(Mode::Nothing);
        self.held().await;
    }

    /// Holds the second and later pages of lists from now on.
    pub fn hold_pages(&self) {
        self.mode.send_replace(Mode::FirstPages);
    }

    /// Lets every request through.
    pub fn open(&self) {
        self.mode.send_replace(Mode::Everything);
    }

    /// Makes the next list, plain or streamed, ask for a version that the server has not reached.
    pub fn move_ahead(&self) {
        *self.ahead.lock() = true;
    }

    /// Waits until a request is held, and returns it. Never returns `None`.
    pub async fn held(&self) -> Option<Request> {
        let mut seen = self.seen.subscribe();
        // `wait_for` fails only if the sender is gone, and `self` owns it.
        seen.wait_for(|seen| seen.held.is_some()).await.ok().and_then(|seen| seen.held.clone())
    }

    /// Returns the record so far.
    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Records the request, and waits until it may go through.
    async fn pass(&self, request: Request, is_next_page: bool) {
        self.seen.send_modify(|seen| seen.requests.push(request.clone()));
        let passes = |mode: &Mode| match mode {
            Mode::Everything => true,
            Mode::FirstPages => !is_next_page,
            Mode::Nothing => false,
        };
        let mut mode = self.mode.subscribe();
        let now = *mode.borrow();
        if !passes(&now) {
            self.seen.send_modify(|seen| seen.held = Some(request));
            // `wait_for` fails only if the sender is gone, and `self` owns it.
            let _ = mode.wait_for(passes).await;
            self.seen.send_modify(|seen| seen.held = None);
        }
    }

    fn ahead_of(&self, version: String) -> String {
        match version.parse::<u64>() {
            Ok(number) if std::mem::take(&mut *self.ahead.lock()) => (number + AHEAD).to_string(),
            _ => version,
        }
    }

    /// Returns a response that breaks off when the gate closes, and whose errors are recorded.
    fn cuttable<T: Send + 'static>(
        &self,
        parts: BoxStream<'static, Result<T, RequestError>>,
    ) -> BoxStream<'static, Result<T, RequestError>> {
        let (seen, mut mode, after) =
            (self.seen.clone(), self.mode.subscribe(), self.mode.subscribe());
        let closed = async move {
            let _ = mode.wait_for(|mode| *mode == Mode::Nothing).await;
        };
        let end = async move {
            let is_cut = *after.borrow() == Mode::Nothing;
            is_cut.then(|| Err(RequestError::Broken("cut off by the gate".into())))
        };
        parts
            .inspect(move |part| {
                if let Err(error) = part {
                    record(&seen, error);
                }
            })
            .take_until(closed)
            .chain(stream::once(end).filter_map(std::future::ready))
            .boxed()
    }
}

fn record(seen: &watch::Sender<Seen>, error: &RequestError) {
    seen.send_modify(|seen| seen.faults.push(Fault::of_request(error)));
}

impl ListerWatcher for Gate {
    fn list(&self, mut request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        Box::pin(async move {
            let is_next_page = request.continue_token.is_some();
            self.pass(Request::List(request.clone()), is_next_page).await;
            if !is_next_page {
                request.resource_version = self.ahead_of(request.resource_version);
            }
            let list =
                self.source.list(request).await.inspect_err(|error| record(&self.seen, error))?;
            let seen = self.seen.clone();
            let list = list.inspect(move |part| {
                if let Ok(Listed::Meta(meta)) = part {
                    seen.send_modify(|seen| seen.pages.push(meta.clone()));
                }
            });
            Ok(self.cuttable(list.boxed()))
        })
    }

    fn watch(&self, mut request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        Box::pin(async move {
            self.pass(Request::Watch(request.clone()), false).await;
            if request.send_initial_events {
                request.resource_version = self.ahead_of(request.resource_version);
            }
            let events =
                self.source.watch(request).await.inspect_err(|error| record(&self.seen, error))?;
            Ok(self.cuttable(events))
        })
    }

    fn types(&self) -> Option<(&str, &str)> {
        self.source.types()
    }
}
