//! Models of the order of two keys from two producers: a key that is offered before another one
//! comes before it. Two offers that overlap may be in either order.

use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, bare, drain, fused, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "order::across_shards",
        bound: Some(5), // 5.3 s
        at_least: 31_000,
        outcomes: &["[+a1 +a2] [+b3]", "[+a2 +a1] [+b3]"],
        body: across_shards,
    },
    Model {
        name: "order::in_a_shard",
        bound: Some(5), // 11 s
        at_least: 42_000,
        outcomes: &["[+a1 +a2] [+c3]", "[+a2 +a1] [+c3]"],
        body: in_a_shard,
    },
    Model {
        name: "order::in_a_shard_of_known_keys",
        bound: Some(5), // 5.4 s
        at_least: 25_700,
        outcomes: &["[~a1 ~a2] [~c3]", "[~a2 ~a1] [~c3]"],
        body: in_a_shard_of_known_keys,
    },
    Model {
        name: "order::overlapping",
        bound: Some(5), // 0.8 s
        at_least: 6090,
        outcomes: &["[+a1] [+b1]", "[+b1] [+a1]"],
        body: overlapping,
    },
    Model {
        name: "order::behind_a_resync",
        bound: None,
        at_least: 17,
        outcomes: &["[:a1]", "[:a1] [+c2]"],
        body: behind_a_resync,
    },
];

/// Checks that `second` comes after `a`, whichever thread offers `a` first: `a` is in the queue
/// when `second` is offered.
fn behind(fifo: &Arc<Fifo>, offer: fn(&Fifo, Arc<Object>), second: &'static str) -> String {
    let log = Log::default();
    let producer = spawn_with(fifo, move |fifo| offer(fifo, Object::new("a", 1)));
    offer(fifo, Object::new("a", 2));
    offer(fifo, Object::new(second, 3));
    producer.join().unwrap();
    drain(fifo, &log, false);
    log.text()
}

fn add(fifo: &Fifo, object: Arc<Object>) {
    fifo.add(object).unwrap();
}

fn update(fifo: &Fifo, object: Arc<Object>) {
    fifo.update(object).unwrap();
}

fn across_shards() -> String {
    behind(&bare(), add, "b")
}

fn in_a_shard() -> String {
    behind(&bare(), add, "c")
}

/// Offers keys that have slots already. Such an offer does not lock the shard exclusively.
fn in_a_shard_of_known_keys() -> String {
    behind(&fused(&[Object::new("a", 0), Object::new("c", 0)]), update, "c")
}

fn overlapping() -> String {
    let (fifo, log) = (bare(), Log::default());
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 1)).unwrap());
    fifo.add(Object::new("b", 1)).unwrap();
    producer.join().unwrap();
    drain(&fifo, &log, false);
    log.text()
}

/// Checks that an offer to a shard that a resync has finished comes after the Syncs of that shard.
fn behind_a_resync() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let resync = spawn_with(&fifo, Fifo::resync);
    if fifo.get_by_key("a").is_some() {
        fifo.add(Object::new("c", 2)).unwrap();
    }
    resync.join().unwrap();
    drain(&fifo, &log, true);
    log.text()
}
