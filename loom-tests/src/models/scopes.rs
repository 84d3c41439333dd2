//! Models of relists of two scopes against each other, and against offers and pops.
//!
//! The first scope has the keys `a` and `c`, which share a shard. The second has the key `b`,
//! which is in the other shard.

use std::sync::{Arc as StdArc, Mutex, Weak};

use deltafifo::{KeyScope, ScopeId};
use loom::sync::Arc;

use super::elsewhere::{during_a_handler, known};
use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, drain, fused, fused_with, pop_and_show, rest, spawn_with};

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
        name: "scopes::removed_during_an_update",
        bound: Some(3),
        at_least: 240,
        outcomes: &["[-a1 ~a2], stored: a2 b1", "[~a2 -a2], stored: b1", "[~a2], stored: a2 b1"],
        body: removed_during_an_update,
    },
    Model {
        name: "scopes::least_version",
        bound: Some(2),
        at_least: 120,
        outcomes: &["applied 1"],
        body: least_version,
    },
    Model {
        name: "scopes::added_during_a_handler",
        bound: Some(3),
        at_least: 48,
        outcomes: &["none"],
        body: added_during_a_handler,
    },
    Model {
        name: "scopes::superseded_within_its_commit",
        bound: None,
        at_least: 1,
        outcomes: &["superseded, applied none, stored: a1"],
        body: superseded_within_its_commit,
    },
    Model {
        name: "scopes::two_overlapping_additions",
        bound: Some(3),
        at_least: 230,
        outcomes: &["1 added"],
        body: two_overlapping_additions,
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
        name: "scopes::waived_during_a_list",
        bound: Some(3),
        at_least: 18,
        outcomes: &["[=a1], synced"],
        body: waived_during_a_list,
    },
    Model {
        name: "scopes::waived_during_its_own_list",
        bound: Some(3),
        at_least: 45,
        outcomes: &["[=b1], synced"],
        body: waived_during_its_own_list,
    },
    Model {
        name: "scopes::waived_during_a_handler",
        bound: Some(3),
        at_least: 57,
        outcomes: &["applied 2"],
        body: waived_during_a_handler,
    },
    Model {
        name: "scopes::awaited_during_its_own_list",
        bound: Some(3),
        at_least: 9,
        outcomes: &["[=b1], awaited, then synced", "[=b1], synced"],
        body: awaited_during_its_own_list,
    },
    Model {
        name: "scopes::awaited_during_an_uncounted_list",
        bound: Some(3),
        at_least: 9,
        outcomes: &["[=b1], synced"],
        body: awaited_during_an_uncounted_list,
    },
    Model {
        name: "scopes::awaited_during_a_handler",
        bound: Some(3),
        at_least: 45,
        outcomes: &["applied none"],
        body: awaited_during_a_handler,
    },
    Model {
        name: "scopes::restored_during_a_list",
        bound: Some(3),
        at_least: 400,
        outcomes: &["applied none, then 3"],
        body: restored_during_a_list,
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
        name: "scopes::added_during_the_last_removal",
        bound: Some(3),
        at_least: 30,
        outcomes: &["awaited, synced", "after the sync, synced"],
        body: added_during_the_last_removal,
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
    let (fifo, log) = (fused(&[Object::new("b", 1)]), Log::default());
    let [a, b] = scopes(&fifo);
    let of_b = fifo.begin_replace_in(&b);
    let mut older = fifo.begin_replace_in(&a);
    let newer = spawn_with(&fifo, {
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

/// Checks that the lowest version of all scopes is the applied one, whichever scope is listed
/// last.
fn least_version() -> String {
    let fifo = Arc::new(fused_with(&[]).track_applied(true).build());
    let [a, b] = scopes(&fifo);
    let other = spawn_with(&fifo, move |fifo| list(fifo, &b, vec![], "2"));
    list(&fifo, &a, vec![], "1");
    other.join().unwrap();
    format!("applied {}", fifo.store().applied_version().unwrap_or_default())
}

/// Checks that a marker from before a scope was added is not applied, although it is handled
/// later.
fn added_during_a_handler() -> String {
    let fifo = Arc::new(fused_with(&[]).track_applied(true).build());
    let [a, _b] = scopes_at(&fifo, "1");
    fifo.add(Object::new("a", 2)).unwrap();
    fifo.bookmark_in(&a, "2").unwrap();
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    fifo.add_scope(KeyScope::keys("none", |_| false)).unwrap();
    consumer.join().unwrap();
    fifo.store().applied_version().unwrap_or_else(|| "none".to_owned())
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

/// Adds both scopes, and lists each at `version`.
fn scopes_at(fifo: &Fifo, version: &str) -> [ScopeId; 2] {
    let scopes = scopes(fifo);
    for scope in &scopes {
        list(fifo, scope, vec![], version);
    }
    scopes
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
    let (fifo, log) = (fused(&[Object::new("a", 1)]), Log::default());
    let [a, b] = scopes(&fifo);
    let of_b = fifo.begin_replace_in(&b);
    let mut older = fifo.begin_replace_in(&a);
    let newer = spawn_with(&fifo, {
        let a = a.clone();
        move |fifo| list(fifo, &a, vec![Object::new("a", 2)], "2")
    });
    let deleted = if older.delete(Object::new("a", 1)).is_ok() { "deleted" } else { "superseded" };
    drop(older);
    newer.join().unwrap();
    of_b.commit("1").unwrap();
    format!("{deleted}, {}", rest(&fifo, &log))
}

/// Waives a scope (`waive_scope`) while the other scope is listed. Checks that the queue is not
/// synced before that list is handled.
fn waived_during_a_list() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    let waiver = spawn_with(&fifo, move |fifo| {
        fifo.waive_scope(&b);
        fifo.has_synced()
    });
    list(&fifo, &a, vec![Object::new("a", 1)], "1");
    assert!(!waiver.join().unwrap(), "synced before the list is handled");
    drain(&fifo, &log, true);
    assert!(fifo.has_synced());
    format!("{}, synced", log.text())
}

/// Checks that the queue syncs once although a scope is waived while its first list is committed,
/// and that the list is handled.
fn waived_during_its_own_list() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    list(&fifo, &a, vec![], "1");
    let waiver = spawn_with(&fifo, {
        let b = b.clone();
        move |fifo| fifo.waive_scope(&b)
    });
    list(&fifo, &b, vec![Object::new("b", 1)], "1");
    waiver.join().unwrap();
    drain(&fifo, &log, true);
    assert!(fifo.has_synced());
    format!("{}, synced", log.text())
}

/// Checks that a scope that is waived after its first list no longer holds the applied version
/// back, whether the marker of another scope is handled before or after that.
fn waived_during_a_handler() -> String {
    let fifo = Arc::new(fused_with(&[]).track_applied(true).build());
    let [a, b] = scopes_at(&fifo, "1");
    fifo.add(Object::new("a", 2)).unwrap();
    fifo.bookmark_in(&a, "2").unwrap();
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    fifo.waive_scope(&b);
    consumer.join().unwrap();
    format!("applied {}", fifo.store().applied_version().unwrap_or_default())
}

/// Ends the waiver of a scope (`await_scope`) while a list of it that began during the waiver is
/// committed. Checks that this list ends the wait for the scope only if it is committed before the
/// waiver ends, even if the scope is waived and awaited once more.
fn awaited_during_its_own_list() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    fifo.waive_scope(&b);
    let mut relist = fifo.begin_replace_in(&b);
    relist.offer(vec![Object::new("b", 1)]).unwrap();
    let other = spawn_with(&fifo, {
        let b = b.clone();
        move |fifo| fifo.await_scope(&b)
    });
    relist.commit("1").unwrap();
    other.join().unwrap();
    fifo.waive_scope(&b);
    fifo.await_scope(&b);
    list(&fifo, &a, vec![], "1");
    drain(&fifo, &log, true);
    if fifo.has_synced() {
        return format!("{}, synced", log.text());
    }
    list(&fifo, &b, vec![], "2");
    let handled = log.text();
    drain(&fifo, &Log::default(), true);
    assert!(fifo.has_synced());
    format!("{handled}, awaited, then synced")
}

/// Ends the waiver of a scope (`await_scope`) while a list of it that does not count
/// (`ScopeId::uncounted`) is committed. Checks that the queue waits for the next list of the scope.
fn awaited_during_an_uncounted_list() -> String {
    let (fifo, log) = (fused(&[]), Log::default());
    let [a, b] = scopes(&fifo);
    fifo.waive_scope(&b);
    let uncounted = fifo.begin_replace_in(&b.uncounted());
    let other = spawn_with(&fifo, {
        let b = b.clone();
        move |fifo| fifo.await_scope(&b)
    });
    uncounted.commit("1").unwrap();
    other.join().unwrap();
    list(&fifo, &a, vec![], "1");
    assert!(!fifo.has_synced(), "synced without a list of `b`");
    list(&fifo, &b, vec![Object::new("b", 1)], "2");
    drain(&fifo, &log, true);
    assert!(fifo.has_synced());
    format!("{}, synced", log.text())
}

/// Checks that a marker from before the waiver of an unlisted scope ended is not applied, although
/// it is handled later.
fn awaited_during_a_handler() -> String {
    let fifo = Arc::new(fused_with(&[]).track_applied(true).build());
    let [a, b] = scopes(&fifo);
    fifo.waive_scope(&b);
    fifo.add(Object::new("a", 2)).unwrap();
    fifo.bookmark_in(&a, "2").unwrap();
    let consumer = spawn_with(&fifo, |fifo| pop_and_show(fifo, true));
    fifo.await_scope(&b);
    consumer.join().unwrap();
    applied(&fifo)
}

/// Commits a list of a scope while the list of another scope shows a restore of the API server.
/// Checks that the first list, which began before that, is of the former history, so that no
/// version is applied until its scope is listed again.
fn restored_during_a_list() -> String {
    let fifo = Arc::new(fused_with(&[]).track_applied(true).build());
    let [a, b] = scopes_at(&fifo, "5");
    let relist = fifo.begin_replace_in(&b);
    let other = spawn_with(&fifo, move |fifo| list(fifo, &a, vec![], "3"));
    relist.commit("7").unwrap();
    other.join().unwrap();
    let before = applied(&fifo);
    list(&fifo, &b, vec![], "4");
    format!("{before}, then {}", fifo.store().applied_version().unwrap_or_default())
}

fn applied(fifo: &Fifo) -> String {
    format!("applied {}", fifo.store().applied_version().unwrap_or_else(|| "none".to_owned()))
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
