//! Relists of two scopes against each other, and against offers and pops.
//!
//! The scopes are the keys `a` and `c`, which share a shard, and the key `b`, in the other one.

use deltafifo::{KeyScope, ScopeId};
use loom::sync::Arc;

use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, beside, drain, fused, fused_with, pop_and_show, rest};

pub const MODELS: &[Model] = &[
    Model {
        name: "scopes::two_commits",
        bound: Some(3),
        at_least: 3700,
        outcomes: &[
            "1 and 1 deleted, [-a1] [-b1], stored: ",
            "1 and 1 deleted, [-b1] [-a1], stored: ",
        ],
        body: two_commits,
    },
    Model {
        name: "scopes::a_list_beside_a_commit",
        bound: Some(3),
        at_least: 5560,
        outcomes: &["[-a1] [=b2], stored: b2", "[=b2] [-a1], stored: b2"],
        body: a_list_beside_a_commit,
    },
    Model {
        name: "scopes::an_add_after_the_end_of_another",
        bound: Some(3),
        at_least: 2870,
        outcomes: &["[+c2], stored: c2"],
        body: an_add_after_the_end_of_another,
    },
    Model {
        name: "scopes::superseded_beside_another",
        bound: Some(2),
        at_least: 790,
        outcomes: &[
            "superseded, [=a1 =a2] [-b1], stored: a2",
            "superseded, [=a2] [-b1], stored: a2",
            "offered, [=a1 =a2] [-b1], stored: a2",
        ],
        body: superseded_beside_another,
    },
    Model {
        name: "scopes::a_pop_between",
        bound: Some(3),
        at_least: 690,
        outcomes: &["[=a1], [=b1], synced"],
        body: a_pop_between,
    },
    Model {
        name: "scopes::removed_beside_an_update",
        bound: Some(3),
        at_least: 240,
        outcomes: &["[-a1 ~a2], stored: a2 b1", "[~a2 -a2], stored: b1", "[~a2], stored: a2 b1"],
        body: removed_beside_an_update,
    },
    Model {
        name: "scopes::least_version",
        bound: Some(2),
        at_least: 230,
        outcomes: &["applied 1"],
        body: least_version,
    },
];

fn scopes(fifo: &Fifo) -> [ScopeId; 2] {
    let of_b = |key: &str| key == "b";
    [KeyScope::keys("a and c", move |key| !of_b(key)), KeyScope::keys("b", of_b)]
        .map(|scope| fifo.add_scope(scope).unwrap())
}

fn list(fifo: &Fifo, scope: &ScopeId, objects: Vec<Arc<Object>>, version: &str) -> usize {
    let mut relist = fifo.begin_replace_in(scope);
    assert!(relist.offer(objects).unwrap().is_empty());
    relist.commit(version).unwrap().deleted
}

/// Each relist deletes the keys of its scope only.
fn two_commits() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1), Object::new("b", 1)]), Log::default());
    let [a, b] = scopes(&fifo);
    let other = beside(&fifo, move |fifo| list(fifo, &b, vec![], "1"));
    let own = list(&fifo, &a, vec![], "1");
    let other = other.join().unwrap();
    format!("{own} and {other} deleted, {}", rest(&fifo, &log))
}

/// The commit of one scope does not delete what the other lists.
fn a_list_beside_a_commit() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let [a, b] = scopes(&fifo);
    let other = beside(&fifo, move |fifo| list(fifo, &b, vec![Object::new("b", 2)], "1"));
    list(&fifo, &a, vec![], "1");
    other.join().unwrap();
    rest(&fifo, &log)
}

/// A key that is added while a relist is open is not deleted, although a newer relist of another
/// scope has begun and ended.
fn an_add_after_the_end_of_another() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    let relist = fifo.begin_replace_in(&a);
    let other = beside(&fifo, move |fifo| {
        list(fifo, &b, vec![], "1");
        fifo.add(Object::new("c", 2)).unwrap();
    });
    relist.commit("1").unwrap();
    other.join().unwrap();
    rest(&fifo, &log)
}

/// A relist that is superseded in its scope pushes nothing on top of the newer one, even while a
/// relist of another scope is open.
fn superseded_beside_another() -> String {
    let (fifo, log) = (fused(&[Object::new("b", 1)]), Log::default());
    let [a, b] = scopes(&fifo);
    let of_b = fifo.begin_replace_in(&b);
    let mut older = fifo.begin_replace_in(&a);
    let newer = beside(&fifo, {
        let a = a.clone();
        move |fifo| list(fifo, &a, vec![Object::new("a", 2)], "2")
    });
    let offered =
        if older.offer(vec![Object::new("a", 1)]).is_ok() { "offered" } else { "superseded" };
    drop(older);
    newer.join().unwrap();
    of_b.commit("1").unwrap();
    format!("{offered}, {}", rest(&fifo, &log))
}

/// The queue is synced when both lists are handled, and not before.
fn a_pop_between() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    list(&fifo, &a, vec![Object::new("a", 1)], "1");
    let consumer = beside(&fifo, |fifo| {
        let popped = pop_and_show(fifo, true);
        (popped, fifo.has_synced())
    });
    let mut relist = fifo.begin_replace_in(&b);
    relist.offer(vec![Object::new("b", 1)]).unwrap();
    assert!(!fifo.has_synced(), "synced before the second list is complete");
    relist.commit("1").unwrap();
    let (popped, synced) = consumer.join().unwrap();
    assert!(!synced, "synced before both items are handled");
    drain(&fifo, &log, true);
    assert!(fifo.has_synced());
    format!("{popped}, {}, synced", log.text())
}

/// An update beside a removal is stored, or deleted with the scope.
fn removed_beside_an_update() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1), Object::new("b", 1)]), Log::default());
    let [a, _] = scopes(&fifo);
    let producer = beside(&fifo, |fifo| fifo.update(Object::new("a", 2)).unwrap());
    fifo.remove_scope(&a).unwrap();
    producer.join().unwrap();
    rest(&fifo, &log)
}

/// Whichever scope is listed last, the least version is applied.
fn least_version() -> String {
    let fifo = Arc::new(fused_with(&[]).track_applied(true).build());
    let [a, b] = scopes(&fifo);
    let other = beside(&fifo, move |fifo| list(fifo, &b, vec![], "2"));
    list(&fifo, &a, vec![], "1");
    other.join().unwrap();
    format!("applied {}", fifo.applied_version().unwrap_or_default())
}
