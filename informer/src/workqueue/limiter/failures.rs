//! The number of failures of each key. The counts are sharded, since a controller forgets a key
//! after each success.

use std::hash::Hash;

use deltafifo::room::less_room;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::super::sharded::Sharded;

/// The failures of a key.
struct KeyFailures<K> {
    key: K,
    /// The hash of the key, kept so that no key is hashed again when the table grows.
    hash: u64,
    times: u32,
}

type FailureTable<K> = HashTable<KeyFailures<K>>;

/// The failures of all keys.
pub(super) struct Failures<K>(Sharded<FailureTable<K>>);

impl<K: Hash + Eq + Clone> Failures<K> {
    pub(super) fn new() -> Self {
        Self(Sharded::new())
    }

    /// Counts a failure. Returns the number of failures before it.
    pub(super) fn count(&self, key: &K) -> u32 {
        let hash = self.0.hash(key);
        let mut shard = self.0.lock(Sharded::<FailureTable<K>>::number_of(hash));
        match shard.entry(hash, |failed| failed.key == *key, |failed| failed.hash) {
            Entry::Occupied(mut entry) => {
                let KeyFailures { times, .. } = entry.get_mut();
                let before = *times;
                *times = before.saturating_add(1);
                before
            }
            Entry::Vacant(entry) => {
                entry.insert(KeyFailures { key: key.clone(), hash, times: 1 });
                0
            }
        }
    }

    pub(super) fn of(&self, key: &K) -> u32 {
        let hash = self.0.hash(key);
        let shard = self.0.lock(Sharded::<FailureTable<K>>::number_of(hash));
        shard.find(hash, |failed| failed.key == *key).map_or(0, |failed| failed.times)
    }

    pub(super) fn forget(&self, key: &K) {
        let hash = self.0.hash(key);
        let mut shard = self.0.lock(Sharded::<FailureTable<K>>::number_of(hash));
        let forgotten =
            shard.find_entry(hash, |failed| failed.key == *key).ok().map(|entry| entry.remove().0);
        if let Some(room) = less_room(shard.len(), shard.capacity()) {
            shard.shrink_to(room, |failed| failed.hash);
        }
        // A key's drop is user code, so the lock is released first.
        drop(shard);
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use deltafifo::room::LEAST_ROOM;

    use super::*;

    #[test]
    fn forgotten_failures_keep_no_memory() {
        let failures = Failures::new();
        for key in 0..100_000 {
            assert_eq!(failures.count(&key), 0);
        }
        for key in 0..100_000 {
            failures.forget(&key);
        }
        assert!(failures.0.each().all(|shard| shard.capacity() <= 2 * LEAST_ROOM));
    }
}
