//! Entries by key, in an order that a function decides: a binary heap in which each entry stores
//! its position. An entry may be outside the heap order while its key's handler runs.
//!
//! The function is user code and may panic. Whenever it is called, every entry is present and its
//! position is correct, so the only effect of a panic is that the order may not match the
//! function.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::engine::release::OneByOne;
use crate::engine::sync::{Arc, RandomState};

/// A queued object.
pub(super) struct Entry<T> {
    pub(super) key: Box<str>,
    pub(super) object: Arc<T>,
    /// A number that is greater for each new entry.
    pub(super) arrival: u64,
    /// Whether the object belongs to the initial population.
    pub(super) initial: bool,
    /// The position in `places`; `None` outside the heap order.
    place: Option<usize>,
}

/// Returns whether the first entry comes before the second.
pub(super) type Before<T> = dyn Fn(&Entry<T>, &Entry<T>) -> bool + Send + Sync;

pub(super) struct Line<T> {
    hasher: RandomState,
    by_key: HashTable<usize>,
    /// In no particular order.
    entries: OneByOne<Vec<Entry<T>>>,
    /// The heap: indexes of `entries`. No entry comes before its parent, which is at half its
    /// position.
    places: Vec<usize>,
}

impl<T> Line<T> {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            by_key: HashTable::new(),
            entries: OneByOne::default(),
            places: Vec::new(),
        }
    }

    /// Returns all entries, inside the heap order or not, in no particular order.
    pub(super) fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.by_key.find(self.hasher.hash_one(key), |&at| *self.entries[at].key == *key).copied()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry<T>> {
        self.find(key).map(|at| &self.entries[at])
    }

    /// Adds an entry outside the heap order. The key must be new.
    pub(super) fn insert(&mut self, key: &str, object: Arc<T>, arrival: u64, initial: bool) {
        let at = self.entries.len();
        self.entries.push(Entry { key: key.into(), object, arrival, initial, place: None });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_key.insert_unique(hasher.hash_one(key), at, |&at| hasher.hash_one(&*entries[at].key));
    }

    /// Replaces the object of an entry, which keeps its position for now. Returns the previous
    /// object.
    pub(super) fn set(&mut self, key: &str, object: Arc<T>) -> Option<Arc<T>> {
        let at = self.find(key)?;
        Some(std::mem::replace(&mut self.entries[at].object, object))
    }

    /// Adds an entry to the heap order. O(log n).
    pub(super) fn join(&mut self, key: &str, before: &Before<T>) {
        let Some(at) = self.find(key).filter(|&at| self.entries[at].place.is_none()) else { return };
        self.append(at);
        self.rise(self.places.len() - 1, before);
    }

    /// Restores the heap order after the object of an entry has changed. Does nothing for an
    /// entry outside it. O(log n).
    pub(super) fn move_up_or_down(&mut self, key: &str, before: &Before<T>) {
        if let Some(place) = self.find(key).and_then(|at| self.entries[at].place) {
            self.settle(place, self.places.len(), before);
        }
    }

    /// Adds all entries for which `joins` is true to the heap order at once. O(n).
    pub(super) fn join_all(&mut self, joins: impl Fn(&Entry<T>) -> bool, before: &Before<T>) {
        for at in 0..self.entries.len() {
            if self.entries[at].place.is_none() && joins(&self.entries[at]) {
                self.append(at);
            }
        }
        for place in (0..self.places.len() / 2).rev() {
            self.sink(place, self.places.len(), before);
        }
    }

    /// Removes and returns the first entry of the heap order. O(log n).
    pub(super) fn pop(&mut self, before: &Before<T>) -> Option<Entry<T>> {
        let at = *self.places.first()?;
        self.leave(0, before);
        Some(self.take(at))
    }

    /// Removes and returns an entry, inside the heap order or not. O(log n).
    pub(super) fn remove(&mut self, key: &str, before: &Before<T>) -> Option<Entry<T>> {
        let at = self.find(key)?;
        if let Some(place) = self.entries[at].place {
            self.leave(place, before);
        }
        Some(self.take(at))
    }

    fn append(&mut self, at: usize) {
        self.entries[at].place = Some(self.places.len());
        self.places.push(at);
    }

    /// Removes the entry at `place` from the heap order. It is at the last position while the
    /// order of the others is restored, so a panic loses nothing.
    fn leave(&mut self, place: usize, before: &Before<T>) {
        let last = self.places.len() - 1;
        self.swap(place, last);
        if place < last {
            self.settle(place, last, before);
        }
        if let Some(at) = self.places.pop() {
            self.entries[at].place = None;
        }
    }

    /// Removes an entry that is outside the heap order. The last entry takes over its index.
    fn take(&mut self, at: usize) -> Entry<T> {
        let last = self.entries.len() - 1;
        let hash = |at: usize| self.hasher.hash_one(&*self.entries[at].key);
        let (of_taken, of_last) = (hash(at), hash(last));
        if let Ok(found) = self.by_key.find_entry(of_taken, |&found| found == at) {
            found.remove();
        }
        if at < last
            && let Some(found) = self.by_key.find_mut(of_last, |&found| found == last)
        {
            *found = at;
            if let Some(place) = self.entries[last].place {
                self.places[place] = at;
            }
        }
        self.entries.swap_remove(at)
    }

    /// Moves the entry at `place` up, or else down, among the first `count`.
    fn settle(&mut self, place: usize, count: usize, before: &Before<T>) {
        if self.rise(place, before) == place {
            self.sink(place, count, before);
        }
    }

    fn rise(&mut self, mut place: usize, before: &Before<T>) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.is_before(place, parent, before) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
        place
    }

    fn sink(&mut self, mut place: usize, count: usize, before: &Before<T>) {
        loop {
            let left = 2 * place + 1;
            if left >= count {
                return;
            }
            let right = left + 1;
            let child = if right < count && self.is_before(right, left, before) { right } else { left };
            if !self.is_before(child, place, before) {
                return;
            }
            self.swap(child, place);
            place = child;
        }
    }

    fn is_before(&self, place: usize, other: usize, before: &Before<T>) -> bool {
        before(&self.entries[self.places[place]], &self.entries[self.places[other]])
    }

    fn swap(&mut self, place: usize, other: usize) {
        self.places.swap(place, other);
        for place in [place, other] {
            self.entries[self.places[place]].place = Some(place);
        }
    }
}
