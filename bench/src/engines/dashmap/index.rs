//! One index: which keys have which value, each value's set behind the lock of its shard.

use hashbrown::HashSet;

use super::{Key, Map, RandomState};

/// Keys by value. Holds no empty set for long.
#[derive(Default)]
pub(super) struct Index {
    keys: Map<HashSet<Key, RandomState>>,
}

impl Index {
    /// What is found under the keys of a value, as far as anything is.
    pub(super) fn find<V>(&self, value: &str, get: impl Fn(&Key) -> Option<V>) -> Vec<V> {
        let Some(keys) = self.keys.get(value) else { return Vec::new() };
        let mut found = Vec::with_capacity(keys.len());
        found.extend(keys.iter().filter_map(get));
        found
    }

    /// A key had one value and has another now; none before it is known, and when it is no more.
    pub(super) fn change(&self, key: &Key, was: Option<&str>, is: Option<&str>) {
        if was == is {
            return;
        }
        if let Some(was) = was {
            self.remove(was, key);
        }
        if let Some(is) = is {
            self.insert(is, key);
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
