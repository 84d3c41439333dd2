//! One index of the store: a set of keys for each value.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

type Keys = HashSet<Arc<str>, RandomState>;

/// The sets of keys by value. No set is empty.
#[derive(Default)]
pub(super) struct Index {
    keys: HashMap<String, Keys, RandomState>,
}

impl Index {
    /// Returns the keys that have a value.
    pub(super) fn keys(&self, value: &str) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.keys.get(value).map(Keys::iter).unwrap_or_default()
    }

    /// Moves a key from its old value to its new one. `old` is `None` for a new key, `new` for a
    /// deleted one.
    pub(super) fn update(&mut self, key: &Arc<str>, old: Option<&str>, new: Option<&str>) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(keys) = self.keys.get_mut(old)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(old);
            }
        }
        if let Some(new) = new {
            self.keys.entry_ref(new).or_default().insert(key.clone());
        }
    }
}
