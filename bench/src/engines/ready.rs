//! A queue of keys for consumers that wait: lock-free while there is work, a condition variable
//! when there is none.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use crossbeam::queue::SegQueue;
use parking_lot::{Condvar, Mutex};

/// How often an empty queue is looked at before its consumer sleeps. A producer that is at work
/// offers again within a microsecond, and a wake-up costs several.
const SPINS: usize = 200;

/// See the module.
pub struct ReadyQueue<K> {
    keys: SegQueue<K>,
    closed: AtomicBool,
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl<K> ReadyQueue<K> {
    pub fn new() -> Self {
        Self {
            keys: SegQueue::new(),
            closed: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    pub fn push(&self, key: K) {
        self.keys.push(key);
        // Pairs with the fence in `sleep`: either this sees the sleeper, or the sleeper sees the
        // key.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // Taken and left, so that a sleeper is either before its last look or waiting already.
            drop(self.sleeping.lock());
            self.wake.notify_one();
        }
    }

    pub fn try_pop(&self) -> Option<K> {
        self.keys.pop()
    }

    /// Waits for a key. `None` when the queue is closed and empty.
    pub fn pop(&self) -> Option<K> {
        for _ in 0..SPINS {
            if let Some(key) = self.keys.pop() {
                return Some(key);
            }
            std::hint::spin_loop();
        }
        self.sleep()
    }

    fn sleep(&self) -> Option<K> {
        let mut sleeping = self.sleeping.lock();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the one in `push`
        let key = loop {
            // Read before the look: what was offered before the close is then seen.
            let closed = self.closed.load(Ordering::Acquire);
            match self.keys.pop() {
                Some(key) => break Some(key),
                None if closed => break None,
                None => self.wake.wait(&mut sleeping),
            }
        };
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        key
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        drop(self.sleeping.lock());
        self.wake.notify_all();
    }
}
