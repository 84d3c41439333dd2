//! Offers of one object: each pushes with its shard held against other offers, so a slot has one
//! such pusher at a time, and joins the queue before the shard is released, so the order across
//! keys is that of the offers. A relist's pages, batches and readers may be in the shard
//! meanwhile. User code (key function, transformer, known objects, the objects' drop) runs before
//! or after that.

use std::ops::{Deref, DerefMut};

use super::{DeltaFifo, Known};
use crate::engine::buckets::Place;
use crate::engine::shard::Shard;
use crate::engine::slot::{Pending, Pushed, Rule, Slot, State, What};
use crate::engine::sync::{Arc, assert_none_held, mutant};
use crate::error::{KeyError, OfferError, RelistError, StoreError};
use crate::key::{KeyBuf, as_str};
use crate::scope::Within;
use crate::{DeltaObject, DeltaType, Deltas, KeySource, Meta};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues `Added` (client-go `Add`). Never blocks on a handler; O(1).
    ///
    /// # Errors
    /// [`OfferError`]: no key, or the transformer failed; nothing was queued. As in client-go the queue counts as
    /// populated all the same.
    pub fn add(&self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Added, object)
    }

    /// Queues `Updated` (client-go `Update`). Never blocks on a handler; O(1).
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Updated, object)
    }

    fn offer(&self, kind: DeltaType, object: Arc<T>) -> Result<(), OfferError> {
        self.initial.touch();
        let mut key = KeyBuf::new();
        self.core.keys.write(&object, &mut key)?;
        let object = self.transform(&key, object)?;
        self.push(&key, Pending::object(kind, object), Rule::Always, Missing::Insert);
        Ok(())
    }

    /// Queues `Deleted` (client-go `Delete`) for an object, or for a [`DeletedFinalStateUnknown`]
    /// when its last state was not seen. Ignored when the key is neither pending nor known, nor is
    /// being handled: a delete during a handler counts as if it came just after it. O(1).
    ///
    /// # Errors
    /// [`OfferError`]: no key, or the transformer failed; nothing was queued, as in client-go. It does not see tombstones: one
    /// of the key that [`OfferError::Transform`] says deletes it all the same.
    ///
    /// [`DeletedFinalStateUnknown`]: crate::DeletedFinalStateUnknown
    pub fn delete(&self, object: impl Into<DeltaObject<T>>) -> Result<(), OfferError> {
        let (object, mut key) = (object.into(), KeyBuf::new());
        self.core.keys.write_source(&KeySource::from(&object), &mut key)?;
        self.initial.touch();
        if let Some(deletion) = self.deletion(object, &key)? {
            self.push(&key, deletion, Rule::IfExists, self.missing());
        }
        Ok(())
    }

    /// What the deletion of `object`, whose key this is, queues, if it can count.
    fn deletion(&self, object: DeltaObject<T>, key: &[u8]) -> Result<Option<Pending<T>>, OfferError> {
        Ok(Some(Pending::new(match object {
            DeltaObject::Object(object) => {
                if self.transform.is_some() && !self.may_exist(key) {
                    return Ok(None);
                }
                What::Object(DeltaType::Deleted, self.transform(key, object)?)
            }
            DeltaObject::Tombstone(tombstone) => What::Tombstone(tombstone),
        })))
    }

    /// The same as [`delete`](Self::delete) by the relist of that generation, while it is the
    /// current one. It is of that relist: like what that lists, it populates nothing by itself,
    /// and if it `marks`, it is of the initial population.
    pub(super) fn delete_in(
        &self,
        generation: u32,
        marks: bool,
        within: Option<&Within>,
        object: DeltaObject<T>,
    ) -> Result<(), StoreError> {
        let mut key = KeyBuf::new();
        self.core.keys.write_source(&KeySource::from(&object), &mut key)?;
        if let Some(within) = within.filter(|within| !within.contains(as_str(&key))) {
            let (key, scope) = (as_str(&key).to_owned(), within.scope.name().to_owned());
            return Err(RelistError::OutOfScope { key, scope }.into());
        }
        let (deletion, done) = match self.deletion(object, &key) {
            Ok(None) => return Ok(()),
            Ok(Some(deletion)) => (deletion, Ok(())),
            // It is gone all the same, and no commit would find out if it was listed before.
            Err(refused) => (Pending::new(What::Swept(None)), Err(refused.into())),
        };
        let (hash, missing) = (self.core.table.hash(&key), self.missing());
        let shard = self.core.table.shard(hash).write();
        // While this lock is held that stays so: a newer relist's begin passes it before it lists
        // anything.
        if !mutant!(OldDeleteCounts => true; self.relists.is_current(generation, within)) {
            return Err(RelistError::Superseded.into());
        }
        if missing != Missing::Ignore || shard.find(hash, &key).is_some() {
            self.initial.marked(usize::from(marks));
            self.push_or_insert(shard, hash, &key, deletion.initial(marks), Rule::IfExists, missing);
        }
        done
    }

    /// Whether a deletion of `key` can count: the transformer sees only such. A key without a
    /// slot, or whose slot only waits for its entry in a backlog, has no handler, so what the
    /// store elsewhere says after that look was true at some time since.
    fn may_exist(&self, key: &[u8]) -> bool {
        let hash = self.core.table.hash(key);
        let exists = |slot: &Slot<T>| slot.state() != State::Idle || slot.is_known();
        if self.core.table.shard(hash).read().find(hash, key).is_some_and(exists) {
            return true;
        }
        match &self.known {
            // A look-up that fails counts as known: a deletion that is dropped could not be mended.
            Known::Elsewhere { objects, .. } => {
                assert_none_held();
                !matches!(objects.get_by_key(as_str(key)), Ok(None))
            }
            Known::Fused | Known::Nowhere => false,
        }
    }

    /// What an offer that depends on what is known does when its key has no slot.
    fn missing(&self) -> Missing {
        match self.known {
            Known::Elsewhere { .. } => Missing::Ask,
            Known::Fused | Known::Nowhere => Missing::Ignore,
        }
    }

    /// Queues `deltas` as they are, unless the key is pending (client-go `AddIfNotPresent`). They
    /// are never folded into one another.
    ///
    /// # Errors
    /// [`KeyError`]: the deltas are empty, or their newest object has no key.
    pub fn add_if_not_present(&self, deltas: Deltas<T>) -> Result<(), KeyError> {
        let mut key = KeyBuf::new();
        self.core.keys.write_source(&KeySource::Deltas(&deltas), &mut key)?;
        self.initial.touch();
        let sealed = What::Sealed(Box::new(deltas));
        self.push(&key, Pending::new(sealed), Rule::IfAbsent, Missing::Insert);
        Ok(())
    }

    pub(super) fn transform(&self, key: &[u8], object: Arc<T>) -> Result<Arc<T>, OfferError> {
        self.transform.apply(&self.core.keys, key, object)
    }

    /// The one way of a single delta onto its slot.
    pub(super) fn push(&self, key: &[u8], pending: Pending<T>, rule: Rule, missing: Missing) {
        let hash = self.core.table.hash(key);
        let lock = self.core.table.shard(hash);
        // Not exclusively: a relist's thread that lost its core with the shard in its hands would
        // keep offers waiting.
        let shard = lock.upgradable_read();
        if let Some(place) = shard.place_of(hash, key) {
            self.push_at(shard, place, key, pending, rule, missing);
            return;
        }
        drop(shard);
        if missing != Missing::Ignore {
            self.push_or_insert(lock.write(), hash, key, pending, rule, missing);
        }
    }

    /// The same, whether the key has a slot or not, with the shard held exclusively; it is
    /// released.
    pub(super) fn push_or_insert(
        &self,
        mut shard: impl DerefMut<Target = Shard<T>>,
        hash: u64,
        key: &[u8],
        pending: Pending<T>,
        rule: Rule,
        missing: Missing,
    ) -> bool {
        let place = self.core.table.find_or_insert(&mut shard, hash, as_str(key));
        self.push_at(shard, place, key, pending, rule, missing)
    }

    /// The same for a slot of a shard that is held against other offers; it is released. Whether
    /// the delta counts, as far as is known by then.
    fn push_at(
        &self,
        shard: impl Deref<Target = Shard<T>>,
        place: Place,
        key: &[u8],
        mut pending: Pending<T>,
        rule: Rule,
        missing: Missing,
    ) -> bool {
        pending.offered_in(self.queue.now());
        let (weight, lane) = (pending.weight(), self.queue.lane_of(&pending));
        let open = self.stamp_of_offer(key, rule);
        self.list_offered(open, key);
        let slot = shard.at(place);
        if open != 0 {
            slot.stamp(open);
        }
        // A hold as a handler has one, for what others push meanwhile. Given up last.
        let asks = missing == Missing::Ask;
        let held = if asks { mutant!(ClaimHoldsNothing => None; self.hold()) } else { None };
        let asking = if asks { slot.claim() } else { None };
        let pushed = slot.push(pending, rule);
        if let Pushed::Skipped(skipped) = pushed {
            drop(shard);
            // A relist has counted it already.
            if self.initial.settled(usize::from(skipped.initial)) {
                self.initial.announce();
            }
            drop(skipped);
            return false;
        }
        mutant!(QueuedAfterUnlock => if matches!(pushed, Pushed::Queue(_)) {
            let ticket = self.queue.ticket(lane, slot, pushed);
            drop(shard);
            ticket.into_iter().for_each(|ticket| self.queue.push(lane, ticket));
            self.queue.wake(1);
            return true;
        });
        let wakes = self.queue.enter(lane, slot, pushed);
        mutant!(OfferWakesUnderLock => self.queue.wake(wakes));
        drop(shard);
        self.depth.add(weight);
        if let Some(running) = asking {
            let is_queued = self.settle(running, 0).is_queued;
            drop(held);
            return is_queued;
        }
        mutant!(OfferDoesNotWake => return true);
        self.queue.wake(wakes);
        true
    }

    /// What an offer stamps with, 0 for nothing: a key that is written while a relist is open is
    /// not swept by it; any other only if it was listed before. Asked with the shard's lock held.
    fn stamp_of_offer(&self, key: &[u8], rule: Rule) -> u32 {
        mutant!(OffersDoNotStamp => return 0);
        mutant!(DeltasDoNotStamp => if rule == Rule::IfAbsent { return 0 });
        let open = self.relists.open();
        let writes = matches!(rule, Rule::Always | Rule::IfAbsent);
        if writes || open != 0 && self.is_listed_by_any(key) { open } else { 0 }
    }

    /// Notes a key that a relist lists, for a store elsewhere: its slot does not live long enough
    /// to carry the stamp.
    pub(super) fn list_elsewhere(&self, generation: u32, key: &[u8]) {
        if let Known::Elsewhere { listed, .. } = &self.known {
            listed.insert(generation, as_str(key));
        }
    }

    /// Notes a key that is written while relists are open, none of which is to sweep it.
    pub(super) fn list_offered(&self, open: u32, key: &[u8]) {
        if open != 0
            && let Known::Elsewhere { listed, .. } = &self.known
        {
            listed.insert_in_all(as_str(key));
        }
    }

    /// Whether an open relist of a store elsewhere has listed `key`.
    fn is_listed_by_any(&self, key: &[u8]) -> bool {
        matches!(&self.known, Known::Elsewhere { listed, .. } if listed.any_contains(as_str(key)))
    }

    /// Whether that was noted for `key`.
    pub(super) fn is_listed_elsewhere(&self, generation: u32, key: &[u8]) -> bool {
        matches!(&self.known, Known::Elsewhere { listed, .. } if listed.contains(generation, as_str(key)))
    }
}

/// What a push does when its key has no slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Makes one: the key need not be known.
    Insert,
    /// Nothing: the offer is ignored.
    Ignore,
    /// Asks the store elsewhere: with a slot made for that, held as a handler would, so that no
    /// handler changes the answer before it counts. Settle asks and decides, as it does after a
    /// handler.
    Ask,
}
