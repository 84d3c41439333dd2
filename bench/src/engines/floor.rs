//! The limit: the steps of a relist by one thread on plain data, without atomics, locks, a queue
//! or deltas. Per object: hash, probe, compare the key, stamp, swap the known object, compare the
//! old namespace, count. It keeps no index.
//!
//! A slot is one cache line with a key of up to 45 bytes inside, and the table is nothing but
//! slots. Safe Rust cannot prefetch; a group of objects taken through the steps together has much
//! of its effect, since their loads do not depend on each other and the processor keeps many of
//! them under way.
//!
//! Two ways to walk: as the list has it, which is how objects lie in memory, or partitioned by
//! hash bits, which is how the slots lie. The tool reports the faster.

use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::sync::Arc;

use deltafifo::Meta;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::{Counts, ListEngine};
use crate::data::write_key;

/// How many objects go through the steps together.
const GROUP: usize = 32;

/// How many partitions: each one's slots fit the second-level cache at a million objects.
const PARTITION_BITS: u32 = 8;

/// How a floor walks its list.
pub trait Walk: Send + Sync + 'static {
    /// Whether by hash bits.
    const PARTITIONED: bool;
}

/// In list order.
pub struct InOrder;

/// Partition by partition.
pub struct Partitioned;

impl Walk for InOrder {
    const PARTITIONED: bool = false;
}

impl Walk for Partitioned {
    const PARTITIONED: bool = true;
}

/// See the module. The mutex is taken once per list.
pub struct Floor<T, M, W> {
    meta: M,
    table: Mutex<Table<T>>,
    walk: PhantomData<W>,
}

/// Open addressing with linear probing, at most three quarters full. What is deleted leaves its
/// key, so that probes go on.
struct Table<T> {
    hasher: RandomState,
    slots: Vec<Slot<T>>,
    /// Slots with a key, known or not.
    used: usize,
    known: usize,
    /// The last list.
    generation: u32,
    /// Keys that it brought.
    stamped: usize,
    /// Objects that changed their namespace.
    moved: usize,
    counts: Counts,
}

/// One object of a group on its way: the hash of its key, and where in the group's text the key
/// lies.
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
    /// The low half of the hash; the high bits are the slot's place.
    tag: u32,
    key: Key,
}

enum Key {
    Vacant,
    Inline(u8, [u8; 45]),
    Long(Box<[u8]>),
}

impl Key {
    fn new(text: &[u8]) -> Self {
        let mut bytes = [0; 45];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(inline), Ok(len)) => {
                inline.copy_from_slice(text);
                Key::Inline(len, bytes)
            }
            _ => Key::Long(text.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Key::Vacant => &[],
            Key::Inline(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Key::Long(bytes) => bytes,
        }
    }
}

impl<T> Table<T> {
    fn new() -> Self {
        Self {
            hasher: RandomState::default(),
            slots: Vec::new(),
            used: 0,
            known: 0,
            generation: 0,
            stamped: 0,
            moved: 0,
            counts: Counts::default(),
        }
    }

    /// Makes the table twice as long as this many keys need. A list says how long it is, and is
    /// mostly known already.
    fn reserve(&mut self, keys: usize) {
        let wanted = keys.max(1 << PARTITION_BITS).next_power_of_two() * 2;
        if wanted <= self.slots.len() {
            return;
        }
        let fresh = (0..wanted)
            .map(|_| Slot { known: None, generation: 0, tag: 0, key: Key::Vacant })
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

    /// Where the probe for a hash begins: its high bits, so that a partition of hashes is a
    /// stretch of slots.
    #[expect(clippy::cast_possible_truncation, reason = "no more bits than the table has")]
    fn place(&self, hash: u64) -> usize {
        (hash >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// The slot of a key, or the vacant one where it belongs.
    #[expect(clippy::cast_possible_truncation, reason = "a tag is the low half")]
    fn find(&self, hash: u64, key: &[u8]) -> usize {
        let mut at = self.place(hash);
        loop {
            let slot = &self.slots[at];
            match &slot.key {
                Key::Vacant => return at,
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
            touch(probes.iter().map(|probe| {
                let slot = &self.slots[self.place(probe.hash)];
                slot.known.as_deref().and_then(|known| meta.namespace(known))
            }));
            for (probe, object) in probes.iter().zip(objects.by_ref()) {
                self.set(meta, probe.hash, &keys.as_bytes()[probe.start..probe.end], object);
            }
        }
    }

    /// All steps after the hash.
    #[expect(clippy::cast_possible_truncation, reason = "a tag is the low half")]
    fn set(&mut self, meta: &impl Meta<T>, hash: u64, key: &[u8], object: Arc<T>) {
        let mut at = self.find(hash, key);
        if matches!(self.slots[at].key, Key::Vacant) && self.used > self.slots.len() / 4 * 3 {
            self.reserve(self.used);
            at = self.find(hash, key);
        }
        let slot = &mut self.slots[at];
        if matches!(slot.key, Key::Vacant) {
            slot.tag = hash as u32;
            slot.key = Key::new(key);
            self.used += 1;
        }
        self.stamped += usize::from(slot.generation < self.generation);
        slot.generation = self.generation;
        if let Some(old) = slot.known.take() {
            // Where the two differ an index would move the key.
            self.moved += usize::from(meta.namespace(&old) != meta.namespace(&object));
            self.counts.updates += 1;
        } else {
            self.known += 1;
            self.counts.adds += 1;
        }
        slot.known = Some(object);
    }

    /// Deletes what the last list did not bring. When it brought all that is known there is
    /// nothing to look for.
    fn sweep(&mut self) {
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

    /// The list by hash bits, each part in list order.
    fn partition(&self, meta: &impl Meta<T>, list: Vec<Arc<T>>) -> Vec<Vec<Arc<T>>> {
        let usual = (list.len() >> PARTITION_BITS) * 5 / 4;
        let mut parts: Vec<_> =
            (0..1 << PARTITION_BITS).map(|_| Vec::with_capacity(usual)).collect();
        let mut key = String::new();
        for object in list {
            key.clear();
            write_key(meta, &*object, &mut key);
            parts[(self.hasher.hash_one(key.as_bytes()) >> (64 - PARTITION_BITS)) as usize]
                .push(object);
        }
        parts
    }
}

/// Reads the first byte of every text, so that it is in the cache when it is needed. The reads do
/// not wait for each other.
fn touch<'a>(texts: impl Iterator<Item = Option<&'a str>>) {
    let first = |text: Option<&str>| {
        text.and_then(|text| text.as_bytes().first().copied()).unwrap_or_default()
    };
    std::hint::black_box(texts.map(first).fold(0, u8::wrapping_add));
}

impl<T, M: Meta<T>, W: Walk> Floor<T, M, W> {
    /// An empty one.
    pub fn new(meta: M) -> Self {
        Self { meta, table: Mutex::new(Table::new()), walk: PhantomData }
    }
}

impl<T: Send + Sync, M: Meta<T>, W: Walk> ListEngine<T> for Floor<T, M, W> {
    type List = Vec<Arc<T>>;

    fn replace(&self, list: Vec<Arc<T>>, _version: &str) {
        let mut table = self.table.lock();
        let keys = list.len().max(table.used);
        table.reserve(keys);
        table.generation += 1;
        table.stamped = 0;
        if W::PARTITIONED {
            for part in table.partition(&self.meta, list) {
                table.join(&self.meta, part);
            }
        } else {
            table.join(&self.meta, list);
        }
        assert_eq!(table.moved, 0, "the namespace is part of the key");
        table.sweep();
    }

    /// Everything was done at once: only the counts are taken.
    fn drain(&self) -> Counts {
        std::mem::take(&mut self.table.lock().counts)
    }

    fn for_each_known(&self, mut see: impl FnMut(&T)) {
        self.table.lock().slots.iter().filter_map(|slot| slot.known.as_deref()).for_each(&mut see);
    }
}
