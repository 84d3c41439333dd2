//! Maps keys to slots: a sharded hash table that records which slots exist, and nothing else about
//! them.
//!
//! One hash chooses the shard, the bucket (low bits) and the tag (top bits). The hash has a random
//! seed, because users of the cluster choose the names of objects, and could choose names with
//! equal hashes. A shard's lock protects the set of its slots and, through the borrow rules, their
//! lifetime: a `&Slot` borrows the guard of the lock. No user code ever runs under the lock. There
//! are three ways to hold it:
//!
//! | held | by | together with |
//! | --- | --- | --- |
//! | `read` | readers of the store, pages of a relist, batches of offers | any number of them, and one offer |
//! | `upgradable_read` | an offer of a key that has a slot | any number of readers, pages and batches, but no other such offer: the offers of a shard are queued in the order of their pushes |
//! | `write` | creation and freeing of a slot, the deletions of a commit, copies of pending deltas | nothing |

use std::hash::{BuildHasher, Hasher};

use crossbeam::utils::CachePadded;

use crate::engine::buckets::{Cursor, Place};
use crate::engine::shard::Shard;
use crate::engine::slot::{GivenUp, QueuedSlot, RunningSlot, Slot, SlotOwner, StaleSlot};
use crate::engine::sync::{RandomState, RwLock, SHARDS, mutant};

/// The position in the hash, in bits, of the shard's number: above the bits that choose a bucket,
/// below the bits of the tag.
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

    /// Returns the number of the shard of a hash.
    pub(crate) fn shard_of(hash: u64) -> usize {
        (hash >> SHARD_BITS_FROM) as usize % SHARDS
    }

    pub(crate) fn shard(&self, hash: u64) -> &RwLock<Shard<T>> {
        &self.shards[Self::shard_of(hash)]
    }

    pub(crate) fn shards(&self) -> &[CachePadded<RwLock<Shard<T>>>] {
        &self.shards
    }

    /// Returns the place of the slot of `key`, which is created if there is none. `shard` must be
    /// the shard of the hash.
    pub(crate) fn find_or_insert(&self, shard: &mut Shard<T>, hash: u64, key: &str) -> Place {
        shard.place_of(hash, key.as_bytes()).unwrap_or_else(|| {
            shard.insert(hash, SlotOwner::new(key), |slot| self.hash(slot.key().as_bytes()))
        })
    }

    /// Keeps the keys by namespace from now on, for [`Shard::visit_namespace`].
    pub(crate) fn keep_by_namespace(&self) {
        for shard in self.shards() {
            if !shard.read().is_by_namespace() {
                shard.write().keep_by_namespace(|slot| self.hash(slot.key().as_bytes()));
            }
        }
    }

    /// Does one step of a walk over a shard, whose lock is held shared for the step. See
    /// [`Shard::walk`].
    pub(crate) fn walk(
        &self,
        shard: usize,
        from: Cursor,
        max: usize,
        visit: impl FnMut(&Slot<T>, u64),
    ) -> Option<Cursor> {
        self.shards[shard].read().walk(from, max, |slot| self.hash(slot.key().as_bytes()), visit)
    }

    /// Makes room for `objects` slots in all, spread evenly over the shards.
    pub(crate) fn reserve(&self, objects: usize) {
        // An eighth on top, because shards are not filled evenly.
        let each = (objects + objects / 8) / SHARDS;
        for shard in self.shards() {
            shard.write().expect(each, |slot| self.hash(slot.key().as_bytes()));
        }
    }

    /// Retires a running slot without a known object: removes and frees it. Returns the slot as the
    /// error if deltas were pushed onto it.
    pub(crate) fn retire(&self, running: RunningSlot<T>) -> Result<(), RunningSlot<T>> {
        let hash = self.hash(running.key().as_bytes());
        mutant!(RetireFromEmpty => return self.retire_from_empty(running));
        let mut shard = self.shard(hash).write();
        let owner = shard.retire(hash, running, |slot| self.hash(slot.key().as_bytes()))?;
        drop(shard);
        drop(owner);
        Ok(())
    }

    /// Gives up a stale entry of the backlog, and retires its slot if only the entry kept it.
    /// Returns the slot if a relist has made the entry valid again, and `None` otherwise.
    pub(crate) fn give_up(&self, stale: StaleSlot<T>) -> Option<QueuedSlot<T>> {
        let hash = self.hash(stale.key().as_bytes());
        let mut shard = self.shard(hash).write();
        let running = match stale.give_up() {
            GivenUp::Revived(slot) => return Some(slot),
            GivenUp::Nothing => return None,
            GivenUp::Unknown(running) => running,
        };
        mutant!(StaleIsLeftThere => return running.idle().ok().and(None));
        let owner = shard.retire(hash, running, |slot| self.hash(slot.key().as_bytes()));
        drop(shard);
        debug_assert!(owner.is_ok(), "no thread pushes without the shard's lock");
        drop(owner);
        None
    }
}

/// The code of a deliberate defect (`sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{RunningSlot, Table};

    impl<T> Table<T> {
        /// Retires a slot, with the defect `RetireFromEmpty`: the slot is idle for a moment, in
        /// which another thread can use it.
        pub(super) fn retire_from_empty(
            &self,
            running: RunningSlot<T>,
        ) -> Result<(), RunningSlot<T>> {
            let Some(running) = running.through_empty()? else { return Ok(()) };
            let hash = self.hash(running.key().as_bytes());
            let mut shard = self.shard(hash).write();
            let owner = shard.retire(hash, running, |slot| self.hash(slot.key().as_bytes()))?;
            drop(shard);
            drop(owner);
            Ok(())
        }
    }
}
