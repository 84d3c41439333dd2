//! Entries by key, in a line whose order a function decides: a binary heap that knows where each of them stands. An entry
//! may also be out of line, while its key's handler runs.
//!
//! The function is a user's at last, and may panic. Whenever it is called each entry is there and knows its place, so that
//! a panic leaves an order that is not quite the function's, and nothing else.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::engine::release::OneByOne;
use crate::engine::sync::{Arc, RandomState};

/// What is queued under a key.
pub(super) struct Entry<T> {
    pub(super) key: Box<str>,
    pub(super) object: Arc<T>,
    /// Grows from entry to entry.
    pub(super) arrival: u64,
    /// Whether it is of the initial population.
    pub(super) initial: bool,
    /// Where it stands in line.
    place: Option<usize>,
}

/// Whether one entry comes before another.
pub(super) type Before<T> = dyn Fn(&Entry<T>, &Entry<T>) -> bool + Send + Sync;

pub(super) struct Line<T> {
    hasher: RandomState,
    by_key: HashTable<usize>,
    /// In no order.
    entries: OneByOne<Vec<Entry<T>>>,
    /// Who stands where: no entry comes before the one at half its place.
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

    /// All entries, in line or not, in no order.
    pub(super) fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.by_key.find(self.hasher.hash_one(key), |&at| *self.entries[at].key == *key).copied()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry<T>> {
        self.find(key).map(|at| &self.entries[at])
    }

    /// A new entry, out of line. Its key must have none yet.
    pub(super) fn insert(&mut self, key: &str, object: Arc<T>, arrival: u64, initial: bool) {
        let at = self.entries.len();
        self.entries.push(Entry { key: key.into(), object, arrival, initial, place: None });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_key.insert_unique(hasher.hash_one(key), at, |&at| hasher.hash_one(&*entries[at].key));
    }

    /// Another object for an entry, which keeps its place for now.
    pub(super) fn set(&mut self, key: &str, object: Arc<T>) -> Option<Arc<T>> {
        let at = self.find(key)?;
        Some(std::mem::replace(&mut self.entries[at].object, object))
    }

    /// Puts an entry in line, where it belongs. O(log n).
    pub(super) fn join(&mut self, key: &str, before: &Before<T>) {
        let Some(at) = self.find(key).filter(|&at| self.entries[at].place.is_none()) else { return };
        self.append(at);
        self.rise(self.places.len() - 1, before);
    }

    /// Moves an entry to where it belongs, if it is in line: its object is another one. O(log n).
    pub(super) fn move_up_or_down(&mut self, key: &str, before: &Before<T>) {
        if let Some(place) = self.find(key).and_then(|at| self.entries[at].place) {
            self.settle(place, self.places.len(), before);
        }
    }

    /// Puts those in line for whom `joins` says so, all at once. O(n).
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

    /// Takes out whoever is first in line. O(log n).
    pub(super) fn pop(&mut self, before: &Before<T>) -> Option<Entry<T>> {
        let at = *self.places.first()?;
        self.leave(0, before);
        Some(self.take(at))
    }

    /// Takes out an entry, in line or not. O(log n).
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

    /// Empties a place of the line. Until the others stand right, its entry is the last one.
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

    /// Takes out an entry that is not in line. The last one takes over its number.
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

    /// Lets whoever stands at `place` rise, or else sink, among the first `count`.
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
