//! A read handle to a store, with the method names of kube's `Store`.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use deltafifo::{
    IndexReader, Indexer, KeyFunc, Labels, Lister, Meta, SelectorError, StoreError, error_chain,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::Resource;
use kube::core::{Expression, Selector, SelectorExt};
#[cfg(feature = "compact")]
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::ObjectRef;
pub use super::writer::{Writer, store, store_shared};
use crate::KubeMeta;
#[cfg(feature = "compact")]
use crate::compact::{Compact, CompactStats};
use crate::runtime::form::{Form, StoreForm};
use crate::shared_informer::SharedInformer;

/// The error of [`Store::wait_until_ready`]: the [`Writer`], the informer or the controller that
/// fills the store has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "store did not become ready: its writer, informer or controller ended before the initial list \
     was stored"
)]
pub struct WriterDropped;

/// A read handle to a store (kube's `Store`): that of a controller or of a [`Writer`], or one made
/// [of an informer](Self::from) or [of objects](Self::from_objects). Cheap to clone: all clones
/// read the same store, and a handle may outlive the code that fills the store.
///
/// To read by namespace or by index instead of scanning all objects, use
/// [`reader`](Self::reader).
///
/// The store of a compact controller is a `Store<Compact<K>>`. Its methods decode the objects that
/// they return or pass to a predicate. An object that does not decode is left out, and logged as a
/// warning.
// `'static` is written out because user functions that take a `Store<K>` then need not repeat it.
pub struct Store<F: StoreForm + 'static>
where
    KubeMeta: Meta<F>,
{
    reader: IndexReader<F, KubeMeta>,
    ready: Readiness,
}

/// Whether all objects of the initial list are stored.
#[derive(Clone)]
enum Readiness {
    /// When the informer is synced.
    Informer(Arc<dyn Synced>),
    /// When the value is true; never, if the sender is dropped before.
    Flag(watch::Receiver<bool>),
}

/// An informer. It has no type here, because it is for objects that are `Send` and `Sync` only.
trait Synced: Any + Send + Sync {
    /// Waits until the informer is synced. Fails if it has stopped before.
    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), WriterDropped>>;
}

impl<F: Form> Synced for SharedInformer<F>
where
    KubeMeta: Meta<F>,
{
    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), WriterDropped>> {
        let synced = Self::wait_for_sync(self);
        synced.map(|synced| synced.map_err(|_stopped| WriterDropped)).boxed()
    }
}

impl<F: Form> Store<F>
where
    KubeMeta: Meta<F>,
{
    pub(in super::super) fn of(informer: &SharedInformer<F>) -> Self {
        let ready = Readiness::Informer(Arc::new(informer.clone()));
        Self { reader: informer.store(), ready }
    }
}

impl<F: StoreForm> Store<F>
where
    KubeMeta: Labels<F>,
{
    /// Returns the store of `reader`, which is ready when `ready` is true.
    pub(super) fn of_writer(
        reader: IndexReader<F, KubeMeta>,
        ready: watch::Receiver<bool>,
    ) -> Self {
        Self { reader, ready: Readiness::Flag(ready) }
    }

    /// Returns an empty store whose controller has ended.
    #[cfg(feature = "compact")]
    pub(in super::super) fn ended() -> Self {
        Self::of_writer(indexer().reader(), watch::channel(false).1)
    }

    /// Waits until all objects of the initial list are stored. Any number of tasks may wait, and
    /// all of them are woken (kube's store wakes only one).
    ///
    /// Waiting does not fill the store: the future resolves only if the controller's stream or the
    /// [`reflector`](super::reflector()) is polled, or the informer runs.
    ///
    /// # Errors
    /// [`WriterDropped`] if the controller, the [`Writer`] or the informer ends before its initial
    /// list is stored.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        match &self.ready {
            Readiness::Informer(informer) => informer.wait_for_sync().await,
            Readiness::Flag(ready) => {
                let mut ready = ready.clone();
                ready.wait_for(|ready| *ready).await.map(drop).map_err(|_dropped| WriterDropped)
            }
        }
    }

    /// Returns the object that `key` refers to, or `None` if it is not stored. For objects of a
    /// cluster-scoped kind the namespace of `key` is ignored. O(1).
    #[must_use]
    pub fn get(&self, key: &ObjectRef<F::Object>) -> Option<Arc<F::Object>> {
        let in_namespace = key
            .namespace
            .as_ref()
            .and_then(|ns| self.reader.get_by_key(&format!("{ns}/{}", key.name)));
        decoded(in_namespace.or_else(|| self.reader.get_by_key(&key.name))?)
    }

    /// Returns all objects, in no particular order. O(n).
    #[must_use]
    pub fn state(&self) -> Vec<Arc<F::Object>> {
        // Typed objects are collected in place, without an allocation.
        self.reader.list().into_iter().filter_map(decoded).collect()
    }

    /// Returns an object for which `predicate` is true. O(n).
    #[must_use]
    pub fn find(&self, predicate: impl Fn(&F::Object) -> bool) -> Option<Arc<F::Object>> {
        self.reader.list().into_iter().filter_map(decoded).find(|object| predicate(object))
    }

    /// Returns the objects for which `predicate` is true. `predicate` runs with no lock held.
    /// O(n).
    #[must_use]
    pub fn state_filter(&self, predicate: impl Fn(&F::Object) -> bool) -> Vec<Arc<F::Object>> {
        let mut matching = Vec::new();
        self.reader.for_each(|object| {
            let object = object.view().map_err(|error| warn(&*error)).ok();
            matching.extend(object.filter(|object| predicate(object)).map(Cow::into_owned));
        });
        matching
    }

    /// Returns the objects whose labels match `selector`, in no particular order. If there is an
    /// [index](deltafifo::Indexers::label) of a label that must have one of some values
    /// ([`Expression::Equal`], [`Expression::In`]), only the objects with these values are checked,
    /// as by [`Lister::select`](deltafifo::Lister::select). Without such an index all objects are
    /// checked. O(objects checked).
    ///
    /// ```
    /// use deltafifo::Indexers;
    /// use deltafifo_informer::KubeMeta;
    /// use deltafifo_informer::runtime::{Controller, watcher};
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::{Api, core::{Expression, Selector}};
    ///
    /// # use deltafifo_testkit::{ApiServer, Resource};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # let _entered = runtime.enter();
    /// # let server = ApiServer::builder().resource(Resource::pods()).build();
    /// # let client = server.client();
    /// let store = Controller::new(Api::<Pod>::all(client), watcher::Config::default()).store();
    /// store.reader().add_indexers(Indexers::new().label(KubeMeta, "app"))?;
    /// let web: Selector = Expression::Equal("app".into(), "web".into()).into();
    /// assert!(store.state_filter_selector(&web).is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn state_filter_selector(&self, selector: &Selector) -> Vec<Arc<F::Object>> {
        let mut matching = match with_values(selector) {
            Ok(required) => Lister::new(self.reader()).select(&required),
            Err(_invalid) => self.reader.list(),
        };
        matching.retain(|object| selector.matches(&object.label_map()));
        matching.into_iter().filter_map(decoded).collect()
    }

    /// Returns the number of stored objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.reader.len()
    }

    /// Returns whether no object is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns this crate's reader of the same store, which reads by namespace and by index and
    /// can add indexes (not in kube). [`add_indexers`](IndexReader::add_indexers) blocks while it
    /// visits the stored objects: call it before the controller runs, or on a thread that may
    /// block. For an index of a [field](deltafifo::Indexers::field) of compact objects, run the
    /// controller [over an informer](crate::runtime::Controller::from_informer) that has the
    /// [field](crate::shared_informer::SharedInformerBuilder::field).
    #[must_use]
    pub fn reader(&self) -> IndexReader<F, KubeMeta> {
        self.reader.clone()
    }
}

#[cfg(feature = "compact")]
impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Store<Compact<K>> {
    /// Returns the memory that the objects take, and the number and time of their decodes: for
    /// reconciles, deletion handlers and predicates, and by readers of this store (not in kube).
    #[must_use]
    pub fn compact_stats(&self) -> CompactStats {
        let Readiness::Informer(informer) = &self.ready else { return CompactStats::default() };
        let informer = (&**informer as &dyn Any).downcast_ref::<SharedInformer<Compact<K>>>();
        informer.map(SharedInformer::compact_stats).unwrap_or_default()
    }
}

impl<K: Resource + 'static> Store<K> {
    /// Returns a store of `objects` that never changes and is ready at once (not in kube), for unit
    /// tests of functions that read a store. Of two objects with the same namespace and name the
    /// later one is stored. An object without a name is left out, and logged as an error. O(n).
    ///
    /// ```
    /// use deltafifo_informer::runtime::reflector::{ObjectRef, Store};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("prices".to_owned());
    /// let store = Store::from_objects([map]);
    /// assert!(store.get(&ObjectRef::new("prices")).is_some());
    /// ```
    #[must_use]
    pub fn from_objects(objects: impl IntoIterator<Item = K>) -> Self {
        let store = indexer();
        for object in objects {
            if let Err(error) = store.add(Arc::new(object)) {
                log_refused(&error);
            }
        }
        Self::of_writer(store.reader(), watch::channel(true).1)
    }
}

/// Returns a handle to the store of the informer, which is ready when the informer is
/// [synced](SharedInformer::has_synced). It is for functions that take kube's `Store`.
///
/// ```
/// use deltafifo_informer::SharedInformer;
/// use deltafifo_informer::runtime::reflector::{ObjectRef, Store};
/// # use deltafifo_testkit::{ApiServer, Resource};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::Api;
/// use kube::runtime::{WatchStreamExt, watcher};
///
/// fn has_prices(maps: &Store<ConfigMap>) -> bool {
///     maps.get(&ObjectRef::new("prices").within("shop")).is_some()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = ApiServer::builder().resource(Resource::config_maps()).build().client();
/// let events = watcher(Api::<ConfigMap>::all(client), watcher::Config::default());
/// let informer = SharedInformer::for_stream(events.default_backoff()).build()?;
/// let store = Store::from(&informer);
/// tokio::spawn(async move { informer.run().await });
/// store.wait_until_ready().await?;
/// assert!(!has_prices(&store));
/// # Ok(())
/// # }
/// ```
impl<F: Form> From<&SharedInformer<F>> for Store<F>
where
    KubeMeta: Labels<F>,
{
    fn from(informer: &SharedInformer<F>) -> Self {
        Self::of(informer)
    }
}

/// Returns an empty store.
pub(super) fn indexer<F: StoreForm>() -> Indexer<F, KubeMeta>
where
    KubeMeta: Meta<F>,
{
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build();
    store.expect("a builder without user indexes always builds")
}

/// Logs why an object was not stored, or was stored only in part.
pub(super) fn log_refused(error: &StoreError) {
    let error = error_chain(error);
    tracing::error!(error, "object refused; the store keeps its former state, if it has one");
}

/// Returns the object, or logs why it cannot be decoded.
fn decoded<F: StoreForm>(object: Arc<F>) -> Option<Arc<F::Object>> {
    object.decoded().map_err(|error| warn(&*error)).ok()
}

fn warn(error: &(dyn Error + 'static)) {
    let error = error_chain(error);
    tracing::warn!(error, "stored object cannot be decoded; a read of the store leaves it out");
}

/// Returns the requirements of `selector` by which a label must have one of some values
/// ([`Expression::Equal`], [`Expression::In`]). Fails if a key or value of them is not valid in a
/// label; kube does not check that.
fn with_values(selector: &Selector) -> Result<deltafifo::Selector, SelectorError> {
    let mut requirements = Vec::new();
    for expression in selector.clone() {
        let labels: Vec<_> = match &expression {
            Expression::Equal(key, value) => vec![(key.as_str(), value.as_str())],
            Expression::In(key, values) => values.iter().map(|value| (&**key, &**value)).collect(),
            _ => continue,
        };
        // The text of an invalid value, such as `a,b`, would be read as something else.
        deltafifo::Selector::of_labels(labels)?;
        requirements.push(expression.to_string());
    }
    requirements.join(",").parse()
}

impl<F: StoreForm> Clone for Store<F>
where
    KubeMeta: Meta<F>,
{
    fn clone(&self) -> Self {
        Self { reader: self.reader.clone(), ready: self.ready.clone() }
    }
}

impl<F: StoreForm> fmt::Debug for Store<F>
where
    KubeMeta: Labels<F>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}
