//! Handles dropped while others work: every `Arc` is released once, which loom counts.

use loom::thread;

use crate::explore::Model;
use crate::rig::{Object, beside, fused, pop_and_show};

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
];

/// The store outlives the queue, with what was pending released.
fn queue_dropped_while_read() -> String {
    let fifo = fused(&[Object::new("a", 1)]);
    fifo.update(Object::new("a", 2)).unwrap();
    fifo.update(Object::new("a", 3)).unwrap();
    let reader = thread::spawn({
        let store = fifo.store();
        move || store.get_by_key("a").map_or("nothing".to_owned(), |object| format!("a{}", object.read()))
    });
    drop(fifo);
    reader.join().unwrap()
}

/// A consumer and a producer, of which the last takes the queue down.
fn queue_dropped_by_the_last() -> String {
    let fifo = fused(&[]);
    let consumer = beside(&fifo, |fifo| pop_and_show(fifo, true));
    fifo.add(Object::new("a", 1)).unwrap();
    drop(fifo);
    let seen = consumer.join().unwrap();
    if seen.is_empty() { "nothing".to_owned() } else { seen }
}
