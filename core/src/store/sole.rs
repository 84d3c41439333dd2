//! Writes to a store that has no queue. Nothing is pushed onto the slots of such a store: a write
//! claims the slot of its key, with no lock of the table held, so that readers of the key proceed.
//! After the write the slot is idle or gone.
//!
//! This module also has the operations for a sole writer: a writer of the whole store that writes
//! one key after another, and may read all keys in between.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Core;
use crate::Meta;
use crate::engine::release::Rest;
use crate::engine::slot::{RunningSlot, SlotOwner};
use crate::engine::sync::Arc;
use crate::error::StoreError;

/// The error that another writer has claimed the slot.
pub(super) struct Claimed;

impl<T, M: Meta<T>> Core<T, M> {
    /// Stores `new` under `key`, or removes the object if `new` is `None`. Returns the former
    /// object, and an error if an index function failed for `new`; the object is then stored
    /// without entries in that index. No lock may be held, and no other thread may write. O(1)
    /// plus the index functions.
    pub(crate) fn write(
        &self,
        key: &str,
        new: Option<Arc<T>>,
    ) -> (Option<Arc<T>>, Option<Box<StoreError>>) {
        let hash = self.table.hash(key.as_bytes());
        let Ok(claimed) = self.claim(hash, key, new.is_some()) else {
            unreachable!("a sole writer leaves every slot idle")
        };
        let Some(mut running) = claimed else { return (None, None) };
        // The accessor is user code and may panic. The slot must not stay claimed.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.apply(&mut running, new)));
        self.unclaim(running);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Claims the slot of `key`. If there is none, creates it if `insert` is set, and returns
    /// `None` otherwise. Fails if another writer has claimed the slot.
    pub(super) fn claim(
        &self,
        hash: u64,
        key: &str,
        insert: bool,
    ) -> Result<Option<RunningSlot<T>>, Claimed> {
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

    /// Ends the claim on a slot. Frees the slot if it has no known object.
    pub(super) fn unclaim(&self, running: RunningSlot<T>) {
        let ended = if running.is_known() { running.idle() } else { self.table.retire(running) };
        debug_assert!(ended.is_ok(), "no other thread pushes");
    }

    /// Returns the known objects whose keys are not `listed`, with their keys, in key order.
    /// O(listed + known); needs memory for the result only. The caller must be the only writer.
    ///
    /// This sets a stamp (a number in the slot) in the slots of listed keys, collects the slots
    /// without a stamp, and clears every stamp. So the stamp is always 1, and not the number of the
    /// list, which could overflow.
    pub(crate) fn unlisted<'k>(
        &self,
        listed: impl Iterator<Item = &'k str>,
    ) -> Vec<(Box<str>, Arc<T>)> {
        self.stamp(listed);
        let mut unlisted: Vec<(Box<str>, _)> = Vec::new();
        for shard in self.table.shards() {
            let shard = shard.read();
            let old = shard.slots_near().filter(|slot| !slot.take_stamp());
            unlisted.extend(old.filter_map(|slot| Some((slot.key().into(), slot.known()?))));
        }
        unlisted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        unlisted
    }

    /// Returns the known objects of `namespace` whose keys are not `listed`, with their keys, in
    /// key order. The store's keys must be made by
    /// [`KeyFunc::meta_namespace`](crate::KeyFunc::meta_namespace), and all `listed` keys must lie
    /// in the namespace. O(listed + known in the namespace). See [`unlisted`](Self::unlisted).
    pub(crate) fn unlisted_in<'k>(
        &self,
        namespace: &str,
        listed: impl Iterator<Item = &'k str>,
    ) -> Vec<(Box<str>, Arc<T>)> {
        self.stamp(listed);
        let mut unlisted: Vec<(Box<str>, _)> = Vec::new();
        self.namespaces.for_each(namespace, |slot| {
            if !slot.take_stamp() {
                unlisted.extend(slot.known().map(|object| (slot.key().into(), object)));
            }
        });
        unlisted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        unlisted
    }

    fn stamp<'k>(&self, listed: impl Iterator<Item = &'k str>) {
        for key in listed {
            let hash = self.table.hash(key.as_bytes());
            if let Some(slot) = self.table.shard(hash).read().find(hash, key.as_bytes()) {
                slot.stamp(1);
            }
        }
    }

    /// Iterates over all known objects and their keys, in no particular order. The pointers of a
    /// shard are copied when the iterator reaches the shard, so no lock is held between two items.
    pub(crate) fn known(&self) -> impl Iterator<Item = (String, Arc<T>)> {
        self.table.shards().iter().flat_map(|shard| {
            let shard = shard.read();
            let known =
                shard.slots_near().filter_map(|slot| Some((slot.key().to_owned(), slot.known()?)));
            let mut rest = Rest(known.collect::<Vec<_>>().into_iter());
            std::iter::from_fn(move || rest.0.next())
        })
    }
}
