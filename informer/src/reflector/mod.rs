//! The reflector: copies a cluster's objects into a queue or a store, and keeps them up to date
//! (client-go `Reflector`).
//!
//! * `list.rs`: all objects, page by page or at once.
//! * `watch_list.rs`: all objects, as the first events of a watch.
//! * `watch.rs`: the changes from then on.
//! * `batches.rs`: passes a relist to the target in batches, and decodes changed objects only.
//! * `limits.rs`: the time limits of a list.
//! * `metrics.rs`: the metrics and spans of a reflector.
//! * `report.rs`: reports of errors.
//! * `subset.rs`: a list of a subset of the objects, for a member of a sharded group.
//! * `resync.rs`: the periodic resync of the target.
//! * `snapshot.rs`: a consistent list of metadata, for sharded controllers.
//! * `status.rs`: the state of the watch, for users and for metrics.
//! * `threads.rs`: the threads of decoding and of user code.
//! * `versions.rs`: the versions at which lists and watches start.
//! * `target/`: the queue or store that a reflector writes to.
//! * `watcher_events.rs`: feeds a target from a kube watcher instead of a reflector.

mod alarm;
mod backoff;
mod batches;
mod builder;
mod decode;
mod error;
mod limits;
mod list;
mod metrics;
mod report;
mod resync;
#[cfg(all(feature = "leader-election", feature = "runtime"))]
mod snapshot;
pub(crate) mod status;
#[cfg(feature = "leader-election")]
mod subset;
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
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use crate::lister_watcher::{ListerWatcher, ObjectLimit, RequestError, WatchStream};
use crate::metrics::Named;
use crate::util::in_flight::InFlight;
pub use crate::wire::set_large_object_budget;
pub use backoff::Backoff;
pub(crate) use builder::Options;
pub use builder::ReflectorBuilder;
pub use decode::Decodable;
use decode::Decoder;
pub(crate) use decode::{Decode, Decoding};
use error::Stop;
pub use error::{ReflectorError, RunError};
use metrics::Metrics;
use report::report;
pub(crate) use resync::Resync;
#[cfg(all(feature = "leader-election", feature = "runtime"))]
pub(crate) use snapshot::ListedMeta;
pub use status::{LastError, WatchStatus};
use status::{OpenWatch, Status};
#[cfg(test)]
pub(crate) use target::Pieces;
#[cfg(feature = "leader-election")]
pub(crate) use target::Sharded;
pub(crate) use target::{Histories, History, InScope, Scoped};
pub use target::{Plain, Target};
#[cfg(all(test, feature = "leader-election", feature = "runtime"))]
pub(crate) use threads::RUNS_INLINE;
pub(crate) use threads::Threads;
use versions::{Newest, Versions};

type ReflectorOnError = dyn Fn(&ReflectorError) + Send + Sync;

/// A task that lists and watches one kind of object, and writes the changes to a [`Target`]
/// (client-go `Reflector`).
///
/// A queue or store must have only one reflector. An object that is not in a list is deleted, so
/// two reflectors of one target would delete each other's objects, and a list of one would
/// supersede a list of the other. Several namespaces are best read by an informer of
/// [`Namespaces`](crate::shared_informer::Namespaces), which lists and watches each separately. One
/// reflector can read them with [`Merged`](crate::lister_watcher::Merged), but then it stops for
/// all of them while one fails. [`Target`] describes what happens to objects that
/// cannot be decoded if the queue has custom keys.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{DeltaFifo, Indexer, KeyFunc};
/// // `Scripted` needs the feature `scripted`.
/// use deltafifo_informer::lister_watcher::{EventType, Listed, PageMeta, RawEvent, Scripted};
/// use deltafifo_informer::{KubeMeta, Reflector};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = PageMeta { resource_version: "7".to_owned(), ..PageMeta::default() };
/// let map = r#"{"metadata":{"namespace":"shop","name":"prices","resourceVersion":"5"}}"#;
/// let items = Listed::Items(vec![map.into()]);
/// let script = Scripted::new().list([Ok(Listed::Meta(page)), Ok(items)]);
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
    decoder: Arc<Decoder<K>>,
    threads: Threads,
    versions: Mutex<Versions>,
    /// Locked while [`run`](Self::run) runs, so that there is one run at a time.
    running: tokio::sync::Mutex<()>,
    backoff: Backoff,
    watch_list: bool,
    watch_list_timeout: Duration,
    /// The time before which lists are not streamed, because the server did not complete the last
    /// streamed list.
    unstreamed_until: Mutex<Option<Instant>>,
    page_size: u32,
    least_watch: Duration,
    silence: Duration,
    object_limit: ObjectLimit,
    in_flight: Arc<Semaphore>,
    resync: Option<Resync>,
    on_error: Arc<ReflectorOnError>,
}

impl<K: Clone + DeserializeOwned + Send + Sync + 'static> Reflector<K> {
    /// Returns a builder of a reflector that lists and watches `source`, and writes to `target`.
    pub fn builder(source: impl ListerWatcher, target: Arc<impl Target<K>>) -> ReflectorBuilder<K> {
        ReflectorBuilder::new(Box::new(source), target, Box::new(K::decoder))
    }
}

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Runs until the queue is closed. A run that is dropped stops: a relist in progress is
    /// abandoned, and deletes nothing. Only work that is already running on a thread, such as a
    /// batch or the commit of a relist, continues to its end; the next run waits for it.
    ///
    /// Errors are reported to the error handler, and the request is repeated. Returns the reason
    /// why the run ended: [`RunError::Closed`], or [`RunError::Running`] if the reflector is
    /// already running.
    ///
    /// # Panics
    /// If the future is polled outside of a tokio runtime with timers (`enable_time`).
    pub async fn run(&self) -> RunError {
        self.run_from(false).await
    }

    /// Runs. If `resumes` is set, the first watch continues from the last version without a list,
    /// unless a list is owed.
    async fn run_from(&self, resumes: bool) -> RunError {
        let Ok(_running) = self.running.try_lock() else { return RunError::Running };
        let _runs = self.begin_run();
        let running = async {
            tokio::select! {
                // In a fixed order, so that a simulation can be repeated. Lists and watches come
                // last: they may use up the time that tokio gives a task in one poll.
                biased;
                closed = self.target.closed() => closed.into(),
                never = self.sample() => match never {},
                closed = async {
                    self.threads.work.wait_idle().await;
                    self.list_and_watch_on(resumes).await
                } => closed.into(),
            }
        };
        running.instrument(self.span()).await
    }

    /// Lists and watches in a loop.
    async fn list_and_watch_on(&self, mut resumes: bool) -> Closed {
        let mut backoff = self.backoff.clone();
        loop {
            let Err(stop) = self.list_and_watch(std::mem::take(&mut resumes), &mut backoff).await;
            if !matches!(stop, Stop::Closed(_)) {
                // This run may be dropped before it lists. The next one must not resume.
                self.versions.lock().set_list_due();
            }
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

    /// Returns the version up to which everything was written to the target (client-go
    /// `LastSyncResourceVersion`). `None` before the initial list is complete.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.versions.lock().last().map(str::to_owned)
    }

    /// Returns whether a watch is open, the time of the last event, and the last error, for a
    /// probe or a status page. Cheap: it reads recorded values.
    #[must_use]
    pub fn watch_status(&self) -> WatchStatus {
        self.status.get()
    }

    /// Lists all objects once, unless the watch `resumes`, and then watches, until a relist is
    /// needed.
    async fn list_and_watch(
        &self,
        resumes: bool,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Stop> {
        let mut events = None;
        if !resumes || self.versions.lock().owes_list() {
            events = if self.watch_list { self.list_by_watch(backoff).await? } else { None };
            if events.is_none() {
                self.list().await?;
            }
        }
        tokio::select! {
            // The timer of resyncs first: a watch that is always ready must not delay it.
            biased;
            never = self.resync() => Ok(never),
            ended = self.watch(events, backoff) => ended,
        }
    }

    /// Resyncs the target periodically. Waits for ever if no resync is configured.
    async fn resync(&self) -> Infallible {
        match &self.resync {
            Some(resync) => {
                resync.run(&self.target, &self.threads, |error| self.report(error)).await
            }
            None => std::future::pending().await,
        }
    }

    pub(crate) fn report(&self, error: &ReflectorError) {
        self.metrics.record(|metrics| metrics.failed(error));
        report(error, &self.status, &*self.on_error);
    }

    /// Reports the error, and waits before the request is repeated.
    async fn retry_later(&self, error: RequestError, backoff: &mut Backoff) {
        let wait = backoff.next(error.retry_after());
        self.report(&ReflectorError::Watch(error));
        sleep(wait).await;
    }

    /// Waits for the response to a request. Fails if it does not begin within `silence`.
    async fn answer<R>(
        &self,
        request: impl Future<Output = Result<R, RequestError>>,
    ) -> Result<R, RequestError> {
        let answer = timeout(self.silence, request).await;
        answer.unwrap_or(Err(RequestError::Silent { after: self.silence }))
    }
}

#[cfg(feature = "compact")]
impl<K: 'static> Reflector<K> {
    pub(crate) fn upkeep(&self) -> Option<Arc<dyn crate::compact::Upkeep<K>>> {
        self.decoder.0.clone().upkeep()
    }
}

impl<K> Reflector<K> {
    /// Returns the counter of work that continues when the run that started it is dropped.
    pub(crate) fn work(&self) -> &InFlight {
        &self.threads.work
    }
}

fn retry_after(error: &ReflectorError) -> Option<Duration> {
    match error {
        ReflectorError::List(error) | ReflectorError::Watch(error) => error.retry_after(),
        _ => None,
    }
}

/// An open watch: its events, and the time of its end.
struct Watch {
    events: WatchStream,
    until: Instant,
    /// Whether the reflector ends the watch at `until`, and has requested a later end from the
    /// server, because the initial events may take longer than a watch lasts. Otherwise the server
    /// should have ended the watch before `until`.
    ends_here: bool,
    /// The newest version of the objects that a watch without a version sends first, as ADDED
    /// events in any order. `None` in any other watch, and after an event of another type, which
    /// shows that all of them have been sent.
    first_objects: Option<Newest>,
    _open: OpenWatch,
}
