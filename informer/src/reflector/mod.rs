//! The reflector: brings a cluster's objects into a queue or a store, and keeps them there as they
//! change (client-go `Reflector`).
//!
//! * `list.rs`: everything, page by page, or at once.
//! * `watch_list.rs`: everything, as the first events of a watch.
//! * `watch.rs`: what changes from then on.
//! * `intake.rs`: a relist on its way in, of which only what changed is decoded.
//! * `limits.rs`: how long a list may take.
//! * `metrics.rs`: what it tells of itself.
//! * `status.rs`: how the watch is, for users and for metrics.
//! * `threads.rs`: where that, and user code, runs.
//! * `versions.rs`: from which version to ask.
//! * `target/`: what is fed.
//! * `watcher_events.rs`: the same fed by a watcher of kube's, in the place of a reflector.

mod alarm;
mod backoff;
mod builder;
mod decode;
mod error;
mod intake;
mod limits;
mod list;
mod metrics;
pub(crate) mod status;
mod target;
mod threads;
mod versions;
mod watch;
mod watch_list;
#[cfg(feature = "runtime")]
pub(crate) mod watcher_events;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::Closed;
use deltafifo::locks::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use crate::lister_watcher::{ListerWatcher, ObjectLimit, RequestError, WatchStream};
use crate::metrics::Named;
use crate::shares::Shares;
pub use crate::wire::set_large_object_budget;
pub use backoff::Backoff;
pub use builder::ReflectorBuilder;
use decode::Decoder;
pub use error::{ReflectorError, RunError};
use error::{Stop, caught};
use metrics::Metrics;
pub use status::{LastError, WatchStatus};
use status::{Open, Status};
pub use target::{Pieces, Plain, Target};
use threads::Threads;
use versions::{Newest, Versions};

type OnError = dyn Fn(&ReflectorError) + Send + Sync;
type ShouldResync = dyn Fn() -> bool + Send + Sync;

/// Lists and watches one kind of object, and feeds what it learns to a [`Target`] (client-go
/// `Reflector`).
///
/// A queue or store has one reflector. What a list does not have is gone: of two that feed the
/// same target each would delete what the other brings, and a list of one ends the other's that is
/// on its way, which is then asked for again. Several places are one source by
/// [`Merged`](crate::lister_watcher::Merged). What becomes of objects that cannot be read under
/// keys of your own stands at [`Target`].
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{DeltaFifo, Indexer, KeyFunc};
/// use deltafifo_informer::lister_watcher::{EventType, Listed, PageMeta, RawEvent, Scripted};
/// use deltafifo_informer::{KubeMeta, Reflector};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = PageMeta { resource_version: "7".to_owned(), ..PageMeta::default() };
/// let map = r#"{"metadata":{"namespace":"shop","name":"prices","resourceVersion":"5"}}"#;
/// let script = Scripted::new().list([Ok(Listed::Meta(page)), Ok(Listed::Items(vec![map.into()]))]);
///
/// let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
/// let fifo = Arc::new(DeltaFifo::<ConfigMap, _>::over(store).build());
/// let reflector = Reflector::builder(script, fifo.clone()).watch_list(false).build();
/// let popped = tokio::select! {
///     ended = reflector.run() => panic!("{ended:?}"),
///     popped = fifo.pop_async() => popped?,
/// };
/// assert_eq!(popped.key(), "shop/prices");
/// # popped.done();
/// # Ok(())
/// # }
/// ```
pub struct Reflector<K> {
    name: String,
    metrics: Named<Metrics>,
    status: Arc<Status>,
    source: Box<dyn ListerWatcher>,
    target: Arc<dyn Target<K>>,
    decoder: Arc<Decoder>,
    threads: Threads,
    versions: Mutex<Versions>,
    /// Held by the one that runs.
    running: tokio::sync::Mutex<()>,
    backoff: Backoff,
    watch_list: bool,
    watch_list_timeout: Duration,
    /// Until then lists are not streamed: the server did not bring the last to its end.
    unstreamed_until: Mutex<Option<Instant>>,
    page_size: u32,
    least_watch: Duration,
    silence: Duration,
    object_limit: ObjectLimit,
    resync: Option<(Duration, Box<ShouldResync>)>,
    on_error: Box<OnError>,
}

impl<K: DeserializeOwned + Send + Sync + 'static> Reflector<K> {
    /// One that lists and watches `source`, and feeds `target`.
    pub fn builder(source: impl ListerWatcher, target: Arc<impl Target<K>>) -> ReflectorBuilder<K> {
        ReflectorBuilder::new(Box::new(source), target)
    }

    /// Runs until the queue is closed. Dropped, it stops: a relist in progress is abandoned, and
    /// nothing is deleted by it. Only what a thread has in hand goes on to its end, a batch of a
    /// relist or what ends it; the next run waits for that.
    ///
    /// Whatever goes wrong meanwhile is told to the error handler, and tried again. It says why it
    /// returned: [`RunError::Closed`], or [`RunError::Running`] when it runs already.
    pub async fn run(&self) -> RunError {
        let Ok(_running) = self.running.try_lock() else { return RunError::Running };
        let _runs = self.runs();
        let running = async {
            tokio::select! {
                closed = self.target.closed() => closed.into(),
                closed = async {
                    self.threads.shares.back().await;
                    self.list_and_watch_on().await
                } => closed.into(),
                never = self.sample() => match never {},
            }
        };
        running.instrument(self.span()).await
    }

    /// Lists and watches, again and again.
    async fn list_and_watch_on(&self) -> Closed {
        let mut backoff = self.backoff.clone();
        loop {
            let Err(stop) = self.list_and_watch(&mut backoff).await;
            match stop {
                Stop::Closed(closed) => return closed,
                Stop::Failed(error) => {
                    self.report(&error);
                    sleep(backoff.next(retry_after(&error))).await;
                }
                Stop::CannotResume => sleep(backoff.next(None)).await,
            }
        }
    }

    /// The version up to which everything was told to the target (client-go
    /// `LastSyncResourceVersion`). None before the first list is complete.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.versions.lock().last().map(str::to_owned)
    }

    /// Returns whether a watch is open, when something came last, and the last error, for a probe
    /// or a status page. Cheap: it reads what is noted anyway.
    #[must_use]
    pub fn watch_status(&self) -> WatchStatus {
        self.status.get()
    }

    /// Everything once, and then what changes, until everything is to be asked for again.
    async fn list_and_watch(&self, backoff: &mut Backoff) -> Result<Infallible, Stop> {
        let events = if self.watch_list { self.list_by_watch(backoff).await? } else { None };
        if events.is_none() {
            self.list().await?;
        }
        tokio::select! {
            ended = self.watch(events, backoff) => ended,
            never = self.resync() => Ok(never),
        }
    }

    /// Has the target tell everything again, now and then.
    async fn resync(&self) -> Infallible {
        let Some((period, should_resync)) = &self.resync else { return std::future::pending().await };
        loop {
            sleep(*period).await;
            let told = match caught(should_resync) {
                Ok(false) => continue,
                Ok(true) => {
                    let target = Arc::clone(&self.target);
                    self.threads.run(move || target.resync()).await
                }
                Err(panicked) => Err(panicked),
            };
            match told {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.report(&error.into()),
                Err(error) => self.report(&error),
            }
        }
    }

    fn report(&self, error: &ReflectorError) {
        self.metrics.tell(|metrics| metrics.failed(error));
        // An object's decoder may have made the text.
        if let Ok(message) = caught(|| error.to_string()) {
            self.status.failed(message);
        }
        // It is user code, and the reflector goes on.
        if caught(|| (self.on_error)(error)).is_err() {
            tracing::error!(%error, "the error handler of a reflector panicked");
        }
    }

    /// Waits before a request is made again, and tells why.
    async fn again(&self, error: RequestError, backoff: &mut Backoff) {
        let wait = backoff.next(error.retry_after());
        self.report(&ReflectorError::Watch(error));
        sleep(wait).await;
    }

    /// A request's answer; an error when none comes for too long.
    async fn answer<R>(&self, request: impl Future<Output = Result<R, RequestError>>) -> Result<R, RequestError> {
        let answer = timeout(self.silence, request).await;
        answer.unwrap_or(Err(RequestError::Silent { after: self.silence }))
    }
}

impl<K> Reflector<K> {
    /// Held by what goes on when its run is dropped.
    pub(crate) fn shares(&self) -> &Shares {
        &self.threads.shares
    }
}

fn retry_after(error: &ReflectorError) -> Option<Duration> {
    match error {
        ReflectorError::List(error) | ReflectorError::Watch(error) => error.retry_after(),
        _ => None,
    }
}

/// Events, and until when they may come.
struct Watch {
    events: WatchStream,
    until: Instant,
    /// The server was asked to end it later than `until`: it sends a list first, which may take
    /// longer than a watch lasts.
    ends_here: bool,
    /// It is from no version, so it sends all objects first, in any order of versions. The newest
    /// of those that have come; `None` once another event shows that they have all come, and in
    /// any other watch.
    first_objects: Option<Newest>,
    _open: Open,
}
