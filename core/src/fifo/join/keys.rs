//! The first step: computes the keys of a piece of a stride.

use super::Join;
use super::entries::{PageEntry, Piece, clear_near, narrow};
use super::prefetch::{OBJECT_AHEAD, STRING_AHEAD, bring_object_near};
use crate::Meta;
use crate::engine::release::{Rest, UserCode};
use crate::engine::slot::prefetch;
use crate::engine::sync::SHARDS;
use crate::engine::table::Table;
use crate::error::OfferError;
use crate::fifo::DeltaFifo;

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
