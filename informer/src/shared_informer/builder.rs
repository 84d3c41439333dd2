//! The builder of an informer.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::{
    BoxError, DeltaFifo, Fields, InOrderFifo, Indexer, IndexerBuilder, KeyFunc, Labels, Meta,
    Owners,
};
use tokio::sync::watch;

use super::delivery::Distributor;
use super::error::{BuildError, InformerError, OnError};
use super::lifecycle::Phase;
use super::metrics::Identity;
#[cfg(feature = "leader-election")]
use super::source::ListSource;
use super::source::{Availability, InformerSource};
use super::worker::InformerQueue;
use super::{Inner, SharedInformer};
use crate::pointer::Pointer;
#[cfg(feature = "leader-election")]
use crate::reflector::Decoding;
use crate::reflector::{ReflectorBuilder, Scoped};
#[cfg(feature = "leader-election")]
use crate::sharding::ShardPlan;
use crate::util::in_flight::InFlight;

/// The number of pending deltas at which the reflector waits for the workers.
const MOST_PENDING: usize = 100_000;

/// A builder of a [`SharedInformer`].
#[must_use]
pub struct SharedInformerBuilder<K, M> {
    source: InformerSource<K>,
    name: String,
    store: IndexerBuilder<K, M>,
    /// The JSON pointers of the indexed fields.
    fields: Vec<String>,
    /// Whether objects are transformed.
    #[cfg(feature = "compact")]
    transforms: bool,
    in_order: bool,
    workers: usize,
    notify_unchanged: bool,
    resync: Option<Duration>,
    on_error: OnError,
}

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformerBuilder<K, M> {
    pub(super) fn new(source: InformerSource<K>, keys: KeyFunc<K, M>) -> Self {
        let log = |error: &InformerError<'_>| tracing::warn!(%error, "a list, a watch, an object or a handler failed; the informer continues");
        Self {
            source,
            name: String::new(),
            store: Indexer::builder(keys),
            fields: Vec::new(),
            #[cfg(feature = "compact")]
            transforms: false,
            in_order: false,
            workers: 1,
            notify_unchanged: false,
            resync: None,
            on_error: OnError(Arc::new(log)),
        }
    }

    /// Creates the builder of an informer of the selected shards of a group.
    #[cfg(feature = "leader-election")]
    pub(crate) fn of_shards(plan: ShardPlan, decoding: Decoding<K>, keys: KeyFunc<K, M>) -> Self {
        Self::new(InformerSource::lists(ListSource::Shards(plan), decoding), keys)
    }

    /// Names the informer, which gives it and its reflector [metrics](crate::metrics).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Uses a queue in the order of events between watch and store, an [`InOrderFifo`], as
    /// client-go's informers do. Handlers with [`HoldBack`](super::Buffer::HoldBack) are notified
    /// in the order of the events of all keys. A relist is one event.
    ///
    /// The default is a queue by key, a [`DeltaFifo`]: changes are ordered per key, and relists are
    /// processed page by page and do not decode unchanged objects.
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Sets the number of workers, which apply and deliver changes of different keys at the same
    /// time. The default is 1; 0 counts as 1. With an in-order queue there is always one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Adds an index to the store, as [`IndexerBuilder::index`] does. Indexes can be added later
    /// by [`SharedInformer::add_indexers`].
    pub fn index(
        mut self,
        name: &str,
        function: impl Fn(&K) -> Result<Vec<String>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.store = self.store.index(name, function);
        self
    }

    /// Adds an index of the values of a label, which [`Lister::select`](deltafifo::Lister::select)
    /// uses, as [`IndexerBuilder::label`] does.
    pub fn label(mut self, key: &str) -> Self
    where
        M: Labels<K> + Clone,
    {
        self.store = self.store.label(key);
        self
    }

    /// Adds the index [`OWNER_INDEX`](deltafifo::OWNER_INDEX) of the uids of the owners, as
    /// [`IndexerBuilder::owners`] does.
    pub fn owners(mut self) -> Self
    where
        M: Owners<K> + Clone,
    {
        self.store = self.store.owners();
        self
    }

    /// Adds an index of the field that the JSON pointer `pointer` (RFC 6901) names. The name of the
    /// index is `field:` and the pointer. Its values are the contents of strings, and the text of
    /// numbers and booleans. An object without the field is not in the index.
    ///
    /// Compact objects keep the field uncompressed, so the index decodes nothing. A typed object is
    /// serialised at each call of the index function, which takes about as long as decoding it. A
    /// function that reads the field of the type, added by [`index`](Self::index), is faster.
    ///
    /// ```
    /// # use deltafifo_informer::SharedInformer;
    /// # use deltafifo_informer::lister_watcher::Scripted;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let source = Scripted::new();
    /// let pods = SharedInformer::<Pod>::builder(source).field("/spec/nodeName").build()?;
    /// let on_node = pods.store().by_index("field:/spec/nodeName", "node-7")?;
    /// # assert!(on_node.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn field(mut self, pointer: &str) -> Self
    where
        M: Fields<K> + Clone,
    {
        self.store = self.store.field(pointer);
        self.fields.push(pointer.to_owned());
        self
    }

    /// Sets a function that changes objects before they are stored (client-go `SetTransform`), for
    /// example to drop unused fields. It must not change the key. If it fails or panics, the object
    /// is not stored, and the error is reported. [`build`](Self::build) refuses a transform for
    /// `Compact` objects, which are stored as they were received.
    #[doc(alias = "modify")]
    #[doc(alias = "SetTransform")]
    #[doc(alias = "TransformFunc")]
    pub fn transform(
        mut self,
        transform: impl Fn(Arc<K>) -> Result<Arc<K>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.store = self.store.transformer(transform);
        #[cfg(feature = "compact")]
        {
            self.transforms = true;
        }
        self
    }

    /// Sets whether a relist decodes, stores and delivers every object (client-go's behaviour for
    /// handlers without a resync period), and not only those whose version has changed. Off by
    /// default. It is needed only if objects can change without changing their version, or if
    /// relists serve as an unplanned resync. Each relist then costs as much as the initial list.
    pub fn notify_unchanged(mut self, notify: bool) -> Self {
        self.notify_unchanged = notify;
        self
    }

    /// Sets the resync period of handlers that do not set their own (client-go
    /// `defaultEventHandlerResyncPeriod`). By default, or with 0, there are no resyncs.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Configures the reflector: backoff, page size, streamed lists. Calls compose: each closure
    /// receives the result of the previous one. An error handler that is set here is replaced by
    /// [`on_error`](Self::on_error).
    pub fn reflector(
        mut self,
        configure: impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K> + Send + Sync + 'static,
    ) -> Self {
        self.source.configure(configure);
        self
    }

    /// Sets the handler of all errors (client-go `SetWatchErrorHandler`). By default they are
    /// logged.
    #[doc(alias = "SetWatchErrorHandler")]
    pub fn on_error(
        mut self,
        handler: impl Fn(&InformerError<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_error = OnError(Arc::new(handler));
        self
    }

    /// Builds the informer. It does nothing until it [runs](SharedInformer::run).
    ///
    /// # Errors
    /// [`BuildError`] if the name of an index is given twice or is reserved, if the pointer of a
    /// field is invalid, if compact objects would be transformed, or if the source does not support
    /// an in-order queue.
    pub fn build(mut self) -> Result<SharedInformer<K, M>, BuildError> {
        for pointer in self.fields {
            Pointer::parse(&pointer).map_err(|error| BuildError::Pointer(error.into()))?;
            self.source.configure(|reflector| reflector.field(pointer));
        }
        let (resource, namespace) = self.source.scope();
        let removal_cause = self.source.removal_cause();
        let identity = Identity { name: self.name.clone(), resource, namespace };
        let indexer = self.store.build()?;
        let store = indexer.reader();
        if self.in_order && self.source.needs_queue_by_key() {
            return Err(BuildError::InOrder);
        }
        let (queue, target): (_, Arc<dyn Scoped<K>>) = if self.in_order {
            let fifo = Arc::new(InOrderFifo::over(indexer).high_water(MOST_PENDING).build());
            (InformerQueue::InOrder(fifo.clone()), fifo)
        } else {
            let fifo = DeltaFifo::over(indexer)
                .skip_unchanged(true)
                .notify_unchanged(self.notify_unchanged)
                .track_applied(true)
                .high_water(MOST_PENDING);
            let fifo = Arc::new(fifo.build());
            (InformerQueue::Delta(fifo.clone()), fifo)
        };
        let workers = if self.in_order { 1 } else { self.workers };
        let availability = watch::Sender::new(Availability::Unknown);
        let feeder =
            self.source.feeder(target, self.name, self.on_error.clone(), availability.clone());
        #[cfg(feature = "compact")]
        if self.transforms && feeder.upkeep().is_some() {
            return Err(BuildError::Transform);
        }
        let inner = Inner {
            distributor: Arc::new(Distributor::new(store.clone(), workers)),
            store,
            metrics: Arc::new(identity.metrics(&queue)),
            #[cfg(feature = "compact")]
            compact_metrics: identity.compact_metrics(feeder.upkeep().is_some()),
            identity,
            queue,
            feeder,
            workers,
            removal_cause,
            notify_unchanged: self.notify_unchanged,
            resync: self.resync,
            on_error: self.on_error,
            phase: watch::Sender::new(Phase::New),
            working: Mutex::default(),
            work: InFlight::default(),
            #[cfg(feature = "runtime")]
            availability,
        };
        Ok(SharedInformer { inner: Arc::new(inner) })
    }
}
