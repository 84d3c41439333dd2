//! The keys that were listed, or written, since a relist began: for stores elsewhere, whose slots retire once handled and so
//! cannot carry its stamp. One relist at a time is kept, the newest.

use std::collections::HashSet;

use crate::engine::sync::{Mutex, mutant};

pub(super) struct Listed(Mutex<Keys>);

struct Keys {
    /// The relist's generation.
    of: u32,
    keys: HashSet<Box<str>>,
}

impl Listed {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Keys { of: 0, keys: HashSet::new() }))
    }

    /// Notes `key` for `generation`. A newer relist's keys take the place of an older one's, never the other way.
    pub(super) fn insert(&self, generation: u32, key: &str) {
        let mut listed = self.0.lock();
        if mutant!(OlderListWins => listed.of != generation; listed.of < generation) {
            *listed = Keys { of: generation, keys: HashSet::new() };
        }
        if listed.of == generation {
            listed.keys.insert(key.into());
        }
    }

    pub(super) fn contains(&self, generation: u32, key: &str) -> bool {
        let listed = self.0.lock();
        listed.of == generation && listed.keys.contains(key)
    }

    /// Forgets the keys of `generation`, which is over.
    pub(super) fn clear(&self, generation: u32) {
        let mut listed = self.0.lock();
        let over = if listed.of == generation { std::mem::take(&mut listed.keys) } else { HashSet::new() };
        drop(listed);
        // Perhaps a million keys.
        drop(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relist_that_is_over_leaves_no_keys() {
        let listed = Listed::new();
        listed.insert(1, "a");
        listed.clear(1);
        assert!(!listed.contains(1, "a"));
    }

    #[test]
    fn an_older_relist_neither_adds_nor_clears() {
        let listed = Listed::new();
        listed.insert(2, "a");
        listed.insert(1, "b");
        listed.clear(1);
        assert!(listed.contains(2, "a") && !listed.contains(1, "b") && !listed.contains(2, "b"));
    }
}
