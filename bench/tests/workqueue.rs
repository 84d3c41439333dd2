//! Tests of every work queue: a key is processed by one thread at a time, and as often as needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use deltafifo_bench::engines::mutex_workqueue::MutexWorkQueue;
use deltafifo_bench::engines::workqueue::{Key, WorkEngine};
use deltafifo_informer::workqueue::WorkQueue;
use tokio::runtime::{Builder, Handle};

fn add<'a, Q: WorkEngine>(queue: &Q, names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        queue.add(Key::from(name));
    }
}

/// Takes the next key.
fn take<Q: WorkEngine>(queue: &Q) -> Option<Q::Work> {
    Handle::current().block_on(queue.get())
}

fn name<Q: WorkEngine>(work: Option<&Q::Work>) -> Option<&str> {
    work.map(Q::key)
}

fn a_key_is_taken_once_however_often_it_is_added<Q: WorkEngine>(queue: &Q) {
    add(queue, ["a", "b", "a"]);
    queue.shut_down();
    for expected in [Some("a"), Some("b"), None] {
        let work = take(queue);
        assert_eq!(name::<Q>(work.as_ref()), expected);
        if let Some(work) = work {
            queue.done(work);
        }
    }
}

fn a_key_that_is_added_while_it_is_processed_comes_again_after_that<Q: WorkEngine>(queue: &Q) {
    add(queue, ["a"]);
    let first = take(queue).expect("a key");
    add(queue, ["a", "b", "a"]);
    let other = take(queue).expect("a key");
    assert_eq!(Q::key(&other), "b");
    queue.done(first);
    queue.shut_down();
    let again = take(queue).expect("a key");
    assert_eq!(Q::key(&again), "a");
    queue.done(again);
    queue.done(other);
    assert!(take(queue).is_none());
}

fn after_the_end_what_is_left_is_taken_and_nothing_is_added<Q: WorkEngine>(queue: &Q) {
    add(queue, ["a"]);
    queue.shut_down();
    add(queue, ["b"]);
    let left = take(queue).expect("a key");
    add(queue, ["a"]);
    queue.done(left);
    assert!(take(queue).is_none());
}

/// Asserts that every key, and the shutdown, wakes waiting threads, and that each key is taken
/// once.
fn those_who_wait_share_what_comes<Q: WorkEngine>(queue: &Q) {
    const KEYS: usize = 2000;
    let (runtime, taken) = (Handle::current(), AtomicUsize::new(0));
    let seen = thread::scope(|scope| {
        let worker = |_| {
            scope.spawn(|| {
                let mut seen = Vec::new();
                while let Some(work) = runtime.block_on(queue.get()) {
                    seen.push(Q::key(&work).to_owned());
                    queue.done(work);
                    taken.fetch_add(1, Ordering::Relaxed);
                }
                seen
            })
        };
        let workers: Vec<_> = (0..4).map(worker).collect();
        for half in 0..2 {
            for number in 0..KEYS / 2 {
                add(queue, [&*format!("{half}-{number}")]);
            }
            // Until the queue is empty, so that the threads wait again.
            while taken.load(Ordering::Relaxed) < (half + 1) * KEYS / 2 {
                thread::yield_now();
            }
        }
        queue.shut_down();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect::<Vec<_>>()
    });
    let mut different = seen.clone();
    different.sort();
    different.dedup();
    assert_eq!((seen.len(), different.len()), (KEYS, KEYS));
}

fn a_queue_does_everything<Q: WorkEngine>(new: impl Fn() -> Q) {
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    a_key_is_taken_once_however_often_it_is_added(&new());
    a_key_that_is_added_while_it_is_processed_comes_again_after_that(&new());
    after_the_end_what_is_left_is_taken_and_nothing_is_added(&new());
    those_who_wait_share_what_comes(&new());
}

#[test]
fn mutex() {
    a_queue_does_everything(MutexWorkQueue::new);
}

#[test]
fn deltafifo() {
    a_queue_does_everything(|| WorkQueue::builder().build().expect("there is a runtime"));
}
