//! The slots of one index value in one shard. In an index by name or owner most values have one
//! slot, so a single slot is stored without an allocation.

use crate::engine::buckets::{BucketEntry, Buckets, Place};
use crate::engine::slot::{IndexedSlot, Slot};

/// A set of slots, which are found by their addresses. Methods get the hash of the address of
/// `slot` as `of_slot`; `rehash` returns the hash of the address of any slot of the set.
pub(super) enum Slots<T> {
    None,
    One(IndexedSlot<T>),
    /// Two or more.
    Many(Box<Buckets<IndexedSlot<T>>>),
}

impl<T> BucketEntry for IndexedSlot<T> {
    /// Does nothing: the hash is computed from the address, so no memory is read for it.
    fn prefetch(&self) {}
}

impl<T> Slots<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }

    pub(super) fn has(&self, of_slot: u64, slot: &Slot<T>) -> bool {
        match self {
            Self::None => false,
            Self::One(one) => one.address() == slot.address(),
            Self::Many(many) => place_of(many, of_slot, slot).is_some(),
        }
    }

    /// Adds the slot, unless the set has it.
    pub(super) fn insert(
        &mut self,
        of_slot: u64,
        slot: &Slot<T>,
        rehash: impl Fn(&IndexedSlot<T>) -> u64,
    ) {
        if self.has(of_slot, slot) {
            return;
        }
        match self {
            Self::None => *self = Self::One(slot.indexed()),
            Self::One(_) => {
                let mut many = Box::new(Buckets::new());
                if let Self::One(one) = std::mem::replace(self, Self::None) {
                    many.insert(rehash(&one), one, &rehash);
                }
                many.insert(of_slot, slot.indexed(), rehash);
                *self = Self::Many(many);
            }
            Self::Many(many) => {
                many.insert(of_slot, slot.indexed(), rehash);
            }
        }
    }

    /// Removes the slot. Returns whether the set had it.
    pub(super) fn remove(
        &mut self,
        of_slot: u64,
        slot: &Slot<T>,
        rehash: impl Fn(&IndexedSlot<T>) -> u64,
    ) -> bool {
        match self {
            Self::Many(many) => {
                let Some(place) = place_of(many, of_slot, slot) else { return false };
                drop(many.take(of_slot, place, &rehash));
                if many.len() == 1
                    && let Some(one) = take_any(many, rehash)
                {
                    *self = Self::One(one);
                }
                true
            }
            Self::One(one) if one.address() == slot.address() => {
                *self = Self::None;
                true
            }
            Self::One(_) | Self::None => false,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &IndexedSlot<T>> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(one) => (Some(one), None),
            Self::Many(many) => (None, Some(many.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Returns how many bytes the set has allocated.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        match self {
            Self::Many(many) => size_of_val(&**many) + many.allocated(),
            Self::One(_) | Self::None => 0,
        }
    }
}

fn place_of<T>(many: &Buckets<IndexedSlot<T>>, of_slot: u64, slot: &Slot<T>) -> Option<Place> {
    many.locate(of_slot, |one| one.address() == slot.address())
}

/// Takes one of the slots out.
fn take_any<T>(
    many: &mut Buckets<IndexedSlot<T>>,
    rehash: impl Fn(&IndexedSlot<T>) -> u64,
) -> Option<IndexedSlot<T>> {
    let of_slot = rehash(many.iter().next()?);
    let place = many.locate(of_slot, |_| true)?;
    Some(many.take(of_slot, place, rehash))
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use super::*;
    use crate::engine::slot::SlotOwner;

    #[test]
    fn set_of_one_slot_allocates_nothing_also_after_it_had_more() {
        let slots: Vec<_> =
            (0..20).map(|number| SlotOwner::<u64>::new(&number.to_string())).collect();
        let hash = |address: usize| (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rehash = |slot: &IndexedSlot<u64>| hash(slot.address());
        let mut set = Slots::None;
        assert!(!set.remove(hash(slots[0].address()), &slots[0], rehash));
        for (number, slot) in slots.iter().enumerate() {
            // Twice: the second call changes nothing.
            (0..2).for_each(|_| set.insert(hash(slot.address()), slot, rehash));
            assert_eq!((set.len(), set.iter().count()), (number + 1, number + 1));
            assert_eq!(set.allocated() == 0, number == 0);
        }
        for (number, slot) in slots.iter().enumerate() {
            assert!(set.remove(hash(slot.address()), slot, rehash));
            assert!(!set.remove(hash(slot.address()), slot, rehash));
            assert_eq!(slot.index_entries(), 0);
            let left = &slots[number + 1..];
            assert!(left.iter().all(|slot| set.has(hash(slot.address()), slot)));
            assert_eq!((set.len(), set.iter().count()), (left.len(), left.len()));
            assert_eq!(set.allocated() == 0, left.len() <= 1);
        }
    }
}
