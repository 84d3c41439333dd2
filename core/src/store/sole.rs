//! What is written without a queue. Nothing is ever pushed onto such a store's slots: one is
//! claimed for the length of one write, with no lock of the table held, so that readers of its key
//! go on meanwhile; and is idle or gone after it.
//!
//! And what a sole writer does: who alone writes the store, one key after another, and may look at
//! all of it in between.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Core;
use crate::Meta;
use crate::engine::slot::{RunningSlot, SlotOwner};
use crate::engine::sync::Arc;
use crate::error::StoreError;

/// Another writer has the slot.
pub(super) struct Claimed;

impl<T, M: Meta<T>> Core<T, M> {
    /// Makes `new` what is known under `key` and hands back what was. No lock may be held, and
    /// nobody else may write. O(1) and the index functions.
    pub(crate) fn write(&self, key: &str, new: Option<Arc<T>>) -> (Option<Arc<T>>, Option<StoreError>) {
        let hash = self.table.hash(key.as_bytes());
        let Ok(claimed) = self.claim(hash, key, new.is_some()) else {
            unreachable!("a sole writer leaves every slot idle")
        };
        let Some(mut running) = claimed else { return (None, None) };
        // The accessor is user code, and may panic: the slot must not stay claimed.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.apply(&mut running, new)));
        self.unclaim(running);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The slot of `key`, made if there is none and `insert`.
    pub(super) fn claim(&self, hash: u64, key: &str, insert: bool) -> Result<Option<RunningSlot<T>>, Claimed> {
        let lock = self.table.shard(hash);
        let claim = |slot: &SlotOwner<T>| slot.claim().map(Some).ok_or(Claimed);
        let shard = lock.read();
        if let Some(place) = shard.place_of(hash, key.as_bytes()) {
            return claim(shard.at(place));
        }
        drop(shard);
        if !insert {
            return Ok(None);
        }
        let mut shard = lock.write();
        let place = self.table.find_or_insert(&mut shard, hash, key);
        claim(shard.at(place))
    }

    /// Ends the claim.
    pub(super) fn unclaim(&self, running: RunningSlot<T>) {
        let ended = if running.is_known() { running.idle() } else { self.table.retire(running) };
        debug_assert!(ended.is_ok(), "nobody pushes");
    }

    /// Returns what is known and not `listed`, by key, in order. O(listed + known), and no memory
    /// but for the answer: the slots of what is listed are stamped, and every stamp is taken off
    /// again, so that there is no count of lists which could come to an end. (The caller has the
    /// right to write, with which the stamps of the writer before it came.)
    pub(crate) fn unlisted<'k>(&self, listed: impl Iterator<Item = &'k str>) -> Vec<(Box<str>, Arc<T>)> {
        for key in listed {
            let hash = self.table.hash(key.as_bytes());
            if let Some(slot) = self.table.shard(hash).read().find(hash, key.as_bytes()) {
                slot.stamp(1);
            }
        }
        let mut unlisted: Vec<(Box<str>, _)> = Vec::new();
        for shard in self.table.shards() {
            let shard = shard.read();
            let old = shard.slots_near().filter(|slot| !slot.take_stamp());
            unlisted.extend(old.filter_map(|slot| Some((slot.key().into(), slot.known()?))));
        }
        unlisted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        unlisted
    }

    /// All that is known, in no particular order, copied shard by shard.
    pub(crate) fn known(&self) -> impl Iterator<Item = (String, Arc<T>)> {
        self.table.shards().iter().flat_map(|shard| {
            let shard = shard.read();
            let known = shard.slots_near().filter_map(|slot| Some((slot.key().to_owned(), slot.known()?)));
            known.collect::<Vec<_>>()
        })
    }
}
