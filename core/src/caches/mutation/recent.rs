//! A bounded cache of values by key. A value may expire. When the cache is full, adding a key
//! displaces the least recently used value.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::engine::release::OneByOne;

pub(super) struct Recent<V> {
    capacity: usize,
    entries: OneByOne<HashMap<String, RecentValue<V>>>,
    /// The keys, by the number of their last use.
    by_use: BTreeMap<u64, String>,
    uses: u64,
}

struct RecentValue<V> {
    value: V,
    /// The time until which the value is kept, or `None` if there is no limit.
    until: Option<Instant>,
    last_use: u64,
}

impl<V> RecentValue<V> {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until < now)
    }
}

impl<V> Recent<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, entries: OneByOne::default(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Returns the value of `key`, and records the call as a use of it. A value whose time is over
    /// goes to `released`. O(log n).
    pub(super) fn get(&mut self, key: &str, now: Instant, released: &mut Vec<V>) -> Option<&V> {
        if self.entries.get(key)?.is_over(now) {
            released.extend(self.remove(key));
            return None;
        }
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        let key = self.by_use.remove(&std::mem::replace(&mut entry.last_use, self.uses))?;
        self.by_use.insert(self.uses, key);
        Some(&entry.value)
    }

    /// Adds a value, which is kept until the time `until`. The values that it displaces go to
    /// `released`. O(log n).
    pub(super) fn put(
        &mut self,
        key: &str,
        value: V,
        until: Option<Instant>,
        released: &mut Vec<V>,
    ) {
        released.extend(self.remove(key));
        if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            released.extend(self.entries.remove(&oldest).map(|entry| entry.value));
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.to_owned());
        self.entries.insert(key.to_owned(), RecentValue { value, until, last_use: self.uses });
    }

    /// Removes the value of a key. O(log n).
    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.last_use);
        Some(entry.value)
    }

    /// Returns all values whose time is not over, the most recently used one last. This does not
    /// count as a use. O(n).
    pub(super) fn iter(&self, now: Instant) -> impl Iterator<Item = (&str, &V)> {
        let entries = self.by_use.values().filter_map(|key| self.entries.get_key_value(key));
        entries
            .filter(move |(_, entry)| !entry.is_over(now))
            .map(|(key, entry)| (key.as_str(), &entry.value))
    }
}
