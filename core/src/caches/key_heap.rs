//! Entries by key, in an order that a function decides: a binary heap in which each entry stores
//! its position. An entry may be outside the heap order while its key's handler runs.
//!
//! The function is user code and may panic. Whenever it is called, every entry is present and its
//! position is correct, so the only effect of a panic is that the order may not match the
//! function.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::engine::release::OneByOne;
use crate::engine::room::less_room;
use crate::engine::sync::{Arc, RandomState};

/// A queued object.
pub(super) struct HeapEntry<T> {
    pub(super) key: Box<str>,
    pub(super) object: Arc<T>,
    /// A number that is greater for each new entry.
    pub(super) arrival: u64,
    /// Whether the object belongs to the initial population.
    pub(super) initial: bool,
    /// The position in `heap`; `None` outside the heap order.
    position: Option<usize>,
}

/// A function that returns whether the first entry comes before the second.
pub(super) type Before<T> = dyn Fn(&HeapEntry<T>, &HeapEntry<T>) -> bool + Send + Sync;

pub(super) struct KeyHeap<T> {
    hasher: RandomState,
    by_key: HashTable<usize>,
    /// The entries, in no particular order.
    entries: OneByOne<Vec<HeapEntry<T>>>,
    /// The heap: indexes of `entries`. The parent of the entry at position `p` is at
    /// `(p - 1) / 2`, and no entry comes before its parent.
    heap: Vec<usize>,
}

impl<T> KeyHeap<T> {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            by_key: HashTable::new(),
            entries: OneByOne::default(),
            heap: Vec::new(),
        }
    }

    /// Returns all entries, inside the heap order or not, in no particular order.
    pub(super) fn entries(&self) -> &[HeapEntry<T>] {
        &self.entries
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.by_key.find(self.hasher.hash_one(key), |&at| *self.entries[at].key == *key).copied()
    }

    pub(super) fn get(&self, key: &str) -> Option<&HeapEntry<T>> {
        self.find(key).map(|at| &self.entries[at])
    }

    /// Adds an entry outside the heap order. The key must be new.
    pub(super) fn insert(&mut self, key: &str, object: Arc<T>, arrival: u64, initial: bool) {
        let at = self.entries.len();
        self.entries.push(HeapEntry { key: key.into(), object, arrival, initial, position: None });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_key
            .insert_unique(hasher.hash_one(key), at, |&at| hasher.hash_one(&*entries[at].key));
    }

    /// Replaces the object of an entry. The entry keeps its position until
    /// [`restore`](Self::restore). Returns the previous object.
    pub(super) fn set(&mut self, key: &str, object: Arc<T>) -> Option<Arc<T>> {
        let at = self.find(key)?;
        Some(std::mem::replace(&mut self.entries[at].object, object))
    }

    /// Adds an entry to the heap order. O(log n).
    pub(super) fn add_to_order(&mut self, key: &str, before: &Before<T>) {
        let Some(at) = self.find(key).filter(|&at| self.entries[at].position.is_none()) else {
            return;
        };
        self.append(at);
        self.sift_up(self.heap.len() - 1, before);
    }

    /// Restores the heap order after the object of an entry has changed. Does nothing for an
    /// entry outside it. O(log n).
    pub(super) fn restore(&mut self, key: &str, before: &Before<T>) {
        if let Some(position) = self.find(key).and_then(|at| self.entries[at].position) {
            self.restore_at(position, self.heap.len(), before);
        }
    }

    /// Adds all entries for which `is_added` is true to the heap order at once. O(n).
    pub(super) fn add_all_to_order(
        &mut self,
        is_added: impl Fn(&HeapEntry<T>) -> bool,
        before: &Before<T>,
    ) {
        for at in 0..self.entries.len() {
            if self.entries[at].position.is_none() && is_added(&self.entries[at]) {
                self.append(at);
            }
        }
        for position in (0..self.heap.len() / 2).rev() {
            self.sift_down(position, self.heap.len(), before);
        }
    }

    /// Removes and returns the first entry of the heap order. O(log n).
    pub(super) fn pop(&mut self, before: &Before<T>) -> Option<HeapEntry<T>> {
        let at = *self.heap.first()?;
        self.remove_from_order(0, before);
        Some(self.remove_entry(at))
    }

    /// Removes and returns an entry, inside the heap order or not. O(log n).
    pub(super) fn remove(&mut self, key: &str, before: &Before<T>) -> Option<HeapEntry<T>> {
        let at = self.find(key)?;
        if let Some(position) = self.entries[at].position {
            self.remove_from_order(position, before);
        }
        Some(self.remove_entry(at))
    }

    fn append(&mut self, at: usize) {
        self.entries[at].position = Some(self.heap.len());
        self.heap.push(at);
    }

    /// Removes the entry at `position` from the heap order. The entry stays at the last position
    /// while the order of the others is restored, so a panic of the order function loses no entry.
    fn remove_from_order(&mut self, position: usize, before: &Before<T>) {
        let last = self.heap.len() - 1;
        self.swap(position, last);
        if position < last {
            self.restore_at(position, last, before);
        }
        if let Some(at) = self.heap.pop() {
            self.entries[at].position = None;
        }
    }

    /// Removes an entry that is outside the heap order. The last entry takes over its index.
    fn remove_entry(&mut self, at: usize) -> HeapEntry<T> {
        let last = self.entries.len() - 1;
        let hash = |at: usize| self.hasher.hash_one(&*self.entries[at].key);
        let (of_taken, of_last) = (hash(at), hash(last));
        if let Ok(found) = self.by_key.find_entry(of_taken, |&found| found == at) {
            found.remove();
        }
        // `swap_remove` moves the last entry to `at`; its key and its position must refer to it.
        if at < last
            && let Some(found) = self.by_key.find_mut(of_last, |&found| found == last)
        {
            *found = at;
            if let Some(position) = self.entries[last].position {
                self.heap[position] = at;
            }
        }
        let removed = self.entries.swap_remove(at);
        self.shrink();
        removed
    }

    /// Frees memory if many entries have been removed.
    fn shrink(&mut self) {
        let Self { hasher, by_key, entries, heap } = self;
        if let Some(room) = less_room(entries.len(), entries.capacity()) {
            entries.shrink_to(room);
            heap.shrink_to(room);
            by_key.shrink_to(room, |&at| hasher.hash_one(&*entries[at].key));
        }
    }

    /// Moves the entry at `position` up or down to its place in the heap order of the first
    /// `length` positions.
    fn restore_at(&mut self, position: usize, length: usize, before: &Before<T>) {
        if self.sift_up(position, before) == position {
            self.sift_down(position, length, before);
        }
    }

    fn sift_up(&mut self, mut position: usize, before: &Before<T>) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.is_before(position, parent, before) {
                break;
            }
            self.swap(position, parent);
            position = parent;
        }
        position
    }

    fn sift_down(&mut self, mut position: usize, length: usize, before: &Before<T>) {
        loop {
            let left = 2 * position + 1;
            if left >= length {
                return;
            }
            let right = left + 1;
            let child =
                if right < length && self.is_before(right, left, before) { right } else { left };
            if !self.is_before(child, position, before) {
                return;
            }
            self.swap(child, position);
            position = child;
        }
    }

    fn is_before(&self, position: usize, other: usize, before: &Before<T>) -> bool {
        before(&self.entries[self.heap[position]], &self.entries[self.heap[other]])
    }

    fn swap(&mut self, position: usize, other: usize) {
        self.heap.swap(position, other);
        for position in [position, other] {
            self.entries[self.heap[position]].position = Some(position);
        }
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use super::*;
    use crate::engine::room::LEAST_ROOM;

    #[test]
    fn removed_entries_keep_no_memory() {
        let mut heap = KeyHeap::new();
        let by_object =
            |entry: &HeapEntry<u64>, other: &HeapEntry<u64>| *entry.object < *other.object;
        for number in 0..1_000 {
            heap.insert(&number.to_string(), Arc::new(number), number, false);
        }
        heap.add_all_to_order(|_| true, &by_object);
        for number in 0..500 {
            assert_eq!(heap.pop(&by_object).map(|entry| *entry.object), Some(number));
        }
        for number in 500..990 {
            assert!(heap.remove(&number.to_string(), &by_object).is_some());
        }
        let room = [heap.entries.capacity(), heap.heap.capacity(), heap.by_key.capacity()];
        assert!(room.iter().all(|room| *room <= 2 * LEAST_ROOM), "{room:?}");
        let rest = std::iter::from_fn(|| heap.pop(&by_object)).map(|entry| *entry.object);
        assert!(rest.eq(990..1_000));
    }
}
