//! The entries of one shard, and a table that finds them by key.

use std::collections::BTreeMap;

use deltafifo::room::less_room;
use hashbrown::HashTable;
use tokio::time::Instant;

use super::delays::Delay;
use super::entry::{Added, Entry, EntryEnd, QueueState, Requested};
use crate::util::slab::Slab;

/// The position of a key's entry, fixed while the entry exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryPlace {
    pub(super) shard: u8,
    pub(super) slot: u32,
}

/// The entries of one shard.
pub(super) struct Shard<K> {
    /// The numbers of the entries in the slab, by the hash of the key.
    table: HashTable<u32>,
    entries: Slab<Entry<K>>,
    /// The time at which the processing of each key began, by the number of its entry, for metrics.
    started: BTreeMap<u32, Instant>,
    /// Whether adds are ignored.
    closed: bool,
}

impl<K> Default for Shard<K> {
    fn default() -> Self {
        Self {
            table: HashTable::new(),
            entries: Slab::default(),
            started: BTreeMap::new(),
            closed: false,
        }
    }
}

impl<K: Eq> Shard<K> {
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<u32> {
        self.table.find(hash, |&slot| self.entries[slot].key == *key).copied()
    }

    /// Creates the entry of a key that is not in the table. The hash is stored, so that no key is
    /// hashed again when the table grows.
    pub(super) fn insert(&mut self, hash: u64, key: K) -> u32 {
        let slot = self.entries.insert(Entry::new(key, hash));
        self.table.insert_unique(hash, slot, |&slot| self.entries[slot].hash);
        slot
    }
}

impl<K> Shard<K> {
    pub(super) fn entry(&mut self, slot: u32) -> &mut Entry<K> {
        &mut self.entries[slot]
    }

    /// Calls [`Entry::due`] for the entry at `place`. Does nothing if that entry was removed, or if
    /// the shard was [closed](Self::close).
    pub(super) fn due(
        &mut self,
        place: EntryPlace,
        delay: Delay,
        since: Option<Instant>,
        schedule: &QueueState,
    ) -> Added {
        match self.entries.get_mut(place.slot) {
            Some(entry) if !self.closed => entry.due(place, delay, since, schedule),
            _ => Added::Quietly,
        }
    }

    /// Marks the key as processing. Returns the key, the options of the adds before, and the time
    /// at which it became dirty.
    pub(super) fn take(
        &mut self,
        slot: u32,
        now: Option<Instant>,
    ) -> (K, Requested, Option<Instant>)
    where
        K: Clone,
    {
        self.started.extend(now.map(|now| (slot, now)));
        let entry = &mut self.entries[slot];
        let (requested, since) = entry.take();
        // Last: if `clone` panics, the key counts as processing, and the caller's claim ends that.
        (entry.key.clone(), requested, since)
    }

    /// Ends the processing of a key. Returns how the processing ended, the time at which it began,
    /// and the key if its entry was removed; the caller drops the key after unlocking.
    pub(super) fn end(
        &mut self,
        place: EntryPlace,
        schedule: &QueueState,
    ) -> (EntryEnd, Option<Instant>, Option<K>) {
        let ended = self.entries[place.slot].end(place, schedule);
        let key = ended.idle.then(|| self.remove(place.slot));
        (ended, self.started.remove(&place.slot), key)
    }

    fn remove(&mut self, slot: u32) -> K {
        let Entry { key, hash, .. } = self.entries.remove(slot);
        match self.table.find_entry(hash, |&found| found == slot) {
            Ok(found) => drop(found.remove()),
            Err(_) => unreachable!("an entry is in the table"),
        }
        if let Some(room) = less_room(self.table.len(), self.table.capacity()) {
            self.table.shrink_to(room, |&slot| self.entries[slot].hash);
        }
        key
    }

    /// Returns the times at which the processing of the keys began.
    pub(super) fn started(&self) -> impl Iterator<Item = Instant> {
        self.started.values().copied()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Ignores adds and due times from now on. Entries that wait are not changed.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}

#[cfg(test)]
impl<K> Shard<K> {
    /// Returns the number of keys for which memory is allocated: in the entries, and in the table.
    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.entries.capacity(), self.table.capacity())
    }
}
