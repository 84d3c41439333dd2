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
    pub(super) fn change(&mut self, key: &Arc<str>, was: Option<&str>, is: Option<&str>) {
        if was == is {
            return;
        }
        if let Some(was) = was
            && let Some(keys) = self.keys.get_mut(was)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(was);
            }
        }
        if let Some(is) = is {
            self.keys.entry_ref(is).or_default().insert(key.clone());
        }
    }
}
