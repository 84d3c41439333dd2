//! Scopes that are added and removed during other operations.

use deltafifo::KeyScope;

use super::{list, scopes};
use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, fused, pop_and_show, rest, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "scopes::removed_during_an_update",
        bound: Some(3),
        at_least: 240,
        outcomes: &["[-a1 ~a2], stored: a2 b1", "[~a2 -a2], stored: b1", "[~a2], stored: a2 b1"],
        body: removed_during_an_update,
    },
    Model {
        name: "scopes::two_overlapping_additions",
        bound: Some(3),
        at_least: 230,
        outcomes: &["1 added"],
        body: two_overlapping_additions,
    },
    Model {
        name: "scopes::added_during_the_last_removal",
        bound: Some(3),
        at_least: 30,
        outcomes: &["awaited, synced", "after the sync, synced"],
        body: added_during_the_last_removal,
    },
    Model {
        name: "scopes::removed_during_a_pop",
        bound: None,
        at_least: 4370,
        outcomes: &["1 deleted, [~a2 -a2], , stored: b1", "1 deleted, [~a2], [-a2], stored: b1"],
        body: removed_during_a_pop,
    },
    Model {
        name: "scopes::an_old_list_during_the_removal",
        bound: Some(2),
        at_least: 1280,
        outcomes: &[
            "offered, committed, 1 removed, [=a3 -a3 =a2], stored: a2",
            "offered, superseded, 1 removed, [=a3 -a3 =a2], stored: a2",
            "ended, superseded, 1 removed, [=a3 -a3 =a2], stored: a2",
            "ended, superseded, 1 removed, [-a1 =a2], stored: a2",
        ],
        body: an_old_list_during_the_removal,
    },
];

/// Checks an update during the removal of its scope: the object is stored, or deleted with the
/// scope.
fn removed_during_an_update() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1), Object::new("b", 1)]), Log::default());
    let [a, _] = scopes(&fifo);
    let producer = spawn_with(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    fifo.remove_scope(&a).unwrap();
    producer.join().unwrap();
    rest(&fifo, &log)
}

/// Checks that only one of two scopes is added if they have a known key in common.
fn two_overlapping_additions() -> String {
    let fifo = fused(&[Object::new("c", 1)]);
    fifo.add_scope(KeyScope::keys("a", |key| key == "a")).unwrap();
    let add =
        |fifo: &Fifo, name: &str| fifo.add_scope(KeyScope::keys(name, |key| key == "c")).is_ok();
    let other = spawn_with(&fifo, move |fifo| add(fifo, "other"));
    let added = [add(&fifo, "own"), other.join().unwrap()];
    format!("{} added", added.iter().filter(|added| **added).count())
}

/// Checks that the removal of the only scope ends the initial population, unless the population
/// waits for a scope that is added during the removal.
fn added_during_the_last_removal() -> String {
    let fifo = fused(&[]);
    let a = fifo.add_scope(KeyScope::keys("a", |key| key == "a")).unwrap();
    let other = spawn_with(&fifo, |fifo| {
        let b = fifo.add_scope(KeyScope::keys("b", |key| key == "b")).unwrap();
        (b, fifo.has_synced())
    });
    fifo.remove_scope(&a).unwrap();
    let (b, is_late) = other.join().unwrap();
    assert_eq!(fifo.has_synced(), is_late, "the removal ended the wait for the new scope");
    list(&fifo, &b, vec![], "1");
    assert!(fifo.has_synced());
    format!("{}, synced", if is_late { "after the sync" } else { "awaited" })
}

/// Checks that a key of a removed scope is deleted, whether its handler has not begun, runs or has
/// ended.
fn removed_during_a_pop() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1), Object::new("b", 1)]), Log::default());
    let [a, _b] = scopes(&fifo);
    fifo.update(Object::new("a", 2)).unwrap();
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    let deleted = fifo.remove_scope(&a).unwrap().deleted;
    let popped = consumer.join().unwrap();
    format!("{deleted} deleted, {popped}, {}", rest(&fifo, &log))
}

/// Checks that a list that began before its scope was removed neither ends the removal nor pushes
/// anything after the list of the scope that is added again.
fn an_old_list_during_the_removal() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let [a, _b] = scopes(&fifo);
    let mut older = fifo.begin_replace_in(&a);
    let remover = spawn_with(&fifo, move |fifo| {
        let removed = fifo.remove_scope(&a).unwrap().deleted;
        let again = fifo.add_scope(KeyScope::keys("again", |key| key != "b")).unwrap();
        list(fifo, &again, vec![Object::new("a", 2)], "2");
        removed
    });
    let offered = if older.offer(vec![Object::new("a", 3)]).is_ok() { "offered" } else { "ended" };
    let committed = if older.commit("1").is_ok() { "committed" } else { "superseded" };
    let removed = remover.join().unwrap();
    format!("{offered}, {committed}, {removed} removed, {}", rest(&fifo, &log))
}
