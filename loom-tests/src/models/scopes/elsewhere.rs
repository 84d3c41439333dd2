//! Scopes of a queue over an external store.

use deltafifo::KeyScope;

use super::{list, scopes};
use crate::explore::Model;
use crate::models::elsewhere::{during_a_handler, known};
use crate::rig::{Object, spawn_with};

pub const MODELS: &[Model] = &[
    Model {
        name: "scopes::elsewhere_two_lists",
        bound: Some(2),
        at_least: 220,
        outcomes: &["0 and 1 deleted, [-b1], stored: a1"],
        body: elsewhere_two_lists,
    },
    Model {
        name: "scopes::elsewhere_a_deletion_during_a_commit",
        bound: Some(2),
        at_least: 180,
        outcomes: &["1 deleted, [-a1] [-b1], stored: ", "1 deleted, [-b1] [-a1], stored: "],
        body: elsewhere_a_deletion_during_a_commit,
    },
    Model {
        name: "scopes::elsewhere_removed_during_a_handler",
        bound: Some(3),
        at_least: 410,
        outcomes: &["1 deleted, [~a2 -a2], , stored: b1", "1 deleted, [~a2], [-a2], stored: b1"],
        body: elsewhere_removed_during_a_handler,
    },
    Model {
        name: "scopes::elsewhere_added_again_during_the_removal",
        bound: Some(3),
        at_least: 1360,
        outcomes: &["added, stored: a2 c3", "refused, stored: "],
        body: elsewhere_added_again_during_the_removal,
    },
    Model {
        name: "scopes::elsewhere_two_lists_during_a_handler",
        bound: Some(2),
        at_least: 7320,
        outcomes: &["1 deleted, stored: a2"],
        body: elsewhere_two_lists_during_a_handler,
    },
    Model {
        name: "scopes::elsewhere_resync_during_two_lists",
        bound: Some(2),
        at_least: 520,
        outcomes: &["1 deleted, [-b1], stored: ", "1 deleted, [:b1 -b1], stored: "],
        body: elsewhere_resync_during_two_lists,
    },
];

/// Checks that over an external store a relist keeps the keys that it has listed, even if a relist
/// of another scope begins and ends in between.
fn elsewhere_two_lists() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1), Object::new("b", 1)]);
    let [a, b] = scopes(&fifo);
    let other = spawn_with(&fifo, move |fifo| list(fifo, &b, vec![], "1"));
    let mut relist = fifo.begin_replace_in(&a);
    relist.keep("a").unwrap();
    let own = relist.commit("1").unwrap().deleted;
    let other = other.join().unwrap();
    format!("{own} and {other} deleted, {}", outside.rest(&fifo))
}

/// Checks over an external store that a deletion by a watch and the commit of another scope both
/// take effect.
fn elsewhere_a_deletion_during_a_commit() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1), Object::new("b", 1)]);
    let [a, _b] = scopes(&fifo);
    let producer = spawn_with(&fifo, |fifo| fifo.delete(Object::new("b", 1)).unwrap());
    let own = list(&fifo, &a, vec![], "1");
    producer.join().unwrap();
    format!("{own} deleted, {}", outside.rest(&fifo))
}

/// Checks that over an external store the removal of a scope during a handler deletes the key
/// exactly once.
fn elsewhere_removed_during_a_handler() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1), Object::new("b", 1)]);
    let [a, _b] = scopes(&fifo);
    fifo.update(Object::new("a", 2)).unwrap();
    let mut deleted = 0;
    let handled = during_a_handler(&fifo, &outside, |fifo| {
        deleted = fifo.remove_scope(&a).unwrap().deleted;
    });
    format!("{deleted} deleted, {handled}")
}

/// Checks a scope that is added again while it is being removed. The removal deletes neither the
/// keys that the new scope has listed, nor keys that were offered after it was added.
fn elsewhere_added_again_during_the_removal() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1)]);
    let [a, _b] = scopes(&fifo);
    let remover = spawn_with(&fifo, move |fifo| fifo.remove_scope(&a).unwrap().deleted);
    let added = fifo.add_scope(KeyScope::keys("again", |key| key != "b"));
    if let Ok(again) = &added {
        list(&fifo, again, vec![Object::new("a", 2)], "2");
        fifo.add(Object::new("c", 3)).unwrap();
    }
    remover.join().unwrap();
    outside.rest(&fifo);
    format!("{}, {}", if added.is_ok() { "added" } else { "refused" }, outside.stored())
}

/// Checks that over an external store a resync does not save a key from the commit of its scope if
/// the key was written while a relist of another scope was open.
fn elsewhere_resync_during_two_lists() -> String {
    let (fifo, outside) = known(&[]);
    let [a, b] = scopes(&fifo);
    let _open = fifo.begin_replace_in(&a);
    fifo.add(Object::new("b", 1)).unwrap();
    outside.handle(&fifo);
    let relist = fifo.begin_replace_in(&b);
    let resync = spawn_with(&fifo, |fifo| fifo.resync());
    let deleted = relist.commit("1").unwrap().deleted;
    resync.join().unwrap();
    format!("{deleted} deleted, {}", outside.rest(&fifo))
}

/// Checks that over an external store a list keeps a key that is handled before the commit,
/// although the relist of another scope ends.
fn elsewhere_two_lists_during_a_handler() -> String {
    let (fifo, outside) = known(&[Object::new("a", 1), Object::new("b", 1)]);
    let [a, b] = scopes(&fifo);
    let other = spawn_with(&fifo, move |fifo| list(fifo, &b, vec![], "1"));
    let mut deleted = 0;
    during_a_handler(&fifo, &outside, |fifo| {
        deleted = list(fifo, &a, vec![Object::new("a", 2)], "1") + other.join().unwrap();
    });
    format!("{deleted} deleted, {}", outside.stored())
}
