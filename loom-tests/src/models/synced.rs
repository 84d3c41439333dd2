//! Models of `has_synced` and `is_in_initial_list` against a replace and pops: the queue is synced
//! exactly when the first relist is committed and all its handlers have ended.

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, drain, end, fused, rest, show, spawn_with, stored};

pub const MODELS: &[Model] = &[
    Model {
        name: "synced::pages_and_a_consumer",
        bound: None,
        at_least: 28_820,
        outcomes: &["a! b!"],
        body: pages_and_a_consumer,
    },
    Model {
        name: "synced::two_consumers",
        bound: None,
        at_least: 85_680,
        outcomes: &["a! c", "c a!"],
        body: two_consumers,
    },
    Model {
        name: "synced::an_add_between",
        bound: Some(4), // 4.8 s
        at_least: 21_540,
        outcomes: &["not yet, a! c", "not yet, c a!", "synced, a c", "synced, c a"],
        body: an_add_between,
    },
    Model {
        name: "synced::waiting_for_it",
        bound: None,
        at_least: 680,
        outcomes: &["a1"],
        body: waiting_for_it,
    },
    Model {
        name: "synced::abandoned_during_an_add",
        bound: None,
        at_least: 1020,
        outcomes: &["[+a1]"],
        body: abandoned_during_an_add,
    },
    Model {
        name: "synced::waiting_during_an_abandoned_one",
        bound: Some(3), // 1.9 s
        at_least: 10_500,
        outcomes: &["[+a1]"],
        body: waiting_during_an_abandoned_one,
    },
    Model {
        name: "synced::left_out_with_its_handler",
        bound: None,
        at_least: 2520,
        outcomes: &["[-a1], stored: "],
        body: left_out_with_its_handler,
    },
    Model {
        name: "synced::gone_again_before_the_commit",
        bound: Some(5), // 5 s
        at_least: 17_190,
        outcomes: &["[=a1 -a2]!", "[=a1]! [-a2]!"],
        body: gone_again_before_the_commit,
    },
];

/// The number of ended handlers for keys of the relist. It is a std atomic, so that it does not
/// synchronise the threads of the model.
type Ended = Arc<AtomicUsize>;

/// Handles one key, and checks that the queue is not synced before `of` handlers have ended.
fn handle_one(fifo: &Fifo, log: &Log, ended: &Ended, of: usize) {
    if let Some(mut item) = fifo.try_pop() {
        log.add(&format!("{}{}", item.key(), if item.is_in_initial_list() { "!" } else { "" }));
        item.apply(|_| {}).unwrap();
        assert!(
            !fifo.has_synced() || ended.load(Ordering::Relaxed) == of || !listed(item.key()),
            "synced too early"
        );
        if listed(item.key()) {
            ended.fetch_add(1, Ordering::Relaxed);
        }
        item.done();
    }
    assert!(!fifo.has_synced() || ended.load(Ordering::Relaxed) == of, "synced too early");
}

fn listed(key: &str) -> bool {
    key != "c"
}

fn pages_and_a_consumer() -> String {
    let (fifo, log, ended) = (fused(&[]), Log::default(), Ended::default());
    let relister = spawn_with(&fifo, |fifo| {
        let mut relist = fifo.begin_replace();
        relist.offer(vec![Object::new("a", 1)]).unwrap();
        relist.offer(vec![Object::new("b", 1)]).unwrap();
        relist.commit("1").unwrap();
    });
    handle_one(&fifo, &log, &ended, 2);
    relister.join().unwrap();
    (0..2).for_each(|_| handle_one(&fifo, &log, &ended, 2));
    assert!(fifo.has_synced(), "never synced");
    log.text()
}

/// Runs two consumers; one of the keys does not belong to the initial population.
fn two_consumers() -> String {
    let fifo = fused(&[]);
    let shared = Arc::new((Log::default(), Ended::default()));
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    fifo.add(Object::new("c", 1)).unwrap();
    let consumer = spawn_with(&fifo, {
        let shared = shared.clone();
        move |fifo| handle_one(fifo, &shared.0, &shared.1, 1)
    });
    handle_one(&fifo, &shared.0, &shared.1, 1);
    consumer.join().unwrap();
    assert!(fifo.has_synced(), "never synced");
    shared.0.text()
}

/// Adds a key while the first relist runs. The add is the initial population if it comes first;
/// otherwise the relist is.
fn an_add_between() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let relister = spawn_with(&fifo, |fifo| fifo.replace(vec![Object::new("a", 1)], "1").unwrap());
    fifo.add(Object::new("c", 1)).unwrap();
    relister.join().unwrap();
    log.add(if fifo.has_synced() { "synced," } else { "not yet," });
    while let Some(mut item) = fifo.try_pop() {
        log.add(&format!("{}{}", item.key(), if item.is_in_initial_list() { "!" } else { "" }));
        item.apply(|_| {}).unwrap();
        item.done();
    }
    assert!(fifo.has_synced(), "never synced");
    log.text()
}

fn waiting_for_it() -> String {
    let fifo = fused(&[]);
    fifo.replace(vec![Object::new("a", 1)], "1").unwrap();
    let waiter = spawn_with(&fifo, |fifo| {
        fifo.wait_for_sync().unwrap();
        fifo.store()
            .get_by_key("a")
            .map_or("nothing".to_owned(), |object| format!("a{}", object.read()))
    });
    let mut item = fifo.try_pop().unwrap();
    item.apply(|_| {}).unwrap();
    item.done();
    waiter.join().unwrap()
}

/// Checks that an add is the initial population, although a relist that was abandoned had begun
/// first.
fn abandoned_during_an_add() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let relist = fifo.begin_replace();
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 1)).unwrap());
    drop(relist);
    producer.join().unwrap();
    assert!(fifo.has_synced(), "never synced");
    drain(&fifo, &log, true);
    log.text()
}

/// Races an add with an abandoned relist. The one that ends the initial population wakes the
/// waiters.
fn waiting_during_an_abandoned_one() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let relist = fifo.begin_replace();
    let waiter = spawn_with(&fifo, |fifo| fifo.wait_for_sync().unwrap());
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 1)).unwrap());
    drop(relist);
    producer.join().unwrap();
    waiter.join().unwrap();
    drain(&fifo, &log, true);
    log.text()
}

/// Deletes a key by a relist while a handler is deleting it. The relist's deletion is dropped, and
/// counts as handled.
fn left_out_with_its_handler() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let relist = fifo.begin_replace();
    fifo.delete(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    log.add(&show(item.deltas(), item.key()));
    let waiter = spawn_with(&fifo, |fifo| fifo.wait_for_sync().unwrap());
    relist.commit("1").unwrap();
    end(item, true);
    waiter.join().unwrap();
    rest(&fifo, &log)
}

/// Checks that the queue is synced only after a listed key's deletion is handled, even if the
/// key's first handler ended before the deletion.
fn gone_again_before_the_commit() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let relister = spawn_with(&fifo, |fifo| {
        let mut relist = fifo.begin_replace();
        relist.offer(vec![Object::new("a", 1)]).unwrap();
        relist.delete(Object::new("a", 2)).unwrap();
        relist.commit("1").unwrap();
    });
    let handle = || {
        if let Some(item) = fifo.try_pop() {
            let is_initial = if item.is_in_initial_list() { "!" } else { "" };
            log.add(&format!("{}{is_initial}", show(item.deltas(), item.key())));
            end(item, true);
        }
        assert!(!fifo.has_synced() || stored(&fifo).is_empty(), "synced too early");
    };
    handle();
    relister.join().unwrap();
    handle();
    handle();
    assert!(fifo.has_synced(), "never synced");
    log.text()
}
