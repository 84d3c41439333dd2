//! The keys of a shard by namespace, for queues with scopes. With them the commit of a namespace
//! visits only the slots of that namespace.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use crate::engine::room::less_room;
use crate::engine::sync::RandomState;

/// The hashes of the namespaced keys, by the hash of the namespace. Several keys, or several
/// namespaces, may have the same hash, so the caller must also compare the keys.
#[derive(Default)]
pub(crate) struct ByNamespace {
    hasher: RandomState,
    hashes: HashMap<u64, Vec<u64>, RandomState>,
}

impl ByNamespace {
    /// Adds a key of this hash.
    pub(crate) fn insert(&mut self, key: &str, hash: u64) {
        if let Some(namespace) = self.namespace_of(key) {
            self.hashes.entry(namespace).or_default().push(hash);
        }
    }

    /// Removes a key of this hash. O(keys of its namespace in the shard).
    pub(crate) fn remove(&mut self, key: &str, hash: u64) {
        let Some(namespace) = self.namespace_of(key) else { return };
        let Some(hashes) = self.hashes.get_mut(&namespace) else { return };
        if let Some(place) = hashes.iter().position(|other| *other == hash) {
            hashes.swap_remove(place);
        }
        if let Some(room) = less_room(hashes.len(), hashes.capacity()) {
            hashes.shrink_to(room);
        }
        if hashes.is_empty() {
            self.hashes.remove(&namespace);
            if let Some(room) = less_room(self.hashes.len(), self.hashes.capacity()) {
                self.hashes.shrink_to(room);
            }
        }
    }

    /// Returns the hashes of all keys that begin with `namespace` and a slash, and perhaps those of
    /// other keys.
    pub(crate) fn hashes(&self, namespace: &str) -> &[u64] {
        self.hashes.get(&self.hash(namespace)).map_or(&[], Vec::as_slice)
    }

    fn namespace_of(&self, key: &str) -> Option<u64> {
        key.contains('/').then(|| self.hash(key))
    }

    /// Returns the hash of the part of `text` before the first slash.
    fn hash(&self, text: &str) -> u64 {
        let first = text.split('/').next().unwrap_or_default();
        let mut hasher = self.hasher.build_hasher();
        hasher.write(first.as_bytes());
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::room::LEAST_ROOM;

    #[test]
    fn two_keys_of_one_hash_are_removed_one_by_one() {
        let mut keys = ByNamespace::default();
        for (key, hash) in [("a/1", 1), ("a/2", 1), ("b/1", 2), ("cluster", 3)] {
            keys.insert(key, hash);
        }
        assert_eq!((keys.hashes("a"), keys.hashes("b")), (&[1, 1][..], &[2][..]));
        keys.remove("a/1", 1);
        assert_eq!(keys.hashes("a"), [1]);
        keys.remove("a/2", 1);
        keys.remove("cluster", 3);
        assert_eq!((keys.hashes("a"), keys.hashes("b")), (&[][..], &[2][..]));
        assert_eq!(keys.hashes.len(), 1, "an empty namespace takes no room");
    }

    #[test]
    fn removed_keys_and_namespaces_keep_no_memory() {
        let mut keys = ByNamespace::default();
        let (first, others) = ((0..1_000).map(|key| format!("a/{key}")), 0..1_000);
        let others = others.map(|namespace| format!("{namespace}/b"));
        let all: Vec<_> = (0..).zip(first.chain(others)).collect();
        for (hash, key) in &all {
            keys.insert(key, *hash);
        }
        for (hash, key) in all.iter().skip(10).take(1_980) {
            keys.remove(key, *hash);
        }
        assert_eq!((keys.hashes("a").len(), keys.hashes.len()), (10, 11));
        let room = (keys.hashes[&keys.hash("a")].capacity(), keys.hashes.capacity());
        assert!(room.0 <= 2 * LEAST_ROOM && room.1 <= 2 * LEAST_ROOM, "{room:?}");
    }
}
