//! Models of the scopes of the in-order queue: relists of two of them, their removal and addition,
//! and deletions.
//!
//! As in the models of `scopes`, the first scope has the keys `a` and `c`, and the second the key
//! `b`.

use deltafifo::{KeyScope, ScopeId};

use super::in_order::{Queue, apply, over};
use crate::explore::Model;
use crate::rig::{Object, show_all, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "scopes_in_order::two_lists_and_a_consumer",
        bound: Some(3),
        at_least: 4590,
        outcomes: &["b1 c2, stored: c2", "a1, stored: c2"],
        body: two_lists_and_a_consumer,
    },
    Model {
        name: "scopes_in_order::a_list_during_the_removal",
        bound: None,
        at_least: 420,
        outcomes: &["listed, stored: b1", "refused, stored: b1"],
        body: a_list_during_the_removal,
    },
    Model {
        name: "scopes_in_order::a_whole_list_during_an_addition",
        bound: None,
        at_least: 110,
        outcomes: &["listed, stored: a1 b1", "refused, stored: b1"],
        body: a_whole_list_during_an_addition,
    },
    Model {
        name: "scopes_in_order::two_overlapping_additions",
        bound: Some(3),
        at_least: 1130,
        outcomes: &["1 added"],
        body: two_overlapping_additions,
    },
    Model {
        name: "scopes_in_order::a_deletion_during_a_list",
        bound: None,
        at_least: 360,
        outcomes: &["stored: b1", "stored: a2 b1"],
        body: a_deletion_during_a_list,
    },
    Model {
        name: "scopes_in_order::an_add_and_a_list_with_a_consumer",
        bound: Some(3),
        at_least: 10630,
        outcomes: &["stored: a1 c2", "stored: c2"],
        body: an_add_and_a_list_with_a_consumer,
    },
];

fn scopes(fifo: &Queue) -> [ScopeId; 2] {
    let of_b = |key: &str| key == "b";
    [KeyScope::keys("a and c", move |key| !of_b(key)), KeyScope::keys("b", of_b)]
        .map(|scope| fifo.add_scope(scope).unwrap())
}

/// Applies all pending events, and returns the contents of the store.
fn stored(fifo: &Queue) -> String {
    while let Some(mut turn) = fifo.try_pop() {
        apply(&mut turn);
    }
    format!("stored: {}", show_all(&fifo.store().list()))
}

/// Checks that the queue is synced when both lists are handled, and not before, and that each list
/// deletes only keys of its scope.
fn two_lists_and_a_consumer() -> String {
    let fifo = over(&[Object::new("a", 1), Object::new("b", 1)]);
    let [a, b] = scopes(&fifo);
    let other = spawn_with(&fifo, move |fifo| fifo.replace_in(&b, vec![], "1").unwrap());
    fifo.replace_in(&a, vec![Object::new("c", 2)], "1").unwrap();
    apply(&mut fifo.pop().unwrap());
    assert!(!fifo.has_synced(), "synced before both lists are handled");
    let between = show_all(&fifo.store().list());
    other.join().unwrap();
    let stored = stored(&fifo);
    assert!(fifo.has_synced());
    format!("{between}, {stored}")
}

/// Checks that no list of a scope comes after the removal of the scope. Otherwise the keys would
/// stay in the store.
fn a_list_during_the_removal() -> String {
    let fifo = over(&[Object::new("b", 1)]);
    let [a, _b] = scopes(&fifo);
    let remover = spawn_with(&fifo, {
        let a = a.clone();
        move |fifo| fifo.remove_scope(&a).unwrap()
    });
    let listed = fifo.replace_in(&a, vec![Object::new("a", 1)], "1").is_ok();
    remover.join().unwrap();
    format!("{}, {}", if listed { "listed" } else { "refused" }, stored(&fifo))
}

/// Checks that a relist of the whole queue comes before the relists of scopes that are added, or
/// is refused. Otherwise it would delete their keys.
fn a_whole_list_during_an_addition() -> String {
    let fifo = over(&[]);
    let other = spawn_with(&fifo, |fifo| {
        let b = fifo.add_scope(KeyScope::keys("b", |key| key == "b")).unwrap();
        fifo.replace_in(&b, vec![Object::new("b", 1)], "1").unwrap();
    });
    let listed = fifo.replace(vec![Object::new("a", 1)], "1").is_ok();
    other.join().unwrap();
    format!("{}, {}", if listed { "listed" } else { "refused" }, stored(&fifo))
}

/// Checks that only one of two scopes is added if they have a stored key in common.
fn two_overlapping_additions() -> String {
    let fifo = over(&[Object::new("c", 1)]);
    fifo.add_scope(KeyScope::keys("a", |key| key == "a")).unwrap();
    let add =
        |fifo: &Queue, name: &str| fifo.add_scope(KeyScope::keys(name, |key| key == "c")).is_ok();
    let other = spawn_with(&fifo, move |fifo| add(fifo, "other"));
    let added = [add(&fifo, "own"), other.join().unwrap()];
    format!("{} added", added.iter().filter(|added| **added).count())
}

/// Checks a deletion against a list of its scope. Whether it comes before or after the list, it
/// never deletes another key.
fn a_deletion_during_a_list() -> String {
    let fifo = over(&[Object::new("a", 1), Object::new("b", 1)]);
    let [a, _b] = scopes(&fifo);
    let producer = spawn_with(&fifo, |fifo| fifo.delete(Object::new("a", 1)).unwrap());
    fifo.replace_in(&a, vec![Object::new("a", 2)], "2").unwrap();
    producer.join().unwrap();
    stored(&fifo)
}

/// Checks that a list of a scope deletes an object that was queued before the list, and not one
/// that is queued after it, while a consumer applies events.
fn an_add_and_a_list_with_a_consumer() -> String {
    let fifo = over(&[]);
    let [a, b] = scopes(&fifo);
    fifo.replace_in(&a, vec![], "1").unwrap();
    fifo.replace_in(&b, vec![], "1").unwrap();
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("a", 1)).unwrap());
    let consumer = spawn_with(&fifo, |fifo| apply(&mut fifo.pop().unwrap()));
    fifo.replace_in(&a, vec![Object::new("c", 2)], "2").unwrap();
    producer.join().unwrap();
    consumer.join().unwrap();
    stored(&fifo)
}
