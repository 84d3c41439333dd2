//! Offers. An offer of one object locks its shard against other offers while it pushes, so a slot
//! has one such pusher at a time. The slot joins the ready queue before the shard is unlocked, so
//! the keys of a shard are queued in the order of their offers. Pages of a relist, batches (which
//! are joined with the table as pages are) and readers may use the shard at the same time. User
//! code (key function, transformer, known objects, destructors) runs before the shard is locked or
//! after it is unlocked.

use std::ops::{Deref, DerefMut};

use super::join::Join;
use super::{DeltaFifo, KnownPlace};
use crate::engine::buckets::Place;
use crate::engine::release::UserCode;
use crate::engine::shard::Shard;
use crate::engine::slot::{Content, Pending, Pushed, Rule, Slot, State, Sweep};
use crate::engine::sync::{Arc, assert_none_held, mutant};
use crate::error::{KeyError, OfferError, RelistError, StoreError};
use crate::key::{KeyBuf, as_str};
use crate::panics::ignore_error;
use crate::scope::Within;
use crate::{DeltaObject, DeltaType, Deltas, KeySource, Meta};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues `Added` (client-go `Add`). Never blocks on a handler; O(1).
    ///
    /// # Errors
    /// [`OfferError`]: no key, or the transformer failed; nothing was queued. As in client-go, the
    /// queue still counts as populated.
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
        self.life.initial.touch();
        let (object, mut key) = (UserCode::new(object), KeyBuf::new());
        self.core.keys.write(&object, &mut key)?;
        let object = self.transform(&key, object.into_inner())?;
        self.push(&key, Pending::object(kind, object), Rule::Always, Missing::Insert);
        Ok(())
    }

    /// Queues `Deleted` (client-go `Delete`) for an object, or for a [`DeletedFinalStateUnknown`]
    /// when the object's last state was not seen. The deletion is ignored if the key is not
    /// pending, not known, and no handler of the key runs. A deletion during a handler has the same
    /// effect as just after the handler. O(1).
    ///
    /// # Errors
    /// [`OfferError`]: no key, or the transformer failed; nothing was queued, as in client-go. If
    /// the transformer failed, you can delete the object by a tombstone of the key in
    /// [`OfferError::Transform`], because the transformer does not see tombstones.
    ///
    /// [`DeletedFinalStateUnknown`]: crate::DeletedFinalStateUnknown
    pub fn delete(&self, object: impl Into<DeltaObject<T>>) -> Result<(), OfferError> {
        let (object, mut key) = (UserCode::new(object.into()), KeyBuf::new());
        self.core.keys.write_source(&KeySource::from(&*object), &mut key)?;
        self.life.initial.touch();
        if let Some(deletion) = self.deletion(object.into_inner(), &key)? {
            self.push(&key, deletion, Rule::IfExists, self.missing());
        }
        Ok(())
    }

    /// Returns the pending deletion of `object`, which has this key, or `None` if the deletion
    /// cannot have an effect. Fails if the transformer does.
    fn deletion(
        &self,
        object: DeltaObject<T>,
        key: &[u8],
    ) -> Result<Option<Pending<T>>, OfferError> {
        Ok(Some(Pending::new(match object {
            DeltaObject::Object(object) => {
                let object = UserCode::new(object);
                if self.transform.is_some() && !self.may_exist(key) {
                    return Ok(None);
                }
                Content::Object(DeltaType::Deleted, self.transform(key, object.into_inner())?)
            }
            DeltaObject::Tombstone(tombstone) => Content::Tombstone(tombstone),
        })))
    }

    /// Deletes as [`delete`](Self::delete) does, for the relist of `generation`. Fails if that
    /// relist is no longer current, or if the key is not in `within`. The deletion is part of the
    /// relist: it alone does not populate the queue, and if `marks` is set, it belongs to the
    /// initial population. If the transformer fails, queues a deletion with the newest pending or
    /// known object, and returns the error.
    pub(super) fn delete_in(
        &self,
        generation: u32,
        marks: bool,
        within: Option<&Within>,
        object: DeltaObject<T>,
    ) -> Result<(), StoreError> {
        let (object, mut key) = (UserCode::new(object), KeyBuf::new());
        self.core.keys.write_source(&KeySource::from(&*object), &mut key)?;
        if let Some(within) = within {
            within.check(as_str(&key)).map_err(RelistError::from)?;
        }
        let (deletion, done) = match self.deletion(object.into_inner(), &key) {
            Ok(None) => return Ok(()),
            Ok(Some(deletion)) => (deletion, Ok(())),
            // The object is deleted nevertheless, and no commit would find that out if it was
            // listed before.
            Err(refused) => {
                (Pending::new(Content::Swept(Sweep::Unlisted, None)), Err(refused.into()))
            }
        };
        let (hash, missing) = (self.core.table.hash(&key), self.missing());
        let shard = self.core.table.shard(hash).write();
        // That holds while this lock is held: a newer relist waits for the lock before it lists
        // anything.
        let is_current = self.relists.is_current(generation, within);
        mutant!(OldDeleteCounts => let is_current = true);
        if !is_current {
            return Err(RelistError::Superseded.into());
        }
        if missing != Missing::Ignore || shard.find(hash, &key).is_some() {
            self.life.initial.marked(usize::from(marks));
            self.push_or_insert(
                shard,
                hash,
                &key,
                deletion.initial(marks),
                Rule::IfExists,
                missing,
            );
        }
        done
    }

    /// Returns whether a deletion of `key` can have an effect. The transformer sees only such
    /// deletions. An external store is asked only if the key has no slot, or an idle one. No
    /// handler of the key runs at that moment, so the store's answer was true at some moment of
    /// this call. If the store fails, returns true.
    fn may_exist(&self, key: &[u8]) -> bool {
        let hash = self.core.table.hash(key);
        let exists = |slot: &Slot<T>| slot.state() != State::Idle || slot.is_known();
        if self.core.table.shard(hash).read().find(hash, key).is_some_and(exists) {
            return true;
        }
        match &self.known {
            // A lookup that fails counts as known, because a lost deletion could not be made up
            // for.
            KnownPlace::Elsewhere { objects, .. } => {
                assert_none_held();
                ignore_error(objects.get_by_key(as_str(key))).is_none_or(|known| known.is_some())
            }
            KnownPlace::Fused | KnownPlace::Nowhere => false,
        }
    }

    /// Returns the action for an offer that depends on the known object and whose key has no slot.
    fn missing(&self) -> Missing {
        match self.known {
            KnownPlace::Elsewhere { .. } => Missing::Ask,
            KnownPlace::Fused | KnownPlace::Nowhere => Missing::Ignore,
        }
    }

    /// Queues `deltas` unchanged, without folding them, unless the key is pending (client-go
    /// `AddIfNotPresent`).
    ///
    /// # Errors
    /// [`KeyError`]: the deltas are empty, or their newest object has no key.
    pub fn add_if_not_present(&self, deltas: Deltas<T>) -> Result<(), KeyError> {
        let (deltas, mut key) = (UserCode::new(deltas), KeyBuf::new());
        self.core.keys.write_source(&KeySource::Deltas(&deltas), &mut key)?;
        self.life.initial.touch();
        let sealed = Content::Sealed(Box::new(deltas.into_inner()));
        self.push(&key, Pending::new(sealed), Rule::IfAbsent, Missing::Insert);
        Ok(())
    }

    /// Queues `Added` for each object, as [`add`](Self::add) does, in one pass that prefetches
    /// their slots. Keys are queued in the order of the batch; there is no order relative to
    /// concurrent offers.
    ///
    /// # Errors
    /// [`RelistError::Refused`]: the objects before the refused one are queued.
    pub fn add_batch(&self, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        self.offer_batch(DeltaType::Added, objects)
    }

    /// Queues `Updated` for each object: see [`add_batch`](Self::add_batch).
    ///
    /// # Errors
    /// As for [`add_batch`](Self::add_batch).
    pub fn update_batch(&self, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        self.offer_batch(DeltaType::Updated, objects)
    }

    fn offer_batch(&self, kind: DeltaType, objects: Vec<Arc<T>>) -> Result<(), RelistError> {
        if objects.is_empty() {
            return Ok(());
        }
        self.life.initial.touch();
        let join = Join {
            kind,
            generation: 0,
            marks: false,
            within: None,
            skip_unchanged: false,
            stops_at_refused: true,
        };
        self.join(&join, objects).map(drop)
    }

    pub(super) fn transform(&self, key: &[u8], object: Arc<T>) -> Result<Arc<T>, OfferError> {
        self.transform.apply(&self.core.keys, key, object)
    }

    /// Pushes a single delta onto its slot. Every offer of one object ends here.
    pub(super) fn push(&self, key: &[u8], pending: Pending<T>, rule: Rule, missing: Missing) {
        let hash = self.core.table.hash(key);
        let lock = self.core.table.shard(hash);
        // Not exclusive: otherwise a thread of a relist that lost its core while it holds the
        // shard would delay offers.
        let shard = lock.upgradable_read();
        if let Some(place) = shard.place_of(hash, key) {
            self.push_into(shard, place, key, pending, rule, missing);
            return;
        }
        drop(shard);
        if missing != Missing::Ignore {
            self.push_or_insert(lock.write(), hash, key, pending, rule, missing);
        }
    }

    /// Pushes a delta with the shard held exclusively, whether or not the key has a slot. Releases
    /// the shard. Returns whether the delta has an effect, as [`push_into`](Self::push_into) does.
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
        self.push_into(shard, place, key, pending, rule, missing)
    }

    /// Pushes a delta onto a slot of a shard that is held against other offers. Releases the shard.
    /// Returns whether the delta has an effect, as far as that is known before a running handler
    /// ends.
    fn push_into(
        &self,
        shard: impl Deref<Target = Shard<T>>,
        place: Place,
        key: &[u8],
        pending: Pending<T>,
        rule: Rule,
        missing: Missing,
    ) -> bool {
        if missing == Missing::Ask {
            self.push_and_ask(shard, place, key, pending, rule)
        } else {
            self.push_at(shard, place, key, pending, rule)
        }
    }

    /// Pushes a delta whose effect depends on an external store. If the slot is idle, this call
    /// holds it as a handler would, and settles it: settle asks the store, and queues or rejects
    /// the delta. Returns whether the delta has an effect, as [`push_into`](Self::push_into) does.
    fn push_and_ask(
        &self,
        shard: impl Deref<Target = Shard<T>>,
        place: Place,
        key: &[u8],
        pending: Pending<T>,
        rule: Rule,
    ) -> bool {
        // A hold as a handler has one, for the deltas that other threads push. It is released
        // last.
        let _held = self.hold();
        mutant!(ClaimHoldsNothing => drop(_held));
        let asking = shard.at(place).claim();
        let is_pushed = self.push_at(shard, place, key, pending, rule);
        match asking {
            Some(running) => self.settle(running, 0).is_queued,
            None => is_pushed,
        }
    }

    /// Pushes a delta onto a slot, and queues the slot if it was idle. Releases the shard, and then
    /// wakes consumers. Returns whether the rule accepted the delta.
    fn push_at(
        &self,
        shard: impl Deref<Target = Shard<T>>,
        place: Place,
        key: &[u8],
        mut pending: Pending<T>,
        rule: Rule,
    ) -> bool {
        // If a handler runs, its settle queues the delta behind markers that came after this offer,
        // and these must still wait for it.
        pending.offered_in(self.queue.now());
        let (weight, lane) = (pending.weight(), self.queue.lane_of(&pending));
        let slot = shard.at(place);
        // Otherwise an open relist could sweep the key: see `stamp_of_offer`.
        let generation = self.stamp_of_offer(key, rule);
        if generation != 0 {
            slot.stamp(generation);
        }
        match slot.push(pending, rule) {
            Pushed::Skipped(skipped) => {
                drop(shard);
                self.end_skipped(skipped);
                false
            }
            pushed => {
                mutant!(QueuedAfterUnlock => return self.queue_late(shard, place, pushed, lane));
                // Queued before the shard is released. Otherwise the second producer of X could
                // queue Y before the first producer has queued X.
                let wakes = self.queue.enter(lane, slot, pushed);
                mutant!(OfferWakesUnderLock => self.queue.wake(wakes));
                // Wakers are user code, so they run with no lock held.
                drop(shard);
                // Counted once the rule has accepted the delta. (A consumer may have subtracted it
                // already: the gauge is signed.)
                self.life.depth.add(weight);
                mutant!(OfferDoesNotWake => return true);
                self.queue.wake(wakes);
                true
            }
        }
    }

    /// Drops a delta that the rule rejected, and ends its mark of the initial population. Called
    /// with no lock held.
    fn end_skipped(&self, skipped: Pending<T>) {
        // A relist has counted its mark already, and no handler will end it.
        if self.life.initial.settled(usize::from(skipped.initial)) {
            self.life.initial.announce();
        }
        // The object's destructor is user code, which may panic: it runs last.
        drop(skipped);
    }

    /// Returns the generation that an offer stamps with, or 0 for none. An offer that writes an
    /// object protects its key from every open relist. Any other offer protects its key only from
    /// relists that have listed the key. Called with the shard's lock held.
    fn stamp_of_offer(&self, key: &[u8], rule: Rule) -> u32 {
        mutant!(OffersDoNotStamp => return 0);
        mutant!(DeltasDoNotStamp => if rule == Rule::IfAbsent { return 0 });
        let open = self.relists.open();
        if matches!(rule, Rule::Always | Rule::IfAbsent) {
            self.list_offered(open, key);
            return open;
        }
        let listed = if open == 0 { 0 } else { self.last_listed(key) };
        mutant!(ListedByAnotherScope => if listed != 0 { self.list_offered(open, key); return open });
        listed
    }
}

/// The action of a push if its key has no slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Creates a slot: the key need not be known.
    Insert,
    /// Ignores the offer.
    Ignore,
    /// Asks the external store. A slot is created for that, and held as a handler holds one, so
    /// that no handler of the key can change the store in the meantime. Settle asks the store, and
    /// queues or rejects the delta, as after a handler.
    Ask,
}

/// The code of a deliberate defect (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{DeltaFifo, Deref, Meta, Place, Pushed, Shard};
    use crate::engine::ready_queue::Lane;

    impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
        /// Queues a slot after a push, but releases the shard first: the defect
        /// `QueuedAfterUnlock`. Returns true.
        pub(super) fn queue_late(
            &self,
            shard: impl Deref<Target = Shard<T>>,
            place: Place,
            pushed: Pushed<T>,
            lane: Lane,
        ) -> bool {
            let ticket = self.queue.ticket(lane, shard.at(place), pushed);
            drop(shard);
            let wakes = usize::from(ticket.is_some());
            ticket.into_iter().for_each(|ticket| self.queue.push(lane, ticket));
            self.queue.wake(wakes);
            true
        }
    }
}
