//! A read handle to a controller's store, with the method names of kube's `Store`.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use deltafifo::{IndexReader, Labels, Lister, Meta, SelectorError, error_chain};
#[cfg(feature = "compact")]
use deltafifo::{Indexer, KeyFunc};
#[cfg(feature = "compact")]
use kube::Resource;
use kube::core::{Expression, Selector, SelectorExt};
#[cfg(feature = "compact")]
use serde::de::DeserializeOwned;

use super::ObjectRef;
use crate::KubeMeta;
#[cfg(feature = "compact")]
use crate::compact::{Compact, CompactStats};
use crate::runtime::form::Form;
use crate::shared_informer::SharedInformer;

/// The error of [`Store::wait_until_ready`]: the controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("controller ended before its first list was stored")]
pub struct WriterDropped;

/// A read handle to the store of a controller (kube's `Store`). Cheap to clone: all clones read
/// the same store, and a handle may outlive the controller.
///
/// To read by namespace or by index instead of scanning all objects, use
/// [`reader`](Self::reader).
///
/// The store of a compact controller is a `Store<Compact<K>>`. Its methods decode the objects that
/// they return or pass to a predicate. An object that does not decode is left out, and logged as a
/// warning.
pub struct Store<F: Form>
where
    KubeMeta: Meta<F>,
{
    reader: IndexReader<F, KubeMeta>,
    /// The informer that fills the store. `None` for the empty store of a controller that could not
    /// become compact, and has no informer.
    informer: Option<SharedInformer<F>>,
}

impl<F: Form> Store<F>
where
    KubeMeta: Labels<F>,
{
    pub(in super::super) fn of(informer: &SharedInformer<F>) -> Self {
        Self { reader: informer.store(), informer: Some(informer.clone()) }
    }

    /// Returns an empty store whose controller has ended.
    #[cfg(feature = "compact")]
    pub(in super::super) fn ended() -> Self {
        let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build();
        let reader = store.expect("a builder without user indexes always builds").reader();
        Self { reader, informer: None }
    }

    /// Waits until all objects of the first list are stored. Any number of tasks may wait.
    ///
    /// Waiting does not run the controller: the future resolves only if the controller's stream
    /// is polled or, for a controller over a [shared
    /// informer](crate::runtime::Controller::from_informer), if that informer runs.
    ///
    /// # Errors
    /// [`WriterDropped`] if the controller ends before its first list is stored.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        let informer = self.informer.as_ref().ok_or(WriterDropped)?;
        informer.wait_for_sync().await.map_err(|_stopped| WriterDropped)
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
        self.informer.as_ref().map(SharedInformer::compact_stats).unwrap_or_default()
    }
}

/// Returns the object, or logs why it cannot be decoded.
fn decoded<F: Form>(object: Arc<F>) -> Option<Arc<F::Object>> {
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

impl<F: Form> Clone for Store<F>
where
    KubeMeta: Meta<F>,
{
    fn clone(&self) -> Self {
        Self { reader: self.reader.clone(), informer: self.informer.clone() }
    }
}

impl<F: Form> fmt::Debug for Store<F>
where
    KubeMeta: Labels<F>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}
