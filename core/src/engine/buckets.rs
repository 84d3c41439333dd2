//! A hash map in buckets of one cache line, each with seven entries of a pointer's size and their
//! tags.
//!
//! A lookup in hashbrown has three cache misses in a row: the tags, the entry and our slot. Only
//! the last one can be prefetched from outside. Here tags and entries share a line whose address
//! follows from the hash, so the join of a relist's page with the table prefetches this line long
//! before it reads it (measured in docs/design/decisions.md). This map can also be walked in steps,
//! between which it may change.
//!
//! The hash of an entry chooses its home bucket. The entry lies in that bucket, or in the first
//! bucket after it that had room. Each bucket counts the entries that were put into a later bucket
//! because it was full (`passed`). The lookup of an absent entry ends at a bucket that no entry has
//! passed. So the removal of an entry leaves no mark in its place.

use crate::engine::release::drop_each;
use crate::engine::slot::prefetch;

const WIDTH: usize = 7;
/// The value of `passed` in a bucket that too many entries have passed to be counted. Lookups
/// continue beyond that bucket until the map is rebuilt.
const UNCOUNTED: u8 = u8::MAX;
const EMPTY: u8 = 0;
/// The smallest number of buckets to which a map shrinks.
const LEAST_BUCKETS: usize = 8;

#[repr(align(64))]
struct Bucket<E> {
    /// For each entry the top seven bits of its hash, and one bit that is always set; 0 if the
    /// place is empty.
    tags: [u8; WIDTH],
    /// The number of entries that passed this bucket, or [`UNCOUNTED`].
    passed: u8,
    entries: [Option<E>; WIDTH],
}

pub(crate) struct Buckets<E> {
    /// The buckets. Their number is 0 or a power of two.
    buckets: Box<[Bucket<E>]>,
    len: usize,
}

/// The entry of a bucket: a pointer.
pub(crate) trait BucketEntry {
    /// Prefetches the memory that is read for the hash when the map is rebuilt.
    fn prefetch(&self);
}

/// The place of an entry, valid until an entry is added or removed.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    bucket: usize,
    entry: usize,
}

/// The position of a walk: the number of a home bucket.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor(usize);

impl Cursor {
    /// Returns the next home in the order of reversed bits, or `None` after the last one. `last` is
    /// the number of the map's last bucket.
    fn next(self, last: usize) -> Option<Self> {
        let backwards = (self.0 | !last).reverse_bits().wrapping_add(1);
        (backwards != 0).then(|| Self(backwards.reverse_bits()))
    }

    /// Returns whether a walk that continues here has passed the home of this hash, whatever the
    /// size of the map was.
    #[allow(clippy::cast_possible_truncation)] // As for `home`.
    pub(crate) fn is_past(self, hash: u64) -> bool {
        (hash as usize).reverse_bits() < self.0.reverse_bits()
    }
}

fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8 | 1
}

impl<E: BucketEntry> Bucket<E> {
    fn new() -> Self {
        const { assert!(size_of::<Self>() == 64, "a bucket is one cache line") };
        Self { tags: [EMPTY; WIDTH], passed: 0, entries: [const { None }; WIDTH] }
    }

    /// Returns the places whose tag is `tag`, and perhaps a few others.
    fn places(&self, tag: u8) -> impl Iterator<Item = usize> {
        const ONES: u64 = u64::from_le_bytes([1; 8]);
        const HIGHS: u64 = u64::from_le_bytes([128, 128, 128, 128, 128, 128, 128, 0]);
        let mut bytes = [0; 8];
        bytes[..WIDTH].copy_from_slice(&self.tags);
        // Bytes that equal the tag become 0; the classic test for zero bytes then sets their high
        // bits. The eighth byte is masked out.
        let same = u64::from_le_bytes(bytes) ^ (ONES * u64::from(tag));
        let mut found = same.wrapping_sub(ONES) & !same & HIGHS;
        std::iter::from_fn(move || {
            let place = found.trailing_zeros() as usize / 8;
            found &= found.wrapping_sub(1);
            (place < WIDTH).then_some(place)
        })
    }

    /// Prefetches the memory that the entries point to.
    fn prefetch(&self) {
        self.entries.iter().flatten().for_each(BucketEntry::prefetch);
    }

    fn free(&self) -> Option<usize> {
        self.tags.iter().position(|&tag| tag == EMPTY)
    }
}

impl<E> Drop for Buckets<E> {
    fn drop(&mut self) {
        // There is no check that no lock is held: the tokens of an index are dropped under its
        // lock, and they own no objects. The slots of a table do.
        let entries = self.buckets.iter_mut().flat_map(|bucket| &mut bucket.entries);
        drop_each(entries.filter_map(Option::take), || ());
    }
}

impl<E: BucketEntry> Buckets<E> {
    pub(crate) fn new() -> Self {
        Self { buckets: Box::default(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns how many bytes the map has allocated.
    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    fn home(&self, hash: u64) -> usize {
        // The low bits; a 32-bit machine would have enough of them, too.
        #[allow(clippy::cast_possible_truncation)]
        let low = hash as usize;
        low & (self.buckets.len() - 1)
    }

    /// Returns the place of the entry with this hash that `is` accepts, or `None`. `is` may be
    /// called with entries of other hashes, too.
    #[inline]
    pub(crate) fn locate(&self, hash: u64, mut is: impl FnMut(&E) -> bool) -> Option<Place> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut bucket = self.home(hash);
        for _ in 0..self.buckets.len() {
            let Bucket { entries, passed, .. } = &self.buckets[bucket];
            let mut places = self.buckets[bucket].places(tag(hash));
            if let Some(entry) = places.find(|&place| entries[place].as_ref().is_some_and(&mut is))
            {
                return Some(Place { bucket, entry });
            }
            if *passed == 0 {
                return None;
            }
            bucket = (bucket + 1) & (self.buckets.len() - 1);
        }
        None
    }

    #[inline]
    pub(crate) fn at(&self, place: Place) -> &E {
        let entry = self.buckets[place.bucket].entries[place.entry].as_ref();
        entry.unwrap_or_else(|| unreachable!("a place is of an entry that is there"))
    }

    /// Adds an entry that is not in the map. `rehash` returns the hash of an entry when the map
    /// grows.
    pub(crate) fn insert(&mut self, hash: u64, entry: E, rehash: impl Fn(&E) -> u64) -> Place {
        self.reserve(1, rehash);
        self.put(hash, entry)
    }

    fn put(&mut self, hash: u64, entry: E) -> Place {
        let mut number = self.home(hash);
        loop {
            let bucket = &mut self.buckets[number];
            if let Some(free) = bucket.free() {
                bucket.tags[free] = tag(hash);
                bucket.entries[free] = Some(entry);
                self.len += 1;
                return Place { bucket: number, entry: free };
            }
            bucket.passed = bucket.passed.saturating_add(1);
            number = (number + 1) & (self.buckets.len() - 1);
        }
    }

    /// Takes out the entry at `place`, which has this hash. Shrinks the map if it has become far
    /// too large; `rehash` then returns the hash of an entry.
    pub(crate) fn take(&mut self, hash: u64, place: Place, rehash: impl Fn(&E) -> u64) -> E {
        let bucket = &mut self.buckets[place.bucket];
        bucket.tags[place.entry] = EMPTY;
        let Some(entry) = bucket.entries[place.entry].take() else { unreachable!("as for `at`") };
        self.len -= 1;
        let mut passed = self.home(hash);
        while passed != place.bucket {
            let bucket = &mut self.buckets[passed];
            if bucket.passed != UNCOUNTED {
                bucket.passed -= 1;
            }
            passed = (passed + 1) & (self.buckets.len() - 1);
        }
        self.shrink(rehash);
        entry
    }

    /// Halves the map, perhaps several times, if less than an eighth of its places are taken. The
    /// new map has room for twice the current entries, so it is not halved again before about a
    /// third of them have been removed.
    #[inline]
    fn shrink(&mut self, rehash: impl Fn(&E) -> u64) {
        if self.len * 8 < self.buckets.len() * WIDTH && self.buckets.len() > LEAST_BUCKETS {
            self.rebuild(Self::count_for(2 * self.len).max(LEAST_BUCKETS), rehash);
        }
    }

    /// Returns the smallest power of two of buckets in which `entries` entries take at most three
    /// quarters of the places.
    fn count_for(entries: usize) -> usize {
        (entries * 4).div_ceil(WIDTH * 3).next_power_of_two()
    }

    /// Makes room for `entries` entries in all.
    pub(crate) fn expect(&mut self, entries: usize, rehash: impl Fn(&E) -> u64) {
        self.reserve(entries.saturating_sub(self.len), rehash);
    }

    /// Makes room for `additional` more entries.
    fn reserve(&mut self, additional: usize, rehash: impl Fn(&E) -> u64) {
        let wanted = self.len + additional;
        if wanted * 4 > self.buckets.len() * WIDTH * 3 {
            self.rebuild(Self::count_for(wanted), rehash);
        }
    }

    /// Moves all entries into this many buckets, a power of two.
    fn rebuild(&mut self, count: usize, rehash: impl Fn(&E) -> u64) {
        let mut old = Self { buckets: (0..count).map(|_| Bucket::new()).collect(), len: 0 };
        std::mem::swap(self, &mut old);
        let mut ahead = 0;
        for number in 0..old.buckets.len() {
            // `rehash` may read every entry: prefetch those of the next buckets.
            while ahead < old.buckets.len().min(number + 3) {
                old.buckets[ahead].prefetch();
                ahead += 1;
            }
            for entry in &mut old.buckets[number].entries {
                if let Some(entry) = entry.take() {
                    self.put(rehash(&entry), entry);
                }
            }
        }
    }

    /// Prefetches the bucket that `locate` reads first.
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        if !self.buckets.is_empty() {
            prefetch(&raw const self.buckets[self.home(hash)]);
        }
    }

    /// Does one step of a walk over the map: visits the entries of some homes, and returns the
    /// cursor of the next step, or `None` at the end of the walk.
    ///
    /// A step ends with the home in which the number of visited entries plus the number of visited
    /// buckets reaches `max`. The map may change between two steps. An entry that is in the map
    /// during the whole walk is visited exactly once.
    ///
    /// The walk visits homes in the order of their bits read backwards, as the scan of Redis does.
    /// When the map doubles, each home becomes two that follow each other in this order. So a walk
    /// that had finished the old home has finished both new ones. When the map is halved, two
    /// homes become one, and the cursor may be between them. In the joined home the walk skips the
    /// entries that it has already visited: those whose hashes the cursor has
    /// [passed](Cursor::is_past).
    pub(crate) fn walk(
        &self,
        from: Cursor,
        max: usize,
        rehash: impl Fn(&E) -> u64,
        mut visit: impl FnMut(&E, u64),
    ) -> Option<Cursor> {
        let last = self.buckets.len().checked_sub(1)?;
        let mut steps = 0;
        let mut next = Some(from);
        while let Some(Cursor(home)) = next.filter(|_| steps < max) {
            let home = home & last;
            let mut number = home;
            loop {
                let bucket = &self.buckets[number];
                for entry in bucket.entries.iter().flatten() {
                    let hash = rehash(entry);
                    if self.home(hash) == home && !from.is_past(hash) {
                        visit(entry, hash);
                        steps += 1;
                    }
                }
                steps += 1;
                number = (number + 1) & last;
                if bucket.passed == 0 || number == home {
                    break;
                }
            }
            next = Cursor(home).next(last);
        }
        next
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.buckets.iter().flat_map(|bucket| bucket.entries.iter().flatten())
    }

    /// Iterates over all entries, and prefetches, a few buckets ahead, the memory that they point
    /// to.
    pub(crate) fn iter_near(&self) -> impl Iterator<Item = &E> {
        const AHEAD: usize = 3;
        // The iterator that runs ahead goes by buckets: if it went by entries, it would take as
        // many instructions as this one.
        let (first, mut ahead) = (self.buckets.iter().take(AHEAD), self.buckets.iter().skip(AHEAD));
        first.for_each(Bucket::prefetch);
        self.buckets.iter().flat_map(move |bucket| {
            if let Some(ahead) = ahead.next() {
                ahead.prefetch();
            }
            bucket.entries.iter().flatten()
        })
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    impl BucketEntry for Box<u64> {
        fn prefetch(&self) {}
    }

    /// Returns a hash of few bits, so that buckets overflow and wrap.
    fn few_bits(number: u64) -> u64 {
        (number % 5) | (number % 3) << 56
    }

    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    struct Numbers {
        map: Buckets<Box<u64>>,
        hash: fn(u64) -> u64,
    }

    impl Numbers {
        fn new(hash: fn(u64) -> u64) -> Self {
            Self { map: Buckets::new(), hash }
        }

        fn find(&self, number: u64) -> Option<Place> {
            self.map.locate((self.hash)(number), |entry| **entry == number)
        }

        fn insert(&mut self, number: u64) {
            let hash = self.hash;
            let place = self.map.insert(hash(number), Box::new(number), |entry| hash(**entry));
            assert_eq!(**self.map.at(place), number);
        }

        fn remove(&mut self, number: u64) {
            let place = self.find(number).expect("the number is in the map");
            let hash = self.hash;
            assert_eq!(*self.map.take(hash(number), place, |entry| hash(**entry)), number);
        }

        fn all(&self) -> BTreeSet<u64> {
            let mut all = BTreeSet::new();
            for entry in self.map.iter() {
                assert!(all.insert(**entry), "an entry is visited once");
            }
            all
        }
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *state >> 33
    }

    #[test]
    fn map_holds_exactly_the_remaining_entries_under_colliding_hashes() {
        let mut numbers = Numbers::new(few_bits);
        let mut expected = BTreeSet::new();
        let mut state = 1;
        // Miri takes minutes for a thousand.
        for step in 0..=if cfg!(miri) { 1_000 } else { 20_000 } {
            let number = random(&mut state) % 300;
            assert_eq!(numbers.find(number).is_some(), expected.contains(&number), "step {step}");
            if expected.remove(&number) {
                numbers.remove(number);
            } else {
                numbers.insert(number);
                expected.insert(number);
            }
            if step % 1_000 == 0 {
                assert_eq!((numbers.all(), numbers.map.len()), (expected.clone(), expected.len()));
            }
        }
    }

    /// Returns a map of numbers that all collide.
    fn crowd(numbers: u64) -> Numbers {
        let mut crowd = Numbers::new(|_| 0);
        (0..numbers).for_each(|number| crowd.insert(number));
        crowd
    }

    #[test]
    fn removed_entry_is_no_longer_counted_as_passing() {
        // Too few entries for the map to shrink. A rebuild would count them anew.
        let mut crowd = crowd(40);
        assert!(crowd.map.buckets[0].passed > 0);
        (0..40).for_each(|number| crowd.remove(number));
        assert!(
            crowd.map.buckets.iter().all(|bucket| bucket.passed == 0),
            "a bucket still counts a removed entry"
        );
    }

    #[test]
    fn emptied_map_keeps_little_room() {
        let mut numbers = Numbers::new(spread);
        (0..10_000).for_each(|number| numbers.insert(number));
        let most = numbers.map.buckets.len();
        (0..9_000).for_each(|number| numbers.remove(number));
        assert!(numbers.map.buckets.len() * WIDTH <= 8 * 1_000, "{most} buckets before");
        assert!((9_000..10_000).all(|number| numbers.find(number).is_some()));
        (9_000..10_000).for_each(|number| numbers.remove(number));
        assert_eq!(numbers.map.buckets.len(), LEAST_BUCKETS);
    }

    #[test]
    fn map_at_the_edge_of_shrinking_is_not_rebuilt_at_every_change() {
        let mut numbers = Numbers::new(spread);
        (0..10_000).for_each(|number| numbers.insert(number));
        let mut rebuilt = 0;
        for number in 0..9_990 {
            let before = numbers.map.buckets.len();
            numbers.remove(number);
            numbers.insert(number);
            numbers.remove(number);
            rebuilt += usize::from(numbers.map.buckets.len() != before);
        }
        assert!((2..10).contains(&rebuilt), "{rebuilt} rebuilds");
    }

    #[test]
    fn entries_behind_a_bucket_with_an_overflowed_count_stay_findable() {
        let (numbers, left) = (300, 60);
        let mut crowd = crowd(numbers);
        assert_eq!(crowd.map.buckets[0].passed, UNCOUNTED);
        let buckets = crowd.map.buckets.len();
        (0..numbers - left).for_each(|number| crowd.remove(number));
        assert_eq!(crowd.map.buckets.len(), buckets, "a rebuilt map would count anew");
        assert!((numbers - left..numbers).all(|number| crowd.find(number).is_some()));
    }

    #[test]
    fn walk_visits_entries_that_stay_once_although_the_map_grows_and_shrinks() {
        let (mut grew, mut shrank) = (0, 0);
        // One seed takes Miri a minute, and one in which hashes collide a quarter of an hour.
        for (seed, hash) in
            (1..=if cfg!(miri) { 1 } else { 200 }).zip([spread, few_bits].into_iter().cycle())
        {
            let mut numbers = Numbers::new(hash);
            let mut state = seed;
            let stay = random(&mut state) % 200;
            (0..stay).for_each(|number| numbers.insert(number));
            let mut others = BTreeSet::new();
            let mut visits = BTreeMap::new();
            let mut cursor = Some(Cursor::default());
            while let Some(from) = cursor {
                cursor = numbers.map.walk(
                    from,
                    8,
                    |entry| hash(**entry),
                    |entry, _| {
                        *visits.entry(**entry).or_insert(0) += 1;
                    },
                );
                let before = numbers.map.buckets.len();
                if random(&mut state).is_multiple_of(8) {
                    // All others are removed, so the map is halved, perhaps several times.
                    for other in std::mem::take(&mut others) {
                        numbers.remove(other);
                    }
                }
                shrank += u32::from(numbers.map.buckets.len() < before);
                let before = numbers.map.buckets.len();
                for _ in 0..random(&mut state) % 120 {
                    let other = stay + random(&mut state) % 2_000;
                    if others.insert(other) {
                        numbers.insert(other);
                    } else {
                        others.remove(&other);
                        numbers.remove(other);
                    }
                }
                grew += u32::from(numbers.map.buckets.len() > before);
            }
            assert!(
                (0..stay).all(|number| visits.get(&number) == Some(&1)),
                "seed {seed}: {visits:?}"
            );
        }
        assert!(cfg!(miri) || grew > 50 && shrank > 50, "grew {grew} times, shrank {shrank} times");
    }
}
