//! client-go's work queue as one would write it in Rust without a new idea: one mutex over the
//! keys that are dirty, the keys that are being processed, and the order of those that can be
//! taken. Done well: a key is hashed once for each add, and outside the lock; who is woken is
//! woken outside it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::{Condvar, Mutex};

/// See the module. Without metrics, times and rate limits.
pub struct MutexWorkQueue<K> {
    state: Mutex<State<K>>,
    /// There is a key to take, or there will be none.
    changed: Condvar,
    hasher: RandomState,
}

/// A key that is being processed, until it is given to [`MutexWorkQueue::done`].
#[derive(Clone)]
pub struct Work<K> {
    hash: u64,
    key: K,
}

/// A set of keys that are hashed already.
struct Keys<K>(HashTable<Work<K>>);

struct State<K> {
    /// First in, first out. Each is dirty, and none is being processed.
    queue: VecDeque<Work<K>>,
    dirty: Keys<K>,
    processing: Keys<K>,
    shut_down: bool,
}

impl<K: Clone + Eq + Hash> MutexWorkQueue<K> {
    /// An empty queue.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "an engine is made, not defaulted")]
    pub fn new() -> Self {
        let [dirty, processing] = [HashTable::new(), HashTable::new()].map(Keys);
        let state = State { queue: VecDeque::new(), dirty, processing, shut_down: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), hasher: RandomState::default() }
    }

    /// Asks for a key to be processed; of one that is being processed, again afterwards. Ignored
    /// after the end.
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

    /// Takes the next key; waits while there is none. `None`: the queue is shut down and empty.
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

    /// The key has been processed; it is queued if it was added meanwhile.
    pub fn done(&self, key: Work<K>) {
        let mut state = self.state.lock();
        state.processing.remove(&key);
        if state.dirty.contains(&key) {
            state.queue.push_back(key);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// From now on nothing is added; who waits gets what is left, and then `None`.
    pub fn shut_down(&self) {
        self.state.lock().shut_down = true;
        self.changed.notify_all();
    }
}

impl<K> Work<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Eq> Keys<K> {
    fn contains(&self, key: &Work<K>) -> bool {
        self.0.find(key.hash, |other| other.key == key.key).is_some()
    }

    /// Whether it was not there.
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
