//! The objects of a page on their way to their slots, in buffers that are reused.

use super::prefetch::OBJECT_AHEAD;
use crate::engine::release::{OneByOne, release};
use crate::engine::slot::{Version, prefetch};
use crate::engine::sync::{Arc, SHARDS};
use crate::engine::table::Table;
use crate::error::OfferError;

/// The number of bytes that a piece reserves for each key.
const USUAL_KEY: usize = 40;

/// One object on its way to its slot.
pub(super) struct PageEntry<T> {
    pub(super) hash: u64,
    /// The object. `None` only after the push.
    pub(super) object: Option<Arc<T>>,
    /// The index of the object in the stride.
    pub(super) index: u32,
    /// The position of the key in the arena of the piece. The version follows it if unchanged
    /// objects are skipped.
    pub(super) at: u32,
    pub(super) len: u32,
    pub(super) version: u32,
}

/// The part of a stride that one thread takes through the first step. The buffers are kept from
/// stride to stride, because fresh memory costs more than the work that is done in it.
pub(super) struct Piece<T> {
    /// The objects, in list order. Empty after the first step.
    pub(super) objects: OneByOne<Vec<Arc<T>>>,
    /// The index of the first object in the stride.
    pub(super) first: usize,
    /// The keys, one after another.
    pub(super) arena: String,
    /// The entries for each joining thread, in list order.
    pub(super) entries: Vec<OneByOne<Vec<PageEntry<T>>>>,
    /// The refused objects, by their index in the stride. If the page stops at a refused object,
    /// no later one was processed.
    pub(super) refused: OneByOne<Vec<(usize, OfferError)>>,
}

impl<T> PageEntry<T> {
    pub(super) fn key<'a>(&self, arena: &'a str) -> &'a [u8] {
        &arena.as_bytes()[self.at as usize..][..self.len as usize]
    }

    pub(super) fn name<'a>(&self, arena: &'a str) -> &'a str {
        &arena[self.at as usize..][..self.len as usize]
    }

    pub(super) fn version<'a>(&self, arena: &'a str) -> Version<'a> {
        Version::of(&arena.as_bytes()[(self.at + self.len) as usize..][..self.version as usize])
    }
}

impl<T> Piece<T> {
    /// Creates a piece with room for `size` objects, to be joined by `threads` threads. The room is
    /// reserved on the caller's thread, because the others live for one step only and would
    /// allocate from fresh memory.
    pub(super) fn new(size: usize, threads: usize) -> Self {
        let entries = (0..threads)
            .map(|_| OneByOne(Vec::with_capacity(with_slack(size / threads))))
            .collect();
        let arena = String::with_capacity(size * USUAL_KEY);
        Self {
            objects: OneByOne(Vec::with_capacity(size)),
            first: 0,
            arena,
            entries,
            refused: OneByOne(Vec::new()),
        }
    }
}

/// Empties `entries`, and prefetches the reference counts of unchanged objects before they are
/// decremented.
pub(super) fn clear_near<T>(entries: &mut Vec<PageEntry<T>>) {
    let mut place = 0;
    release(std::iter::from_fn(|| {
        if let Some(object) =
            entries.get(place + OBJECT_AHEAD).and_then(|ahead| ahead.object.as_ref())
        {
            prefetch(Arc::as_ptr(object));
        }
        let entry = entries.get_mut(place)?;
        place += 1;
        Some(entry.object.take())
    }));
    entries.clear();
}

/// Returns how many objects of a group are still to be pushed.
pub(super) fn objects_left<T>(entries: &[PageEntry<T>], group: &[u32]) -> usize {
    group.iter().filter(|&&place| entries[place as usize].object.is_some()).count()
}

/// Sorts the indices of the entries into `order`, by shard, and within a shard in list order: a
/// counting sort.
pub(super) fn sort_by_shard<T>(entries: &[PageEntry<T>], order: &mut Vec<u32>) {
    let mut next = [0; SHARDS + 1];
    for entry in entries {
        next[Table::<T>::shard_of(entry.hash) + 1] += 1;
    }
    for shard in 1..next.len() {
        next[shard] += next[shard - 1];
    }
    order.resize(entries.len(), 0);
    for (place, entry) in entries.iter().enumerate() {
        let next = &mut next[Table::<T>::shard_of(entry.hash)];
        order[*next] = narrow(place);
        *next += 1;
    }
}

/// Adds an eighth to a size, because shards and parts of a page are not filled evenly.
pub(super) fn with_slack(size: usize) -> usize {
    size + size / 8
}

/// Converts an index, or a position or length in an arena, to 32 bits. It always fits, because both
/// the objects of a stride and the memory of their keys are bounded.
pub(super) fn narrow(number: usize) -> u32 {
    u32::try_from(number)
        .unwrap_or_else(|_| unreachable!("a stride has fewer than 2^32 bytes of keys"))
}
