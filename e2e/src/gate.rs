//! A gate in front of the API server: it cuts a reflector off and holds its requests back, so that the server can be
//! written to and restarted meanwhile. It keeps what was asked and what went wrong.

use std::sync::Arc;

use deltafifo_informer::KubeListerWatcher;
use deltafifo_informer::lister_watcher::{
    Asked, ListRequest, ListStream, Listed, ListerWatcher, PageMeta, RequestError, WatchRequest, WatchStream,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::fault::Fault;
use crate::servers::NAMESPACE;

/// By how much a version is moved ahead: the server does not reach it while a scenario runs.
const AHEAD: u64 = 1_000_000_000;

/// Lists and watches the scenarios' objects, through a gate.
pub struct Gate {
    source: KubeListerWatcher,
    way: watch::Sender<Way>,
    seen: Arc<watch::Sender<Seen>>,
    ahead: Mutex<bool>,
}

/// What the gate lets through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Everything,
    /// All but the further pages of a list.
    FirstPages,
    Nothing,
}

/// What came to the gate.
#[derive(Clone, Default)]
pub struct Seen {
    /// Requests, in order.
    pub asked: Vec<Asked>,
    /// What each page of a list said of itself.
    pub pages: Vec<PageMeta>,
    /// What was wrong with answers.
    pub faults: Vec<Fault>,
    /// The request that waits, if one does.
    held: Option<Asked>,
}

impl Gate {
    /// An open one.
    pub fn new(client: Client) -> Self {
        Self {
            source: KubeListerWatcher::new::<ConfigMap>(client, &(), Some(NAMESPACE)),
            way: watch::Sender::new(Way::Everything),
            seen: Arc::default(),
            ahead: Mutex::new(false),
        }
    }

    /// Cuts off what is open, and holds every request back. Waits until there is one: then nothing is under way any
    /// more.
    pub async fn close(&self) {
        self.way.send_replace(Way::Nothing);
        self.held().await;
    }

    /// From now on further pages are held back.
    pub fn hold_pages(&self) {
        self.way.send_replace(Way::FirstPages);
    }

    /// Lets everything through.
    pub fn open(&self) {
        self.way.send_replace(Way::Everything);
    }

    /// The next list, whole or streamed, asks for a version that the server has not reached.
    pub fn move_ahead(&self) {
        *self.ahead.lock() = true;
    }

    /// The request that is held back, once there is one.
    pub async fn held(&self) -> Option<Asked> {
        let mut seen = self.seen.subscribe();
        // It fails only when the sender is gone, which is here.
        seen.wait_for(|seen| seen.held.is_some()).await.ok().and_then(|seen| seen.held.clone())
    }

    /// What came so far.
    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until the request may go through.
    async fn pass(&self, asked: Asked, is_next_page: bool) {
        self.seen.send_modify(|seen| seen.asked.push(asked.clone()));
        let passes = |way: &Way| match way {
            Way::Everything => true,
            Way::FirstPages => !is_next_page,
            Way::Nothing => false,
        };
        let mut way = self.way.subscribe();
        let now = *way.borrow();
        if !passes(&now) {
            self.seen.send_modify(|seen| seen.held = Some(asked));
            // It fails only when the sender is gone, which is here.
            let _ = way.wait_for(passes).await;
            self.seen.send_modify(|seen| seen.held = None);
        }
    }

    fn ahead_of(&self, version: String) -> String {
        match version.parse::<u64>() {
            Ok(number) if std::mem::take(&mut *self.ahead.lock()) => (number + AHEAD).to_string(),
            _ => version,
        }
    }

    /// An answer that breaks off when the gate is closed, and whose errors are kept.
    fn cuttable<T: Send + 'static>(
        &self,
        parts: BoxStream<'static, Result<T, RequestError>>,
    ) -> BoxStream<'static, Result<T, RequestError>> {
        let (seen, mut way, after) = (self.seen.clone(), self.way.subscribe(), self.way.subscribe());
        let closed = async move {
            let _ = way.wait_for(|way| *way == Way::Nothing).await;
        };
        let end = async move {
            let is_cut = *after.borrow() == Way::Nothing;
            is_cut.then(|| Err(RequestError::Broken("cut off by the gate".into())))
        };
        parts
            .inspect(move |part| {
                if let Err(error) = part {
                    note(&seen, error);
                }
            })
            .take_until(closed)
            .chain(stream::once(end).filter_map(std::future::ready))
            .boxed()
    }
}

fn note(seen: &watch::Sender<Seen>, error: &RequestError) {
    seen.send_modify(|seen| seen.faults.push(Fault::of_request(error)));
}

impl ListerWatcher for Gate {
    fn list(&self, mut request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        Box::pin(async move {
            let is_next_page = request.continue_token.is_some();
            self.pass(Asked::List(request.clone()), is_next_page).await;
            if !is_next_page {
                request.resource_version = self.ahead_of(request.resource_version);
            }
            let list = self.source.list(request).await.inspect_err(|error| note(&self.seen, error))?;
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
            self.pass(Asked::Watch(request.clone()), false).await;
            if request.send_initial_events {
                request.resource_version = self.ahead_of(request.resource_version);
            }
            let events = self.source.watch(request).await.inspect_err(|error| note(&self.seen, error))?;
            Ok(self.cuttable(events))
        })
    }

    fn types(&self) -> Option<(&str, &str)> {
        self.source.types()
    }
}
