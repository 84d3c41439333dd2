//! What is known outside the queue, behind one face: nothing, the store of this design, or
//! somebody else's.

use std::sync::Arc;

use deltafifo::{KnownObjects, Meta};

use super::MutexStore;

/// The known objects of a queue.
pub(super) enum Known<T, M> {
    Nothing,
    Store(Arc<MutexStore<T, M>>),
    Custom(Arc<dyn KnownObjects<T>>),
}

impl<T, M: Meta<T>> Known<T, M> {
    /// Tells the store of this design how many objects a relist brings.
    pub(super) fn reserve(&self, objects: usize) {
        if let Known::Store(store) = self {
            store.reserve(objects);
        }
    }

    /// Whether a deletion of `key` means anything. A look-up that fails counts as yes: a deletion
    /// that is dropped could not be mended.
    pub(super) fn may_hold(&self, key: &str) -> bool {
        match self {
            Known::Nothing => false,
            Known::Store(store) => store.contains_key(key),
            Known::Custom(known) => !matches!(known.get_by_key(key), Ok(None)),
        }
    }

    /// The known keys for which `wanted` holds, with their objects where a look-up finds them.
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
