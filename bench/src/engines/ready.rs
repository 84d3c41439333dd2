//! A queue of keys for blocking consumers. It is lock-free while it has keys, and uses a condition
//! variable while it is empty.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use crossbeam::queue::SegQueue;
use parking_lot::{Condvar, Mutex};

/// Number of times that a consumer polls an empty queue before it sleeps. A busy producer offers
/// again within a microsecond, and a wake-up takes several.
const SPINS: usize = 200;

#[derive(Default)]
pub struct ReadyQueue<K> {
    keys: SegQueue<K>,
    closed: AtomicBool,
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl<K> ReadyQueue<K> {
    pub fn push(&self, key: K) {
        self.keys.push(key);
        // Pairs with the fence in `sleep`: either this thread sees the sleeper, or the sleeper sees
        // the key.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // Locking and unlocking waits for a sleeper that has polled before the push: it waits
            // on the condition variable by then, and is notified below.
            drop(self.sleeping.lock());
            self.wake.notify_one();
        }
    }

    pub fn try_pop(&self) -> Option<K> {
        self.keys.pop()
    }

    /// Pops a key. Blocks while the queue is empty. Returns `None` if it is closed and empty.
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
        fence(Ordering::SeqCst); // pairs with the fence in `push`
        let key = loop {
            // Read before the poll, so that keys that were offered before the close are popped.
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
