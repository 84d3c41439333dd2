//! Informers: one watch, a store with indexes, and any number of handlers (client-go
//! `SharedInformer`, `SharedIndexInformer`).
//!
//! ```text
//!   Reflector -> queue -> worker: applies to the store and delivers, while it owns the key
//!                            |            delivery/distributor/: the list of handlers
//!                            v            delivery/protocol/: how changes and walks meet
//!                         a feed for each handler: a buffer, and a walk over the store
//!                            |            delivery/buffers/, delivery/feed/: lock, sleep, state
//!                            v
//!                         a thread, a task, or a polled stream    delivery/runner.rs
//! ```
//!
//! A kube watcher may take the place of the reflector (`SharedInformer::for_stream`, `source.rs`,
//! `stream.rs`).
//!
//! An informer of several [`Namespaces`] has a reflector for each namespace (`namespaces/`). Each
//! writes to a scope of its own in the informer's queue.
//!
//! * **Order.** A worker delivers a change to all handlers while it owns the key in the queue, so
//!   the changes of a key reach each handler's buffer in order. Across keys there is an order only
//!   with an in-order queue and [`Buffer::HoldBack`].
//! * **Each handler has its own feed.** The worker pushes a change into the handler's buffer while
//!   it holds the lock of that buffer. The thread, task or stream of the handler takes the change
//!   out. So a handler that is slow, fails or panics does not affect others. The [policy](Buffer)
//!   of a buffer defines what happens when the handler is too slow, and bounds the memory.
//! * **A late handler gets the stored objects from a walk** over the store in strides of 64
//!   objects. The next stride is read when the handler's buffer is nearly empty. So a million known
//!   objects are never copied at once, and the walk is as fast as the handler. Changes of a key
//!   that the walk has not reached are not pushed, because the walk will deliver the resulting
//!   state. Every handler begins with a walk; that of the first handlers is over an empty store. A
//!   resync is also a walk, and so is the restart after a buffer overran.
//! * **User code runs with no lock held**: handlers, filters, accessors, wakers, and destructors
//!   of objects, which are dropped after the lock of their buffer is released.
//! * **The runtime is not blocked**: a handler that may block has a thread of its own, a list of an
//!   in-order queue is applied on a blocking thread, and a worker yields to other tasks.
//!
//! [`metrics`](crate::metrics) lists the metrics and spans of informers and handlers.
//!
//! Differences from client-go:
//!
//! * A handler's buffer is bounded.
//! * Each handler has its own resync period, which need not be a multiple of a common one. Its
//!   resync does not involve the queue or other handlers.
//! * The two states of an update always have the same uid.
//! * A handler is not notified of the deletion of an object that it was never notified of.
//! * A panic of a handler does not affect the informer or other handlers.

mod builder;
#[cfg(deltafifo_shuttle)]
pub mod by_hand;
#[cfg(feature = "compact")]
mod compact_metrics;
#[cfg(feature = "runtime")]
mod controlled;
mod delivery;
mod error;
mod factory;
mod lifecycle;
mod metrics;
mod namespaces;
#[cfg(all(feature = "leader-election", feature = "runtime"))]
mod snapshot;
mod source;
#[cfg(feature = "runtime")]
mod stream;
mod sync;
#[cfg(feature = "compact")]
mod upkeep;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::{IndexError, IndexReader, Indexers, KeyFunc, Lister, Meta};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::KubeMeta;
use crate::lister_watcher::ListerWatcher;
use crate::metrics::Named;
use crate::reflector::{Decodable, WatchStatus};
use crate::util::in_flight::InFlight;
use crate::util::task;
pub use builder::SharedInformerBuilder;
use delivery::Distributor;
pub use delivery::{
    Buffer, Cause, EventHandler, HandlerOptions, Notification, Registration, Subscription,
};
pub use error::{
    AddHandlerError, BuildError, FactoryError, InformerError, InvalidNamespace, NotSynced, Removed,
    RunError, Stopped,
};
use error::{OnError, UserCode};
pub use factory::{FactoryKind, Scope, SharedInformerFactory};
use lifecycle::Phase;
use metrics::{Identity, Metrics};
pub use namespaces::{NamespaceStatus, Namespaces};
#[cfg(all(feature = "leader-election", feature = "runtime"))]
pub(crate) use snapshot::{Snapshot, SnapshotFilter, SnapshotLister};
#[cfg(feature = "runtime")]
pub(crate) use source::Availability;
use source::{Feeder, InformerSource, ListSource};
#[cfg(deltafifo_shuttle)]
pub use sync::mutants;
use sync::spawn_blocking;
use worker::InformerQueue;

/// One watch of one kind of object, a store with indexes that follows it, and handlers that are
/// notified of changes (client-go `SharedIndexInformer`). Cheap to clone: all clones are the same
/// informer.
///
/// ```
/// // `Scripted` needs the feature `scripted`.
/// use deltafifo_informer::lister_watcher::{Listed, PageMeta, Scripted};
/// use deltafifo_informer::SharedInformer;
/// use deltafifo_informer::shared_informer::{HandlerOptions, Notification};
/// use futures_util::StreamExt;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = PageMeta { resource_version: "7".to_owned(), ..PageMeta::default() };
/// let map = r#"{"metadata":{"namespace":"shop","name":"prices","resourceVersion":"5"}}"#;
/// let items = Listed::Items(vec![map.into()]);
/// let script = Scripted::new().list([Ok(Listed::Meta(page)), Ok(items)]);
///
/// let informer = SharedInformer::<ConfigMap>::builder(script)
///     .reflector(|reflector| reflector.watch_list(false))
///     .build()?;
/// let print = |notification: Notification<ConfigMap>| println!("{notification:?}");
/// let printing = informer.add_event_handler(print)?;
/// let mut stream = informer.subscribe(HandlerOptions::new())?;
/// let running = tokio::spawn({
///     let informer = informer.clone();
///     async move { informer.run().await }
/// });
///
/// printing.wait_for_sync().await?;
/// let first = stream.next().await;
/// assert!(matches!(first, Some(Notification::Added { is_in_initial_list: true, .. })));
/// assert_eq!(informer.lister().namespace("shop").list().len(), 1);
/// informer.stop().await;
/// assert!(stream.next().await.is_none());
/// running.await??;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "SharedIndexInformer")]
#[doc(alias = "NewInformer")]
pub struct SharedInformer<K: Send + Sync + 'static, M: Meta<K> = KubeMeta> {
    inner: Arc<Inner<K, M>>,
}

struct Inner<K: Send + Sync + 'static, M: Meta<K>> {
    distributor: Arc<Distributor<K>>,
    store: IndexReader<K, M>,
    queue: InformerQueue<K, M>,
    identity: Identity,
    metrics: Arc<Named<Metrics>>,
    #[cfg(feature = "compact")]
    compact_metrics: Named<compact_metrics::CompactMetrics>,
    feeder: Feeder<K>,
    workers: usize,
    /// The cause of the removal of an object that may still exist.
    removal_cause: Cause,
    notify_unchanged: bool,
    /// The resync period of handlers that do not set their own.
    resync: Option<Duration>,
    on_error: OnError,
    phase: watch::Sender<Phase>,
    /// The worker tasks of a run.
    working: Mutex<Vec<AbortHandle>>,
    /// The work in flight: polls of the future of [`run`](SharedInformer::run), and workers. The
    /// feeder, which offers the source's objects to the queue, counts its own work.
    work: InFlight,
    #[cfg(feature = "runtime")]
    availability: watch::Sender<Availability>,
}

impl<K: Decodable> SharedInformer<K>
where
    KubeMeta: Meta<K>,
{
    /// Returns a builder of an informer of the objects that `source` lists and watches. The
    /// objects must have Kubernetes metadata. Keys are `namespace/name` or `name`.
    #[doc(alias = "store_shared")]
    #[doc(alias = "NewSharedIndexInformer")]
    pub fn builder(source: impl ListerWatcher) -> SharedInformerBuilder<K, KubeMeta> {
        Self::with_keys(source, KeyFunc::meta_namespace(KubeMeta))
    }
}

impl<K: Decodable, M: Meta<K>> SharedInformer<K, M> {
    /// Returns a builder of an informer with a custom key function and accessor.
    pub fn with_keys(
        source: impl ListerWatcher,
        keys: KeyFunc<K, M>,
    ) -> SharedInformerBuilder<K, M> {
        let lists = ListSource::Whole(Arc::new(source));
        let source = InformerSource::lists(lists, Box::new(K::decoder));
        SharedInformerBuilder::new(source, keys)
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformer<K, M> {
    /// Adds a handler with default options (client-go `AddEventHandler`). Handlers can be added at
    /// any time; a late handler is first notified of every known object. Each handler gets a
    /// thread of its own.
    ///
    /// # Errors
    /// [`AddHandlerError`] if the informer has stopped, or if no thread could be started.
    #[doc(alias = "ResourceEventHandlerFuncs")]
    pub fn add_event_handler(
        &self,
        handler: impl EventHandler<K>,
    ) -> Result<Registration<K>, AddHandlerError> {
        self.add_event_handler_with(HandlerOptions::new(), handler)
    }

    /// Adds a handler with options.
    ///
    /// # Errors
    /// As for [`add_event_handler`](Self::add_event_handler).
    pub fn add_event_handler_with(
        &self,
        options: HandlerOptions<K>,
        mut handler: impl EventHandler<K>,
    ) -> Result<Registration<K>, AddHandlerError> {
        let on_error = self.inner.on_error.clone();
        let one_by_one = move |batch: Vec<Notification<K>>| {
            for notification in batch {
                on_error.catch(UserCode::Handler, || handler.on_notification(notification));
            }
        };
        self.add_batch_handler(options, 1, one_by_one)
    }

    /// Adds a handler that receives notifications in batches, on a thread of its own (not in
    /// client-go). A batch has all notifications that are available, up to `most`; 0 counts as 1.
    /// If its last change replaces an object by another with the same key, it has one more, because
    /// the deletion and the addition stay together. A batch is not delayed by changes that a filter
    /// rejects. If the handler panics, its batch is not redelivered.
    ///
    /// # Errors
    /// As for [`add_event_handler`](Self::add_event_handler).
    pub fn add_batch_handler(
        &self,
        options: HandlerOptions<K>,
        most: usize,
        handler: impl FnMut(Vec<Notification<K>>) + Send + 'static,
    ) -> Result<Registration<K>, AddHandlerError> {
        let registration = self.register(options, false)?;
        let started = delivery::spawn_thread(registration.clone(), most, handler);
        started.inspect_err(|_| registration.detach())?;
        Ok(registration)
    }

    /// Adds a handler that is called in a task, with one notification after the other. The handler
    /// must not block.
    ///
    /// # Errors
    /// [`AddHandlerError`] if the informer has stopped, or if this is called outside of a tokio
    /// runtime.
    pub fn add_async_handler<F: Future<Output = ()> + Send>(
        &self,
        options: HandlerOptions<K>,
        handler: impl FnMut(Notification<K>) -> F + Send + 'static,
    ) -> Result<Registration<K>, AddHandlerError> {
        let runtime = Handle::try_current().map_err(|_| AddHandlerError::NoRuntime)?;
        let registration = self.register(options, false)?;
        delivery::spawn_task(&runtime, registration.clone(), handler);
        Ok(registration)
    }

    /// Adds a handler that is a stream of notifications. The stream yields nothing before the
    /// informer [runs](Self::run).
    ///
    /// # Errors
    /// [`AddHandlerError::Stopped`] if the informer has stopped.
    #[doc(alias = "applied_objects")]
    #[doc(alias = "touched_objects")]
    #[doc(alias = "reflect_shared")]
    pub fn subscribe(
        &self,
        options: HandlerOptions<K>,
    ) -> Result<Subscription<K>, AddHandlerError> {
        Ok(Subscription::new(self.register(options, true)?))
    }

    fn register(
        &self,
        options: HandlerOptions<K>,
        is_stream: bool,
    ) -> Result<Registration<K>, AddHandlerError> {
        let Inner { distributor, identity, resync, on_error, .. } = &*self.inner;
        let (metrics, span) =
            (identity.handler_metrics(&options.name), identity.handler_span(&options.name));
        let feed = distributor.feed(options, *resync, is_stream, on_error.clone());
        let feed = Arc::new(feed.visible(metrics, span));
        if !distributor.add(&feed) {
            return Err(AddHandlerError::Stopped);
        }
        Ok(Registration::new(feed, distributor))
    }

    /// Adds indexes to the store (client-go `AddIndexers`), at any time. It does so like
    /// [`IndexReader::add_indexers`], but on a thread that may block, because it calls the index
    /// functions for all stored objects. This takes long if the functions decode compact objects.
    /// The indexes are added even if the future is dropped after its first poll.
    ///
    /// ```
    /// use deltafifo::Indexers;
    /// # use deltafifo_informer::lister_watcher::Scripted;
    /// use deltafifo_informer::{KubeMeta, SharedInformer};
    /// # use k8s_openapi::api::core::v1::Pod;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let source = Scripted::new();
    /// let pods = SharedInformer::<Pod>::builder(source).build()?;
    /// pods.add_indexers(Indexers::new().label(KubeMeta, "app")).await?;
    /// let web = pods.lister().select(&"app=web".parse()?); // by the index
    /// # assert!(web.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`IndexReader::add_indexers`].
    ///
    /// # Panics
    /// If called outside of a tokio runtime, or if the destructor of an object panics.
    pub async fn add_indexers(&self, indexers: Indexers<K>) -> Result<(), IndexError> {
        let store = self.store();
        task::ended(spawn_blocking(move || store.add_indexers(indexers))).await
    }

    /// Returns a handle for reading the store (client-go `GetStore`, `GetIndexer`), which outlives
    /// the informer.
    #[doc(alias = "GetStore")]
    #[doc(alias = "GetIndexer")]
    #[must_use]
    pub fn store(&self) -> IndexReader<K, M> {
        self.inner.store.clone()
    }

    /// Returns a lister of the store.
    #[must_use]
    pub fn lister(&self) -> Lister<K, M> {
        Lister::new(self.store())
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformer<K, M> {
    /// Returns the version up to which all changes were offered to the queue (client-go
    /// `LastSyncResourceVersion`), or `None` before the initial list is complete. For an informer
    /// of several [`Namespaces`] it is the lowest version of the namespaces, or `None` while one of
    /// them has none; a namespace that is [waived](NamespaceStatus::is_waived) does not count.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Option<String> {
        self.inner.feeder.last_version()
    }

    /// Returns the state of the watch, for a probe or a status page: whether it is open, the time
    /// of the last event, bookmark or end of a list, and the last error of lists and watches. For
    /// an informer over a stream (`for_stream`): whether the stream is being read, and the
    /// times and errors of its events.
    ///
    /// Together with [`has_synced`](Self::has_synced) this shows whether the store is up to date:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use deltafifo_informer::SharedInformer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use tokio::time::Instant;
    /// fn is_fresh(informer: &SharedInformer<Pod>) -> bool {
    ///     let status = informer.watch_status();
    ///     let is_recent = |last: Instant| last.elapsed() < Duration::from_secs(300);
    ///     status.is_open || status.last_event.is_some_and(is_recent)
    /// }
    /// ```
    ///
    /// For an informer of several [`Namespaces`] the watch counts as open if all watches are open.
    /// The state has the time of the namespace that has been silent longest, and the error of the
    /// namespace that failed last. A namespace that is [waived](NamespaceStatus::is_waived) counts
    /// for the error only.
    #[must_use]
    pub fn watch_status(&self) -> WatchStatus {
        self.inner.feeder.watch_status()
    }

    /// Returns the state of each namespace of an informer of several [`Namespaces`], in order of
    /// their names. A running informer shows a namespace soon after it was added to the set, and
    /// until its objects are removed from the store. Empty before the informer runs, and for any
    /// other informer.
    #[must_use]
    pub fn namespace_status(&self) -> Vec<NamespaceStatus> {
        self.inner.feeder.namespace_status()
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Clone for SharedInformer<K, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> fmt::Debug for SharedInformer<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = *self.inner.phase.borrow();
        f.debug_struct("SharedInformer")
            .field("phase", &phase)
            .field("has_synced", &self.has_synced())
            .finish()
    }
}
