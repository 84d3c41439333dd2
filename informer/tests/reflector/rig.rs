//! A rig: a reflector with a queue, a consumer that applies items, and a record of changes and
//! errors.

#![allow(clippy::unnecessary_wraps)] // A script consists of results.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo::{Change, DeltaFifo, DeltaObject, Indexer, KeyFunc};
use deltafifo_informer::lister_watcher::{
    EventType, ListRequest, ListStream, Listed, ListerWatcher, PageMeta, RawEvent, Request,
    RequestError, Scripted, TooLarge, WatchRequest, WatchStream,
};
use deltafifo_informer::reflector::{Reflector, ReflectorBuilder, RunError};
use deltafifo_informer::{KubeMeta, ReflectorError, error_chain};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, yield_now};

pub type Queue = DeltaFifo<ConfigMap, KubeMeta>;

pub fn queue() -> Arc<Queue> {
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta))
        .build()
        .expect("no index is given twice");
    Arc::new(DeltaFifo::over(store).track_applied(true).build())
}

/// A running reflector.
pub struct Rig {
    pub fifo: Arc<Queue>,
    pub source: Arc<Scripted>,
    pub reflector: Arc<Reflector<ConfigMap>>,
    changes: mpsc::UnboundedReceiver<String>,
    errors: mpsc::UnboundedReceiver<String>,
    run: JoinHandle<RunError>,
}

impl Rig {
    /// Starts a reflector with this script. It requests lists that are not streamed.
    pub fn lists(script: Scripted) -> Self {
        Self::start(script, |builder| builder.watch_list(false))
    }

    /// Starts a reflector with this script, after `choose` has configured it.
    pub fn start(
        script: Scripted,
        choose: impl FnOnce(ReflectorBuilder<ConfigMap>) -> ReflectorBuilder<ConfigMap>,
    ) -> Self {
        let (fifo, source) = (queue(), Arc::new(script));
        let (errors, received) = mpsc::unbounded_channel();
        let in_turn = InTurn { script: source.clone(), fifo: fifo.clone() };
        let builder = Reflector::builder(in_turn, fifo.clone());
        let builder =
            builder.on_error(move |error: &ReflectorError| drop(errors.send(error_chain(error))));
        let reflector = Arc::new(choose(builder).build());
        let changes = consume(fifo.clone());
        let running = reflector.clone();
        let run = tokio::spawn(async move { running.run().await });
        Self { fifo, source, reflector, changes, errors: received, run }
    }

    /// Returns the next changes of the store: `Added a@5`, `Updated a@5>6`, `Deleted a@6`.
    pub async fn changes(&mut self, count: usize) -> Vec<String> {
        let mut changes = Vec::new();
        while changes.len() < count {
            changes
                .push(self.changes.recv().await.expect("the consumer lives as long as the queue"));
        }
        changes
    }

    /// Returns the next reported error.
    pub async fn error(&mut self) -> String {
        self.errors.recv().await.expect("the reflector lives as long as its task")
    }

    /// Returns the first `times` requests, once they were made.
    pub async fn requests(&self, times: usize) -> Vec<Request> {
        self.source.wait_for_requests(times).await;
        self.source.requests()
    }

    /// Returns the names and versions of the stored objects.
    pub fn stored(&self) -> Vec<String> {
        let mut stored: Vec<_> = self.fifo.store().list().iter().map(|map| shown(map)).collect();
        stored.sort();
        stored
    }

    /// Waits for the end of the run. Returns its error.
    pub async fn ended(self) -> RunError {
        self.run.await.expect("the run does not panic")
    }
}

/// A script whose requests wait until the consumer has handled everything before. Otherwise a delta
/// of a watch could join an item of a list that is still queued, and the order of the changes of
/// different keys would depend on the scheduler.
struct InTurn {
    script: Arc<Scripted>,
    fifo: Arc<Queue>,
}

impl InTurn {
    async fn handled(&self) {
        while self.fifo.pending_deltas() > 0 {
            yield_now().await;
        }
    }
}

impl ListerWatcher for InTurn {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        Box::pin(async {
            self.handled().await;
            self.script.list(request).await
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        Box::pin(async {
            self.handled().await;
            self.script.watch(request).await
        })
    }
}

/// Applies every item in a task. Returns a receiver of the changes.
fn consume(fifo: Arc<Queue>) -> mpsc::UnboundedReceiver<String> {
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(mut item) = fifo.pop_async().await {
            let key = item.key().to_owned();
            let applied = item.apply(|change| {
                let text = match change {
                    Change::Added { new, .. } => format!("Added {}", shown(new)),
                    Change::Updated { old, new, .. } => {
                        format!(
                            "Updated {}>{}",
                            shown(old),
                            new.metadata.resource_version.as_deref().unwrap_or("")
                        )
                    }
                    Change::Deleted { last: DeltaObject::Object(last), .. } => {
                        format!("Deleted {}", shown(last))
                    }
                    Change::Deleted { last: DeltaObject::Tombstone(_), .. } => {
                        format!("Missed {key}")
                    }
                };
                let _ = sender.send(text);
            });
            applied.expect("the store is fused and has no indexes");
        }
    });
    received
}

pub fn shown(map: &ConfigMap) -> String {
    let (name, version) = (map.metadata.name.as_deref(), map.metadata.resource_version.as_deref());
    format!("{}@{}", name.unwrap_or(""), version.unwrap_or(""))
}

/// Returns a `ConfigMap` as JSON.
pub fn map(name: &str, version: u32) -> Bytes {
    let json =
        serde_json::json!({ "metadata": { "name": name, "resourceVersion": version.to_string() } });
    json.to_string().into()
}

/// Returns a `ConfigMap` that cannot be decoded.
pub fn broken(name: &str, version: u32) -> Bytes {
    let json = serde_json::json!({ "metadata": { "name": name, "resourceVersion": version.to_string() }, "data": 7 });
    json.to_string().into()
}

/// Returns the error for an object that is too large. An empty name means that the name could not
/// be read.
pub fn too_large(event: Option<EventType>, name: &str, version: u32) -> RequestError {
    let (name, resource_version) = (name.to_owned(), version.to_string());
    RequestError::TooLarge(Box::new(TooLarge {
        event,
        name,
        resource_version,
        size: 2000,
        limit: 1000,
        ..TooLarge::default()
    }))
}

pub fn page(version: u32, token: Option<&str>) -> Result<Listed, RequestError> {
    let resource_version = version.to_string();
    Ok(Listed::Meta(PageMeta {
        resource_version,
        continue_token: token.map(str::to_owned),
        ..PageMeta::default()
    }))
}

pub fn items(items: impl IntoIterator<Item = Bytes>) -> Result<Listed, RequestError> {
    Ok(Listed::Items(items.into_iter().collect()))
}

/// Returns a list of one page.
pub fn list(
    version: u32,
    objects: impl IntoIterator<Item = Bytes>,
) -> [Result<Listed, RequestError>; 2] {
    [page(version, None), items(objects)]
}

pub fn event(kind: EventType, object: Bytes) -> Result<RawEvent, RequestError> {
    Ok(RawEvent { kind, object })
}

pub fn bookmark(version: u32, ends_initial_events: bool) -> Result<RawEvent, RequestError> {
    let ends = ends_initial_events.to_string();
    let metadata = serde_json::json!({
        "resourceVersion": version.to_string(),
        "annotations": { "k8s.io/initial-events-end": ends },
    });
    event(EventType::Bookmark, serde_json::json!({ "metadata": metadata }).to_string().into())
}

/// Returns a response with these parts, which breaks once the target has received all of them.
pub fn cut<T: Send + 'static>(
    parts: impl IntoIterator<Item = Result<T, RequestError>>,
) -> BoxStream<'static, Result<T, RequestError>> {
    let broken = stream::once(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err(RequestError::Broken("reset by peer".into()))
    });
    stream::iter(parts.into_iter().collect::<Vec<_>>()).chain(broken).boxed()
}

pub fn status(code: u16, reason: &str) -> RequestError {
    let status = Status::failure("expected by this test", reason).with_code(code);
    RequestError::Status { status: Box::new(status), retry_after: None }
}

/// Returns an error with this status and a `Retry-After` in seconds.
pub fn busy(code: u16, reason: &str, seconds: u64) -> RequestError {
    let RequestError::Status { status, .. } = status(code, reason) else { unreachable!() };
    RequestError::Status { status, retry_after: Some(Duration::from_secs(seconds)) }
}

/// Returns the error of a refused connection.
pub fn refused() -> RequestError {
    RequestError::Unreachable(io::Error::from(ErrorKind::ConnectionRefused).into())
}

/// Returns the error of a connection that is closed before the response.
pub fn closed() -> RequestError {
    RequestError::Unreachable("connection closed before message completed".into())
}

pub fn expired() -> RequestError {
    status(410, "Expired")
}

/// Formats requests for comparison, without the random timeouts.
pub fn shown_requests(requests: &[Request]) -> Vec<String> {
    requests
        .iter()
        .map(|request| match request {
            Request::List(ListRequest {
                resource_version,
                not_older_than,
                limit,
                continue_token,
            }) => {
                let at_least = if *not_older_than { " at least" } else { "" };
                let token = continue_token
                    .as_ref()
                    .map(|token| format!(" token {token}"))
                    .unwrap_or_default();
                format!("list{at_least} {resource_version:?} limit {limit}{token}")
            }
            Request::Watch(WatchRequest {
                resource_version,
                send_initial_events,
                timeout_seconds,
            }) => {
                assert!((300..=600).contains(timeout_seconds), "{timeout_seconds}");
                let initial = if *send_initial_events { " initial" } else { "" };
                format!("watch{initial} {resource_version:?}")
            }
        })
        .collect()
}
