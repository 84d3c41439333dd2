//! The known objects of a queue. Their source is a [`MutexStore`], another store, or none.

use std::sync::Arc;

use deltafifo::{KnownObjects, Meta};

use super::MutexStore;

/// The source of a queue's known objects.
pub(super) enum Known<T, M> {
    Nothing,
    Store(Arc<MutexStore<T, M>>),
    Custom(Arc<dyn KnownObjects<T>>),
}

impl<T, M: Meta<T>> Known<T, M> {
    /// Reserves room for the objects of a relist in the [`MutexStore`], if that is the source.
    pub(super) fn reserve(&self, objects: usize) {
        if let Known::Store(store) = self {
            store.reserve(objects);
        }
    }

    /// Returns whether the deletion of `key` must be queued, that is, whether the key may be
    /// known. A look-up that fails counts as yes, because a missed deletion cannot be repaired
    /// later.
    pub(super) fn may_hold(&self, key: &str) -> bool {
        match self {
            Known::Nothing => false,
            Known::Store(store) => store.contains_key(key),
            Known::Custom(known) => !matches!(known.get_by_key(key), Ok(None)),
        }
    }

    /// Returns the known keys that `wanted` accepts, each with its object if the look-up finds one.
    pub(super) fn select(&self, wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Option<Arc<T>>)> {
        match self {
            Known::Nothing => Vec::new(),
            Known::Store(store) => store.select(wanted),
            Known::Custom(known) => known
                .list_keys()
                .into_iter()
                .filter(|key| wanted(key))
                .map(|key| {
                    let object = known.get_by_key(&key).ok().flatten();
                    (key.into(), object)
                })
                .collect(),
        }
    }
}
