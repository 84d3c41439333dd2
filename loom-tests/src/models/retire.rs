//! Models of the retirement of a slot against push. A slot is retired, that is, unlinked and
//! freed, when a handler ends and the slot's key is neither pending nor known. No delta goes to a
//! retired slot, and no thread accesses one. Without a store, every handler that ends without
//! pending deltas retires the slot.

use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Log, Object, bare, drain, pop_one, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "retire::against_a_push",
        bound: None,
        at_least: 3560,
        outcomes: &["[+a1 +a2]", "[+a1] [+a2]"],
        body: against_a_push,
    },
    Model {
        name: "retire::two_consumers_and_a_push",
        bound: Some(4), // 6.1 s
        at_least: 26_600,
        outcomes: &["[+a1 +a2]", "[+a1] [+a2]"],
        body: two_consumers_and_a_push,
    },
];

fn against_a_push() -> String {
    let (fifo, log) = (bare(), Log::default());
    fifo.add(Object::new("a", 1)).unwrap();
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 2)).unwrap());
    pop_one(&fifo, &log, false);
    producer.join().unwrap();
    drain(&fifo, &log, false);
    log.text()
}

fn two_consumers_and_a_push() -> String {
    let (fifo, log) = (bare(), Arc::new(Log::default()));
    fifo.add(Object::new("a", 1)).unwrap();
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 2)).unwrap());
    let consumer = spawn_with(&fifo, {
        let log = log.clone();
        move |fifo| pop_one(fifo, &log, false)
    });
    pop_one(&fifo, &log, false);
    producer.join().unwrap();
    consumer.join().unwrap();
    drain(&fifo, &log, false);
    log.text()
}
