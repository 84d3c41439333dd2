//! Feeds a target with the events of a kube watcher.
//!
//! | event | effect |
//! | --- | --- |
//! | `Init` | begins a relist. An earlier incomplete relist is abandoned, and deletes nothing |
//! | `InitApply` | lists an object. Objects that are ready are passed on together, so a target receives pages |
//! | `InitDone` | commits the relist: objects that were not listed are deleted |
//! | `Apply`, `Delete` | an update, a deletion; while a relist is open, a part of it |
//! | an error | none on the target: the watcher itself emits `Init` when it lists anew, and may continue the open list |

use std::pin::pin;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo::{Closed, DeltaObject, Meta, ResourceVersion, StoreError};
use futures_util::{FutureExt, Stream, StreamExt};
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use tokio::task::coop::consume_budget;

use super::ReflectorOnError;
use super::error::{ReflectorError, caught};
use super::report::report;
use super::status::{Status, WatchStatus};
use super::target::{Pieces, Target};
use super::threads::Threads;
use super::versions::Versions;
use super::watch::delete_refused;
use crate::KubeMeta;
use crate::meta::object_key;
use crate::util::in_flight::InFlight;

/// The number of objects per page, as in kube's watcher by default.
const PAGE: usize = 500;

/// Feeds `target` with the events of a kube watcher until the stream ends (kube: `reflector`; the
/// table of [`SharedInformer::for_stream`] lists the differences from kube's store). Use it with a
/// queue or a store of your own; an informer accepts a stream directly.
///
/// Pass the stream from its first event on, with its backoff and its modifications:
///
/// * Objects that a list does not contain are deleted: a queue gets a tombstone with the last
///   known state. An incomplete list deletes nothing, whether the stream ends, fails or begins
///   anew, and only a complete list makes a queue synced.
/// * `on_error` is called with errors of the stream, too. The feed continues after them, as the
///   watcher does.
/// * While the target has no [room](deltafifo::DeltaFifoBuilder::high_water), the stream is not
///   polled. At most 500 objects of a list are held back, and only while the next one is ready.
/// * Objects arrive decoded, even unchanged ones, which a [`Reflector`](crate::Reflector) does not
///   decode.
/// * A list gets the version of its newest object, or of the last event if that version is greater,
///   since the watcher does not expose the list's own version. So, unlike with a
///   [`Reflector`](crate::Reflector), a list does not show that the API server was restored from a
///   backup: the [applied version](deltafifo::IndexReader::applied_version) then stays the same.
/// * When no further event is ready, the target gets a bookmark with the last event's version, so
///   that [a wait](deltafifo::IndexReader::wait_for_resource_version) for a version does not last
///   until the next list.
/// * Events that kube's watcher drops are lost. These are deletions during a streamed list.
///
/// Dropping the future abandons the list in progress. Feed a target from one stream only: with
/// two, each list would abandon the other's.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{DeltaFifo, DeltaObject, Indexer, KeyFunc};
/// use deltafifo_informer::{KubeMeta, ReflectorError, error_chain, runtime::reflector::feed};
/// use futures_util::stream;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::runtime::watcher::Event;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
/// let fifo = Arc::new(DeltaFifo::<ConfigMap, _>::over(store).build());
/// # let map = |name: &str| {
/// #     let mut map = ConfigMap::default();
/// #     map.metadata.name = Some(name.to_owned());
/// #     map
/// # };
/// // In a cluster the events come from
/// // watcher(Api::<ConfigMap>::all(client), watcher::Config::default()).default_backoff().
/// let initial_list = [Event::Init, Event::InitApply(map("a")), Event::InitDone];
/// let list_after_a_cut = [Event::Init, Event::InitDone];
/// let events = initial_list.into_iter().chain(list_after_a_cut).map(Ok);
/// let on_error = |error: &ReflectorError| eprintln!("{}", error_chain(error));
/// feed(stream::iter(events), fifo.clone(), on_error).await?;
///
/// let mut item = fifo.try_pop().expect("something has happened to a");
/// assert_eq!(item.deltas().len(), 2); // it was listed, and then it was not
/// let DeltaObject::Tombstone(last) = &item.deltas().newest().unwrap().object else {
///     panic!("the watcher has not observed the deletion")
/// };
/// assert!(last.obj.is_some());
/// item.apply(|_| ())?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Closed`] if the queue was closed.
///
/// # Panics
/// If the future is polled outside of a tokio runtime.
///
/// [`SharedInformer::for_stream`]: crate::SharedInformer::for_stream
pub async fn feed<K: Resource + Send + Sync + 'static>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    target: Arc<impl Target<K>>,
    on_error: impl Fn(&ReflectorError) + Send + Sync + 'static,
) -> Result<(), Closed> {
    WatcherEvents::new(target, Box::new(KubeMeta), Box::new(on_error)).feed(events).await
}

/// The feed of a target from a kube watcher.
pub(crate) struct WatcherEvents<K> {
    target: Arc<dyn Target<K>>,
    meta: Box<dyn Meta<K>>,
    threads: Threads,
    versions: Mutex<Versions>,
    status: Arc<Status>,
    on_error: Box<ReflectorOnError>,
}

/// A list that has begun and is not complete.
struct OpenList<K> {
    pieces: Box<dyn Pieces<K>>,
    /// Objects that have not been offered yet.
    page: Vec<Arc<K>>,
    /// The greatest version of the offered objects.
    newest: Option<ResourceVersion>,
}

impl<K: Send + Sync + 'static> WatcherEvents<K> {
    pub(crate) fn new(
        target: Arc<dyn Target<K>>,
        meta: Box<dyn Meta<K>>,
        on_error: Box<ReflectorOnError>,
    ) -> Self {
        let (threads, versions, status) = (Threads::default(), Mutex::default(), Arc::default());
        Self { target, meta, threads, versions, status, on_error }
    }

    /// Returns the state of the stream, which counts as an open watch while it is read.
    pub(crate) fn watch_status(&self) -> WatchStatus {
        self.status.get()
    }

    /// Returns the version up to which the target received everything.
    pub(crate) fn last_version(&self) -> Option<String> {
        self.versions.lock().last().map(str::to_owned)
    }

    /// Returns the count of work that continues if the feed is dropped.
    pub(crate) fn work(&self) -> &InFlight {
        &self.threads.work
    }

    /// Feeds the target until the stream ends.
    pub(crate) async fn feed(
        &self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
    ) -> Result<(), Closed> {
        // Boxed, because the future holds the current event, whose object is large.
        let feeding = Box::pin(self.feed_all(events));
        tokio::select! {
            closed = self.target.closed() => Err(closed),
            fed = feeding => fed,
        }
    }

    async fn feed_all(
        &self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
    ) -> Result<(), Closed> {
        let _open = self.status.open();
        let mut events = pin!(events);
        let mut list = None;
        loop {
            self.target.ready().await?;
            let ready = events.next().now_or_never();
            let event = if let Some(event) = ready {
                event
            } else {
                self.offer(&mut list);
                self.report_version();
                events.next().await
            };
            match event {
                Some(Ok(event)) => {
                    self.status.record_event();
                    self.take(event, &mut list).await;
                }
                Some(Err(error)) => self.report(&ReflectorError::Watcher(Box::new(error))),
                None => {
                    // As for a stream without an event that is ready.
                    self.offer(&mut list);
                    self.report_version();
                    return Ok(());
                }
            }
            // Lets other tasks run while events arrive without a pause.
            consume_budget().await;
        }
    }

    async fn take(&self, event: Event<K>, list: &mut Option<OpenList<K>>) {
        match event {
            Event::Init => {
                // Cleared before anything else: the objects listed so far must not count for the
                // next list.
                *list = None;
                match caught(|| Arc::clone(&self.target).begin()) {
                    Ok(pieces) => *list = Some(OpenList { pieces, page: Vec::new(), newest: None }),
                    Err(panicked) => self.report(&panicked),
                }
            }
            Event::InitApply(object) => self.list(list, object),
            Event::Apply(object) if list.is_some() => self.list(list, object),
            Event::Delete(object) if list.is_some() => self.delete_listed(list, object),
            Event::InitDone => {
                self.offer(list);
                match list.take() {
                    Some(list) => self.commit(list).await,
                    None => self.report(&ReflectorError::NotListed),
                }
            }
            Event::Apply(object) => {
                let version = self.version(&object);
                let updated = caught(|| self.target.update(Arc::new(object)));
                self.report_any(
                    updated.and_then(|updated| updated.map_err(ReflectorError::refused)),
                );
                self.versions.lock().reached(&version);
            }
            Event::Delete(object) => {
                let version = self.version(&object);
                self.delete(object).await;
                self.versions.lock().reached(&version);
            }
        }
    }

    /// Adds an object to the list, unless the list was abandoned.
    fn list(&self, list: &mut Option<OpenList<K>>, object: K) {
        let Some(open) = list else { return };
        open.page.push(Arc::new(object));
        if open.page.len() == PAGE {
            self.offer(list);
        }
    }

    /// Offers the objects listed so far.
    fn offer(&self, list: &mut Option<OpenList<K>>) {
        let Some(open) = list.as_mut().filter(|open| !open.page.is_empty()) else { return };
        let page = std::mem::take(&mut open.page);
        let newest = page
            .iter()
            .filter_map(|object| ResourceVersion::parse(self.meta.version(object)?))
            .max();
        open.newest = open.newest.take().max(newest);
        let offered = caught(|| {
            let names: Vec<_> = page.iter().map(|object| self.name(object)).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            open.pieces.offer(&names, page)
        });
        match offered.and_then(|offered| offered.map_err(|over| StoreError::from(over).into())) {
            Ok(refused) => refused
                .into_iter()
                .for_each(|one| self.report(&ReflectorError::Refused(one.source))),
            Err(error) => self.give_up(list, &error),
        }
    }

    /// Deletes an object that may have been listed.
    fn delete_listed(&self, list: &mut Option<OpenList<K>>, object: K) {
        self.offer(list);
        let Some(open) = list else { return };
        let name = self.name(&object);
        match caught(|| open.pieces.delete(&name, Some(DeltaObject::from(Arc::new(object))))) {
            Ok(Ok(())) => {}
            Ok(Err(over @ StoreError::Relist(_))) => self.give_up(list, &over.into()),
            // The object is deleted anyway, and the target knows it.
            Ok(Err(refused)) => self.report(&ReflectorError::refused(refused)),
            Err(panicked) => self.give_up(list, &panicked),
        }
    }

    fn give_up(&self, list: &mut Option<OpenList<K>>, error: &ReflectorError) {
        *list = None;
        self.report(error);
    }

    /// Commits a complete list, which deletes objects that were not listed.
    async fn commit(&self, OpenList { pieces, newest, .. }: OpenList<K>) {
        let version = self.versions.lock().of_list(newest);
        let committed = self.threads.run(move || (pieces.commit(&version), version)).await;
        match committed {
            Ok((Ok(refused), version)) => {
                for one in refused {
                    self.report(&ReflectorError::refused(one));
                }
                self.versions.lock().listed(&version);
            }
            Ok((Err(error), _)) => self.report(&error.into()),
            Err(panicked) => self.report(&panicked),
        }
    }

    async fn delete(&self, object: K) {
        let name = self.name(&object);
        let deleted = caught(|| self.target.delete(DeltaObject::from(Arc::new(object))));
        if let Err(error) = deleted.and_then(|deleted| deleted.map_err(ReflectorError::refused)) {
            self.report(&error);
            self.report_any(delete_refused(&self.target, &self.threads, &error, name).await);
        }
    }

    /// Passes the version of the last event to the target, unless it has been passed before.
    fn report_version(&self) {
        let version = self.versions.lock().take_unreported();
        if let Some(version) = version {
            self.report_any(caught(|| self.target.bookmark(&version)));
        }
    }

    fn version(&self, object: &K) -> String {
        self.meta.version(object).unwrap_or_default().to_owned()
    }

    /// Returns `namespace/name`, or `name`.
    fn name(&self, object: &K) -> String {
        let name = self.meta.name(object).unwrap_or_default();
        object_key(self.meta.namespace(object), name).into_owned()
    }

    fn report_any(&self, done: Result<(), ReflectorError>) {
        if let Err(error) = done {
            self.report(&error);
        }
    }

    fn report(&self, error: &ReflectorError) {
        report(error, &self.status, &*self.on_error);
    }
}
