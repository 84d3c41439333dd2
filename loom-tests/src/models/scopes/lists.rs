//! Lists of two scopes against each other, and against offers and pops.

use std::sync::{Arc as StdArc, Mutex, Weak};

use deltafifo::{KeyScope, Relist, ScopeId};
use loom::sync::Arc;

use super::{list, scopes};
use crate::explore::Model;
use crate::rig::{
    Access, Fifo, Log, Object, drain, fused, fused_with, pop_and_show, rest, spawn_with,
};

pub const MODELS: &[Model] = &[
    Model {
        name: "scopes::two_commits",
        bound: Some(3),
        at_least: 1460,
        outcomes: &[
            "1 and 1 deleted, [-a1] [-b1], stored: ",
            "1 and 1 deleted, [-b1] [-a1], stored: ",
        ],
        body: two_commits,
    },
    Model {
        name: "scopes::a_list_during_a_commit",
        bound: Some(3),
        at_least: 2070,
        outcomes: &["[-a1] [=b2], stored: b2", "[=b2] [-a1], stored: b2"],
        body: a_list_during_a_commit,
    },
    Model {
        name: "scopes::an_add_after_the_end_of_another",
        bound: Some(3),
        at_least: 1030,
        outcomes: &["[+c2], stored: c2"],
        body: an_add_after_the_end_of_another,
    },
    Model {
        name: "scopes::superseded_during_another",
        bound: Some(2),
        at_least: 710,
        outcomes: &[
            "superseded, [=a1 =a2] [-b1], stored: a2",
            "superseded, [=a2] [-b1], stored: a2",
            "offered, [=a1 =a2] [-b1], stored: a2",
        ],
        body: superseded_during_another,
    },
    Model {
        name: "scopes::a_pop_between",
        bound: Some(3),
        at_least: 690,
        outcomes: &["[=a1], [=b1], synced"],
        body: a_pop_between,
    },
    Model {
        name: "scopes::superseded_within_its_commit",
        bound: None,
        at_least: 1,
        outcomes: &["superseded, applied none, stored: a1"],
        body: superseded_within_its_commit,
    },
    Model {
        name: "scopes::a_deletion_during_a_commit",
        bound: Some(3),
        at_least: 810,
        outcomes: &["[-a1] [-b1], stored: ", "[-b1] [-a1], stored: "],
        body: a_deletion_during_a_commit,
    },
    Model {
        name: "scopes::a_superseded_deletion_during_another",
        bound: Some(2),
        at_least: 210,
        outcomes: &["deleted, [-a1 =a2], stored: a2", "superseded, [=a2], stored: a2"],
        body: a_superseded_deletion_during_another,
    },
    Model {
        name: "scopes::commit_of_a_namespace_and_a_retired_key",
        bound: Some(3),
        at_least: 2190,
        outcomes: &[
            "2 deleted, [-n/a1], [-n/c1], stored: ",
            "1 deleted, [-n/a1], [-n/c1], stored: ",
        ],
        body: commit_of_a_namespace_and_a_retired_key,
    },
    Model {
        name: "scopes::namespace_and_a_new_key",
        bound: Some(3),
        at_least: 270,
        outcomes: &["1 deleted, [+n/a1 -n/a1], stored: "],
        body: namespace_and_a_new_key,
    },
    Model {
        name: "scopes::commit_of_a_namespace_and_a_new_key",
        bound: Some(3),
        at_least: 1130,
        outcomes: &[
            "1 deleted, [-n/a1] [+n/c2], stored: n/c2",
            "1 deleted, [+n/c2] [-n/a1], stored: n/c2",
        ],
        body: commit_of_a_namespace_and_a_new_key,
    },
];

/// Checks that each relist deletes only keys of its own scope.
fn two_commits() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1), Object::new("b", 1)]), Log::default());
    let [a, b] = scopes(&fifo);
    let other = spawn_with(&fifo, move |fifo| list(fifo, &b, vec![], "1"));
    let own = list(&fifo, &a, vec![], "1");
    let other = other.join().unwrap();
    format!("{own} and {other} deleted, {}", rest(&fifo, &log))
}

/// Checks that the commit of one scope does not delete keys that the other scope lists.
fn a_list_during_a_commit() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let [a, b] = scopes(&fifo);
    let other = spawn_with(&fifo, move |fifo| list(fifo, &b, vec![Object::new("b", 2)], "1"));
    list(&fifo, &a, vec![], "1");
    other.join().unwrap();
    rest(&fifo, &log)
}

/// Checks that a key that is added while a relist is open is not deleted, although a newer relist
/// of another scope has begun and ended.
fn an_add_after_the_end_of_another() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    let relist = fifo.begin_replace_in(&a);
    let other = spawn_with(&fifo, move |fifo| {
        list(fifo, &b, vec![], "1");
        fifo.add(Object::new("c", 2)).unwrap();
    });
    relist.commit("1").unwrap();
    other.join().unwrap();
    rest(&fifo, &log)
}

/// Checks that a relist that is superseded in its scope pushes nothing after the newer one, even
/// while a relist of another scope is open.
fn superseded_during_another() -> String {
    superseded_while_another_is_open(Object::new("b", 1), |older| {
        if older.offer(vec![Object::new("a", 1)]).is_ok() { "offered" } else { "superseded" }
    })
}

/// Begins a relist of each scope. While a newer relist of the first scope lists `a`, calls `act`
/// with the older one. The relist of the other scope is committed at the end.
fn superseded_while_another_is_open(
    known: Arc<Object>,
    act: impl FnOnce(&mut Relist<'_, Object, Access>) -> &'static str,
) -> String {
    let (fifo, log) = (fused(&[known]), Log::default());
    let [a, b] = scopes(&fifo);
    let of_b = fifo.begin_replace_in(&b);
    let mut older = fifo.begin_replace_in(&a);
    let newer = spawn_with(&fifo, move |fifo| list(fifo, &a, vec![Object::new("a", 2)], "2"));
    let acted = act(&mut older);
    drop(older);
    newer.join().unwrap();
    of_b.commit("1").unwrap();
    format!("{acted}, {}", rest(&fifo, &log))
}

/// Checks that the queue is synced when both lists are handled, and not before.
fn a_pop_between() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    list(&fifo, &a, vec![Object::new("a", 1)], "1");
    let consumer = spawn_with(&fifo, |fifo| {
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

/// Commits a relist of a scope. During the sweep, the predicate of the scope begins a newer relist
/// of the scope.
fn superseded_within_its_commit() -> String {
    let fifo = StdArc::new(fused_with(&[Object::new("a", 1)]).track_applied(true).build());
    let target: StdArc<Mutex<Option<(Weak<Fifo>, ScopeId)>>> = StdArc::default();
    let armed = target.clone();
    let supersedes = KeyScope::keys("all", move |_| {
        let target = armed.lock().unwrap().take();
        if let Some((fifo, scope)) = target {
            drop(fifo.upgrade().unwrap().begin_replace_in(&scope));
        }
        true
    });
    let scope = fifo.add_scope(supersedes).unwrap();
    let relist = fifo.begin_replace_in(&scope);
    *target.lock().unwrap() = Some((StdArc::downgrade(&fifo), scope));
    let outcome = if relist.commit("7").is_ok() { "committed" } else { "superseded" };
    let handled = rest(&fifo, &Log::default());
    let applied = fifo.store().applied_version().unwrap_or_else(|| "none".to_owned());
    format!("{outcome}, applied {applied}{handled}")
}

/// Deletes a key of each scope, as a watch does, while a relist of one scope commits. Each key is
/// deleted.
fn a_deletion_during_a_commit() -> String {
    let (fifo, log) = (fused(&[Object::new("a", 1), Object::new("b", 1)]), Log::default());
    let [a, _b] = scopes(&fifo);
    let producer = spawn_with(&fifo, |fifo| {
        fifo.delete(Object::new("a", 1)).unwrap();
        fifo.delete(Object::new("b", 1)).unwrap();
    });
    list(&fifo, &a, vec![], "1");
    producer.join().unwrap();
    rest(&fifo, &log)
}

/// Checks that a relist that is superseded in its scope deletes nothing that the newer one has
/// listed, even while a relist of another scope is open.
fn a_superseded_deletion_during_another() -> String {
    superseded_while_another_is_open(Object::new("a", 1), |older| {
        if older.delete(Object::new("a", 1)).is_ok() { "deleted" } else { "superseded" }
    })
}

/// Checks that the commit of a namespace ends while a consumer retires the slot of one of its keys,
/// and that it deletes the other key.
fn commit_of_a_namespace_and_a_retired_key() -> String {
    let objects = [Object::new("n/a", 1), Object::new("n/c", 1)];
    let (fifo, log) = (fused(&objects), Log::default());
    let namespace = fifo.add_scope(KeyScope::namespace("n")).unwrap();
    fifo.delete(Object::new("n/a", 1)).unwrap();
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    let deleted = list(&fifo, &namespace, vec![], "1");
    let popped = consumer.join().unwrap();
    format!("{deleted} deleted, {popped}, {}", rest(&fifo, &log))
}

/// Checks that a list of a namespace finds a key that was offered while the namespace was added.
fn namespace_and_a_new_key() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("n/a", 1)).unwrap());
    let namespace = fifo.add_scope(KeyScope::namespace("n")).unwrap();
    producer.join().unwrap();
    let deleted = list(&fifo, &namespace, vec![], "1");
    format!("{deleted} deleted, {}", rest(&fifo, &log))
}

/// Checks that the commit of a namespace deletes its unlisted key, and not a key that is offered
/// during the commit.
fn commit_of_a_namespace_and_a_new_key() -> String {
    let (fifo, log) = (fused(&[Object::new("n/a", 1)]), Log::default());
    let namespace = fifo.add_scope(KeyScope::namespace("n")).unwrap();
    let relist = fifo.begin_replace_in(&namespace);
    let producer = spawn_with(&fifo, |fifo| fifo.add(Object::new("n/c", 2)).unwrap());
    let deleted = relist.commit("1").unwrap().deleted;
    producer.join().unwrap();
    format!("{deleted} deleted, {}", rest(&fifo, &log))
}
