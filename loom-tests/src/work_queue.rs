//! Random schedules of a work queue: adders, reconcilers that take keys in every way that the queue
//! offers, and then a shutdown, half of the time with a drain.
//!
//! The oracle: no key is processed by two reconcilers at once, a processing of each key begins
//! after its last add has begun, and a key is not processed more often than it was added. A drain
//! ends when no key is queued or being processed. shuttle reports a thread that sleeps for ever as
//! a deadlock. So a lost wake-up fails the schedule, unless a later wake-up or a poll makes up for
//! it. Delays are left out, because a schedule has no clock.

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
/// The number of keys after which the first reconciler leaves. Another may follow if it is ready.
const TAKEN_BY_THE_FIRST: usize = 6;

#[derive(Default)]
struct KeyState {
    added: usize,
    /// The number of adds that had begun when the last processing began.
    seen: usize,
    processings: usize,
    is_processed: bool,
    /// The number of reconcilers that have an item of the key, or have just ended one.
    holders: usize,
}

struct WorkQueueWorld {
    queue: WorkQueue<usize>,
    keys: Mutex<[KeyState; KEYS]>,
    /// Notified each time a reconciler has ended an item.
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
        state.holders += 1;
        assert!(state.processings <= state.added, "a key is processed more often than added");
        drop(keys);
        self.keys()[key].is_processed = false;
        if thread_rng().gen_bool(0.5) {
            item.done();
        } else {
            drop(item);
        }
        self.keys()[key].holders -= 1;
        self.progress.notify_all();
    }

    fn reconcile_all(&self) {
        while let Some(item) = block_on(next(&self.queue)) {
            self.reconcile(item);
        }
    }

    /// Reconciles some keys, and then drops a call of `get`. Only a thread that leaves does not
    /// take a key itself whose wake-up it has not passed on.
    fn reconcile_some(&self) {
        for _ in 0..TAKEN_BY_THE_FIRST {
            let Some(item) = block_on(next(&self.queue)) else { return };
            self.reconcile(item);
        }
        if let Some(Some(item)) = block_on(poll_once(&self.queue)) {
            self.reconcile(item);
        }
    }

    fn assert_at_rest(&self) {
        for state in self.keys().iter() {
            assert_eq!(state.seen, state.added, "an add was not followed by a processing");
            assert!(!state.is_processed, "a processing has not ended");
        }
        assert!(self.queue.is_empty(), "a key is queued");
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
    let drains = thread_rng().gen_bool(0.5);
    // Reconcilers that end early could leave the last keys of a drain.
    let first = if drains { WorkQueueWorld::reconcile_all } else { WorkQueueWorld::reconcile_some };
    let mut reconcilers = vec![spawn(first)];
    reconcilers.extend([(); RECONCILERS - 1].map(|()| spawn(WorkQueueWorld::reconcile_all)));
    let adders = [(); ADDERS].map(|()| spawn(WorkQueueWorld::add_some));
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    if drains {
        block_on(world.queue.shut_down_with_drain());
        world.assert_at_rest();
    } else {
        // A shutdown wakes all reconcilers, even if no add did.
        let is_busy = |keys: &mut [KeyState; KEYS]| {
            keys.iter().any(|key| key.seen < key.added || key.holders > 0)
        };
        drop(world.progress.wait_while(world.keys(), is_busy).unwrap());
        world.queue.shut_down();
    }
    reconcilers.into_iter().for_each(|reconciler| reconciler.join().unwrap());
    world.assert_at_rest();
}

/// Takes the next key. Returns `None` once the queue is shut down and empty.
async fn next(queue: &WorkQueue<usize>) -> Option<Item<usize>> {
    loop {
        match thread_rng().gen_range(0..4) {
            0 => {
                if let Some(next) = poll_once(queue).await {
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

/// Polls a call of `get` once, and drops it a few steps later, possibly after it was woken.
async fn poll_once(queue: &WorkQueue<usize>) -> Option<Option<Item<usize>>> {
    let mut get = pin!(queue.get());
    let polled = poll_immediate(get.as_mut()).await;
    if polled.is_none() {
        (0..thread_rng().gen_range(0..40)).for_each(|_| thread::yield_now());
    }
    polled
}
