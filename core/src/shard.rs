//! The hash map of one shard: buckets of one cache line, each with seven slots and their tags.
//!
//! Why not hashbrown: its tags, its entries and our slots are three misses in a row, and only the last address can be
//! known ahead from outside. Here tags and entries share a line whose address follows from the hash, so a join brings
//! it near long before it looks (measured on a relist of a million: ARCHITECTURE.md).
//!
//! A slot lies in its home bucket, or in the first one after it that had room. A bucket counts the slots that passed it
//! (`passed`), which ends look-ups for what is not there without tombstones.

use crate::slot::{GoneSlot, RunningSlot, Slot, SlotOwner, prefetch};
use crate::sync::mutant;

const WIDTH: usize = 7;
/// A bucket that so many slots passed no longer counts: its look-ups go on until the map is rebuilt.
const UNCOUNTED: u8 = u8::MAX;
const EMPTY: u8 = 0;

#[repr(align(64))]
struct Bucket<T> {
    /// Seven bits and one that is always set, from the top of the hash; 0 where there is no slot.
    tags: [u8; WIDTH],
    passed: u8,
    slots: [Option<SlotOwner<T>>; WIDTH],
}

const _: () = assert!(size_of::<Bucket<u64>>() == 64, "a bucket is one cache line");

pub(crate) struct Shard<T> {
    /// Empty, or a power of two of them.
    buckets: Box<[Bucket<T>]>,
    len: usize,
}

/// Where a slot lies, for as long as the shard is held.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    bucket: usize,
    slot: usize,
}

/// Where a walk goes on: the number of a home.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor(usize);

impl Cursor {
    /// The next number of the same bits backwards: the highest of `last`'s bits is the first to be added to.
    fn next(self, last: usize) -> Option<Self> {
        let backwards = (self.0 | !last).reverse_bits().wrapping_add(1);
        (backwards != 0).then(|| Self(backwards.reverse_bits()))
    }
}

fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8 | 1
}

impl<T> Bucket<T> {
    fn new() -> Self {
        Self { tags: [EMPTY; WIDTH], passed: 0, slots: [const { None }; WIDTH] }
    }

    /// Places whose tag is `tag`, and perhaps a few more.
    fn places(&self, tag: u8) -> impl Iterator<Item = usize> {
        const ONES: u64 = u64::from_le_bytes([1; 8]);
        const HIGHS: u64 = u64::from_le_bytes([128, 128, 128, 128, 128, 128, 128, 0]);
        let mut bytes = [0; 8];
        bytes[..WIDTH].copy_from_slice(&self.tags);
        // Bytes that equal the tag become 0; the classic test then sets their high bits. The eighth is left out.
        let same = u64::from_le_bytes(bytes) ^ (ONES * u64::from(tag));
        let mut found = same.wrapping_sub(ONES) & !same & HIGHS;
        std::iter::from_fn(move || {
            let place = found.trailing_zeros() as usize / 8;
            found &= found.wrapping_sub(1);
            (place < WIDTH).then_some(place)
        })
    }

    fn free(&self) -> Option<usize> {
        self.tags.iter().position(|&tag| tag == EMPTY)
    }
}

impl<T> Shard<T> {
    pub(crate) fn new() -> Self {
        Self { buckets: Box::default(), len: 0 }
    }

    fn home(&self, hash: u64) -> usize {
        // The low bits, of which a 32-bit machine would have enough too.
        #[allow(clippy::cast_possible_truncation)]
        let low = hash as usize;
        low & (self.buckets.len() - 1)
    }

    /// The place of what `is` accepts among the slots with this hash's tag.
    #[inline]
    fn locate(&self, hash: u64, is: impl Fn(&SlotOwner<T>) -> bool) -> Option<Place> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut bucket = self.home(hash);
        for _ in 0..self.buckets.len() {
            let Bucket { slots, passed, .. } = &self.buckets[bucket];
            let mut places = self.buckets[bucket].places(tag(hash));
            if let Some(slot) = places.find(|&place| slots[place].as_ref().is_some_and(&is)) {
                return Some(Place { bucket, slot });
            }
            if *passed == 0 {
                return None;
            }
            bucket = (bucket + 1) & (self.buckets.len() - 1);
        }
        None
    }

    /// The place of `key`'s slot.
    #[inline]
    pub(crate) fn place_of(&self, hash: u64, key: &[u8]) -> Option<Place> {
        self.locate(hash, |slot| slot.key().as_bytes() == key)
    }

    #[inline]
    pub(crate) fn at(&self, place: Place) -> &SlotOwner<T> {
        let owner = self.buckets[place.bucket].slots[place.slot].as_ref();
        owner.unwrap_or_else(|| unreachable!("a place is of a slot that is there"))
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<&Slot<T>> {
        self.place_of(hash, key).map(|place| &**self.at(place))
    }

    /// Puts a slot in that is not there yet. `rehash` gives the hash of a slot when the map has to grow.
    pub(crate) fn insert(&mut self, hash: u64, slot: SlotOwner<T>, rehash: impl Fn(&Slot<T>) -> u64) -> Place {
        self.reserve(1, rehash);
        self.put(hash, slot)
    }

    fn put(&mut self, hash: u64, slot: SlotOwner<T>) -> Place {
        let mut number = self.home(hash);
        loop {
            let bucket = &mut self.buckets[number];
            if let Some(free) = bucket.free() {
                bucket.tags[free] = tag(hash);
                bucket.slots[free] = Some(slot);
                self.len += 1;
                return Place { bucket: number, slot: free };
            }
            bucket.passed = bucket.passed.saturating_add(1);
            number = (number + 1) & (self.buckets.len() - 1);
        }
    }

    /// Makes room for `slots` in all.
    pub(crate) fn expect(&mut self, slots: usize, rehash: impl Fn(&Slot<T>) -> u64) {
        self.reserve(slots.saturating_sub(self.len), rehash);
    }

    /// Makes room for `additional` slots: at most three quarters are ever taken.
    fn reserve(&mut self, additional: usize, rehash: impl Fn(&Slot<T>) -> u64) {
        let wanted = self.len + additional;
        if wanted * 4 <= self.buckets.len() * WIDTH * 3 {
            return;
        }
        let count = (wanted * 4).div_ceil(WIDTH * 3).next_power_of_two();
        let mut old = Self { buckets: (0..count).map(|_| Bucket::new()).collect(), len: 0 };
        std::mem::swap(self, &mut old);
        let mut ahead = 0;
        for number in 0..old.buckets.len() {
            // Every slot is read for its hash: bring those of the next buckets near.
            while ahead < old.buckets.len().min(number + 3) {
                old.buckets[ahead].slots.iter().flatten().for_each(|slot| prefetch::<Slot<T>>(&raw const **slot));
                ahead += 1;
            }
            for slot in &mut old.buckets[number].slots {
                if let Some(slot) = slot.take() {
                    self.put(rehash(&slot), slot);
                }
            }
        }
    }

    /// Takes a running slot that knows nothing out of the map; the owner is to be dropped after the lock. `None`: it stays,
    /// idle, until who comes to its entry in a backlog retires it.
    pub(crate) fn retire(
        &mut self,
        hash: u64,
        running: RunningSlot<T>,
    ) -> Result<Option<SlotOwner<T>>, RunningSlot<T>> {
        if mutant!(RetiredInBacklog => false; running.is_in_backlog()) {
            return running.idle().map(|()| None);
        }
        let gone: GoneSlot<T> = running.retire()?;
        let Some(place) = self.locate(hash, |slot| slot.is(&gone)) else {
            unreachable!("a slot stays in its shard until it is retired, and that happens once")
        };
        let bucket = &mut self.buckets[place.bucket];
        bucket.tags[place.slot] = EMPTY;
        let Some(owner) = bucket.slots[place.slot].take() else { unreachable!("located right above") };
        self.len -= 1;
        let mut passed = self.home(hash);
        while passed != place.bucket {
            let bucket = &mut self.buckets[passed];
            if bucket.passed != UNCOUNTED {
                bucket.passed -= 1;
            }
            passed = (passed + 1) & (self.buckets.len() - 1);
        }
        Ok(Some(owner))
    }

    /// Brings near the bucket that `find` will look at first.
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        if !self.buckets.is_empty() {
            prefetch(&raw const self.buckets[self.home(hash)]);
        }
    }

    /// The slot that `find` will probably look at.
    fn likely(&self, hash: u64) -> Option<&Slot<T>> {
        self.locate(hash, |_| true).map(|place| &**self.at(place))
    }

    /// Brings near the slot that `find` will probably look at. Worth it when the bucket already is.
    pub(crate) fn prefetch_slot(&self, hash: u64) {
        if let Some(slot) = self.likely(hash) {
            prefetch::<Slot<T>>(slot);
        }
    }

    /// Brings near the known object of that slot, if it will be asked for its version. Worth it when the slot already is.
    pub(crate) fn prefetch_unnoted(&self, hash: u64) {
        if let Some(slot) = self.likely(hash).filter(|slot| !slot.has_noted()) {
            slot.prefetch_known();
        }
    }

    /// Visits the slots of the next homes, `max` of them and a few more, and gives the place to go on from; the map may
    /// change meanwhile. A slot that is there from the beginning of a walk to its end is visited once.
    ///
    /// Homes come in the order of their bits read backwards: then those of a map that has doubled follow each other whose
    /// slots had one home before, and what is over stays over (the order in which Redis scans).
    pub(crate) fn walk(
        &self,
        from: Cursor,
        max: usize,
        rehash: impl Fn(&Slot<T>) -> u64,
        mut visit: impl FnMut(&Slot<T>, u64),
    ) -> Option<Cursor> {
        let last = self.buckets.len().checked_sub(1)?;
        let mut visited = 0;
        let mut next = Some(from);
        while let Some(Cursor(home)) = next.filter(|_| visited < max) {
            let home = home & last;
            let mut number = home;
            loop {
                let bucket = &self.buckets[number];
                for slot in bucket.slots.iter().flatten() {
                    let hash = rehash(slot);
                    if self.home(hash) == home {
                        visit(slot, hash);
                        visited += 1;
                    }
                }
                number = (number + 1) & last;
                if bucket.passed == 0 || number == home {
                    break;
                }
            }
            next = Cursor(home).next(last);
        }
        next
    }

    fn slots(&self) -> impl Iterator<Item = &Slot<T>> {
        self.buckets.iter().flat_map(|bucket| bucket.slots.iter().flatten().map(|owner| &**owner))
    }

    /// Every slot, brought near a few steps before it is visited.
    pub(crate) fn slots_near(&self) -> impl Iterator<Item = &Slot<T>> {
        const AHEAD: usize = 12;
        let mut ahead = self.slots();
        for slot in ahead.by_ref().take(AHEAD) {
            prefetch::<Slot<T>>(slot);
        }
        self.slots().inspect(move |_| {
            if let Some(next) = ahead.next() {
                prefetch::<Slot<T>>(next);
            }
        })
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Few bits, so that buckets overflow and wrap.
    fn hash(key: &str) -> u64 {
        let number: u64 = key.parse().unwrap();
        (number % 5) | (number % 3) << 56
    }

    fn keys(shard: &Shard<u64>) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for slot in shard.slots_near() {
            assert!(keys.insert(slot.key().to_owned()), "a slot is visited once");
        }
        keys
    }

    #[test]
    fn holds_what_was_inserted_and_not_removed_under_colliding_hashes() {
        let mut shard = Shard::<u64>::new();
        let mut expected = BTreeSet::new();
        let mut state = 1u64;
        // An interpreter takes minutes for a thousand.
        for step in 0..=if cfg!(miri) { 1_000 } else { 20_000 } {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = ((state >> 33) % 300).to_string();
            let found = shard.place_of(hash(&key), key.as_bytes()).map(|place| shard.at(place).claim());
            assert_eq!(found.is_some(), expected.contains(&key), "step {step}");
            match found {
                None => {
                    let place = shard.insert(hash(&key), SlotOwner::new(&key), |slot| hash(slot.key()));
                    assert_eq!(shard.at(place).key(), key);
                    expected.insert(key);
                }
                Some(running) => {
                    assert!(matches!(shard.retire(hash(&key), running.unwrap()), Ok(Some(_))));
                    expected.remove(&key);
                }
            }
            if step % 1_000 == 0 {
                assert_eq!(keys(&shard), expected);
                assert_eq!(shard.len, expected.len());
            }
        }
    }

    /// All keys collide.
    fn crowd(slots: u64) -> Shard<u64> {
        let mut shard = Shard::new();
        for key in 0..slots {
            shard.insert(0, SlotOwner::new(&key.to_string()), |_| 0);
        }
        shard
    }

    fn retire(shard: &mut Shard<u64>, key: u64) {
        let key = key.to_string();
        let place = shard.place_of(0, key.as_bytes()).expect("it is there");
        let running = shard.at(place).claim().expect("it is idle");
        assert!(matches!(shard.retire(0, running), Ok(Some(_))));
    }

    #[test]
    fn who_leaves_is_no_longer_counted_as_passing() {
        let mut shard = crowd(200);
        assert!(shard.buckets[0].passed > 0);
        (0..200).for_each(|key| retire(&mut shard, key));
        assert!(shard.buckets.iter().all(|bucket| bucket.passed == 0), "look-ups end at once again");
    }

    #[test]
    fn a_bucket_that_too_many_passed_to_be_counted_keeps_the_last_of_them_findable() {
        let (slots, left) = (300, 5);
        let mut shard = crowd(slots);
        assert_eq!(shard.buckets[0].passed, UNCOUNTED);
        (0..slots - left).for_each(|key| retire(&mut shard, key));
        assert!((slots - left..slots).all(|key| shard.place_of(0, key.to_string().as_bytes()).is_some()));
    }
}
