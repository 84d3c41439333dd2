//! Lists the stored objects as a controller needs them: all objects, the objects of a namespace, or
//! the objects with certain labels.
//!
//! | file | contents |
//! | --- | --- |
//! | `selector` | label selectors: matching, and conversion to text |
//! | `parse` | the parser of selectors |
//! | `label` | Kubernetes' rules for a label's key and value |

mod label;
mod parse;
mod selector;

use super::{IndexReader, NAMESPACE_INDEX};
use crate::engine::release::OneByOne;
use crate::engine::sync::Arc;
use crate::{Labels, Meta};
pub use selector::Selector;

/// A lister of a store's objects (client-go `Lister`, `GenericLister`). Cheap to clone, like the
/// [`IndexReader`] that it is made of.
///
/// The objects of a list come in no particular order. A list is not a snapshot: it is read shard by
/// shard, and may contain a part of another thread's relist (see [`IndexReader`]).
///
/// ```
/// # use std::collections::BTreeMap;
/// # use std::sync::Arc;
/// # use deltafifo::{Indexer, KeyFunc, Labels, Lister, Meta, Selector};
/// # struct Pod { name: &'static str, labels: BTreeMap<&'static str, &'static str> }
/// # struct PodMeta;
/// # impl Meta<Pod> for PodMeta {
/// #     fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> { Some("shop") }
/// #     fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(pod.name) }
/// # }
/// # impl Labels<Pod> for PodMeta {
/// #     fn label<'a>(&self, pod: &'a Pod, key: &str) -> Option<&'a str> {
/// #         pod.labels.get(key).copied()
/// #     }
/// # }
/// # let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta)).build()?;
/// # let labels = BTreeMap::from([("app", "web"), ("tier", "front")]);
/// # store.add(Arc::new(Pod { name: "web", labels }))?;
/// # store.add(Arc::new(Pod { name: "mail", labels: BTreeMap::new() }))?;
/// let pods = Lister::new(store.reader());
/// let front: Selector = "app in (web, till), tier!=back".parse()?;
/// assert_eq!(pods.list().len(), 2);
/// assert_eq!(pods.select(&front).len(), 1);
/// assert_eq!(pods.namespace("shop").select(&front)[0].name, "web");
/// assert!(pods.namespace("shop").get("mail").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "GenericLister")]
pub struct Lister<T, M> {
    reader: IndexReader<T, M>,
}

impl<T, M> Clone for Lister<T, M> {
    fn clone(&self) -> Self {
        Self { reader: self.reader.clone() }
    }
}

impl<T, M: Meta<T>> Lister<T, M> {
    /// Creates a lister of the store of `reader`.
    #[must_use]
    pub fn new(reader: IndexReader<T, M>) -> Self {
        Self { reader }
    }

    /// Returns all objects. O(objects).
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        self.reader.list()
    }

    /// Returns the object of `key`, which is the name for a cluster-scoped object. O(1).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.reader.get_by_key(key)
    }

    /// Returns a lister of one namespace; `""` means all of them (client-go `NamespaceAll`).
    #[doc(alias = "NamespaceAll")]
    #[doc(alias = "ByNamespace")]
    #[must_use]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, T, M> {
        NamespaceLister { lister: self, namespace }
    }
}

impl<T, M: Labels<T>> Lister<T, M> {
    /// Returns the objects that `selector` matches.
    ///
    /// If the selector requires certain values of a label (`=`, `==`, `in`) that has an
    /// [index](crate::IndexerBuilder::label), only the objects with these values are checked. If
    /// there are several such requirements, the one that the fewest objects meet is used. Without
    /// such an index all objects are checked. O(objects checked).
    #[must_use]
    pub fn select(&self, selector: &Selector) -> Vec<Arc<T>> {
        let narrowest = self.narrowest(selector).map(|(_, term)| self.with_label(&term));
        self.matching(narrowest.unwrap_or_else(|| self.list()), selector)
    }

    /// Returns the requirement that the fewest objects meet, among those that have an index, and
    /// the number of these objects. Returns `None` if no requirement has an index.
    fn narrowest<'s>(&self, selector: &'s Selector) -> Option<(usize, Term<'s>)> {
        let indexes = &self.reader.core.indexes;
        if indexes.none() {
            return None;
        }
        let list = indexes.load();
        let term = |(key, values): (&str, &'s [String])| {
            let index = list.of_label(key)?;
            let objects = values.iter().map(|value| index.values.count(value)).sum::<usize>();
            Some((objects, Term { index: index.name.clone(), values }))
        };
        selector.values().filter_map(term).min_by_key(|(objects, _)| *objects)
    }

    /// Returns the objects that meet a requirement with an index.
    fn with_label(&self, term: &Term) -> Vec<Arc<T>> {
        let values: Vec<_> = term.values.iter().map(String::as_str).collect();
        // An index that was built is never removed.
        self.reader.by_values(&term.index, &values).unwrap_or_default()
    }

    fn matching(&self, objects: Vec<Arc<T>>, selector: &Selector) -> Vec<Arc<T>> {
        let (meta, mut objects) = (self.reader.core.keys.meta(), OneByOne(objects));
        objects.retain(|object| selector.matches(|key| meta.label(object, key)));
        objects.take()
    }
}

/// A requirement that a label has one of some values, with the name of the index of the label.
struct Term<'s> {
    index: String,
    values: &'s [String],
}

/// A [`Lister`] of one namespace (client-go `NamespaceLister`); made by [`Lister::namespace`].
pub struct NamespaceLister<'a, T, M> {
    lister: &'a Lister<T, M>,
    namespace: &'a str,
}

impl<T, M: Meta<T>> NamespaceLister<'_, T, M> {
    /// Returns all objects of the namespace. O(answers), by the namespace index.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        if self.namespace.is_empty() {
            return self.lister.list();
        }
        self.indexed(self.namespace)
    }

    /// Returns the object of that name; if the namespace is `""`, the cluster-scoped one. O(1), or
    /// O(objects of the namespace) with a [custom key function](crate::KeyFunc::custom).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        let reader = &self.lister.reader;
        let keys = &reader.core.keys;
        if !keys.is_meta_namespace() {
            let mut objects = OneByOne(self.indexed(self.namespace));
            let place = objects.iter().position(|object| keys.meta().name(object) == Some(name));
            let mut found = OneByOne(place.map(|place| objects.swap_remove(place)));
            // Dropped before the result is returned, which would leak if a destructor panicked.
            drop(objects);
            return found.take();
        }
        if self.namespace.is_empty() {
            return reader.get_by_key(name);
        }
        reader.get_by_key(&format!("{}/{name}", self.namespace))
    }

    /// Returns the objects of a namespace in the index, in which `""` is cluster scope.
    fn indexed(&self, namespace: &str) -> Vec<Arc<T>> {
        self.lister.reader.by_index(NAMESPACE_INDEX, namespace).unwrap_or_default()
    }
}

impl<T, M: Labels<T>> NamespaceLister<'_, T, M> {
    /// Returns the objects of the namespace that `selector` matches. Checks the objects of the
    /// namespace, or those that [`Lister::select`] would check if these are fewer.
    #[must_use]
    pub fn select(&self, selector: &Selector) -> Vec<Arc<T>> {
        let Self { lister, namespace } = self;
        let core = &lister.reader.core;
        if namespace.is_empty() {
            return lister.select(selector);
        }
        match lister.narrowest(selector) {
            Some((objects, term)) if objects < core.namespaces.count(namespace) => {
                let mut found = OneByOne(lister.with_label(&term));
                found.retain(|object| core.keys.namespace(object) == *namespace);
                lister.matching(found.take(), selector)
            }
            _ => lister.matching(self.list(), selector),
        }
    }
}
