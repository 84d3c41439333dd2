//! The engine `floor`: a lower limit for the time of a relist. One thread does only the necessary
//! steps on plain data, without atomics, locks, a queue or deltas. For each object it hashes the
//! key, probes, compares the key, stamps the slot, swaps the known object, compares the old
//! namespace, and counts. It has no index.
//!
//! A slot is one cache line that includes a key of up to 45 bytes, and the table is an array of
//! slots. Safe Rust cannot prefetch. Taking a group of objects through each step together has a
//! similar effect: their loads do not depend on each other, so the processor has many of them in
//! flight.

mod two_threads;

use std::hash::BuildHasher;
use std::sync::Arc;

use deltafifo::Meta;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::{Counts, ListEngine};
use crate::data::write_key;
pub use two_threads::FloorTwoThreads;

/// Number of objects that go through the steps together.
const GROUP: usize = 32;

/// Number of keys for which an empty table has room.
const LEAST: usize = 256;

/// The engine of the floor. Its mutex is locked once for each list.
pub struct Floor<T, M> {
    meta: M,
    table: Mutex<Table<T>>,
}

/// A table with open addressing and linear probing, at most three quarters full. A deleted slot
/// keeps its key, so that probes do not stop there.
struct Table<T> {
    hasher: RandomState,
    slots: Vec<Slot<T>>,
    /// Number of slots with a key, known or deleted.
    used: usize,
    known: usize,
    /// Number of the last list.
    generation: u32,
    /// Number of keys in the last list.
    stamped: usize,
    /// Number of objects that replaced an object of another namespace. It is always 0, because the
    /// namespace is part of the key.
    moved: usize,
    counts: Counts,
}

/// An object of a group between two steps: the hash of its key, and the place of the key in the
/// group's text.
#[derive(Clone, Copy, Default)]
struct Probe {
    hash: u64,
    start: usize,
    end: usize,
}

#[repr(align(64))]
struct Slot<T> {
    known: Option<Arc<T>>,
    generation: u32,
    /// The low half of the hash. The high bits determine the place of the slot.
    tag: u32,
    key: FloorKey,
}

enum FloorKey {
    Vacant,
    Inline(u8, [u8; 45]),
    Long(Box<[u8]>),
}

impl FloorKey {
    fn new(text: &[u8]) -> Self {
        let mut bytes = [0; 45];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(inline), Ok(len)) => {
                inline.copy_from_slice(text);
                FloorKey::Inline(len, bytes)
            }
            _ => FloorKey::Long(text.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            FloorKey::Vacant => &[],
            FloorKey::Inline(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or_default(),
            FloorKey::Long(bytes) => bytes,
        }
    }
}

impl<T> Table<T> {
    fn new(hasher: RandomState) -> Self {
        Self {
            hasher,
            slots: Vec::new(),
            used: 0,
            known: 0,
            generation: 0,
            stamped: 0,
            moved: 0,
            counts: Counts::default(),
        }
    }

    /// Gives the table at least two slots for each of `keys` keys. Before a list, `keys` is the
    /// larger of its length and the number of used slots, and not their sum, because most keys of
    /// a list are known already.
    fn reserve(&mut self, keys: usize) {
        let wanted = keys.max(LEAST).next_power_of_two() * 2;
        if wanted <= self.slots.len() {
            return;
        }
        let fresh = (0..wanted)
            .map(|_| Slot { known: None, generation: 0, tag: 0, key: FloorKey::Vacant })
            .collect();
        self.used = 0;
        for slot in std::mem::replace(&mut self.slots, fresh) {
            if slot.known.is_some() {
                let at = self.find(self.hasher.hash_one(slot.key.bytes()), slot.key.bytes());
                self.slots[at] = slot;
                self.used += 1;
            }
        }
    }

    /// Returns the index of the slot at which the probe for a hash starts. The high bits of the
    /// hash determine it.
    #[expect(clippy::cast_possible_truncation, reason = "no more bits than the table has")]
    fn place(&self, hash: u64) -> usize {
        (hash >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// Returns the index of the slot of a key, or of the vacant slot where the key belongs.
    #[expect(clippy::cast_possible_truncation, reason = "a tag is the low half")]
    fn find(&self, hash: u64, key: &[u8]) -> usize {
        let mut at = self.place(hash);
        loop {
            let slot = &self.slots[at];
            match &slot.key {
                FloorKey::Vacant => return at,
                taken if slot.tag == hash as u32 && taken.bytes() == key => return at,
                _ => at = (at + 1) % self.slots.len(),
            }
        }
    }

    /// Takes a list through all steps, group by group.
    fn join(&mut self, meta: &impl Meta<T>, list: Vec<Arc<T>>) {
        let mut keys = String::new();
        let mut probes = [Probe::default(); GROUP];
        let mut objects = list.into_iter();
        loop {
            let group = objects.as_slice();
            let group = &group[..group.len().min(GROUP)];
            if group.is_empty() {
                return;
            }
            touch(group.iter().map(|object| meta.name(object)));
            keys.clear();
            for (probe, object) in probes.iter_mut().zip(group) {
                let start = keys.len();
                write_key(meta, &**object, &mut keys);
                *probe = Probe {
                    hash: self.hasher.hash_one(&keys.as_bytes()[start..]),
                    start,
                    end: keys.len(),
                };
            }
            let probes = &probes[..group.len()];
            self.store(meta, probes, &keys, &mut objects);
        }
    }

    /// Takes a group of objects through the steps that follow the hashing of their keys.
    fn store(
        &mut self,
        meta: &impl Meta<T>,
        probes: &[Probe],
        keys: &str,
        objects: &mut impl Iterator<Item = Arc<T>>,
    ) {
        touch(probes.iter().map(|probe| {
            let slot = &self.slots[self.place(probe.hash)];
            slot.known.as_deref().and_then(|known| meta.namespace(known))
        }));
        for (probe, object) in probes.iter().zip(objects) {
            self.set(meta, probe.hash, &keys.as_bytes()[probe.start..probe.end], object);
        }
    }

    /// Takes one object through the steps that follow the hashing of its key.
    #[expect(clippy::cast_possible_truncation, reason = "a tag is the low half")]
    fn set(&mut self, meta: &impl Meta<T>, hash: u64, key: &[u8], object: Arc<T>) {
        let mut at = self.find(hash, key);
        if matches!(self.slots[at].key, FloorKey::Vacant) && self.used > self.slots.len() / 4 * 3 {
            self.reserve(self.used);
            at = self.find(hash, key);
        }
        let slot = &mut self.slots[at];
        if matches!(slot.key, FloorKey::Vacant) {
            slot.tag = hash as u32;
            slot.key = FloorKey::new(key);
            self.used += 1;
        }
        self.stamped += usize::from(slot.generation < self.generation);
        slot.generation = self.generation;
        if let Some(old) = slot.known.take() {
            // An index would move the key if the namespaces differed.
            self.moved += usize::from(meta.namespace(&old) != meta.namespace(&object));
            self.counts.updates += 1;
        } else {
            self.known += 1;
            self.counts.adds += 1;
        }
        slot.known = Some(object);
    }

    /// Begins a list of about `length` objects.
    fn begin_list(&mut self, length: usize) {
        self.reserve(length.max(self.used));
        self.generation += 1;
        self.stamped = 0;
    }

    /// Ends a list: deletes the keys that are not in it. Does nothing if it has all known keys.
    fn end_list(&mut self) {
        assert_eq!(self.moved, 0, "the namespace is part of the key");
        if self.stamped == self.known {
            return;
        }
        for slot in &mut self.slots {
            if slot.generation < self.generation && slot.known.take().is_some() {
                self.known -= 1;
                self.counts.deletes += 1;
            }
        }
    }

    fn for_each_known(&self, visit: impl FnMut(&T)) {
        self.slots.iter().filter_map(|slot| slot.known.as_deref()).for_each(visit);
    }
}

/// Reads the first byte of every text, so that the text is in the cache for the next step. The
/// reads do not depend on each other.
fn touch<'a>(texts: impl Iterator<Item = Option<&'a str>>) {
    let first = |text: Option<&str>| {
        text.and_then(|text| text.as_bytes().first().copied()).unwrap_or_default()
    };
    std::hint::black_box(texts.map(first).fold(0, u8::wrapping_add));
}

impl<T, M: Meta<T>> Floor<T, M> {
    pub fn new(meta: M) -> Self {
        Self { meta, table: Mutex::new(Table::new(RandomState::default())) }
    }
}

impl<T: Send + Sync, M: Meta<T>> ListEngine<T> for Floor<T, M> {
    // Freeing the objects of a list is not a step of the floor.
    const OWNS_LISTS: bool = false;
    type List = Vec<Arc<T>>;

    fn replace(&self, list: Vec<Arc<T>>, _version: &str) {
        let mut table = self.table.lock();
        table.begin_list(list.len());
        table.join(&self.meta, list);
        table.end_list();
    }

    /// Returns the counts; `replace` has applied everything already.
    fn drain(&self) -> Counts {
        std::mem::take(&mut self.table.lock().counts)
    }

    fn for_each_known(&self, visit: impl FnMut(&T)) {
        self.table.lock().for_each_known(visit);
    }
}
