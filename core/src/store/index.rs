//! One index: the slots of each value.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::ops::Range;

use crossbeam::utils::CachePadded;
use hashbrown::HashTable;

use super::slots::Slots;
use crate::engine::release::UserCode;
use crate::engine::room::less_room;
use crate::engine::slot::{IndexedSlot, Slot};
use crate::engine::sync::{
    self, AtomicBool, INDEX_SHARDS as SHARDS, INDEX_SPREAD as SPREAD, Ordering, RandomState,
    RwLock, mutant,
};
use crate::error::BoxError;
use crate::panics::{fallible, ignore_panic};

type LabelFn<T> = dyn Fn(&T) -> Option<&str> + Send + Sync;
type ValuesFn<T> = dyn Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync;

/// The function of an index.
pub(super) enum IndexFn<T> {
    /// Returns the value of a label. Unlike the other functions, it allocates nothing.
    Label(Box<LabelFn<T>>),
    Values(Box<ValuesFn<T>>),
}

/// A user's index: its function and its values.
pub(crate) struct Index<T> {
    pub(super) name: String,
    /// Whether the name determines the values, as for the index of a label, of owners or of a
    /// field. Users who add such an index share one.
    pub(super) is_shared: bool,
    function: UserCode<IndexFn<T>>,
    pub(super) values: Values<T>,
    /// Whether the build has failed: the index must get no more entries.
    abandoned: AtomicBool,
}

/// The values of an index that an object leaves.
pub(super) enum Leave {
    Values(Vec<String>),
    /// All values under which the index has the object. They must be found by a search, because the
    /// function no longer returns the values that it returned when the object was added.
    Everything,
}

impl<T> Index<T> {
    pub(super) fn new(name: String, is_shared: bool, function: UserCode<IndexFn<T>>) -> Self {
        let (values, abandoned) = (Values::new(), AtomicBool::new(false));
        Self { name, is_shared, function, values, abandoned }
    }

    /// Returns whether the values are those of a label.
    pub(super) fn is_of_label(&self) -> bool {
        matches!(*self.function, IndexFn::Label(_))
    }

    /// Returns the number of values of each object, 0 or 1, if this is the index of a label that
    /// is the same in both objects. Returns `None` otherwise.
    pub(super) fn same_label(&self, old: &T, new: &T) -> Option<usize> {
        let IndexFn::Label(label) = &*self.function else { return None };
        let (old, new) = ignore_panic(|| (label(old), label(new)))?;
        (old == new).then_some(usize::from(new.is_some()))
    }

    /// Ends the index, whose build has failed: [`join`](Self::join) adds nothing more. The caller
    /// holds the lock `Indexes::building`, as every thread does that adds a slot to an index under
    /// construction.
    pub(super) fn abandon(&self) {
        // Relaxed: a thread that may read `true` holds the same lock.
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Adds the slot under `value`, unless the build of the index has failed.
    pub(super) fn join(&self, value: &str, slot: &Slot<T>) {
        // Relaxed: as in `abandon`. The flag stays false once the index is built.
        if !self.abandoned.load(Ordering::Relaxed) {
            self.values.insert(value, slot);
        }
    }

    /// Removes the slot from the values that `leave` describes, except from those of `stay`, which
    /// are sorted.
    pub(super) fn leave(&self, leave: &Leave, stay: &[String], slot: &Slot<T>) {
        match leave {
            Leave::Values(values) => {
                for value in values {
                    self.values.remove(value, slot);
                }
            }
            Leave::Everything => self.values.remove_everywhere(stay, slot),
        }
    }

    /// Adds the slot under those of `values` under which no writer has added it already. Called by
    /// the thread that builds the index, with the lock `Indexes::building` held, so that no writer
    /// adds the slot at the same time.
    pub(super) fn join_once(&self, values: &[String], slot: &Slot<T>) {
        for value in values {
            if !self.values.has(value, slot) {
                self.values.insert(value, slot);
            }
        }
    }

    /// Returns the values of `object`, sorted and without duplicates; or the error of the index
    /// function.
    pub(super) fn values_of(&self, object: &T) -> Result<Vec<String>, BoxError> {
        let mut values = fallible(|| match &*self.function {
            IndexFn::Label(label) => Ok(label(object).map(str::to_owned).into_iter().collect()),
            IndexFn::Values(values) => values(object),
        })?;
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

type IndexShard<T> = CachePadded<RwLock<HashTable<Members<T>>>>;

/// The slots of each value. An empty set is removed with its value.
///
/// The slots of one value are spread over several shards, by the thread that adds them: consumers
/// of a list handle neighbours, which often have the same value, and would otherwise wait for each
/// other at one lock, or send its cache line back and forth. A removal searches these shards until
/// it finds the slot, beginning with the shard of the removing thread.
pub(crate) struct Values<T> {
    hasher: RandomState,
    shards: Box<[IndexShard<T>]>,
}

/// The slots of a value that are in one shard, by address.
struct Members<T> {
    value: Box<str>,
    slots: Slots<T>,
}

impl<T> Values<T> {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| CachePadded::new(RwLock::new(HashTable::new()))).collect();
        Self { hasher: RandomState::default(), shards }
    }

    /// Returns the numbers of the shards over which the slots of a value are spread. `of_value` is
    /// the hash of the value.
    fn spread(of_value: u64) -> Range<usize> {
        let first = (of_value >> 32) as usize % (SHARDS / SPREAD) * SPREAD;
        first..first + SPREAD
    }

    /// Returns the shards of a value.
    fn shards_of(&self, of_value: u64) -> &[IndexShard<T>] {
        &self.shards[Self::spread(of_value)]
    }

    fn hash_of(&self, slot: &IndexedSlot<T>) -> u64 {
        self.hasher.hash_one(slot.address())
    }

    pub(super) fn insert(&self, value: &str, slot: &Slot<T>) {
        let (of_value, of_slot) =
            (self.hasher.hash_one(value), self.hasher.hash_one(slot.address()));
        let mut shard = self.shards_of(of_value)[sync::thread_number() % SPREAD].write();
        let members = shard
            .entry(
                of_value,
                |members| *members.value == *value,
                |members| self.hasher.hash_one(&*members.value),
            )
            .or_insert_with(|| Members { value: value.into(), slots: Slots::None })
            .into_mut();
        members.slots.insert(of_slot, slot, |one| self.hash_of(one));
    }

    /// Removes the slot from every value except those of `stay`, which are sorted. O(values).
    pub(super) fn remove_everywhere(&self, stay: &[String], slot: &Slot<T>) {
        let of_slot = self.hasher.hash_one(slot.address());
        for shard in &self.shards {
            let mut shard = shard.write();
            shard.retain(|members| {
                let stays = || stay.binary_search_by(|value| (**value).cmp(&members.value)).is_ok();
                if members.slots.has(of_slot, slot) && !stays() {
                    members.slots.remove(of_slot, slot, |one| self.hash_of(one));
                }
                members.slots.len() > 0
            });
            self.shrink(&mut shard);
        }
    }

    /// Removes the slot from a value. At most one of the value's shards has it.
    pub(super) fn remove(&self, value: &str, slot: &Slot<T>) {
        let (of_value, of_slot) =
            (self.hasher.hash_one(value), self.hasher.hash_one(slot.address()));
        let (before, own_first) = self.shards_of(of_value).split_at(sync::thread_number() % SPREAD);
        mutant!(IndexLeftInOwnShard => let (before, own_first) = (&before[..0], &own_first[..1]));
        for shard in own_first.iter().chain(before) {
            let mut shard = shard.write();
            let Ok(mut members) = shard.find_entry(of_value, |members| *members.value == *value)
            else {
                continue;
            };
            if !members.get_mut().slots.remove(of_slot, slot, |one| self.hash_of(one)) {
                continue;
            }
            if members.get().slots.len() == 0 {
                members.remove();
                self.shrink(&mut shard);
            }
            return;
        }
    }

    /// Frees memory when values have left a shard.
    fn shrink(&self, shard: &mut HashTable<Members<T>>) {
        if let Some(room) = less_room(shard.len(), shard.capacity()) {
            shard.shrink_to(room, |members| self.hasher.hash_one(&*members.value));
        }
    }

    /// Returns whether the value has the slot, in any of its shards.
    pub(super) fn has(&self, value: &str, slot: &Slot<T>) -> bool {
        let (of_value, of_slot) =
            (self.hasher.hash_one(value), self.hasher.hash_one(slot.address()));
        // The shard of the calling thread comes first: this thread has often added the slot.
        let (before, own_first) = self.shards_of(of_value).split_at(sync::thread_number() % SPREAD);
        own_first.iter().chain(before).any(|shard| {
            let shard = shard.read();
            let members = shard.find(of_value, |members| *members.value == *value);
            members.is_some_and(|members| members.slots.has(of_slot, slot))
        })
    }

    /// Removes everything, shard by shard.
    pub(super) fn clear(&self) {
        self.shards.iter().for_each(|shard| *shard.write() = HashTable::new());
    }

    /// Visits every slot of `value`, with all shards of the value locked. The slots may be freed
    /// once the shards are unlocked.
    pub(super) fn for_each(&self, value: &str, mut visit: impl FnMut(&IndexedSlot<T>)) {
        let of_value = self.hasher.hash_one(value);
        mutant!(IndexReadByShards => return self.for_each_by_shards(value, visit));
        // All shards are locked at once: a slot that leaves the value and joins it again may move
        // from one to another.
        let shards: Vec<_> = self.shards_of(of_value).iter().map(|shard| shard.read()).collect();
        for shard in &shards {
            if let Some(members) = shard.find(of_value, |members| *members.value == *value) {
                members.slots.iter().for_each(&mut visit);
            }
        }
    }

    /// Visits every slot that has any of `values`, once, with the shards of all these values
    /// locked: a slot that moves from one of the values to another would be missed if they were
    /// locked one after another. Needs memory for the addresses of the slots.
    pub(super) fn for_each_of(&self, values: &[&str], mut visit: impl FnMut(&IndexedSlot<T>)) {
        if let [value] = values {
            return self.for_each(value, visit);
        }
        mutant!(IndexReadByValues => return self.for_each_by_values(values, visit));
        let hashes: Vec<_> = values.iter().map(|value| self.hasher.hash_one(value)).collect();
        // In the order of their numbers, so that two readers do not wait for each other, and each
        // once, because a waiting writer would block a second read lock.
        let numbers: BTreeSet<_> = hashes.iter().flat_map(|hash| Self::spread(*hash)).collect();
        let shards: BTreeMap<_, _> =
            numbers.into_iter().map(|number| (number, self.shards[number].read())).collect();
        let mut seen = HashSet::new();
        for (value, of_value) in values.iter().zip(hashes) {
            for (_, shard) in shards.range(Self::spread(of_value)) {
                let members = shard.find(of_value, |members| *members.value == **value);
                let slots = members.into_iter().flat_map(|members| members.slots.iter());
                slots.filter(|slot| seen.insert(slot.address())).for_each(&mut visit);
            }
        }
    }

    /// Returns how many slots a value has. O(1).
    pub(super) fn count(&self, value: &str) -> usize {
        let of_value = self.hasher.hash_one(value);
        let count = |shard: &IndexShard<T>| {
            let shard = shard.read();
            let members = shard.find(of_value, |members| *members.value == *value);
            members.map_or(0, |members| members.slots.len())
        };
        self.shards_of(of_value).iter().map(count).sum()
    }

    /// Returns all values, sorted.
    pub(super) fn values(&self) -> Vec<String> {
        let mut values = Vec::new();
        for shard in &self.shards {
            values.extend(shard.read().iter().map(|members| members.value.to_string()));
        }
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Returns how many entries there are. That is the number of objects if each has one value.
    pub(super) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.read().iter().map(|members| members.slots.len()).sum::<usize>())
            .sum()
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use std::thread;

    use super::*;
    use crate::engine::room::LEAST_ROOM;
    use crate::engine::slot::SlotOwner;

    fn room(values: &Values<u64>) -> usize {
        values.shards.iter().map(|shard| shard.read().capacity()).sum()
    }

    /// Returns how many bytes the values and their slots take.
    fn bytes(values: &Values<u64>) -> usize {
        let of_shard = |shard: &IndexShard<u64>| {
            let shard = shard.read();
            let of_value = |members: &Members<u64>| members.value.len() + members.slots.allocated();
            shard.allocation_size() + shard.iter().map(of_value).sum::<usize>()
        };
        values.shards.iter().map(of_shard).sum()
    }

    /// Checks the size for an unfavourable number of values, after which nearly all tables of the
    /// used shards have just been doubled.
    #[test]
    fn value_of_one_slot_takes_at_most_90_bytes() {
        let in_shard = if cfg!(miri) { 64 } else { 950 };
        let count = SHARDS / SPREAD * in_shard;
        let slots: Vec<_> =
            (0..count).map(|number| SlotOwner::<u64>::new(&format!("pod-{number:06}"))).collect();
        let values = Values::new();
        for slot in &slots {
            values.insert(slot.key(), slot);
        }
        let of_value = bytes(&values) / count;
        assert!(of_value <= 90, "{of_value} bytes");
    }

    /// Checks that a reader of several values locks shards in the order of their numbers: while it
    /// waits for a shard of the first group, it holds no shard of the last one. Otherwise two
    /// readers could wait for each other, because a lock that a writer waits for admits no reader.
    #[test]
    fn reader_of_several_values_locks_the_shards_in_their_order() {
        let values = Values::<u64>::new();
        let spread_of = |value: &str| Values::<u64>::spread(values.hasher.hash_one(value));
        let in_group = |of_group: &Range<usize>| {
            let mut names = (0..).map(|number: u64| number.to_string());
            names.find(|name| spread_of(name) == *of_group).unwrap()
        };
        let groups = [0..SPREAD, SHARDS - SPREAD..SHARDS];
        let [first, last] = groups.clone().map(|group| in_group(&group));
        for order in [[&*first, &*last], [&*last, &*first]] {
            let held = values.shards[1].write();
            thread::scope(|scope| {
                let reader = scope.spawn(|| values.for_each_of(&order, |_| ()));
                while !values.shards[0].is_locked() {
                    assert!(!reader.is_finished(), "the reader locks shard 0");
                    thread::yield_now();
                }
                let [_, last] = &groups;
                assert!(!values.shards[last.clone()].iter().any(|shard| shard.is_locked()));
                drop(held);
            });
        }
    }

    #[test]
    fn removed_index_values_keep_no_memory() {
        let count: usize = if cfg!(miri) { 1_000 } else { 100_000 };
        let slots: Vec<_> =
            (0..count).map(|number| SlotOwner::<u64>::new(&number.to_string())).collect();
        let values = Values::new();
        for slot in &slots {
            values.insert(slot.key(), slot);
        }
        assert!(room(&values) >= count);
        let (left, stay) = slots.split_at(count / 10 * 9);
        for slot in left {
            values.remove(slot.key(), slot);
        }
        assert!(room(&values) <= 8 * stay.len() + SHARDS * LEAST_ROOM);
        assert!(stay.iter().all(|slot| values.has(slot.key(), slot)));
        for slot in stay {
            values.remove(slot.key(), slot);
        }
        assert!(room(&values) <= SHARDS * LEAST_ROOM, "{}", room(&values));
        values.clear();
        assert_eq!(room(&values), 0);
    }

    #[test]
    fn values_that_a_search_empties_keep_no_memory() {
        let count: usize = if cfg!(miri) { 1_000 } else { 100_000 };
        let slot = SlotOwner::<u64>::new("a");
        let values = Values::new();
        for number in 0..count {
            values.insert(&number.to_string(), &slot);
        }
        assert!(room(&values) >= count);
        values.remove_everywhere(&[], &slot);
        assert!(room(&values) <= SHARDS * LEAST_ROOM, "{}", room(&values));
    }
}

/// The code of deliberate defects (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{BuildHasher, IndexedSlot, Values};

    impl<T> Values<T> {
        /// Visits every slot that has any of `values`, with the defect `IndexReadByValues`: a slot
        /// that moves from one value to another can be missed.
        pub(super) fn for_each_by_values(
            &self,
            values: &[&str],
            mut visit: impl FnMut(&IndexedSlot<T>),
        ) {
            values.iter().for_each(|value| self.for_each(value, &mut visit));
        }

        /// Visits every slot of `value`, with the defect `IndexReadByShards`: a slot that moves
        /// from one shard to another can be missed.
        pub(super) fn for_each_by_shards(
            &self,
            value: &str,
            mut visit: impl FnMut(&IndexedSlot<T>),
        ) {
            let of_value = self.hasher.hash_one(value);
            for shard in self.shards_of(of_value) {
                let shard = shard.read();
                if let Some(members) = shard.find(of_value, |members| *members.value == *value) {
                    members.slots.iter().for_each(&mut visit);
                }
            }
        }
    }
}
