//! One index: which slots have which value.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::{BoxError, panic_message};
use crate::slot::{IndexedSlot, RunningSlot};
use crate::sync::{Arc, RwLock};

/// Shards of an index's values.
const SHARDS: usize = if cfg!(deltafifo_loom) { 1 } else { 64 };

type IndexFn<T> = Box<dyn Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync>;

/// A user's index: its function and its values.
pub(crate) struct Index<T> {
    pub(super) name: String,
    pub(super) function: IndexFn<T>,
    pub(super) values: Values<T>,
}

impl<T> Index<T> {
    /// The values of `object`, sorted, each once.
    pub(super) fn values_of(&self, object: &T) -> Result<Vec<String>, BoxError> {
        // An index function that panics has failed, like one that returns an error: the store must not be left half
        // changed.
        let mut values = catch_unwind(AssertUnwindSafe(|| (self.function)(object)))
            .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_message(panic.as_ref())).into()))?;
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

type ByValue<T> = HashMap<Box<str>, Members<T>, RandomState>;

/// Slots by value. An empty set is removed with its value.
pub(crate) struct Values<T> {
    hasher: RandomState,
    shards: Box<[RwLock<ByValue<T>>]>,
}

impl<T> Values<T> {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::new(HashMap::default())).collect();
        Self { hasher: RandomState::default(), shards }
    }

    fn shard(&self, value: &str) -> &RwLock<ByValue<T>> {
        &self.shards[(self.hasher.hash_one(value) >> 32) as usize % SHARDS]
    }

    pub(super) fn insert(&self, value: &str, running: &RunningSlot<T>) {
        let mut shard = self.shard(value).write();
        if let Some(members) = shard.get_mut(value) {
            members.insert(&self.hasher, running);
        } else {
            shard.entry(value.into()).or_insert_with(Members::new).insert(&self.hasher, running);
        }
    }

    pub(super) fn remove(&self, value: &str, running: &RunningSlot<T>) {
        let mut shard = self.shard(value).write();
        if let Some(members) = shard.get_mut(value) {
            members.remove(&self.hasher, running);
            if members.slots.is_empty() {
                shard.remove(value);
            }
        }
    }

    /// The objects known under `value`. They are read while the value's shard is locked: afterwards slots may be freed.
    pub(super) fn objects(&self, value: &str) -> Vec<Arc<T>> {
        let shard = self.shard(value).read();
        shard.get(value).map_or_else(Vec::new, |members| members.slots.iter().filter_map(IndexedSlot::known).collect())
    }

    /// The keys known under `value`, sorted.
    pub(super) fn keys(&self, value: &str) -> Vec<String> {
        let shard = self.shard(value).read();
        let mut keys = shard
            .get(value)
            .map_or_else(Vec::new, |members| members.slots.iter().map(|slot| slot.key().to_owned()).collect());
        drop(shard);
        keys.sort_unstable();
        keys
    }

    /// All values, sorted.
    pub(super) fn values(&self) -> Vec<String> {
        let mut values = Vec::new();
        for shard in &self.shards {
            values.extend(shard.read().keys().map(ToString::to_string));
        }
        values.sort_unstable();
        values
    }

    /// How many entries there are: for an index of one value an object, how many objects.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().values().map(|members| members.slots.len()).sum::<usize>()).sum()
    }
}

struct Members<T> {
    slots: HashTable<IndexedSlot<T>>,
}

impl<T> Members<T> {
    fn new() -> Self {
        Self { slots: HashTable::new() }
    }

    fn insert(&mut self, hasher: &RandomState, running: &RunningSlot<T>) {
        let address = running.address();
        self.slots
            .entry(hasher.hash_one(address), |slot| slot.address() == address, |slot| hasher.hash_one(slot.address()))
            .or_insert_with(|| running.indexed());
    }

    fn remove(&mut self, hasher: &RandomState, running: &RunningSlot<T>) {
        let address = running.address();
        if let Ok(entry) = self.slots.find_entry(hasher.hash_one(address), |slot| slot.address() == address) {
            entry.remove();
        }
    }
}
