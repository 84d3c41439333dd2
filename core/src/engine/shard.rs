//! One shard of the table: slots by key.

use crate::engine::buckets::{BucketEntry, Buckets, Cursor, Place};
use crate::engine::by_namespace::ByNamespace;
use crate::engine::slot::{GoneSlot, RunningSlot, Slot, SlotOwner, prefetch};
use crate::engine::sync::mutant;

pub(crate) struct Shard<T> {
    slots: Buckets<SlotOwner<T>>,
    /// The keys by namespace. Present once the queue has had a scope that is a namespace.
    by_namespace: Option<Box<ByNamespace>>,
}

impl<T> BucketEntry for SlotOwner<T> {
    /// Prefetches the slot, because the hash is computed from the key in it.
    fn prefetch(&self) {
        prefetch::<Slot<T>>(&raw const **self);
    }
}

impl<T> Shard<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Buckets::new(), by_namespace: None }
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the place of the slot of `key`, or `None` if there is no slot.
    #[inline]
    pub(crate) fn place_of(&self, hash: u64, key: &[u8]) -> Option<Place> {
        self.slots.locate(hash, |slot| slot.key().as_bytes() == key)
    }

    #[inline]
    pub(crate) fn at(&self, place: Place) -> &SlotOwner<T> {
        self.slots.at(place)
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<&Slot<T>> {
        self.place_of(hash, key).map(|place| &**self.at(place))
    }

    /// Adds a slot that is not in the map. `rehash` returns the hash of a slot when the map grows.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        slot: SlotOwner<T>,
        rehash: impl Fn(&Slot<T>) -> u64,
    ) -> Place {
        if let Some(keys) = &mut self.by_namespace {
            mutant!(NewKeyHasNoNamespace => return self.slots.insert(hash, slot, |slot| rehash(slot)));
            keys.insert(slot.key(), hash);
        }
        self.slots.insert(hash, slot, |slot| rehash(slot))
    }

    /// Returns whether the keys are kept by namespace.
    pub(crate) fn is_by_namespace(&self) -> bool {
        self.by_namespace.is_some()
    }

    /// Keeps the keys by namespace from now on. `rehash` returns the hash of a slot.
    pub(crate) fn keep_by_namespace(&mut self, rehash: impl Fn(&Slot<T>) -> u64) {
        let mut keys = ByNamespace::default();
        self.slots.iter().for_each(|slot| keys.insert(slot.key(), rehash(slot)));
        self.by_namespace = Some(Box::new(keys));
    }

    /// Visits the slots of a namespace, and perhaps some slots of other namespaces. May visit a
    /// slot twice. Visits nothing if the keys are not kept by namespace.
    pub(crate) fn visit_namespace(&self, namespace: &str, mut visit: impl FnMut(&Slot<T>)) {
        for hash in self.by_namespace.iter().flat_map(|keys| keys.hashes(namespace)) {
            self.slots.locate(*hash, |slot| {
                visit(slot);
                false
            });
        }
    }

    /// Makes room for a total of `slots` slots.
    pub(crate) fn expect(&mut self, slots: usize, rehash: impl Fn(&Slot<T>) -> u64) {
        self.slots.expect(slots, |slot| rehash(slot));
    }

    /// Removes a running slot without a known object from the map. Returns its [`SlotOwner`], which
    /// the caller drops after it has released the lock. If the backlog has an entry for the slot,
    /// the slot becomes idle instead, and the result is `None`: the consumer that reaches the entry
    /// retires the slot. If deltas were pushed onto the slot, returns the slot as the error.
    /// `rehash` returns the hash of a slot; it is called when the map shrinks.
    pub(crate) fn retire(
        &mut self,
        hash: u64,
        running: RunningSlot<T>,
        rehash: impl Fn(&Slot<T>) -> u64,
    ) -> Result<Option<SlotOwner<T>>, RunningSlot<T>> {
        let is_in_backlog = running.is_in_backlog();
        mutant!(RetiredInBacklog => let is_in_backlog = false);
        if is_in_backlog {
            return running.idle().map(|()| None);
        }
        let gone: GoneSlot<T> = running.retire()?;
        let Some(place) = self.slots.locate(hash, |slot| slot.is(&gone)) else {
            unreachable!("a slot stays in its shard until it is retired, and that happens once")
        };
        let owner = self.slots.take(hash, place, |slot| rehash(slot));
        if let Some(keys) = &mut self.by_namespace {
            keys.remove(owner.key(), hash);
        }
        Ok(Some(owner))
    }

    /// Prefetches the bucket that `find` reads first.
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        self.slots.prefetch_bucket(hash);
    }

    /// Returns the slot that `find` probably reads.
    fn likely(&self, hash: u64) -> Option<&Slot<T>> {
        self.slots.locate(hash, |_| true).map(|place| &**self.at(place))
    }

    /// Prefetches the slot that `find` probably reads. Useful when the bucket is in the cache.
    pub(crate) fn prefetch_slot(&self, hash: u64) {
        if let Some(slot) = self.likely(hash) {
            prefetch::<Slot<T>>(slot);
        }
    }

    /// Prefetches the known object of the slot that `find` probably reads, unless the slot itself
    /// records the object's version. Useful when the slot is in the cache.
    pub(crate) fn prefetch_unnoted(&self, hash: u64) {
        if let Some(slot) = self.likely(hash).filter(|slot| !slot.has_noted()) {
            slot.prefetch_known();
        }
    }

    /// Does one step of a walk over the slots. See [`Buckets::walk`].
    pub(crate) fn walk(
        &self,
        from: Cursor,
        max: usize,
        rehash: impl Fn(&Slot<T>) -> u64,
        mut visit: impl FnMut(&Slot<T>, u64),
    ) -> Option<Cursor> {
        self.slots.walk(from, max, |slot| rehash(slot), |slot, hash| visit(slot, hash))
    }

    /// Iterates over all slots, and prefetches them a few buckets ahead.
    pub(crate) fn slots_near(&self) -> impl Iterator<Item = &Slot<T>> {
        self.slots.iter_near().map(|owner| &**owner)
    }
}
