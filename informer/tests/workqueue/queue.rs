//! Tests of dirty and processing keys (client-go `queue_test.go`), and of waiting getters.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::task::Waker;

use deltafifo_informer::workqueue::{BuildError, Key, WorkQueue};
use deltafifo_oracle::workqueue::{Sleeper, poll};

use crate::common::{Queue, idle, ms, next, queue, rest, spawn};

/// Shuts a queue down, with or without draining.
async fn end<K: Key>(queue: &WorkQueue<K>, drain: bool) {
    if drain {
        queue.shut_down_with_drain().await;
    } else {
        queue.shut_down();
    }
}

#[tokio::test(start_paused = true)]
async fn many_producers_and_consumers_end_with_an_empty_queue() {
    for drain in [false, true] {
        let queue = queue::<u32>();
        let producers: Vec<_> = (0..50)
            .map(|key| {
                spawn(&queue, async move |queue| {
                    for _ in 0..50 {
                        queue.add(key);
                        tokio::time::sleep(ms(1)).await;
                    }
                })
            })
            .collect();
        let consumers: Vec<_> = (0..10)
            .map(|_| {
                spawn(&queue, async |queue| {
                    let mut keys = Vec::new();
                    while let Some(item) = queue.get().await {
                        tokio::time::sleep(ms(3)).await;
                        keys.push(*item.key());
                    }
                    keys
                })
            })
            .collect();
        for producer in producers {
            producer.await.unwrap();
        }
        end(&queue, drain).await;
        queue.add(1000);
        let mut processed = Vec::new();
        for consumer in consumers {
            processed.extend(consumer.await.unwrap());
        }
        assert!(queue.is_empty());
        assert!((0..50).all(|key| processed.contains(&key)));
        assert!(!processed.contains(&1000), "added after the end");
    }
}

#[tokio::test(start_paused = true)]
async fn key_added_during_its_processing_returns_to_a_worker() {
    for drain in [false, true] {
        let queue = queue::<u32>();
        let consumers: Vec<_> = (0..10)
            .map(|_| {
                spawn(&queue, async |queue| {
                    let mut times = HashMap::<u32, u32>::new();
                    while let Some(item) = queue.get().await {
                        let times = times.entry(*item.key()).or_default();
                        *times += 1;
                        if *times < 2 {
                            queue.add(*item.key());
                        }
                    }
                    times.values().sum::<u32>()
                })
            })
            .collect();
        (0..50).for_each(|key| queue.add(key));
        idle().await;
        end(&queue, drain).await;
        let mut processed = 0;
        for consumer in consumers {
            processed += consumer.await.unwrap();
        }
        assert!(queue.is_empty());
        assert!(processed >= 100, "each at least twice");
    }
}

#[tokio::test]
async fn len_counts_each_key_once_and_only_those_that_can_be_taken() {
    let queue = queue();
    queue.add("foo");
    assert_eq!(queue.len(), 1);
    queue.add("bar");
    assert_eq!(queue.len(), 2);
    queue.add("foo");
    assert_eq!(queue.len(), 2);
    let foo = queue.try_get().unwrap();
    queue.add("foo");
    assert_eq!((queue.len(), queue.is_empty()), (1, false));
    drop((queue.try_get(), foo));
    assert_eq!(rest(&queue), ["foo"]);
    assert_eq!((queue.len(), queue.is_empty()), (0, true));
}

#[tokio::test]
async fn keys_are_returned_in_order_of_their_first_add() {
    let queue = queue();
    for key in ["a", "b", "a", "c", "b"] {
        queue.add(key);
    }
    assert_eq!(rest(&queue), ["a", "b", "c"]);
}

#[tokio::test]
async fn key_added_during_processing_is_queued_last_at_done() {
    let queue = queue();
    queue.add("foo");
    let item = queue.try_get().unwrap();
    queue.add("foo");
    queue.add("bar");
    queue.add("foo");
    assert_eq!(queue.len(), 1);
    item.done();
    assert_eq!(rest(&queue), ["bar", "foo"]);
}

#[tokio::test]
async fn adds_before_a_get_are_one() {
    let queue = queue();
    queue.add("bar");
    queue.add("bar");
    assert_eq!(rest(&queue), ["bar"]);
}

#[tokio::test(start_paused = true)]
async fn adds_during_processing_are_one_item_available_after_done() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add("foo");
    queue.add("foo");
    let other = spawn(&queue, async |queue: Queue| next(&queue).await);
    idle().await;
    assert!(!other.is_finished());
    item.done();
    assert_eq!(other.await.unwrap(), Some("foo"));
    assert!(queue.is_empty());
}

#[tokio::test]
async fn done_key_is_released() {
    let (key, queue) = (Arc::<str>::from("key"), queue());
    for _ in 0..3 {
        queue.add(key.clone());
        queue.add(key.clone());
        queue.try_get().unwrap().done();
        assert_eq!(Arc::strong_count(&key), 1);
    }
}

#[tokio::test]
async fn keys_with_equal_hashes_are_distinct() {
    #[derive(Clone, PartialEq, Eq, Debug)]
    struct Same(u32);
    impl Hash for Same {
        fn hash<H: Hasher>(&self, _state: &mut H) {}
    }
    let queue = queue();
    (0..100).chain(0..100).for_each(|key| queue.add(Same(key)));
    let first: Vec<_> = (0..50).filter_map(|_| queue.try_get()).collect();
    (0..100).for_each(|key| queue.add(Same(key)));
    drop(first);
    assert_eq!(rest(&queue), (50..100).chain(0..50).map(Same).collect::<Vec<_>>());
}

#[tokio::test]
async fn hundred_thousand_keys_are_returned_once_and_in_order() {
    let queue = queue();
    (0..100_000).for_each(|key| queue.add(key));
    (0..100_000).for_each(|key| queue.add(key));
    assert_eq!(queue.len(), 100_000);
    assert!(rest(&queue).into_iter().eq(0..100_000));
}

#[tokio::test(start_paused = true)]
async fn add_wakes_a_sleeping_getter() {
    let queue = queue();
    let getter = spawn(&queue, async |queue: Queue| next(&queue).await);
    idle().await;
    assert!(!getter.is_finished());
    queue.add("foo");
    assert_eq!(getter.await.unwrap(), Some("foo"));
}

#[tokio::test(start_paused = true)]
async fn each_added_key_wakes_one_getter() {
    let queue = queue();
    let getters: Vec<_> = (0..5)
        .map(|_| spawn(&queue, async |queue: Arc<WorkQueue<_>>| next(&queue).await))
        .collect();
    idle().await;
    (0..3).for_each(|key| queue.add(key));
    idle().await;
    assert_eq!(getters.iter().filter(|getter| getter.is_finished()).count(), 3);
    assert!(queue.is_empty());
    queue.shut_down();
}

#[tokio::test]
async fn dropped_get_loses_neither_a_key_nor_a_wake_up() {
    let queue = queue();
    let first = Sleeper::of(queue.get());
    let mut second = Sleeper::of(queue.get());
    queue.add("foo");
    assert_eq!((first.is_woken(), second.is_woken()), (true, false));
    drop(first);
    assert!(second.is_woken());
    let item = second.poll().flatten().unwrap();
    assert_eq!(*item.key(), "foo");
    // Nobody else waits, and a getter that is not polled again has taken nothing.
    let third = Sleeper::of(queue.get());
    queue.add("bar");
    drop(third);
    assert_eq!(rest(&queue), ["bar"]);
}

/// Checks that a getter that moves to another task, and so is polled with another waker, keeps its
/// place among the getters, and is woken through the last waker.
#[tokio::test]
async fn getter_is_woken_through_the_waker_of_its_last_poll() {
    let queue = queue();
    let mut getter = Box::pin(queue.get());
    assert!(poll(&mut getter, Waker::noop()).is_none());
    let other = Sleeper::of(queue.get());
    let mut first = Sleeper::of(getter);
    queue.add("foo");
    assert_eq!((first.is_woken(), other.is_woken()), (true, false));
    assert_eq!(first.poll().flatten().map(|item| *item.key()), Some("foo"));
}

#[tokio::test(start_paused = true)]
async fn worker_that_always_finds_a_key_yields_to_other_tasks() {
    let queue = queue();
    queue.add("busy");
    queue.add_after("last", ms(1));
    let mut times = 0;
    // The worker never sleeps, so no time passes and no other task runs unless it yields.
    let other = spawn(&queue, async |queue: Queue| queue.add("other"));
    while let Some(item) = queue.get().await {
        if *item.key() == "other" {
            break;
        }
        times += 1;
        assert!(times < 10_000);
        queue.add("busy");
    }
    other.await.unwrap();
}

#[test]
fn building_a_queue_outside_of_a_runtime_is_an_error() {
    assert_eq!(WorkQueue::<u32>::builder().build().unwrap_err(), BuildError::NoRuntime);
}

#[test]
#[should_panic(expected = "timers are disabled")]
fn building_a_queue_on_a_runtime_without_timers_panics() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _within = runtime.enter();
    let _ = WorkQueue::<u32>::builder().build();
}

#[test]
fn queue_can_be_used_outside_of_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let queue = Arc::new(runtime.block_on(async { WorkQueue::builder().build().unwrap() }));
    let producer = Arc::clone(&queue);
    std::thread::spawn(move || producer.add("foo")).join().unwrap();
    assert_eq!(queue.try_get().map(|item| *item.key()), Some("foo"));
}
