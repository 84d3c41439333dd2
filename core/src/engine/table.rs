//! Which slot belongs to a key: a sharded hash table that says that a slot exists, and nothing
//! else about it.
//!
//! One hash serves the choice of the shard, the bucket (low bits) and the tag (top bits). It is
//! seeded at random, since names are chosen by strangers. A shard's lock protects which slots
//! exist and, through the borrow rules, their lifetime: a `&Slot` borrows the shard that is held.
//! No user code ever runs under it. It is held in three ways:
//!
//! | held | by | beside it |
//! | --- | --- | --- |
//! | `read` | readers of the store, a relist's pages, batches of offers | any number of them, one offer |
//! | `upgradable_read` | an offer of a key that has a slot | those, but no other offer: their order is the queue's |
//! | `write` | who makes or frees a slot, deletes what was not listed, or copies what is pending | nobody |

use std::hash::{BuildHasher, Hasher};

use crossbeam::utils::CachePadded;

use crate::engine::buckets::{Cursor, Place};
use crate::engine::shard::Shard;
use crate::engine::slot::{Left, QueuedSlot, RunningSlot, Slot, SlotOwner, StaleSlot};
use crate::engine::sync::{RandomState, RwLock, SHARDS, mutant};

/// Where in the hash the shard's number lies: above the bits that choose a bucket, below those of
/// the tag.
const SHARD_BITS_FROM: u32 = 40;

pub(crate) struct Table<T> {
    hasher: RandomState,
    shards: Box<[CachePadded<RwLock<Shard<T>>>]>,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded::new(RwLock::new(Shard::new()))).collect();
        Self { hasher: RandomState::default(), shards }
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The number of a hash's shard.
    pub(crate) fn shard_of(hash: u64) -> usize {
        (hash >> SHARD_BITS_FROM) as usize % SHARDS
    }

    pub(crate) fn shard(&self, hash: u64) -> &RwLock<Shard<T>> {
        &self.shards[Self::shard_of(hash)]
    }

    pub(crate) fn shards(&self) -> &[CachePadded<RwLock<Shard<T>>>] {
        &self.shards
    }

    /// Finds the slot of `key` or makes one. The shard must be the hash's.
    pub(crate) fn find_or_insert(&self, shard: &mut Shard<T>, hash: u64, key: &str) -> Place {
        shard
            .place_of(hash, key.as_bytes())
            .unwrap_or_else(|| shard.insert(hash, SlotOwner::new(key), |slot| self.hash(slot.key().as_bytes())))
    }

    /// A step of a walk over a shard, which is held shared for it: see [`Shard::walk`].
    pub(crate) fn walk(
        &self,
        shard: usize,
        from: Cursor,
        max: usize,
        visit: impl FnMut(&Slot<T>, u64),
    ) -> Option<Cursor> {
        self.shards[shard].read().walk(from, max, |slot| self.hash(slot.key().as_bytes()), visit)
    }

    /// Makes room for `objects` slots in all, spread evenly.
    pub(crate) fn reserve(&self, objects: usize) {
        // An eighth on top: shards are not filled evenly.
        let each = (objects + objects / 8) / SHARDS;
        for shard in self.shards() {
            shard.write().expect(each, |slot| self.hash(slot.key().as_bytes()));
        }
    }

    /// Retires a running slot that knows nothing: unlinks and frees it, unless something was
    /// pushed meanwhile.
    pub(crate) fn retire(&self, running: RunningSlot<T>) -> Result<(), RunningSlot<T>> {
        let hash = self.hash(running.key().as_bytes());
        let settling = mutant!(RetireFromEmpty => match running.through_empty()? {
            Some(running) => running,
            None => return Ok(()),
        }; running);
        let mut shard = self.shard(hash).write();
        let owner = shard.retire(hash, settling, |slot| self.hash(slot.key().as_bytes()))?;
        drop(shard);
        drop(owner);
        Ok(())
    }

    /// Gives up a backlog's stale entry. The slot, if a relist made the entry its own again.
    pub(crate) fn leave(&self, stale: StaleSlot<T>) -> Option<QueuedSlot<T>> {
        let hash = self.hash(stale.key().as_bytes());
        let mut shard = self.shard(hash).write();
        let running = match stale.leave() {
            Left::Revived(slot) => return Some(slot),
            Left::Nothing => return None,
            Left::Unknown(running) => running,
        };
        mutant!(StaleIsLeftThere => {
            let _ = running.idle();
            return None;
        });
        let owner = shard.retire(hash, running, |slot| self.hash(slot.key().as_bytes()));
        drop(shard);
        debug_assert!(owner.is_ok(), "nobody pushes without the shard's lock");
        drop(owner);
        None
    }
}
