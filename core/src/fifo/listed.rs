//! The keys that were listed, or written, since a relist began, for queues over an external store.
//! Each open relist has a set. (A queue that is fused with its store needs no set, because the slot
//! of a key carries the stamp of the relist. Over an external store, a slot retires once its key is
//! handled.)

use std::collections::HashSet;

use super::{DeltaFifo, KnownPlace};
use crate::Meta;
use crate::engine::sync::{Mutex, mutant};
use crate::key::as_str;

pub(super) struct Listed(Mutex<Vec<ListedKeys>>);

struct ListedKeys {
    /// The relist's generation.
    of: u32,
    /// Whether this is the removal of a scope. Other relists may already list the scope's keys.
    is_removal: bool,
    keys: HashSet<Box<str>>,
}

impl Listed {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Creates the set of a relist, before any of its keys is recorded, and drops the set of the
    /// relist that it supersedes.
    pub(super) fn begin(&self, superseded: u32, generation: u32, is_removal: bool) {
        self.clear(superseded);
        mutant!(BeginForgetsOtherScopes => self.0.lock().clear());
        self.0.lock().push(ListedKeys { of: generation, is_removal, keys: HashSet::new() });
    }

    /// Records a key that the relist of `generation` lists, so that neither this relist nor the
    /// removal of a scope deletes the key. Does nothing if the relist is over.
    pub(super) fn insert(&self, generation: u32, key: &str) {
        let mut listed = self.0.lock();
        mutant!(OlderListWins => let generation = listed.last().map_or(0, |keys| keys.of));
        if !listed.iter().any(|keys| keys.of == generation) {
            return;
        }
        for keys in listed.iter_mut() {
            let is_spared = keys.of == generation || keys.is_removal;
            mutant!(RemovalIgnoresLists => let is_spared = keys.of == generation);
            if is_spared {
                keys.keys.insert(key.into());
            }
        }
    }

    /// Records a key that is offered while relists are open, so that none of them sweeps it.
    pub(super) fn insert_in_all(&self, key: &str) {
        for keys in self.0.lock().iter_mut() {
            keys.keys.insert(key.into());
        }
    }

    pub(super) fn contains(&self, generation: u32, key: &str) -> bool {
        self.0.lock().iter().any(|keys| keys.of == generation && keys.keys.contains(key))
    }

    /// Returns the newest generation whose set has `key`: the key was listed by that relist, or
    /// offered while it was open. Returns 0 if no set has the key.
    pub(super) fn newest_of(&self, key: &str) -> u32 {
        let listed = self.0.lock();
        let generations = listed.iter().filter(|keys| keys.keys.contains(key)).map(|keys| keys.of);
        generations.max().unwrap_or(0)
    }

    /// Drops the set of `generation`, which is over.
    pub(super) fn clear(&self, generation: u32) {
        let mut listed = self.0.lock();
        mutant!(EndForgetsOtherScopes => if generation != 0 { return listed.clear() });
        let place = listed.iter().position(|keys| keys.of == generation);
        let over = place.map(|place| listed.swap_remove(place));
        drop(listed);
        // Dropped after the lock is released, because the set may have a million keys.
        drop(over);
    }
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Creates the set of a relist that is about to begin. Does nothing unless the store is
    /// external.
    pub(super) fn note_begin(&self, superseded: u32, generation: u32, is_removal: bool) {
        if let KnownPlace::Elsewhere { listed, .. } = &self.known {
            listed.begin(superseded, generation, is_removal);
        }
    }

    /// Records that the relist of `generation` lists `key`: stamps the key's slot, if there is one,
    /// and adds the key to the relist's set, if the store is external.
    pub(super) fn list_key(&self, generation: u32, hash: u64, key: &[u8]) {
        self.list_elsewhere(generation, key);
        if let Some(slot) = self.core.table.shard(hash).read().find(hash, key) {
            slot.stamp(generation);
        }
    }

    /// Drops the set of a relist that is over.
    pub(super) fn forget_listed(&self, generation: u32) {
        if let KnownPlace::Elsewhere { listed, .. } = &self.known {
            listed.clear(generation);
        }
    }

    /// Records a key that a relist lists, if the store is external: there the slot does not live
    /// long enough to carry the stamp.
    pub(super) fn list_elsewhere(&self, generation: u32, key: &[u8]) {
        if let KnownPlace::Elsewhere { listed, .. } = &self.known {
            listed.insert(generation, as_str(key));
        }
    }

    /// Records a key that is written while relists are open, so that none of them sweeps it.
    pub(super) fn list_offered(&self, open: u32, key: &[u8]) {
        if open != 0
            && let KnownPlace::Elsewhere { listed, .. } = &self.known
        {
            listed.insert_in_all(as_str(key));
        }
    }

    /// Returns the generation of the newest open relist that has listed `key`, or during which the
    /// key was offered; 0 if there is none. Always 0 unless the store is external.
    pub(super) fn last_listed(&self, key: &[u8]) -> u32 {
        match &self.known {
            KnownPlace::Elsewhere { listed, .. } => listed.newest_of(as_str(key)),
            _ => 0,
        }
    }

    /// Returns whether the relist of `generation` has listed `key`, or the key was offered during
    /// that relist. Always false unless the store is external.
    pub(super) fn is_listed_elsewhere(&self, generation: u32, key: &[u8]) -> bool {
        matches!(&self.known, KnownPlace::Elsewhere { listed, .. } if listed.contains(generation, as_str(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_relist_leaves_no_keys() {
        let listed = Listed::new();
        listed.begin(0, 1, false);
        listed.insert(1, "a");
        listed.clear(1);
        listed.insert(1, "b");
        assert!(!listed.contains(1, "a") && !listed.contains(1, "b"));
    }

    #[test]
    fn concurrent_relists_keep_separate_keys() {
        let listed = Listed::new();
        listed.begin(0, 1, false);
        listed.begin(0, 2, false);
        listed.insert(2, "a");
        listed.insert(1, "b");
        listed.insert_in_all("c");
        listed.clear(1);
        assert!(listed.contains(2, "a") && !listed.contains(2, "b") && listed.contains(2, "c"));
        assert!(
            !listed.contains(1, "b") && listed.newest_of("b") == 0 && listed.newest_of("c") == 2
        );
    }
}
