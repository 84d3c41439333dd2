//! Models of requeue against push: deltas that are put back come before those that arrived during
//! the handler, and none is lost.

use deltafifo::{Delta, DeltaType, Deltas};

use crate::explore::Model;
use crate::rig::{Fifo, Item, Log, Object, bare, drain, pop_one, show, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "requeue::against_a_push",
        bound: Some(6), // 5.0 s
        at_least: 24_400,
        outcomes: &["[+a1] [+a1 ~a2]", "[+a1] [+a1] [~a2]"],
        body: against_a_push,
    },
    Model {
        name: "requeue::cancelled",
        bound: Some(6), // 4.8 s
        at_least: 24_400,
        outcomes: &["[+a1] [+a1 ~a2]", "[+a1] [+a1] [~a2]"],
        body: cancelled,
    },
    Model {
        name: "requeue::against_two_pushes",
        bound: Some(4), // 5.2 s
        at_least: 22_570,
        outcomes: &["[+a1] [+a1 ~a2 -a3]", "[+a1] [+a1 ~a2]", "[+a1] [+a1] [~a2 -a3]"],
        body: against_two_pushes,
    },
    Model {
        name: "requeue::add_if_not_present",
        bound: None,
        at_least: 54,
        outcomes: &["[+a1] [+a9]"],
        body: add_if_not_present,
    },
    Model {
        name: "requeue::add_if_not_present_and_requeue",
        bound: None,
        at_least: 50_640,
        outcomes: &["[+a1] [+a1]", "[+a1] [+a1] [+a9]"],
        body: add_if_not_present_and_requeue,
    },
];

/// Handles `a1` and ends with `verdict`, while another thread calls `other`.
fn while_it_ends(verdict: fn(Item<'_>), other: fn(&Fifo)) -> String {
    let (fifo, log) = (bare(), Log::default());
    fifo.add(Object::new("a", 1)).unwrap();
    let item = fifo.try_pop().unwrap();
    log.add(&show(item.deltas(), item.key()));
    let other = spawn_with(&fifo, other);
    verdict(item);
    pop_one(&fifo, &log, false);
    other.join().unwrap();
    drain(&fifo, &log, false);
    log.text()
}

fn against_a_push() -> String {
    while_it_ends(|item| item.requeue(), |fifo| fifo.update(Object::new("a", 2)).unwrap())
}

fn cancelled() -> String {
    while_it_ends(|item| drop(item), |fifo| fifo.update(Object::new("a", 2)).unwrap())
}

fn against_two_pushes() -> String {
    while_it_ends(
        |item| item.requeue(),
        |fifo| {
            fifo.update(Object::new("a", 2)).unwrap();
            fifo.delete(Object::new("a", 3)).unwrap();
        },
    )
}

/// Checks `add_if_not_present` against a running handler: the key counts as absent, unless the
/// handler has put something back.
fn add_if_not_present() -> String {
    while_it_ends(|item| item.done(), add_nine)
}

fn add_if_not_present_and_requeue() -> String {
    while_it_ends(|item| item.requeue(), add_nine)
}

fn add_nine(fifo: &Fifo) {
    let deltas: Deltas<Object> =
        [Delta::new(DeltaType::Added, Object::new("a", 9))].into_iter().collect();
    fifo.add_if_not_present(deltas).unwrap();
}
