//! A reader of a controller's store, under the names of kube's.

use std::fmt;
use std::sync::Arc;

use deltafifo::IndexReader;
use kube::core::{Selector, SelectorExt};
use kube::{Resource, ResourceExt};

use super::ObjectRef;
use crate::KubeMeta;
use crate::shared_informer::SharedInformer;

/// The controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller has ended before it had its first list")]
pub struct WriterDropped;

/// Reads the store of a controller (kube's `Store`). Cheap to clone: all clones read the same store, and outlive the controller.
///
/// By namespace or by an index there is less to look through: [`reader`](Self::reader).
pub struct Store<K: Resource + Send + Sync + 'static> {
    informer: SharedInformer<K>,
}

impl<K: Resource + Send + Sync + 'static> Store<K> {
    pub(in super::super) fn of(informer: &SharedInformer<K>) -> Self {
        Self { informer: informer.clone() }
    }

    /// Waits until all objects of the first list are stored. It does not make the controller run, so it
    /// does not end before the controller's stream is polled or, with an informer that the controller was
    /// [given](crate::runtime::Controller::from_informer), somebody runs that. Any number may wait.
    ///
    /// # Errors
    /// [`WriterDropped`]: the controller ended before.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        self.informer.wait_for_sync().await.map_err(|_stopped| WriterDropped)
    }

    /// The object that is referred to, if it is stored. Of an object that has no namespace that of `key` does not matter. O(1).
    #[must_use]
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        let store = self.informer.store();
        let in_namespace = key.namespace.as_ref().and_then(|ns| store.get_by_key(&format!("{ns}/{}", key.name)));
        in_namespace.or_else(|| store.get_by_key(&key.name))
    }

    /// All objects, in no particular order. O(n).
    #[must_use]
    pub fn state(&self) -> Vec<Arc<K>> {
        self.informer.store().list()
    }

    /// The first object that `predicate` is true of. O(n).
    #[must_use]
    pub fn find(&self, predicate: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        self.state().into_iter().find(|object| predicate(object))
    }

    /// The objects that `predicate` is true of. It runs with nothing locked. O(n).
    #[must_use]
    pub fn state_filter(&self, predicate: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let mut matching = Vec::new();
        self.informer.store().for_each(|object| matching.extend(predicate(object).then(|| object.clone())));
        matching
    }

    /// The objects with such labels. O(n).
    #[must_use]
    pub fn state_filter_selector(&self, selector: &Selector) -> Vec<Arc<K>> {
        self.state_filter(|object| selector.matches(object.labels()))
    }

    /// How many objects are stored.
    #[must_use]
    pub fn len(&self) -> usize {
        self.informer.store().len()
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The store as all of this crate reads it (kube has none): by namespace and index, and indexes can be added.
    #[must_use]
    pub fn reader(&self) -> IndexReader<K, KubeMeta> {
        self.informer.store()
    }
}

impl<K: Resource + Send + Sync + 'static> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone() }
    }
}

impl<K: Resource + Send + Sync + 'static> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}
