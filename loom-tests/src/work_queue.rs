//! Random schedules of a work queue: adders, reconcilers that take keys in every way that the queue
//! offers, and then a shutdown, half of the time with a drain.
//!
//! The oracle: no key is processed by two reconcilers at once, each add is followed by a processing
//! of its key, and a key is not processed more often than it was added. A drain ends when no key is
//! queued or being processed. shuttle reports a thread that sleeps for ever as a deadlock, so a
//! lost wake-up fails the schedule. Delays are left out, because a schedule has no clock.

use std::mem;
use std::pin::pin;
use std::sync::Arc;

use deltafifo_informer::workqueue::{AddOptions, Item, WorkQueue};
use futures_util::StreamExt;
use futures_util::future::poll_immediate;
use futures_util::stream::FuturesUnordered;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;
use tokio::runtime;

const KEYS: usize = 3;
const ADDERS: usize = 2;
/// The number of keys that each adder adds.
const ADDS: usize = 12;
const RECONCILERS: usize = 3;

#[derive(Default)]
struct KeyState {
    added: usize,
    /// The number of adds that had begun when the last processing began.
    seen: usize,
    processings: usize,
    is_processed: bool,
}

struct WorkQueueWorld {
    queue: WorkQueue<usize>,
    keys: Mutex<[KeyState; KEYS]>,
    /// Notified each time a processing begins.
    progress: Condvar,
}

impl WorkQueueWorld {
    fn keys(&self) -> MutexGuard<'_, [KeyState; KEYS]> {
        self.keys.lock().unwrap()
    }

    fn add(&self, key: usize) {
        self.keys()[key].added += 1;
        self.queue.add_with(key, AddOptions::new().priority(thread_rng().gen_range(-1..=1)));
    }

    fn add_some(&self) {
        (0..ADDS).for_each(|_| self.add(thread_rng().gen_range(0..KEYS)));
    }

    fn reconcile(&self, item: Item<usize>) {
        let key = *item.key();
        let mut keys = self.keys();
        let state = &mut keys[key];
        assert!(!mem::replace(&mut state.is_processed, true), "two reconcilers process a key");
        state.seen = state.added;
        state.processings += 1;
        assert!(state.processings <= state.added, "a key is processed more often than added");
        drop(keys);
        self.progress.notify_all();
        self.keys()[key].is_processed = false;
        if thread_rng().gen_bool(0.5) {
            item.done();
        }
    }

    fn assert_at_rest(&self) {
        for state in self.keys().iter() {
            assert_eq!(state.seen, state.added, "an add was not followed by a processing");
            assert!(!state.is_processed, "a processing has not ended");
        }
    }
}

pub fn everything() {
    let timers = runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let queue = {
        let _entered = timers.enter();
        WorkQueue::builder().build().unwrap()
    };
    let (keys, progress) = (Mutex::default(), Condvar::new());
    let world = Arc::new(WorkQueueWorld { queue, keys, progress });
    let spawn = |work: fn(&WorkQueueWorld)| {
        let world = world.clone();
        thread::spawn(move || work(&world))
    };
    let reconcilers = [(); RECONCILERS].map(|()| {
        spawn(|world| {
            while let Some(item) = block_on(next(&world.queue)) {
                world.reconcile(item);
            }
        })
    });
    let adders = [(); ADDERS].map(|()| spawn(WorkQueueWorld::add_some));
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    if thread_rng().gen_bool(0.5) {
        block_on(world.queue.shut_down_with_drain());
        world.assert_at_rest();
    } else {
        // A shutdown wakes all reconcilers, even if no add did.
        let is_behind = |keys: &mut [KeyState; KEYS]| keys.iter().any(|key| key.seen < key.added);
        drop(world.progress.wait_while(world.keys(), is_behind).unwrap());
        world.queue.shut_down();
    }
    reconcilers.into_iter().for_each(|reconciler| reconciler.join().unwrap());
    world.assert_at_rest();
    assert!(world.queue.is_empty());
}

/// Takes the next key. Returns `None` once the queue is shut down and empty.
async fn next(queue: &WorkQueue<usize>) -> Option<Item<usize>> {
    loop {
        match thread_rng().gen_range(0..4) {
            // This call is dropped after one poll, possibly after it was woken.
            0 => {
                if let Some(next) = poll_immediate(queue.get()).await {
                    return next;
                }
            }
            // This call is polled with one waker, and then with another.
            1 => {
                let mut get = pin!(queue.get());
                let mut first = FuturesUnordered::from_iter([get.as_mut()]);
                if let Some(Some(next)) = poll_immediate(first.next()).await {
                    return next;
                }
                drop(first);
                return get.await;
            }
            2 => {
                if let Some(item) = queue.try_get() {
                    return Some(item);
                }
            }
            _ => return queue.get().await,
        }
        thread::yield_now();
    }
}
