//! One index of the engine `dashmap`: a set of keys for each value. The lock of the map's shard
//! protects the set.

use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use hashbrown::HashSet;

/// A key, shared between the maps of an engine.
pub(super) type Key = Arc<str>;
/// The concurrent map of the engine.
pub(super) type Map<V> = DashMap<Key, V, RandomState>;

/// The sets of keys by value. A removal that empties a set removes the set afterwards, in a step
/// of its own.
#[derive(Default)]
pub(super) struct Index {
    keys: Map<HashSet<Key, RandomState>>,
}

impl Index {
    /// Returns the results of `get` for the keys of a value.
    pub(super) fn find<V>(&self, value: &str, get: impl Fn(&Key) -> Option<V>) -> Vec<V> {
        let Some(keys) = self.keys.get(value) else { return Vec::new() };
        let mut found = Vec::with_capacity(keys.len());
        found.extend(keys.iter().filter_map(get));
        found
    }

    /// Moves a key from its old value to its new one. `old` is `None` for a new key, and `new` for
    /// a deleted one.
    pub(super) fn update(&self, key: &Key, old: Option<&str>, new: Option<&str>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.remove(old, key);
        }
        if let Some(new) = new {
            self.insert(new, key);
        }
    }

    fn insert(&self, value: &str, key: &Key) {
        if let Some(mut keys) = self.keys.get_mut(value) {
            keys.insert(key.clone());
            return;
        }
        self.keys.entry(value.into()).or_default().insert(key.clone());
    }

    fn remove(&self, value: &str, key: &Key) {
        let emptied = self.keys.get_mut(value).is_some_and(|mut keys| {
            keys.remove(key);
            keys.is_empty()
        });
        if emptied {
            self.keys.remove_if(value, |_, keys| keys.is_empty());
        }
    }
}
