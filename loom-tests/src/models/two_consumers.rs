//! Models of two consumers: one key is never in two handlers, and a later handler sees the writes
//! of the earlier one.

use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Exclusive, Fifo, Log, Object, bare, fused, show, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "two_consumers::without_a_store",
        bound: None,
        at_least: 24_770,
        outcomes: &["[+a1 ~a2]", "[+a1] [~a2]"],
        body: without_a_store,
    },
    Model {
        name: "two_consumers::with_a_store",
        bound: None,
        at_least: 29_440,
        outcomes: &["[+a1 ~a2]", "[+a1] [~a2]"],
        body: with_a_store,
    },
];

fn handle_one(fifo: &Fifo, log: &Log, exclusive: &Exclusive, is_fused: bool) {
    if let Some(mut item) = fifo.try_pop() {
        exclusive.handle(|| {
            log.add(&show(item.deltas(), item.key()));
            if is_fused {
                item.apply(|_| {}).unwrap();
            }
        });
        item.done();
    }
}

fn consume(fifo: &Arc<Fifo>, is_fused: bool) -> String {
    let shared = Arc::new((Log::default(), Exclusive::default()));
    fifo.add(Object::new("a", 1)).unwrap();
    let other = spawn_with(fifo, {
        let shared = shared.clone();
        move |fifo| handle_one(fifo, &shared.0, &shared.1, is_fused)
    });
    fifo.update(Object::new("a", 2)).unwrap();
    handle_one(fifo, &shared.0, &shared.1, is_fused);
    other.join().unwrap();
    handle_one(fifo, &shared.0, &shared.1, is_fused);
    shared.0.text()
}

fn without_a_store() -> String {
    consume(&bare(), false)
}

fn with_a_store() -> String {
    consume(&fused(&[]), true)
}
