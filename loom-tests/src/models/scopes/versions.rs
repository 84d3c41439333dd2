//! The versions and the sync of a queue with scopes: which scopes it waits for.

use deltafifo::{KeyScope, ScopeId};
use loom::sync::Arc;

use super::{list, scopes};
use crate::explore::Model;
use crate::rig::{Fifo, Log, Object, drain, fused, fused_with, pop_and_show, spawn_with};

pub const MODELS: &[Model] = &[
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
];

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

/// Adds both scopes, and lists each at `version`.
fn scopes_at(fifo: &Fifo, version: &str) -> [ScopeId; 2] {
    let scopes = scopes(fifo);
    for scope in &scopes {
        list(fifo, scope, vec![], version);
    }
    scopes
}

fn applied(fifo: &Fifo) -> String {
    format!("applied {}", fifo.store().applied_version().unwrap_or_else(|| "none".to_owned()))
}
