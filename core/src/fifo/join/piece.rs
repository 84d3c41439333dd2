//! The first step of a join: the keys of a piece of the page, and its entries for the second step.

use super::super::DeltaFifo;
use super::Join;
use super::prefetch::{OBJECT_AHEAD, STRING_AHEAD, bring_object_near, clear_near};
use crate::Meta;
use crate::engine::release::{OneByOne, Rest, UserCode};
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

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Runs the first step: computes keys and hashes, runs the transformer, and assigns the entries
    /// to threads by their shards.
    pub(super) fn key_piece(&self, join: &Join<'_>, piece: &mut Piece<T>) {
        let (keys, table) = (&self.core.keys, &self.core.table);
        let Piece { objects, first, arena, entries, refused } = piece;
        let threads = entries.len();
        // The buffers of the previous stride are used again instead of allocating new ones.
        arena.clear();
        for entries in entries.iter_mut() {
            clear_near(entries);
        }
        let mut rest = Rest(objects.drain(..));
        for index in *first.. {
            let Some(object) = rest.0.next().map(UserCode::new) else { break };
            // Two distances, because the strings of an object can be prefetched only once the
            // object itself has arrived.
            let ahead = rest.0.as_slice();
            if let Some(object) = ahead.get(OBJECT_AHEAD) {
                bring_object_near(object);
            }
            if let Some(object) = ahead.get(STRING_AHEAD) {
                keys.meta().name(object).inspect(|name| prefetch(name.as_ptr()));
                if join.skip_unchanged {
                    keys.meta().version(object).inspect(|version| prefetch(version.as_ptr()));
                }
            }
            // The key is that of the listed object, so it is known even if the transform fails.
            let at = arena.len();
            let keyed = keys.write(&object, arena).map_err(OfferError::from);
            let transformed =
                keyed.and_then(|()| self.transform(&arena.as_bytes()[at..], object.into_inner()));
            let object = match transformed {
                Ok(object) => UserCode::new(object),
                Err(error) => {
                    let has_key = matches!(error, OfferError::Transform { .. });
                    refused.push((index, error));
                    // The page ends before this object, so the rest of the piece is not needed.
                    if join.stops_at_refused {
                        break;
                    }
                    // A key without an object still counts as listed, so that the sweep does not
                    // delete it.
                    if has_key {
                        let key = &arena.as_bytes()[at..];
                        self.list_key(join.generation, table.hash(key), key);
                    }
                    arena.truncate(at);
                    continue;
                }
            };
            let key = &arena.as_bytes()[at..];
            let (hash, len) = (table.hash(key), key.len());
            let mut version = 0;
            if join.skip_unchanged {
                // Copied here, while the object is in the cache, so that the join need not read
                // its strings again.
                arena.push_str(keys.meta().version(&object).unwrap_or_default());
                version = narrow(arena.len() - at - len);
            }
            // Each thread joins an interval of the shards, so no two threads lock the same one.
            entries[Table::<T>::shard_of(hash) * threads / SHARDS].push(PageEntry {
                hash,
                object: Some(object.into_inner()),
                index: narrow(index),
                at: narrow(at),
                len: narrow(len),
                version,
            });
        }
    }
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
