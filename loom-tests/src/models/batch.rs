//! Models of batches against pushes, pops and sleeping consumers. A batch is a run of keys that
//! one consumer has popped and handles one by one.

use crate::explore::Model;
use crate::rig::{
    Fifo, Log, Object, bare, drain, end, fused, fused_with, pop_and_show, rest, show, spawn_with,
    wait_and_show,
};

pub const MODELS: &[Model] = &[
    Model {
        name: "batch::push_over_it",
        bound: None,
        at_least: 64_860,
        outcomes: &["[+a1] [+b1 ~b2], , stored: a1 b2", "[+a1] [+b1], [~b2], stored: a1 b2"],
        body: push_over_it,
    },
    Model {
        name: "batch::given_back",
        bound: None,
        at_least: 1000,
        outcomes: &[
            "[+a1] [+b1], other: [+c1]",
            "[+a1] [+c1], other: [+b1]",
            "[+b1] [+c1], other: [+a1]",
        ],
        body: given_back,
    },
    Model {
        name: "batch::given_back_in_order",
        bound: None,
        at_least: 1,
        outcomes: &["[+a1] [+b1]"],
        body: given_back_in_order,
    },
    Model {
        name: "batch::given_back_wakes",
        bound: None,
        at_least: 29,
        outcomes: &["[+a1]"],
        body: given_back_wakes,
    },
    Model {
        name: "batch::two_of_them",
        bound: Some(5), // 6.2 s
        at_least: 30_500,
        outcomes: &[
            ", , [+a1] [+b1] [+c1]",
            ", [+a1] [+b1], [+c1]",
            "[+a1] [+b1], , [+c1]",
            "[+a1] [+b1], [+c1], ",
            "[+c1], [+a1] [+b1], ",
        ],
        body: two_of_them,
    },
    Model {
        name: "batch::of_the_initial_list",
        bound: Some(6), // 2.1 s
        at_least: 12_800,
        outcomes: &["0 in batches", "2 in batches"],
        body: of_the_initial_list,
    },
    Model {
        name: "batch::marks_end_with_the_last_key",
        bound: None,
        at_least: 1,
        outcomes: &["synced"],
        body: marks_end,
    },
    Model {
        name: "batch::marks_end_before_another_key",
        bound: None,
        at_least: 1,
        outcomes: &["synced"],
        body: marks_end_before_another_key,
    },
    Model {
        name: "batch::marks_end_before_a_stale_entry",
        bound: None,
        at_least: 1,
        outcomes: &["synced"],
        body: || marks_end_before_a_stale_entry(false),
    },
    Model {
        name: "batch::marks_end_before_a_stale_tracked_entry",
        bound: None,
        at_least: 1,
        outcomes: &["synced"],
        body: || marks_end_before_a_stale_entry(true),
    },
];

fn two_keys() -> [loom::sync::Arc<Object>; 2] {
    [Object::new("a", 1), Object::new("b", 1)]
}

/// Pops up to two keys as a batch and handles them. Returns their deltas.
fn batch_and_show(fifo: &Fifo, is_fused: bool) -> String {
    let log = Log::default();
    let Some(mut batch) = fifo.try_pop_batch(2) else { return String::new() };
    while let Some(item) = batch.next() {
        log.add(&show(item.deltas(), item.key()));
        end(item, is_fused);
    }
    log.text()
}

/// Checks that a delta that arrives before the turn of its key is handled together with the key.
fn push_over_it() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    fifo.add_batch(two_keys().into()).unwrap();
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("b", 2)).unwrap());
    let taken = batch_and_show(&fifo, true);
    producer.join().unwrap();
    format!("{taken}, {}", rest(&fifo, &log))
}

/// Checks a batch that is dropped early: its remaining keys return to the front of the queue, and
/// no other consumer gets them before that.
fn given_back() -> String {
    let (fifo, log) = (bare(), Log::default());
    fifo.add_batch(two_keys().into()).unwrap();
    fifo.add(Object::new("c", 1)).unwrap();
    let other = spawn_with(&fifo, |fifo| pop_and_show(fifo, false));
    let mut batch = fifo.try_pop_batch(2).unwrap();
    if let Some(item) = batch.next() {
        log.add(&show(item.deltas(), item.key()));
        item.done();
    }
    drop(batch);
    let other = other.join().unwrap();
    drain(&fifo, &log, false);
    format!("{}, other: {other}", log.text())
}

/// Checks that the keys of a dropped batch return in front of the rest of the keys that were
/// queued together with them.
fn given_back_in_order() -> String {
    let (fifo, log) = (bare(), Log::default());
    fifo.add_batch(two_keys().into()).unwrap();
    drop(fifo.try_pop_batch(1));
    drain(&fifo, &log, false);
    log.text()
}

fn given_back_wakes() -> String {
    let fifo = bare();
    fifo.add(Object::new("a", 1)).unwrap();
    let batch = fifo.try_pop_batch(1);
    let sleeper = spawn_with(&fifo, wait_and_show);
    drop(batch);
    sleeper.join().unwrap()
}

/// Checks that two consumers that share a run of keys handle each key once, in order.
fn two_of_them() -> String {
    let fifo = bare();
    let keys = vec![Object::new("a", 1), Object::new("b", 1), Object::new("c", 1)];
    let producer = spawn_with(&fifo, |fifo| fifo.add_batch(keys).unwrap());
    let other = spawn_with(&fifo, |fifo| batch_and_show(fifo, false));
    let one = batch_and_show(&fifo, false);
    producer.join().unwrap();
    let other = other.join().unwrap();
    let log = Log::default();
    drain(&fifo, &log, false);
    format!("{one}, {other}, {}", log.text())
}

/// Checks that the queue is synced when the last handler of the batch has ended, and not before.
fn of_the_initial_list() -> String {
    let fifo = fused(&[]);
    let relister = spawn_with(&fifo, |fifo| {
        fifo.replace(two_keys().into(), "1").unwrap();
    });
    let mut handled = 0;
    while let Some(mut batch) = fifo.try_pop_batch(2) {
        while let Some(item) = batch.next() {
            assert!(item.is_in_initial_list() && !fifo.has_synced(), "synced too early");
            end(item, true);
            handled += 1;
        }
    }
    assert!(handled == 2 || !fifo.has_synced(), "synced too early");
    relister.join().unwrap();
    while let Some(item) = fifo.try_pop() {
        assert!(item.is_in_initial_list() && !fifo.has_synced(), "synced too early");
        end(item, true);
    }
    assert!(fifo.has_synced(), "synced too late");
    format!("{handled} in batches")
}

/// Checks that the queue is synced once all keys of a batch are handled, even if the batch still
/// exists.
fn marks_end() -> String {
    let fifo = fused(&[]);
    fifo.replace(two_keys().into(), "1").unwrap();
    let mut batch = fifo.try_pop_batch(2).unwrap();
    end(batch.next().unwrap(), true);
    end(batch.next().unwrap(), true);
    synced(&fifo)
}

/// Checks that the queue is synced although the batch has another key, which does not belong to
/// the initial population.
fn marks_end_before_another_key() -> String {
    let fifo = fused(&[]);
    fifo.replace(two_keys().into(), "1").unwrap();
    fifo.add(Object::new("c", 1)).unwrap();
    let mut batch = fifo.try_pop_batch(3).unwrap();
    end(batch.next().unwrap(), true);
    end(batch.next().unwrap(), true);
    synced(&fifo)
}

/// Checks that the queue is synced although the last entry of the batch has become stale. While
/// the item before it is handled, a live event moves the entry's key past the backlog, and another
/// consumer handles that key.
fn marks_end_before_a_stale_entry(is_tracked: bool) -> String {
    let fifo = fused_with(&[]).live_lane(true).track_applied(is_tracked).build();
    fifo.replace(two_keys().into(), "1").unwrap();
    let mut batch = fifo.try_pop_batch(2).unwrap();
    let item = batch.next().unwrap();
    fifo.update(Object::new("b", 2)).unwrap();
    end(fifo.try_pop().unwrap(), true);
    end(item, true);
    assert!(batch.next().is_none(), "the second entry is stale");
    synced(&fifo)
}

fn synced(fifo: &Fifo) -> String {
    if fifo.has_synced() { "synced".to_owned() } else { "not synced".to_owned() }
}
