//! One index: which keys have which value.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

type Keys = HashSet<Arc<str>, RandomState>;

/// Keys by value. Holds no empty set.
#[derive(Default)]
pub(super) struct Index {
    keys: HashMap<String, Keys, RandomState>,
}

impl Index {
    /// The keys of a value.
    pub(super) fn keys(&self, value: &str) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.keys.get(value).map(Keys::iter).unwrap_or_default()
    }

    /// A key had one value and has another now; none before it is known, and when it is no more.
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
