//! Tests of shutting down: adds are ignored, getters are woken, and a drain waits (client-go
//! `queue_test.go`).

use std::hash::{Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo_informer::workqueue::{AddOptions, WorkQueue};
use deltafifo_oracle::workqueue::Sleeper;
use tokio::runtime::Handle;

use crate::common::{Queue, idle, ms, next, pass, queue, rest, spawn};

#[tokio::test(start_paused = true)]
async fn shut_down_wakes_every_getter_with_none() {
    let queue = queue();
    let getters: Vec<_> =
        (0..40).map(|_| spawn(&queue, async |queue: Queue| next(&queue).await)).collect();
    idle().await;
    assert!(!queue.is_shutting_down());
    queue.shut_down();
    assert!(queue.is_shutting_down());
    for getter in getters {
        assert_eq!(getter.await.unwrap(), None);
    }
    assert_eq!(next(&queue).await, None);
    assert_eq!(next(&queue).await, None);
}

#[tokio::test]
async fn queued_keys_are_returned_after_shut_down_and_then_none() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    queue.shut_down();
    assert_eq!(next(&queue).await, Some("foo"));
    assert_eq!(next(&queue).await, Some("bar"));
    assert_eq!(next(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn adds_after_shut_down_are_ignored_and_delayed_keys_dropped() {
    let queue = queue();
    queue.add_after("waits", ms(10));
    queue.add("queued");
    let item = queue.try_get().unwrap();
    queue.add_after("queued", ms(10));
    queue.shut_down();
    queue.add("foo");
    queue.add("waits");
    queue.add("queued");
    queue.add_after("bar", ms(10));
    queue.add_rate_limited("baz");
    queue.add_with("high", AddOptions::new().priority(1));
    pass(ms(100)).await;
    item.done();
    assert_eq!(next(&queue).await, None);
}

/// Checks that a shutdown frees keys that wait for a time: one that is idle, one that is being
/// processed, and one whose processing ended before.
#[tokio::test]
async fn shut_down_frees_keys_that_wait() {
    for drains in [false, true] {
        let queue = queue();
        let keys = [1, 2, 3].map(Arc::new);
        queue.add_after(Arc::clone(&keys[0]), ms(10_000));
        queue.add(Arc::clone(&keys[1]));
        let item = queue.try_get().unwrap();
        queue.add_after(Arc::clone(&keys[1]), ms(10_000));
        queue.add(Arc::clone(&keys[2]));
        let failed = queue.try_get().unwrap();
        queue.add_rate_limited(Arc::clone(&keys[2]));
        // Otherwise the rate limiter would keep the key with the number of its failures.
        queue.forget(&keys[2]);
        failed.done();
        if drains {
            drop(queue.shut_down_with_drain());
        } else {
            queue.shut_down();
        }
        assert_eq!(keys.each_ref().map(Arc::strong_count), [1, 3, 1]);
        item.done();
        assert_eq!(Arc::strong_count(&keys[1]), 1);
    }
}

/// Checks that a shutdown frees all keys that wait, although the drop of each panics.
#[tokio::test]
async fn panicking_drop_of_a_waiting_key_does_not_block_the_shutdown() {
    let queue = queue();
    let freed = Arc::new(AtomicUsize::new(0));
    for number in 0..3 {
        queue.add_after(Panics { number, freed: Arc::clone(&freed) }, ms(10_000));
    }
    let mut getter = Sleeper::of(queue.get());
    queue.shut_down();
    assert!(getter.is_woken() && getter.poll().flatten().is_none());
    assert_eq!(freed.load(Ordering::SeqCst), 3);
}

/// A key that counts its drop and panics in it.
#[derive(Clone)]
struct Panics {
    number: u32,
    freed: Arc<AtomicUsize>,
}

impl Drop for Panics {
    fn drop(&mut self) {
        self.freed.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("a drop that panics"));
    }
}

impl PartialEq for Panics {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Panics {}

impl Hash for Panics {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

#[tokio::test]
async fn key_added_during_processing_is_processed_again_after_shut_down() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    queue.add("foo");
    queue.shut_down();
    assert_eq!(next(&queue).await, None, "other workers get none");
    item.done();
    assert_eq!(next(&queue).await, Some("foo"));
    assert_eq!(next(&queue).await, None);
}

#[tokio::test]
async fn drain_waits_until_every_key_in_process_is_done() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let items = (queue.try_get().unwrap(), queue.try_get().unwrap());
    let mut drain = Sleeper::of(queue.shut_down_with_drain());
    assert_eq!(next(&queue).await, None);
    items.0.done();
    assert!(!drain.is_woken());
    items.1.done();
    assert!(drain.is_woken());
    assert!(drain.poll().is_some());
}

#[tokio::test]
async fn drain_waits_for_queued_keys_and_keys_added_during_processing() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    queue.add("foo");
    queue.add("bar");
    let mut drain = Sleeper::of(queue.shut_down_with_drain());
    item.done();
    assert_eq!(next(&queue).await, Some("bar"));
    assert!(!drain.is_woken());
    let again = queue.try_get().unwrap();
    assert_eq!(*again.key(), "foo");
    assert!(!drain.is_woken());
    again.done();
    assert!(drain.poll().is_some());
    assert_eq!(next(&queue).await, None);
}

#[tokio::test]
async fn shut_down_does_not_wait() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get();
    queue.shut_down();
    assert_eq!(next(&queue).await, None);
    drop(item);
}

#[tokio::test]
async fn shut_down_ends_a_drain_although_keys_are_in_process() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get();
    let mut drains =
        [Sleeper::of(queue.shut_down_with_drain()), Sleeper::of(queue.shut_down_with_drain())];
    queue.shut_down();
    assert!(drains.iter_mut().all(|drain| drain.is_woken() && drain.poll().is_some()));
    // A further drain can wait.
    let mut drain = Sleeper::of(queue.shut_down_with_drain());
    drop(item);
    assert!(drain.poll().is_some());
}

#[tokio::test]
async fn drain_of_an_idle_queue_ends_at_once_despite_delayed_keys() {
    let queue = queue();
    queue.add_after("later", ms(10_000));
    queue.shut_down_with_drain().await;
    queue.shut_down_with_drain().await;
}

#[tokio::test]
async fn drain_starts_at_the_call_and_not_when_it_is_awaited() {
    let queue = queue();
    let drain = queue.shut_down_with_drain();
    queue.add("late");
    assert!(rest(&queue).is_empty());
    drain.await;
}

/// Checks on real threads that a shutdown makes all workers return, while they add and get keys of
/// many priorities. In controller-runtime issue 3538, a get could wait for ever after a shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_that_add_and_get_return_after_shut_down() {
    for round in 0..50 {
        let queue = queue();
        let workers: Vec<_> = (0..20)
            .map(|worker| {
                spawn(&queue, async move |queue| {
                    for n in 0.. {
                        queue
                            .add_with((worker * 7 + n) % 1000, AddOptions::new().priority(n % 100));
                        if queue.get().await.is_none() {
                            return;
                        }
                    }
                })
            })
            .collect();
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        queue.shut_down();
        for worker in workers {
            tokio::time::timeout(ms(20_000), worker).await.expect("the worker returns").unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn timer_task_ends_with_its_queue() {
    let tasks = Handle::current().metrics();
    let queue = queue::<u32>();
    idle().await;
    assert_eq!(tasks.num_alive_tasks(), 1);
    queue.shut_down();
    idle().await;
    assert_eq!(tasks.num_alive_tasks(), 0, "shut down");

    let dropped = WorkQueue::<u32>::builder().name("named").build().unwrap();
    dropped.add_after(1, ms(10_000));
    idle().await;
    assert_eq!(tasks.num_alive_tasks(), 1);
    drop(dropped);
    idle().await;
    assert_eq!(tasks.num_alive_tasks(), 0, "dropped");
}
