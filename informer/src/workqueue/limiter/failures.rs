//! How often each key failed. Sharded, since a controller forgets a key after each success.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::super::sharded::Sharded;

type Counts<K> = HashTable<(K, u32)>;

pub(super) struct Failures<K>(Sharded<Counts<K>>);

impl<K: Hash + Eq + Clone> Failures<K> {
    pub(super) fn new() -> Self {
        Self(Sharded::new())
    }

    /// One more; how many there were before.
    pub(super) fn count(&self, key: &K) -> u32 {
        let hash = self.0.hash(key);
        let mut counts = self.0.lock(Sharded::<Counts<K>>::number_of(hash));
        match counts.entry(hash, |(found, _)| found == key, |(found, _)| self.0.hash(found)) {
            Entry::Occupied(mut entry) => {
                let (_, count) = entry.get_mut();
                let before = *count;
                *count = before.saturating_add(1);
                before
            }
            Entry::Vacant(entry) => {
                entry.insert((key.clone(), 1));
                0
            }
        }
    }

    pub(super) fn of(&self, key: &K) -> u32 {
        let hash = self.0.hash(key);
        let counts = self.0.lock(Sharded::<Counts<K>>::number_of(hash));
        counts.find(hash, |(found, _)| found == key).map_or(0, |&(_, count)| count)
    }

    pub(super) fn forget(&self, key: &K) {
        let hash = self.0.hash(key);
        let mut counts = self.0.lock(Sharded::<Counts<K>>::number_of(hash));
        if let Ok(entry) = counts.find_entry(hash, |(found, _)| found == key) {
            entry.remove();
        }
    }
}
