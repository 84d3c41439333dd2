//! The state behind the mutex: the pending deltas, the order of their keys, and the progress of
//! the initial population. It implements every rule of the queue that needs neither the key
//! function nor the known objects.

use std::collections::VecDeque;
use std::sync::Arc;

use deltafifo::{DeletedFinalStateUnknown, Delta, DeltaType};
use foldhash::fast::RandomState;
use hashbrown::hash_map::{Entry, EntryRef};
use hashbrown::{HashMap, HashSet};
use smallvec::{SmallVec, smallvec};

use super::Popped;

/// The deltas of one key, oldest first. Nearly every key has one delta, which needs no allocation.
pub(super) type Pending<T> = SmallVec<[Delta<T>; 1]>;

/// The keys of the objects that a relist lists.
pub(super) type Listed = HashSet<String, RandomState>;

/// The pending deltas and the queue of their keys. Each pending key is in `queue` exactly once.
pub(super) struct State<T> {
    pending: HashMap<Arc<str>, Pending<T>, RandomState>,
    queue: VecDeque<Arc<str>>,
    /// Whether something was offered, or the first relist has ended.
    pub(super) populated: bool,
    /// The number of items of the first relist that are not popped yet.
    pub(super) initial: usize,
    /// Whether the queue was closed, so that no pop blocks.
    pub(super) closed: bool,
}

impl<T> State<T> {
    pub(super) fn new() -> Self {
        Self {
            pending: HashMap::default(),
            queue: VecDeque::new(),
            populated: false,
            initial: 0,
            closed: false,
        }
    }

    /// Reserves room for the keys of a relist, so that the table does not grow during the relist.
    pub(super) fn reserve(&mut self, keys: usize) {
        let more = keys.saturating_sub(self.pending.len());
        self.pending.reserve(more);
        self.queue.reserve(more);
    }

    /// Appends a delta to its key, and queues the key if it was not pending.
    pub(super) fn push(&mut self, key: &str, delta: Delta<T>) {
        match self.pending.entry_ref(key) {
            EntryRef::Occupied(mut deltas) => push_deduplicated(deltas.get_mut(), delta),
            EntryRef::Vacant(vacant) => {
                let key: Arc<str> = key.into();
                self.queue.push_back(key.clone());
                vacant.insert_with_key(key, smallvec![delta]);
            }
        }
    }

    /// Puts popped deltas back under their key, unless the key has newer ones. This does not count
    /// as an offer that populates the queue.
    pub(super) fn push_absent(&mut self, key: Arc<str>, deltas: Pending<T>) {
        if let Entry::Vacant(vacant) = self.pending.entry(key) {
            self.queue.push_back(vacant.key().clone());
            vacant.insert(deltas);
        }
    }

    /// Takes the first key and all its deltas. Returns `None` if no key is pending.
    pub(super) fn take(&mut self) -> Option<Popped<T>> {
        // Read before `initial` is decremented, because the last item of the initial list still
        // belongs to the list.
        let is_in_initial_list = !self.has_synced();
        let key = self.queue.pop_front()?;
        self.initial = self.initial.saturating_sub(1);
        let deltas = self.pending.remove(&*key)?;
        Some(Popped { key, deltas, is_in_initial_list })
    }

    /// Queues a deletion for each pending key that is not in `listed`, and returns the number of
    /// these deletions. Every key in `listed` must be pending.
    pub(super) fn delete_unlisted(&mut self, listed: &Listed) -> usize {
        // Every listed key is pending now, so equal counts mean that no other key is.
        if self.pending.len() == listed.len() {
            return 0;
        }
        let mut deletions = 0;
        for (key, deltas) in &mut self.pending {
            if !listed.contains(&**key) {
                let obj = deltas.last().and_then(|newest| newest.object.object()).cloned();
                let tombstone = DeletedFinalStateUnknown::new(&**key, obj);
                push_deduplicated(deltas, Delta::new(DeltaType::Deleted, tombstone));
                deletions += 1;
            }
        }
        deletions
    }

    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    pub(super) fn get(&self, key: &str) -> Option<&Pending<T>> {
        self.pending.get(key)
    }

    pub(super) fn is_pending(&self, key: &str) -> bool {
        self.pending.contains_key(key)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Pending<T>)> {
        self.pending.iter()
    }
}

/// Appends a delta. If two deletions follow each other, only one is kept: the older one, which has
/// the object, unless it is a tombstone. Nothing else is merged.
fn push_deduplicated<T>(deltas: &mut Pending<T>, delta: Delta<T>) {
    match deltas.last_mut() {
        Some(last) if last.kind == DeltaType::Deleted && delta.kind == DeltaType::Deleted => {
            if last.object.is_tombstone() {
                *last = delta;
            }
        }
        _ => deltas.push(delta),
    }
}
