//! The order of queued keys: by priority, with a guarantee for the key that has been queued
//! longest. A key is represented by the number of its [`Entry`].
//!
//! Each queued key is in two lists: one of its priority, and one of all keys by age. The head of
//! the highest priority is next, except when it would be the eighth in a row to pass over an older
//! key. Then the oldest key is next.

use std::collections::BTreeMap;
use std::mem;

use super::entry::Entry;
use crate::util::slab::Slab;
use crate::util::slab::list::{Links, List};

/// Of this number of keys that are taken in a row, at least one is the key that has been queued
/// longest.
const OLDEST_PERIOD: u32 = 8;

/// The queued keys in their order. All functions are passed the entries, of which the lists are
/// made.
#[derive(Default)]
pub(super) struct KeyOrder {
    /// The highest priority, and its keys. The list is empty only if no key is queued. It is not
    /// in the map, so that a queue with a single priority allocates nothing.
    priority: i32,
    highest: List,
    /// The keys of each lower priority. No list is empty.
    lower: BTreeMap<i32, List>,
    by_age: List,
    len: usize,
    /// The number of keys that were taken in a row ahead of an older key.
    passed_over: u32,
}

impl KeyOrder {
    /// Appends a key to the keys of its priority.
    pub(super) fn push<K>(&mut self, entries: &mut Slab<Entry<K>>, slot: u32, priority: i32) {
        let (age, level) = self.append(entries, slot, priority);
        let entry = &mut entries[slot];
        (entry.age, entry.level) = (age, level);
    }

    /// Appends a key to the keys of its priority without access to its entry. Returns its links by
    /// age and among the keys of its priority, which the caller must store in the entry.
    #[inline]
    pub(super) fn append<K>(
        &mut self,
        entries: &mut Slab<Entry<K>>,
        slot: u32,
        priority: i32,
    ) -> (Links, Links) {
        self.len += 1;
        let age = self.by_age.append(entries, slot, Entry::age);
        (age, self.level(priority).append(entries, slot, Entry::level))
    }

    /// Moves a queued key to the tail of a higher priority.
    pub(super) fn raise<K>(&mut self, entries: &mut Slab<Entry<K>>, slot: u32, priority: i32) {
        let Entry { priority: current, level, .. } = entries[slot];
        self.leave_level(entries, current, level);
        let level = self.level(priority).append(entries, slot, Entry::level);
        let entry = &mut entries[slot];
        (entry.priority, entry.level) = (priority, level);
    }

    /// Removes and returns the next key.
    #[inline]
    pub(super) fn pop<K>(&mut self, entries: &mut Slab<Entry<K>>) -> Option<u32> {
        let (highest, oldest) = (self.highest.first()?, self.by_age.first()?);
        let slot = if self.passed_over + 1 < OLDEST_PERIOD { highest } else { oldest };
        self.passed_over = if slot == oldest { 0 } else { self.passed_over + 1 };
        let Entry { priority, level, age, .. } = entries[slot];
        self.leave_level(entries, priority, level);
        self.by_age.detach(entries, age, Entry::age);
        self.len -= 1;
        Some(slot)
    }

    /// Returns the list of a priority, to which the caller must append a key.
    #[inline]
    fn level(&mut self, priority: i32) -> &mut List {
        if self.highest.first().is_none() {
            self.priority = priority;
        }
        if priority == self.priority { &mut self.highest } else { self.other_level(priority) }
    }

    /// Returns the list of a priority other than the highest one.
    fn other_level(&mut self, priority: i32) -> &mut List {
        if priority < self.priority {
            return self.lower.entry(priority).or_default();
        }
        let lower = mem::replace(&mut self.priority, priority);
        self.lower.insert(lower, mem::take(&mut self.highest));
        &mut self.highest
    }

    /// Removes the key with these links from the list of its priority.
    #[inline]
    fn leave_level<K>(&mut self, entries: &mut Slab<Entry<K>>, priority: i32, links: Links) {
        if priority == self.priority {
            self.highest.detach(entries, links, Entry::level);
            if self.highest.first().is_none()
                && let Some(next) = self.lower.pop_last()
            {
                (self.priority, self.highest) = next;
            }
            return;
        }
        let level = self
            .lower
            .get_mut(&priority)
            .unwrap_or_else(|| unreachable!("the level of a queued key"));
        level.detach(entries, links, Entry::level);
        if level.first().is_none() {
            self.lower.remove(&priority);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}
