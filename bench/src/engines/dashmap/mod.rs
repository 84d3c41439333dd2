//! The engine `dashmap`: a concurrent map of pending deltas, a lock-free queue of keys, and a
//! concurrent map as the store. Many would expect this design to be the fastest. It is as good as
//! its parts allow:
//!
//! - It uses foldhash everywhere. Keys are shared `Arc<str>`s, which a relist takes from the store
//!   instead of allocating them again.
//! - A key is in the queue exactly while it has an entry in `pending`. The shard's lock makes this
//!   hold at every moment, so no separate flag is needed.
//! - A consumer holds the entry of its key while it applies the deltas. So no delta is lost or
//!   reordered, with any number of producers and consumers, and handlers of one key never overlap.
//!
//! Its limits: while a handler runs, offers of keys in the same shard wait, and a handler must not
//! offer. A relist is not atomic for other producers. There is no requeue, and no tracking of the
//! initial list.

mod index;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::mapref::entry::Entry;
use deltafifo::{DeltaType, Meta};
use smallvec::SmallVec;

use self::index::{Index, Key, Map};
use super::ready::ReadyQueue;
use super::{Counts, Event, IndexEngine, ListEngine, QueueEngine, StoreEngine, drain_on};
use crate::data::{node, with_key};
use crate::process::cores;

struct Pending<T> {
    deltas: SmallVec<[(DeltaType, Arc<T>); 1]>,
    /// The number of the last relist that listed the key, or during which the key was offered.
    generation: u64,
}

struct Known<T> {
    object: Arc<T>,
    /// The number of the last relist that listed the key, or during which the key was offered.
    generation: u64,
}

/// The engine of concurrent maps and a lock-free queue.
pub struct DashMapEngine<T, M> {
    meta: M,
    pending: Map<Pending<T>>,
    ready: ReadyQueue<Key>,
    store: Map<Known<T>>,
    namespaces: Index,
    /// The index by node, if there is one.
    nodes: Option<Index>,
    generation: AtomicU64,
}

impl<T, M: Meta<T>> DashMapEngine<T, M> {
    pub fn new(meta: M) -> Self {
        Self::with(meta, None)
    }

    /// Creates an empty engine with an index by node.
    pub fn with_nodes(meta: M) -> Self {
        Self::with(meta, Some(Index::default()))
    }

    fn with(meta: M, nodes: Option<Index>) -> Self {
        Self {
            meta,
            pending: Map::default(),
            ready: ReadyQueue::default(),
            store: Map::default(),
            namespaces: Index::default(),
            nodes,
            generation: AtomicU64::new(0),
        }
    }

    /// Appends a delta, and queues the key if it was not pending.
    ///
    /// `generation` returns the number of the current relist, and is called with the entry locked.
    /// If an offer read the number earlier, a relist could begin and list the key before the offer
    /// is queued; the end of that relist would then delete the key.
    fn push(&self, key: Key, kind: DeltaType, object: Arc<T>, generation: impl FnOnce() -> u64) {
        match self.pending.entry(key) {
            Entry::Occupied(mut entry) => entry.get_mut().push(kind, object, generation()),
            Entry::Vacant(entry) => {
                let key = entry.key().clone();
                let generation = generation();
                // The entry stays locked during the push, so that the queue has the keys in the
                // order of their offers.
                let _entry = entry
                    .insert(Pending { deltas: SmallVec::from_buf([(kind, object)]), generation });
                self.ready.push(key);
            }
        }
    }

    /// Offers a deletion of each key that the relist of this generation did not list, if the key is
    /// in the store or was pending before the relist.
    fn delete_unlisted(&self, generation: u64, pending_before: &[Key]) {
        // Collected before an entry of `pending` is locked: a consumer locks an entry of `pending`
        // and then one of the store, so the opposite order could deadlock.
        let known: Vec<_> = self
            .store
            .iter()
            .filter(|known| known.generation < generation)
            .map(|known| (known.key().clone(), known.object.clone()))
            .collect();
        for (key, object) in known {
            self.push(key, DeltaType::Deleted, object, || generation);
        }
        for key in pending_before {
            if let Some(mut pending) = self.pending.get_mut(key)
                && pending.generation < generation
                && let Some((_, object)) = pending.deltas.last()
            {
                let object = object.clone();
                pending.push(DeltaType::Deleted, object, generation);
            }
        }
    }

    /// Takes all deltas of a key and applies them, while the entry of the key is locked.
    fn handle(&self, key: &Key, handler: &mut impl FnMut(&Event<'_, T>)) {
        let Entry::Occupied(mut entry) = self.pending.entry(key.clone()) else {
            // unreachable: only this function removes keys from `pending`, and a key is queued once
            return;
        };
        let generation = entry.get().generation;
        for (kind, object) in std::mem::take(&mut entry.get_mut().deltas) {
            if kind == DeltaType::Deleted {
                self.remove_object(key, handler);
            } else {
                self.store_object(key, &object, generation, handler);
            }
        }
        entry.remove();
    }

    fn store_object(
        &self,
        key: &Key,
        object: &Arc<T>,
        generation: u64,
        handler: &mut impl FnMut(&Event<'_, T>),
    ) {
        match self.store.entry(key.clone()) {
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.generation = known.generation.max(generation);
                let old = std::mem::replace(&mut known.object, object.clone());
                drop(entry);
                self.reindex(key, Some(&old), Some(object));
                handler(&Event::Updated(object));
            }
            Entry::Vacant(entry) => {
                drop(entry.insert(Known { object: object.clone(), generation }));
                self.reindex(key, None, Some(object));
                handler(&Event::Added);
            }
        }
    }

    fn remove_object(&self, key: &Key, handler: &mut impl FnMut(&Event<'_, T>)) {
        if let Some((_, known)) = self.store.remove(key) {
            self.reindex(key, Some(&known.object), None);
        }
        handler(&Event::Deleted);
    }

    /// Moves a key in the indexes from the values of the old object to those of the new one. `old`
    /// is `None` for a new key, and `new` for a deleted one.
    fn reindex(&self, key: &Key, old: Option<&T>, new: Option<&T>) {
        let namespace = |object| self.meta.namespace(object).unwrap_or_default();
        self.namespaces.update(key, old.map(namespace), new.map(namespace));
        if let Some(nodes) = &self.nodes {
            let node = |object| node(&self.meta, object);
            nodes.update(key, old.map(node).as_deref(), new.map(node).as_deref());
        }
    }

    fn known(&self, key: &str) -> Option<Arc<T>> {
        self.store.get(key).map(|known| known.object.clone())
    }
}

impl<T> Pending<T> {
    /// Appends a delta. If two deletions follow each other, the first one is kept.
    fn push(&mut self, kind: DeltaType, object: Arc<T>, generation: u64) {
        self.generation = self.generation.max(generation);
        let deleted = self.deltas.last().is_some_and(|(last, _)| *last == DeltaType::Deleted);
        if !(deleted && kind == DeltaType::Deleted) {
            self.deltas.push((kind, object));
        }
    }
}

impl<T: Send + Sync, M: Meta<T>> ListEngine<T> for DashMapEngine<T, M> {
    type List = Vec<Arc<T>>;

    fn replace(&self, list: Vec<Arc<T>>, _version: &str) {
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let pending_before: Vec<_> =
            self.pending.iter().map(|pending| pending.key().clone()).collect();
        for object in list {
            let key = with_key(&self.meta, &*object, |key| match self.store.get_mut(key) {
                Some(mut known) => {
                    known.generation = generation;
                    known.key().clone()
                }
                None => key.into(),
            });
            self.push(key, DeltaType::Replaced, object, || generation);
        }
        self.delete_unlisted(generation, &pending_before);
    }

    fn drain(&self) -> Counts {
        drain_on(cores(), || {
            let mut counts = Counts::default();
            while let Some(key) = self.ready.try_pop() {
                self.handle(&key, &mut |event| counts.record(event));
            }
            counts
        })
    }

    fn for_each_known(&self, mut visit: impl FnMut(&T)) {
        for known in &self.store {
            visit(&known.object);
        }
    }
}

impl<T: Send + Sync, M: Meta<T>> StoreEngine<T> for DashMapEngine<T, M> {
    type Key = String;

    fn key(&self, object: &Arc<T>) -> String {
        with_key(&self.meta, &**object, str::to_owned)
    }

    fn get(&self, key: &String) -> Option<impl AsRef<T>> {
        self.known(key)
    }
}

impl<T: Send + Sync, M: Meta<T>> IndexEngine<T> for DashMapEngine<T, M> {
    fn by_node(&self, node: &str) -> Vec<Arc<T>> {
        self.nodes.as_ref().map(|nodes| nodes.find(node, |key| self.known(key))).unwrap_or_default()
    }

    fn by_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.namespaces.find(namespace, |key| self.known(key))
    }
}

impl<T: Send + Sync, M: Meta<T>> QueueEngine<T> for DashMapEngine<T, M> {
    fn update(&self, object: Arc<T>) {
        let key = with_key(&self.meta, &*object, |key| Key::from(key));
        // With the current generation, so that a running relist does not delete the key.
        self.push(key, DeltaType::Updated, object, || self.generation.load(Ordering::SeqCst));
    }

    fn consume(&self, mut handler: impl FnMut(&Event<'_, T>)) -> usize {
        let mut pops = 0;
        while let Some(key) = self.ready.pop() {
            self.handle(&key, &mut handler);
            pops += 1;
        }
        pops
    }

    fn close(&self) {
        self.ready.close();
    }
}
