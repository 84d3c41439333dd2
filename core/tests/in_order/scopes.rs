//! Tests of scopes of the in-order queue: parts of the queue, each with relists of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::common::{Obj, keys, obj, versioned};
use crate::rig::{Fifo, events, notified, over, picky, stored};
use deltafifo::{Event, InOrderFifo, KeyScope, OfferError, RelistError, ScopeError, ScopeId};

/// Adds two scopes: the keys from `a` to `m`, and the keys from `n` to `z`.
fn halves(fifo: &Fifo) -> [ScopeId; 2] {
    let is_low = |key: &str| key < "n";
    [KeyScope::keys("low", is_low), KeyScope::keys("high", move |key| !is_low(key))]
        .map(|scope| fifo.add_scope(scope).unwrap())
}

fn list(names: &[(&str, u64)]) -> Vec<Arc<Obj>> {
    names.iter().map(|(key, n)| obj(key, *n)).collect()
}

#[test]
fn relist_of_a_scope_deletes_keys_of_that_scope_only() {
    let fifo = over(list(&[("a", 1), ("b", 1), ("x", 1), ("y", 1)]));
    let [low, high] = halves(&fifo);
    fifo.replace_in(&low, list(&[("b", 2)]), "2").unwrap();
    fifo.replace_in(&high, list(&[("z", 3)]), "3").unwrap();
    assert_eq!(notified(&fifo), ["-a(1)", "R b1>2", "-x(1)", "-y(1)", "R+z3"]);
    assert_eq!(stored(&fifo), ["b2", "z3"]);
    fifo.replace_in(&low, vec![], "4").unwrap();
    let turn = fifo.try_pop().unwrap();
    let Some(Event::ReplacedAll(all)) = turn.event() else { panic!("a relist") };
    assert!(
        all.covers("b") && !all.covers("z"),
        "handlers with a store of their own can query the scope"
    );
}

#[test]
fn queue_is_synced_when_the_turn_with_the_last_first_list_has_ended() {
    let fifo = over([]);
    let [low, high] = halves(&fifo);
    fifo.replace_in(&low, list(&[("a", 1)]), "1").unwrap();
    fifo.add(obj("b", 1)).unwrap();
    notified(&fifo);
    assert!(!fifo.has_synced(), "the other scope is not listed");
    fifo.replace_in(&high, list(&[("x", 1)]), "1").unwrap();
    assert!(!fifo.has_synced(), "its turn has not ended");
    notified(&fifo);
    assert!(fifo.has_synced());
}

#[test]
fn initial_population_ignores_waived_and_removed_scopes() {
    for waive in [true, false] {
        let fifo = over([]);
        let [low, high] = halves(&fifo);
        fifo.replace_in(&low, list(&[("a", 1)]), "1").unwrap();
        notified(&fifo);
        if waive {
            fifo.waive_scope(&high);
        } else {
            fifo.remove_scope(&high).unwrap();
        }
        assert!(fifo.has_synced());
    }
}

#[test]
fn initial_population_waits_for_a_waived_scope_that_is_awaited_again() {
    let fifo = over([]);
    let [low, high] = halves(&fifo);
    fifo.waive_scope(&high);
    fifo.await_scope(&high);
    fifo.replace_in(&low, list(&[("a", 1)]), "1").unwrap();
    notified(&fifo);
    assert!(!fifo.has_synced(), "the other scope is not listed");
    fifo.replace_in(&high, list(&[("x", 1)]), "1").unwrap();
    assert!(!fifo.has_synced(), "its turn has not ended");
    notified(&fifo);
    assert!(fifo.has_synced());
}

#[test]
fn list_that_does_not_count_deletes_keys_and_is_not_the_first_list_of_its_scope() {
    let fifo = over(list(&[("x", 1), ("y", 1)]));
    let [low, high] = halves(&fifo);
    fifo.waive_scope(&high);
    fifo.replace_in(&high.uncounted(), list(&[("x", 2)]), "2").unwrap();
    fifo.await_scope(&high);
    fifo.replace_in(&low, vec![], "1").unwrap();
    assert_eq!(notified(&fifo), ["-y(1)", "R x1>2"]);
    assert!(!fifo.has_synced(), "the other scope is not listed");
    fifo.replace_in(&high, list(&[("x", 3)]), "3").unwrap();
    notified(&fifo);
    assert!(fifo.has_synced());
}

#[test]
fn removed_scope_deletes_its_keys_in_its_turn() {
    let fifo = over([]);
    let [low, high] = halves(&fifo);
    fifo.replace_in(&low, list(&[("a", 1)]), "1").unwrap();
    fifo.replace_in(&high, list(&[("x", 1)]), "1").unwrap();
    fifo.add(obj("b", 2)).unwrap();
    fifo.remove_scope(&low).unwrap();
    assert_eq!(notified(&fifo), ["R+a1", "R+x1", "A+b2", "-a!(1)", "-b!(2)"]);
    assert_eq!(stored(&fifo), ["x1"]);
    assert!(matches!(fifo.remove_scope(&low), Err(RelistError::UnknownScope { .. })));
    assert!(matches!(fifo.replace_in(&low, vec![], "2"), Err(RelistError::UnknownScope { .. })));
}

#[test]
fn scope_whose_list_was_refused_can_be_removed() {
    let fifo = over(list(&[("a", 1), ("x", 1)]));
    let [low, high] = halves(&fifo);
    fifo.replace_in(&low, list(&[("z", 2)]), "2").unwrap_err();
    fifo.remove_scope(&low).unwrap();
    fifo.remove_scope(&high).unwrap();
    fifo.replace(list(&[("b", 3)]), "3").unwrap();
    assert_eq!(notified(&fifo), ["-a!(1)", "-x!(1)", "R+b3"]);
}

#[test]
fn objects_outside_the_scope_and_relists_of_the_whole_queue_are_refused() {
    let fifo = over(list(&[("a", 1), ("x", 1)]));
    let [low, _high] = halves(&fifo);
    let outside = fifo.replace_in(&low, list(&[("b", 2), ("x", 2)]), "2").unwrap_err();
    assert!(matches!(
        outside,
        RelistError::RefusedWhole { index: 1, source: OfferError::OutOfScope { .. } }
    ));
    let refused = fifo.replace_keeping_in(&low, list(&[("x", 2), ("b", 2)]), ["a"], "2").unwrap();
    assert_eq!(refused.iter().map(|refused| refused.index).collect::<Vec<_>>(), [0]);
    assert_eq!(notified(&fifo), ["R+b2"]);
    assert!(matches!(fifo.replace(list(&[("a", 3)]), "3"), Err(RelistError::HasScopes)));
    let refused = fifo.replace_keeping(list(&[("a", 3)]), [], "3");
    assert!(matches!(&refused[..], [one] if matches!(one.source, OfferError::HasScopes)));
    assert_eq!(fifo.replace_keeping_unlisted(list(&[("a", 3)]), "3").len(), 1);
    assert!(fifo.try_pop().is_none());
    assert!(matches!(
        fifo.add_scope(KeyScope::keys("all", |_| true)),
        Err(ScopeError::CommonKey { .. })
    ));
}

#[test]
fn key_that_comes_later_and_lies_in_two_scopes_belongs_to_the_older_one() {
    let fifo = over([]);
    let older = fifo.add_scope(KeyScope::keys("a", |key| key.starts_with('a'))).unwrap();
    let newer = fifo.add_scope(KeyScope::keys("b", |key| key.ends_with('b'))).unwrap();
    fifo.replace_in(&older, list(&[("ab", 1)]), "1").unwrap();

    // The newer one refuses the key, and neither lists nor deletes it.
    let outside = fifo.replace_in(&newer, list(&[("ab", 2)]), "2").unwrap_err();
    let is_of_a = |source: &OfferError| matches!(source, OfferError::OutOfScope { older: Some(older), .. } if older == "a");
    assert!(matches!(
        &outside,
        RelistError::RefusedWhole { index: 0, source } if is_of_a(source)
    ));
    let refused = fifo.replace_keeping_in(&newer, list(&[("ab", 2), ("bb", 2)]), [], "2").unwrap();
    assert!(matches!(&refused[..], [one] if one.index == 0 && is_of_a(&one.source)));
    assert_eq!(notified(&fifo), ["R+ab1", "R+bb2"]);

    // The older one deletes it.
    fifo.replace_in(&older, vec![], "3").unwrap();
    fifo.add(obj("ab", 4)).unwrap();
    fifo.remove_scope(&older).unwrap();
    assert_eq!(notified(&fifo), ["-ab(1)", "A+ab4", "-ab!(4)"]);

    // Without the older scope it belongs to the newer one.
    fifo.replace_in(&newer, list(&[("ab", 5)]), "5").unwrap();
    fifo.replace_in(&newer, vec![], "6").unwrap();
    assert_eq!(notified(&fifo), ["-bb(2)", "R+ab5", "-ab(5)"]);
}

#[test]
fn refused_object_of_a_scope_keeps_its_key() {
    let fifo = picky();
    let [low, high] = halves(&fifo);
    fifo.replace_in(&low, list(&[("a", 1), ("b", 1)]), "1").unwrap();
    fifo.replace_in(&high, list(&[("x", 1)]), "1").unwrap();
    notified(&fifo);
    let refused =
        fifo.replace_keeping_in(&low, vec![versioned("a", 2, "refused")], [], "2").unwrap();
    assert_eq!(refused.len(), 1);
    assert_eq!(notified(&fifo), ["-b(1)"]);
    fifo.replace_keeping_unlisted_in(&low, list(&[("c", 3)]), "3").unwrap();
    assert_eq!(notified(&fifo), ["R+c3"]);
    assert_eq!(stored(&fifo), ["a1", "c3", "x1"]);
}

#[test]
fn panicking_predicate_keeps_its_key_and_the_rest_of_the_relist_is_stored() {
    let fifo = over(list(&[("a", 1), ("b", 1), ("c", 1)]));
    let is_calm = Arc::new(AtomicBool::new(true));
    let scope = KeyScope::keys("all", {
        let is_calm = is_calm.clone();
        move |key| {
            if key == "b" && !is_calm.load(Ordering::Relaxed) {
                resume_unwind(Box::new("expected by this test"));
            }
            true
        }
    });
    let all = fifo.add_scope(scope).unwrap();
    fifo.replace_in(&all, list(&[("d", 2)]), "2").unwrap();
    is_calm.store(false, Ordering::Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(|| notified(&fifo)));
    assert!(panicked.is_err());
    assert_eq!(stored(&fifo), ["b1", "d2"]);
    is_calm.store(true, Ordering::Relaxed);
    fifo.replace_in(&all, list(&[("d", 3)]), "3").unwrap();
    assert_eq!(notified(&fifo), ["-b(1)", "R d2>3"]);
}

#[test]
fn relist_of_a_namespace_deletes_its_unlisted_keys_and_leaves_no_trace_on_others() {
    let fifo = over(list(&[("blue/a", 1), ("blue/b", 1), ("green/a", 1), ("c", 1)]));
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    let green = fifo.add_scope(KeyScope::namespace("green")).unwrap();
    // A kept key of another namespace has no effect, neither now nor on the next relist.
    let kept = ["green/a", "blue/b"];
    assert!(fifo.replace_keeping_in(&blue, vec![], kept, "2").unwrap().is_empty());
    assert_eq!(notified(&fifo), ["-blue/a(1)"]);
    fifo.replace_in(&green, vec![], "3").unwrap();
    assert_eq!(notified(&fifo), ["-green/a(1)"]);
    fifo.replace_in(&blue, list(&[("blue/c", 4)]), "4").unwrap();
    assert_eq!(notified(&fifo), ["-blue/b(1)", "R+blue/c4"]);
    fifo.remove_scope(&blue).unwrap();
    assert_eq!(notified(&fifo), ["-blue/c!(4)"]);
    assert_eq!(stored(&fifo), ["c1"]);
}

#[test]
fn namespace_with_a_slash_in_its_name_is_refused() {
    let fifo = over([]);
    for name in ["a/b", "a/", "/a"] {
        let refused = fifo.add_scope(KeyScope::namespace(name));
        assert!(matches!(&refused, Err(ScopeError::NotANamespace { scope }) if scope == name));
    }
}

/// Checks that a list is dropped with no lock held if its transformer adds or removes a scope. The
/// queue checks its scopes before and after it calls the transformer, and only the second check,
/// which holds a lock, refuses the list. `Obj` aborts the process if it is dropped under a lock.
#[test]
fn list_that_is_refused_at_the_last_moment_is_dropped_with_no_lock_held() {
    type Change = Box<dyn FnOnce(&Fifo) + Send>;
    type Armed = Option<(Weak<Fifo>, Change)>;
    let change: Arc<Mutex<Armed>> = Arc::default();
    let armed = change.clone();
    let changes = move |object| {
        let change = armed.lock().unwrap().take();
        if let Some((fifo, change)) = change {
            change(&fifo.upgrade().unwrap());
        }
        Ok(object)
    };
    let fifo = Arc::new(InOrderFifo::builder(keys()).transformer(changes).build());
    let arm = |step: Change| *change.lock().unwrap() = Some((Arc::downgrade(&fifo), step));
    let all = || KeyScope::keys("all", |_| true);

    let added = Arc::new(OnceLock::new());
    let set = added.clone();
    arm(Box::new(move |fifo| set.set(fifo.add_scope(all()).unwrap()).unwrap()));
    let refused = fifo.replace(vec![obj("a", 1), obj("b", 1)], "1");
    assert!(matches!(refused, Err(RelistError::HasScopes)));
    let scope = added.get().unwrap().clone();
    let removed = scope.clone();
    arm(Box::new(move |fifo| fifo.remove_scope(&removed).unwrap()));
    let refused = fifo.replace_in(&scope, vec![obj("a", 1), obj("b", 1)], "1");
    assert!(matches!(refused, Err(RelistError::UnknownScope { .. })));
    assert_eq!(events(&fifo).len(), 1, "the removal of the scope");
}
