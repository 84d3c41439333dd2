//! The pending changes (steps) of a handler by key, in the order in which the keys were pushed. A
//! step is removed completely and in constant time at any position: deferred cleanup would run
//! under a handler's lock, where a long pause delays the delivery to all handlers.

use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};

use deltafifo::room::less_room;
use hashbrown::HashTable;

use super::super::step::Step;
use crate::util::slab::Slab;
use crate::util::slab::list::{Links, List};

/// The number of hash tables, each with 1/256 of the keys. A single table of half a million keys
/// paused for up to 0.15 s when it grew (measured).
pub(super) const TABLES: usize = 1 << u8::BITS;

struct StepEntry<K> {
    step: Step<K>,
    /// The hash of the key, stored so that a table that grows does not compute it again.
    hash: u64,
    links: Links,
}

impl<K> StepEntry<K> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The steps of a buffer, at most one per key.
pub(super) struct Steps<K> {
    tables: Box<[HashTable<u32>]>,
    entries: Slab<StepEntry<K>>,
    order: List,
    state: foldhash::fast::RandomState,
}

/// Returns the index of the table for a key with this hash. The index is made of bits that the
/// tables themselves do not use.
fn table(hash: u64) -> usize {
    let [.., byte, _] = hash.to_le_bytes();
    byte.into()
}

impl<K> Steps<K> {
    pub(super) fn new() -> Self {
        Self {
            tables: (0..TABLES).map(|_| HashTable::new()).collect(),
            entries: Slab::default(),
            order: List::default(),
            state: foldhash::fast::RandomState::default(),
        }
    }

    /// Returns the place of a key's step in the slab `entries`, or `None` if the key has no step.
    pub(super) fn find(&self, key: &str) -> Option<u32> {
        let hash = self.state.hash_one(key);
        self.tables[table(hash)].find(hash, |&place| *self.entries[place].step.key == *key).copied()
    }

    /// Appends a step. Its key has no other step here.
    pub(super) fn push(&mut self, step: Step<K>) {
        let hash = self.state.hash_one(&*step.key);
        let place = self.entries.insert(StepEntry { step, hash, links: Links::NONE });
        self.tables[table(hash)].insert_unique(hash, place, |&place| self.entries[place].hash);
        self.order.push(&mut self.entries, place, StepEntry::links);
    }

    pub(super) fn remove(&mut self, place: u32) -> Step<K> {
        self.order.unlink(&mut self.entries, place, StepEntry::links);
        let StepEntry { step, hash, .. } = self.entries.remove(place);
        let table = &mut self.tables[table(hash)];
        match table.find_entry(hash, |&found| found == place) {
            Ok(found) => drop(found.remove()),
            Err(_) => unreachable!("a step is in its table"),
        }
        if let Some(room) = less_room(table.len(), table.capacity()) {
            table.shrink_to(room, |&place| self.entries[place].hash);
        }
        step
    }

    /// Returns the place of the oldest step in the slab `entries`, or `None` if there is no step.
    pub(super) fn first(&self) -> Option<u32> {
        self.order.first()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<K> Index<u32> for Steps<K> {
    type Output = Step<K>;

    fn index(&self, place: u32) -> &Step<K> {
        &self.entries[place].step
    }
}

impl<K> IndexMut<u32> for Steps<K> {
    fn index_mut(&mut self, place: u32) -> &mut Step<K> {
        &mut self.entries[place].step
    }
}

#[cfg(test)]
impl<K> Steps<K> {
    /// Returns the number of steps for which memory is allocated: in the entries, and in the
    /// tables.
    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.entries.capacity(), self.tables.iter().map(HashTable::capacity).sum())
    }
}
