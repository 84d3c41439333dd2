//! client-go's work queue, written in good Rust without any new idea: one mutex around the *dirty*
//! keys (those that were added and not taken since), the keys that are being processed, and the
//! order of the keys that can be taken. A key is hashed once for each add, outside the lock, and
//! waiters are woken outside the lock.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::{Condvar, Mutex};

/// A work queue of the classic design, without metrics, delayed adds and rate limits.
pub struct MutexWorkQueue<K> {
    state: Mutex<WorkState<K>>,
    /// The condition that is notified when a key can be taken, and when the queue is shut down.
    changed: Condvar,
    hasher: RandomState,
}

/// A key that is being processed, until [`MutexWorkQueue::done`] is called with it.
#[derive(Clone)]
pub struct Work<K> {
    hash: u64,
    key: K,
}

/// A set of keys with their hashes.
struct WorkTable<K>(HashTable<Work<K>>);

struct WorkState<K> {
    /// The keys that can be taken, in the order of their arrival. Each key is dirty, and none is
    /// being processed.
    queue: VecDeque<Work<K>>,
    dirty: WorkTable<K>,
    processing: WorkTable<K>,
    shut_down: bool,
}

impl<K: Clone + Eq + Hash> MutexWorkQueue<K> {
    /// Creates an empty queue.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a queue is made, not defaulted")]
    pub fn new() -> Self {
        let [dirty, processing] = [HashTable::new(), HashTable::new()].map(WorkTable);
        let state = WorkState { queue: VecDeque::new(), dirty, processing, shut_down: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), hasher: RandomState::default() }
    }

    /// Queues a key. A key that is being processed is queued again when its processing ends. Does
    /// nothing after the shutdown.
    pub fn add(&self, key: K) {
        let key = Work { hash: self.hasher.hash_one(&key), key };
        let mut state = self.state.lock();
        if state.shut_down || !state.dirty.insert(key.clone()) || state.processing.contains(&key) {
            return;
        }
        state.queue.push_back(key);
        drop(state);
        self.changed.notify_one();
    }

    /// Takes the next key. Blocks while the queue is empty. Returns `None` once the queue is shut
    /// down and empty.
    pub fn get(&self) -> Option<Work<K>> {
        let mut state = self.state.lock();
        loop {
            if let Some(key) = state.queue.pop_front() {
                let work = state.dirty.remove(&key);
                state.processing.insert(key);
                return work;
            }
            if state.shut_down {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Ends the processing of a key. The key is queued again if it was added while it was being
    /// processed.
    pub fn done(&self, key: Work<K>) {
        let mut state = self.state.lock();
        state.processing.remove(&key);
        if state.dirty.contains(&key) {
            state.queue.push_back(key);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Shuts the queue down. From then on adds are ignored, and [`get`](Self::get) returns the
    /// remaining keys and then `None`.
    pub fn shut_down(&self) {
        self.state.lock().shut_down = true;
        self.changed.notify_all();
    }
}

impl<K> Work<K> {
    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Eq> WorkTable<K> {
    fn contains(&self, key: &Work<K>) -> bool {
        self.0.find(key.hash, |other| other.key == key.key).is_some()
    }

    /// Inserts a key. Returns false if the set had it already.
    fn insert(&mut self, key: Work<K>) -> bool {
        match self.0.entry(key.hash, |other| other.key == key.key, |other| other.hash) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(key);
                true
            }
        }
    }

    fn remove(&mut self, key: &Work<K>) -> Option<Work<K>> {
        let entry = self.0.find_entry(key.hash, |other| other.key == key.key).ok()?;
        Some(entry.remove().0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::{MutexWorkQueue, Work};

    fn add_all(queue: &MutexWorkQueue<u32>, keys: &[u32]) {
        for key in keys {
            queue.add(*key);
        }
    }

    fn take(queue: &MutexWorkQueue<u32>, expected: u32) -> Work<u32> {
        let work = queue.get().expect("a key");
        assert_eq!(*work.key(), expected);
        work
    }

    #[test]
    fn key_added_twice_is_taken_once() {
        let queue = MutexWorkQueue::new();
        add_all(&queue, &[1, 2, 1]);
        queue.shut_down();
        for expected in [1, 2] {
            queue.done(take(&queue, expected));
        }
        assert!(queue.get().is_none());
    }

    #[test]
    fn key_added_during_its_processing_is_queued_again_afterwards() {
        let queue = MutexWorkQueue::new();
        add_all(&queue, &[1]);
        let first = take(&queue, 1);
        add_all(&queue, &[1, 2, 1]);
        let other = take(&queue, 2);
        queue.done(first);
        queue.shut_down();
        let again = take(&queue, 1);
        queue.done(again);
        queue.done(other);
        assert!(queue.get().is_none());
    }

    #[test]
    fn add_after_the_shutdown_is_ignored() {
        let queue = MutexWorkQueue::new();
        add_all(&queue, &[1]);
        queue.shut_down();
        add_all(&queue, &[2]);
        let left = take(&queue, 1);
        add_all(&queue, &[1]);
        queue.done(left);
        assert!(queue.get().is_none());
    }

    #[test]
    fn added_keys_and_the_shutdown_wake_waiting_threads() {
        const KEYS: u32 = 2000;
        let (queue, taken) = (MutexWorkQueue::new(), AtomicUsize::new(0));
        let mut seen = thread::scope(|scope| {
            let worker = || {
                let mut seen = Vec::new();
                while let Some(work) = queue.get() {
                    seen.push(*work.key());
                    queue.done(work);
                    taken.fetch_add(1, Ordering::Relaxed);
                }
                seen
            };
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            for half in [0..KEYS / 2, KEYS / 2..KEYS] {
                let end = half.end as usize;
                half.for_each(|key| queue.add(key));
                // Until the queue is empty, so that the threads wait again.
                while taken.load(Ordering::Relaxed) < end {
                    thread::yield_now();
                }
            }
            queue.shut_down();
            let seen = workers.into_iter().map(|worker| worker.join().expect("a worker"));
            seen.flatten().collect::<Vec<_>>()
        });
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..KEYS), "each key is taken once");
    }
}
