//! Models of handles that are dropped while other threads work. Every `Arc` must be released
//! exactly once, which loom checks.

use loom::thread;

use crate::explore::Model;
use crate::rig::{Object, end_and_show, fused, pop_and_show, spawn_with, wait_and_show};

pub const MODELS: &[Model] = &[
    Model {
        name: "handles::queue_dropped_while_read",
        bound: None,
        at_least: 4,
        outcomes: &["a1"],
        body: queue_dropped_while_read,
    },
    Model {
        name: "handles::queue_dropped_by_the_last",
        bound: None,
        at_least: 100,
        outcomes: &["[+a1]", "nothing"],
        body: queue_dropped_by_the_last,
    },
    Model {
        name: "handles::dropped_during_a_relist",
        bound: None,
        at_least: 51_000,
        outcomes: &["[=a2]", "nothing"],
        body: dropped_during_a_relist,
    },
    Model {
        name: "handles::dropped_during_a_batch",
        bound: None,
        at_least: 280,
        outcomes: &["[+a1]"],
        body: dropped_during_a_batch,
    },
    Model {
        name: "handles::dropped_with_a_sleeper",
        bound: Some(4), // 0.8 s
        at_least: 5260,
        outcomes: &["[+a1] closed"],
        body: dropped_with_a_sleeper,
    },
];

/// Checks that the store outlives the queue, and that the pending objects are released.
fn queue_dropped_while_read() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    fifo.update(Object::new("a", 2)).unwrap();
    fifo.update(Object::new("a", 3)).unwrap();
    let reader = thread::spawn({
        let store = fifo.store();
        move || {
            store
                .get_by_key("a")
                .map_or("nothing".to_owned(), |object| format!("a{}", object.read()))
        }
    });
    drop(fifo);
    reader.join().unwrap()
}

/// Runs a consumer and a producer; the last of them drops the queue.
fn queue_dropped_by_the_last() -> String {
    let fifo = fused(&[]);
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    fifo.add(Object::new("a", 1)).unwrap();
    drop(fifo);
    let seen = consumer.join().unwrap();
    if seen.is_empty() { "nothing".to_owned() } else { seen }
}

/// Runs a consumer and a relist that replaces one object and deletes another; the last of them
/// drops the queue.
fn dropped_during_a_relist() -> String {
    let fifo = fused(&[Object::new("a", 1), Object::new("b", 1)]);
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    fifo.replace(vec![Object::new("a", 2)], "1").unwrap();
    drop(fifo);
    let seen = consumer.join().unwrap();
    if seen.is_empty() { "nothing".to_owned() } else { seen }
}

/// Handles one key of a batch and gives the other back, possibly on the last thread that holds the
/// queue.
fn dropped_during_a_batch() -> String {
    let fifo = fused(&[Object::new("b", 1)]);
    fifo.add_batch(vec![Object::new("a", 1), Object::new("b", 2)]).unwrap();
    let consumer = spawn_with(&fifo, |fifo| {
        let mut batch = fifo.try_pop_batch(2).unwrap();
        end_and_show(Ok(batch.next().unwrap()))
    });
    fifo.update(Object::new("b", 3)).unwrap();
    drop(fifo);
    consumer.join().unwrap()
}

/// Runs a sleeping consumer, and a thread that wakes it and then drops its handle of the queue.
fn dropped_with_a_sleeper() -> String {
    let fifo = fused(&[]);
    let sleeper =
        spawn_with(&fifo, |fifo| format!("{} {}", wait_and_show(fifo), wait_and_show(fifo)));
    fifo.add(Object::new("a", 1)).unwrap();
    fifo.close();
    drop(fifo);
    sleeper.join().unwrap()
}
