//! The keys that were listed, or written, since a relist began: for stores elsewhere, whose slots
//! retire once handled and so cannot carry its stamp. Each open relist has a set.

use std::collections::HashSet;

use crate::engine::sync::{Mutex, mutant};

pub(super) struct Listed(Mutex<Vec<Keys>>);

struct Keys {
    /// The relist's generation.
    of: u32,
    keys: HashSet<Box<str>>,
}

impl Listed {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Starts the set of a relist, before any of its keys is noted, and drops that of the one that
    /// it supersedes.
    pub(super) fn begin(&self, superseded: u32, generation: u32) {
        self.clear(superseded);
        self.0.lock().push(Keys { of: generation, keys: HashSet::new() });
    }

    /// Notes a key that the relist of that generation lists. Does nothing if that relist is over.
    pub(super) fn insert(&self, generation: u32, key: &str) {
        let mut listed = self.0.lock();
        let of = mutant!(OlderListWins => listed.last().map_or(0, |keys| keys.of); generation);
        if let Some(keys) = listed.iter_mut().find(|keys| keys.of == of) {
            keys.keys.insert(key.into());
        }
    }

    /// Notes a key that is offered beside the open relists: none of them is to sweep it.
    pub(super) fn insert_in_all(&self, key: &str) {
        for keys in self.0.lock().iter_mut() {
            keys.keys.insert(key.into());
        }
    }

    pub(super) fn contains(&self, generation: u32, key: &str) -> bool {
        self.0.lock().iter().any(|keys| keys.of == generation && keys.keys.contains(key))
    }

    pub(super) fn any_contains(&self, key: &str) -> bool {
        self.0.lock().iter().any(|keys| keys.keys.contains(key))
    }

    /// Drops the set of `generation`, which is over.
    pub(super) fn clear(&self, generation: u32) {
        let mut listed = self.0.lock();
        let place = listed.iter().position(|keys| keys.of == generation);
        let over = place.map(|place| listed.swap_remove(place));
        drop(listed);
        // Perhaps a million keys.
        drop(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_relist_leaves_no_keys() {
        let listed = Listed::new();
        listed.begin(0, 1);
        listed.insert(1, "a");
        listed.clear(1);
        listed.insert(1, "b");
        assert!(!listed.contains(1, "a") && !listed.contains(1, "b"));
    }

    #[test]
    fn concurrent_relists_keep_separate_keys() {
        let listed = Listed::new();
        listed.begin(0, 1);
        listed.begin(0, 2);
        listed.insert(2, "a");
        listed.insert(1, "b");
        listed.insert_in_all("c");
        listed.clear(1);
        assert!(listed.contains(2, "a") && !listed.contains(2, "b") && listed.contains(2, "c"));
        assert!(!listed.contains(1, "b") && !listed.any_contains("b"));
    }
}
