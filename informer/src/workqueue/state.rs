//! The state of a queue behind its lock: the entries of the keys with a table that finds them, the
//! order of queued keys, the times that keys wait for, and the getters that sleep.

use std::collections::BTreeMap;
use std::task::Waker;

use tokio::time::Instant;

use super::delays::Delays;
use super::entry::{Entry, EntryState, KeyTime, Requested};
use super::line::KeyOrder;
use super::sleepers::Sleepers;
use super::sync::mutant;
use super::table::{KeyHash, KeyTable};
use crate::util::slab::Slab;

/// The phase of the queue. It never returns to `Open`; the other two may alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePhase {
    Open,
    /// Adds are ignored, and no drain waits.
    ShutDown,
    /// Adds are ignored, and a drain waits until all keys are done.
    Draining,
}

/// The outcome of an add.
#[must_use]
pub(super) enum Added {
    /// The key is dirty and queued. The caller must wake the getter.
    Queued(Option<Waker>),
    /// The key is dirty and being processed. It is queued when the processing ends.
    Again,
    /// The key now has the earliest wait of all keys. The caller must wake the queue's task
    /// ([`Keeper`](super::keeper::Keeper)).
    WaitsFirst,
    /// No waiter has to be woken.
    Quietly,
}

/// The outcome of the end of a processing.
#[must_use]
pub(super) struct ProcessingEnd<K> {
    /// The getter to wake, because the key is queued again.
    pub(super) wakes: Option<Waker>,
    /// Whether this was the last key that a drain waits for.
    pub(super) drained: bool,
    /// The key, if it leaves the queue. Its drop is user code.
    pub(super) removed: Option<K>,
}

/// The state of a queue.
pub(super) struct QueueState<K> {
    table: KeyTable,
    entries: Slab<Entry<K>>,
    /// The number of an entry without a key, for the next new key. The entry of the key that left
    /// last thus keeps its place, and a new key is written into it field by field.
    spare: Option<u32>,
    order: KeyOrder,
    pub(super) delays: Delays,
    pub(super) sleepers: Sleepers,
    /// The number of keys being processed.
    processing: usize,
    /// The time at which the processing of each key began, by the number of its entry, for metrics.
    started: BTreeMap<u32, Instant>,
    pub(super) phase: QueuePhase,
}

impl<K: Eq> QueueState<K> {
    pub(super) fn find(&self, hash: KeyHash, key: &K) -> Option<u32> {
        self.table.find(hash, |slot| self.entries[slot].key.as_ref() == Some(key))
    }
}

impl<K> QueueState<K> {
    pub(super) fn new() -> Self {
        Self {
            table: KeyTable::default(),
            entries: Slab::default(),
            spare: None,
            order: KeyOrder::default(),
            delays: Delays::default(),
            sleepers: Sleepers::default(),
            processing: 0,
            started: BTreeMap::new(),
            phase: QueuePhase::Open,
        }
    }

    /// Creates the entry of a key that is not in the table. The caller must add the key before it
    /// releases the lock.
    pub(super) fn insert(&mut self, hash: KeyHash, key: K) -> u32 {
        let slot = self.reserve(hash);
        let entry = &mut self.entries[slot];
        (entry.key, entry.hash) = (Some(key), hash);
        slot
    }

    /// Adds a key that is not in the table, to be processed at once.
    pub(super) fn insert_dirty(
        &mut self,
        hash: KeyHash,
        key: K,
        requested: Requested,
        since: Option<Instant>,
    ) -> Added {
        let slot = self.reserve(hash);
        let (age, level) = self.order.append(&mut self.entries, slot, requested.priority);
        let entry = &mut self.entries[slot];
        (entry.key, entry.hash) = (Some(key), hash);
        (entry.age, entry.level) = (age, level);
        (entry.priority, entry.tag) = (requested.priority, requested.tag);
        entry.time = since.map_or(KeyTime::None, KeyTime::DirtySince);
        entry.state = EntryState::Queued;
        mutant!(AddWakesNoGetter => return Added::Queued(None));
        Added::Queued(self.sleepers.wake())
    }

    /// Puts a spare entry into the table. The caller must store the key and the hash in the entry.
    /// The hash finds the entry in the table when the key leaves the queue.
    #[inline]
    fn reserve(&mut self, hash: KeyHash) -> u32 {
        let slot = self.spare.take().unwrap_or_else(|| self.entries.insert(Entry::spare()));
        self.table.insert(hash, slot);
        slot
    }

    pub(super) fn entry(&mut self, slot: u32) -> &mut Entry<K> {
        &mut self.entries[slot]
    }

    /// Raises the key to the priority of `to`, unless its priority is at least that. A key that is
    /// neither dirty nor waiting has no priority, and always gets this one.
    pub(super) fn raise(&mut self, slot: u32, to: Requested) {
        let entry = &mut self.entries[slot];
        if entry.is_requested() && to.priority <= entry.priority {
            return;
        }
        entry.tag = to.tag;
        if entry.state == EntryState::Queued {
            self.order.raise(&mut self.entries, slot, to.priority);
        } else {
            entry.priority = to.priority;
        }
    }

    /// Requests that the key be processed, not before `at`.
    pub(super) fn add(
        &mut self,
        slot: u32,
        requested: Requested,
        at: Option<Instant>,
        since: Option<Instant>,
    ) -> Added {
        self.raise(slot, requested);
        let entry = &mut self.entries[slot];
        match (entry.state, at) {
            (EntryState::Queued | EntryState::Again, _) => Added::Quietly,
            (EntryState::Idle | EntryState::Processing, Some(at)) => {
                if let Some(delay) = entry.delay() {
                    if delay.at <= at {
                        return Added::Quietly;
                    }
                    self.delays.remove(delay);
                }
                let (delay, is_first) = self.delays.insert(at, slot);
                (entry.tag, entry.time) = (requested.tag, KeyTime::WaitsFor(delay));
                if is_first { Added::WaitsFirst } else { Added::Quietly }
            }
            (EntryState::Idle | EntryState::Processing, None) => {
                entry.tag = requested.tag;
                if let Some(delay) = entry.delay() {
                    self.delays.remove(delay);
                }
                self.make_dirty(slot, since)
            }
        }
    }

    /// Makes a key dirty that is idle or being processed.
    fn make_dirty(&mut self, slot: u32, since: Option<Instant>) -> Added {
        let entry = &mut self.entries[slot];
        entry.time = since.map_or(KeyTime::None, KeyTime::DirtySince);
        mutant!(ProcessingKeyIsQueued => entry.state = EntryState::Idle);
        mutant!(AddDuringProcessingIsLost => if entry.state == EntryState::Processing {
            return Added::Quietly;
        });
        if entry.state == EntryState::Processing {
            entry.state = EntryState::Again;
            return Added::Again;
        }
        entry.state = EntryState::Queued;
        let priority = entry.priority;
        self.order.push(&mut self.entries, slot, priority);
        mutant!(AddWakesNoGetter => return Added::Queued(None));
        Added::Queued(self.sleepers.wake())
    }

    /// Ends the earliest wait if its time has come, which makes its key dirty.
    pub(super) fn end_wait(&mut self, now: Instant, since: Option<Instant>) -> Option<Added> {
        let slot = self.delays.pop_due(now)?;
        Some(self.make_dirty(slot, since))
    }

    /// Ends the wait of a key that is never to be queued. Returns the key if it leaves the queue,
    /// because its drop is user code. The caller must have taken its delay from `delays`.
    pub(super) fn forgo_wait(&mut self, slot: u32) -> Option<K> {
        let entry = &mut self.entries[slot];
        (entry.time, entry.limited) = (KeyTime::None, false);
        if entry.state != EntryState::Idle {
            return None;
        }
        let (key, hash) = (entry.key.take(), entry.hash);
        self.release(slot, hash);
        key
    }

    /// Takes the next key, which counts as being processed from now on. Returns the number of its
    /// entry, the entry, and the time at which the key became dirty.
    pub(super) fn take(
        &mut self,
        now: Option<Instant>,
    ) -> Option<(u32, &mut Entry<K>, Option<Instant>)> {
        let slot = self.order.pop(&mut self.entries)?;
        let entry = &mut self.entries[slot];
        let since = entry.dirty_since();
        (entry.state, entry.time, entry.limited) = (EntryState::Processing, KeyTime::None, false);
        self.processing += 1;
        self.started.extend(now.map(|now| (slot, now)));
        Some((slot, entry, since))
    }

    /// Ends the processing of a key.
    #[inline]
    pub(super) fn end(&mut self, slot: u32) -> ProcessingEnd<K> {
        self.processing -= 1;
        let entry = &mut self.entries[slot];
        let (mut wakes, mut removed) = (None, None);
        if entry.state == EntryState::Again {
            entry.state = EntryState::Queued;
            let priority = entry.priority;
            self.order.push(&mut self.entries, slot, priority);
            mutant!(QueuedAgainWakesNoGetter => {
                return ProcessingEnd { wakes, drained: false, removed };
            });
            wakes = self.sleepers.wake();
        } else {
            entry.state = EntryState::Idle;
            if !entry.is_requested() {
                let hash = entry.hash;
                removed = entry.key.take();
                self.release(slot, hash);
            }
        }
        let drained = self.phase == QueuePhase::Draining && !self.is_draining();
        ProcessingEnd { wakes, drained, removed }
    }

    /// Removes the entry of a key that has left the queue.
    #[inline]
    fn release(&mut self, slot: u32, hash: KeyHash) {
        if self.spare.is_none() {
            self.spare = Some(slot);
        } else {
            self.entries.remove(slot);
        }
        self.table.remove(hash, slot);
    }

    /// Removes and returns the time at which the processing of a key began, if it was recorded.
    pub(super) fn take_started(&mut self, slot: u32) -> Option<Instant> {
        self.started.remove(&slot)
    }

    /// Returns the times at which the processing of the keys began.
    pub(super) fn started(&self) -> impl Iterator<Item = Instant> {
        self.started.values().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether a drain must still wait.
    pub(super) fn is_draining(&self) -> bool {
        mutant!(DrainIgnoresProcessing => {
            return self.phase == QueuePhase::Draining && self.len() > 0;
        });
        self.phase == QueuePhase::Draining && (self.processing > 0 || self.len() > 0)
    }
}

#[cfg(test)]
impl<K> QueueState<K> {
    /// Returns the number of keys for which memory is allocated: in the entries, and in the table.
    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.entries.capacity(), self.table.capacity())
    }
}
