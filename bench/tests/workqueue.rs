//! Tests of every work queue: a key is processed by one thread at a time, and once more if it was
//! added again while it was processed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use deltafifo_bench::engines::workqueue::{Key, WorkEngine};
use deltafifo_classic::MutexWorkQueue;
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

fn check_that_an_added_key_is_taken_once<Q: WorkEngine>(queue: &Q) {
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

fn check_that_a_key_added_during_processing_is_queued_again<Q: WorkEngine>(queue: &Q) {
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

fn check_shutdown<Q: WorkEngine>(queue: &Q) {
    add(queue, ["a"]);
    queue.shut_down();
    add(queue, ["b"]);
    let left = take(queue).expect("a key");
    add(queue, ["a"]);
    queue.done(left);
    assert!(take(queue).is_none());
}

/// Asserts that an added key and a shutdown wake waiting threads, and that each key is taken once.
fn check_waiting_workers<Q: WorkEngine>(queue: &Q) {
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

fn check_queue<Q: WorkEngine>(new: impl Fn() -> Q) {
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    check_that_an_added_key_is_taken_once(&new());
    check_that_a_key_added_during_processing_is_queued_again(&new());
    check_shutdown(&new());
    check_waiting_workers(&new());
}

#[test]
fn mutex() {
    check_queue(MutexWorkQueue::new);
}

#[test]
fn deltafifo() {
    check_queue(|| WorkQueue::builder().build().expect("there is a runtime"));
}
