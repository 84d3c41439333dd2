//! Tests of scopes: parts of a queue, each with relists of its own.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::task::{Context, Poll, Waker};

use deltafifo::{
    BoxError, Delta, DeltaFifo, DeltaObject, DeltaType, Deltas, Indexer, KeyFunc, KeyScope,
    KnownObjects, Meta, OfferError, Refused, RelistError, ScopeError, ScopeId, StoreError,
    VersionError, WaitError,
};

/// An object that consists of its metadata.
#[derive(Debug)]
struct Object {
    namespace: &'static str,
    name: &'static str,
    version: String,
}

#[derive(Clone, Copy)]
struct Names;

impl Meta<Object> for Names {
    fn namespace<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.namespace)
    }
    fn name<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.name)
    }
    fn version<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.version)
    }
}

type Fifo = DeltaFifo<Object, Names>;

fn object(namespace: &'static str, name: &'static str, version: u64) -> Arc<Object> {
    Arc::new(Object { namespace, name, version: version.to_string() })
}

fn fused() -> Fifo {
    let store = Indexer::builder(KeyFunc::meta_namespace(Names)).build().unwrap();
    DeltaFifo::over(store).track_applied(true).skip_unchanged(true).ordered_walks(true).build()
}

fn two_scopes(fifo: &Fifo) -> [ScopeId; 2] {
    ["blue", "green"].map(|name| fifo.add_scope(KeyScope::namespace(name)).unwrap())
}

/// Runs a relist of one page. Returns the number of deleted keys.
fn list(fifo: &Fifo, scope: &ScopeId, objects: &[Arc<Object>], version: &str) -> usize {
    let mut relist = fifo.begin_replace_in(scope);
    assert!(relist.offer(objects.to_vec()).unwrap().is_empty());
    relist.commit(version).unwrap().deleted
}

fn drain(fifo: &Fifo) {
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
}

fn stored(fifo: &Fifo) -> Vec<String> {
    let mut keys = fifo.store().list_keys();
    keys.sort();
    keys
}

#[test]
fn commit_deletes_keys_of_its_own_scope_only() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1), object("blue", "b", 1)], "1");
    list(&fifo, &green, &[object("green", "a", 1)], "1");
    // A key in no scope, and one whose namespace has a scope's name as its prefix.
    fifo.add(object("bluer", "a", 1)).unwrap();
    drain(&fifo);
    assert_eq!(list(&fifo, &blue, &[object("blue", "b", 1)], "2"), 1);
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/b", "bluer/a", "green/a"]);
    assert_eq!(list(&fifo, &green, &[], "3"), 1);
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/b", "bluer/a"]);
}

#[test]
fn namespace_that_is_added_to_a_filled_queue_has_the_keys_from_before() {
    let store = Indexer::builder(KeyFunc::meta_namespace(Names)).build().unwrap();
    // There are more names than shards, so that some shards have several of them.
    let letters = if cfg!(miri) { "abcd" } else { "abcdefghijklmnopqrstuvwxyz0123456789" };
    let ends = |from: usize| (from + 1..=letters.len()).map(move |to| &letters[from..to]);
    let names: Vec<_> = (0..letters.len()).flat_map(ends).collect();
    for name in &names {
        store.add(object("blue", name, 1)).unwrap();
        store.add(object("green", name, 1)).unwrap();
    }
    let fifo = DeltaFifo::over(store).build();
    fifo.add(object("blue", "pending", 1)).unwrap();
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    assert_eq!(list(&fifo, &blue, &[object("blue", "a", 2)], "2"), names.len());
    drain(&fifo);
    assert_eq!(fifo.store().len(), names.len() + 1);
    // Their slots are gone. One of them comes again.
    fifo.add(object("blue", "b", 3)).unwrap();
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 2);
    drain(&fifo);
    assert_eq!(fifo.store().len(), names.len());
}

#[test]
fn relists_of_two_scopes_run_at_once_and_supersede_only_their_own() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    let mut of_blue = fifo.begin_replace_in(&blue);
    let mut of_green = fifo.begin_replace_in(&green);
    of_blue.offer(vec![object("blue", "a", 1)]).unwrap();
    of_green.offer(vec![object("green", "a", 1)]).unwrap();
    let mut newer = fifo.begin_replace_in(&blue);
    assert!(matches!(of_blue.offer(vec![object("blue", "b", 1)]), Err(RelistError::Superseded)));
    newer.offer(vec![object("blue", "c", 2)]).unwrap();
    // Written while both relists are open, so neither deletes it.
    fifo.update(object("green", "b", 3)).unwrap();
    fifo.update(object("blue", "d", 3)).unwrap();
    assert_eq!(newer.commit("2").unwrap().deleted, 1, "the keys of the superseded relist");
    // The newer relist has ended. Later writes must still survive the older one's commit.
    fifo.update(object("green", "c", 4)).unwrap();
    assert_eq!(of_green.commit("2").unwrap().deleted, 0);
    assert!(matches!(of_blue.commit("1"), Err(RelistError::Superseded)));
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/c", "blue/d", "green/a", "green/b", "green/c"]);
}

#[test]
fn queue_is_synced_when_the_first_list_of_every_scope_is_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1)], "1");
    // Events of blue's watch do not populate the queue.
    fifo.update(object("blue", "a", 2)).unwrap();
    drain(&fifo);
    assert!(!fifo.has_synced(), "green is not listed");
    drop(fifo.begin_replace_in(&green));
    assert!(!fifo.has_synced(), "an abandoned list is none");
    list(&fifo, &blue, &[object("blue", "a", 3)], "3");
    drain(&fifo);
    assert!(!fifo.has_synced());
    list(&fifo, &green, &[object("green", "a", 1)], "4");
    assert!(!fifo.has_synced(), "its item is not handled");
    let mut item = fifo.try_pop().unwrap();
    assert!(item.is_in_initial_list());
    item.apply(|_| ()).unwrap();
    drop(item);
    assert!(fifo.has_synced());
    // A scope that is added later does not reset the sync.
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    assert!(fifo.has_synced());
    list(&fifo, &red, &[object("red", "a", 5)], "5");
    assert!(!fifo.try_pop().unwrap().is_in_initial_list());
}

#[test]
fn initial_population_ignores_a_waived_or_removed_scope() {
    for waive in [true, false] {
        let fifo = fused();
        let [blue, green] = two_scopes(&fifo);
        list(&fifo, &blue, &[object("blue", "a", 1)], "1");
        drain(&fifo);
        if waive {
            fifo.waive_scope(&green);
        } else {
            fifo.remove_scope(&green).unwrap();
        }
        assert!(fifo.has_synced());
        assert_eq!(
            fifo.store().applied_version().as_deref(),
            Some("1"),
            "green does not hold the version back"
        );
    }
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&blue);
    assert!(!fifo.has_synced());
    fifo.waive_scope(&green);
    assert!(fifo.has_synced());
    list(&fifo, &green, &[object("green", "a", 1)], "7");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("7"), "a later list counts");
}

#[test]
fn list_with_a_version_that_is_no_number_ends_a_waiver_and_keeps_the_applied_version() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "10");
    list(&fifo, &green, &[], "5");
    fifo.waive_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    list(&fifo, &green, &[], "x");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
}

#[test]
fn new_scope_holds_the_applied_version_back_until_its_first_list_is_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 5)], "5");
    list(&fifo, &green, &[], "4");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("4"));
    // This marker is queued before the scope is added, and handled after it.
    fifo.update(object("green", "a", 6)).unwrap();
    fifo.bookmark_in(&green, "6").unwrap();
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    drain(&fifo);
    assert_eq!(fifo.store().applied_version(), None, "red has no version");
    let mut relist = fifo.begin_replace_in(&red);
    relist.offer(vec![object("red", "a", 3)]).unwrap();
    relist.commit("7").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "the list of red is not handled");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"), "blue is the least");

    // A scope that is given up or removed does not hold the version back.
    for waive in [true, false] {
        let late = fifo.add_scope(KeyScope::namespace(format!("late {waive}"))).unwrap();
        assert_eq!(fifo.store().applied_version(), None);
        if waive {
            fifo.waive_scope(&late);
        } else {
            fifo.remove_scope(&late).unwrap();
        }
        assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    }
}

#[test]
fn waived_scope_does_not_hold_the_applied_version_back_until_its_next_list_or_bookmark() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    for scope in [&blue, &green] {
        list(&fifo, scope, &[], "1");
    }
    let applied_after = |version| {
        fifo.bookmark_in(&blue, version).unwrap();
        fifo.store().applied_version().unwrap()
    };
    assert_eq!(applied_after("2"), "1");
    fifo.waive_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("2"));
    assert_eq!(applied_after("3"), "3");
    fifo.bookmark_in(&green, "4").unwrap();
    assert_eq!(applied_after("5"), "4");
    fifo.waive_scope(&green);
    assert_eq!(applied_after("6"), "6");
    fifo.bookmark_in(&green, "no number").unwrap_err();
    assert_eq!(applied_after("7"), "7");
    list(&fifo, &green, &[], "8");
    assert_eq!(applied_after("9"), "8");
}

#[test]
fn waived_scope_that_is_awaited_again_counts_as_new_until_its_first_list_is_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    fifo.waive_scope(&green);
    fifo.waive_scope(&red);
    fifo.await_scope(&green);
    list(&fifo, &blue, &[object("blue", "a", 1)], "10");
    drain(&fifo);
    assert!(!fifo.has_synced(), "green is not listed");
    assert_eq!(fifo.store().applied_version(), None, "green is not listed");
    list(&fifo, &green, &[object("green", "a", 1)], "5");
    assert!(!fifo.has_synced(), "green's list is not handled");
    drain(&fifo);
    assert!(fifo.has_synced());
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));

    fifo.await_scope(&red);
    assert_eq!(fifo.store().applied_version(), None, "red is not listed");
    assert!(fifo.has_synced(), "a queue stays synced");
    list(&fifo, &red, &[], "20");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    // A scope that was listed counts with its last list.
    fifo.waive_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    fifo.await_scope(&green);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"), "green has reached 5");
    fifo.await_scope(&green);
    fifo.bookmark_in(&blue, "30").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"), "green has reached 5");
    fifo.remove_scope(&green).unwrap();
    drain(&fifo);
    fifo.await_scope(&green);
    assert_eq!(
        fifo.store().applied_version().as_deref(),
        Some("20"),
        "a removed scope does not count"
    );
}

#[test]
fn list_that_ends_a_waiver_is_handled_before_any_version_is_applied() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    list(&fifo, &blue, &[], "300");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("300"), "green is waived");
    list(&fifo, &green, &[object("green", "a", 150)], "400");
    assert_eq!(fifo.store().applied_version(), None, "green/a is not handled");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("300"));

    fifo.waive_scope(&green);
    fifo.bookmark_in(&blue, "600").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("600"), "green is waived");
    list(&fifo, &green, &[object("green", "a", 150)], "500");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("500"), "green is at 500");
}

#[test]
fn list_that_began_while_its_scope_was_waived_does_not_end_the_wait_for_its_first_list() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    let mut relist = fifo.begin_replace_in(&green);
    relist.offer(vec![object("green", "a", 1)]).unwrap();
    fifo.await_scope(&green);
    list(&fifo, &blue, &[], "1");
    relist.commit("1").unwrap();
    assert!(!fifo.has_synced(), "the list is not handled");
    list(&fifo, &green, &[object("green", "a", 1), object("green", "b", 1)], "2");
    assert!(!fifo.has_synced(), "the second list is not handled");
    drain(&fifo);
    assert!(fifo.has_synced());
}

#[test]
fn list_that_does_not_end_the_wait_for_its_scope_is_not_its_first_list() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    let mut unmarked = fifo.begin_replace_in(&green);
    unmarked.offer(vec![object("green", "a", 1)]).unwrap();
    fifo.await_scope(&green);
    unmarked.commit("1").unwrap();
    fifo.waive_scope(&green);
    fifo.await_scope(&green);
    list(&fifo, &blue, &[], "1");
    assert!(!fifo.has_synced(), "green/a is not handled");
    drain(&fifo);
    assert!(!fifo.has_synced(), "green has had no list of the initial population");
    list(&fifo, &green, &[object("green", "a", 1)], "2");
    drain(&fifo);
    assert!(fifo.has_synced());
}

#[test]
fn list_that_does_not_count_deletes_keys_and_ends_neither_a_waiver_nor_a_wait() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.update(object("green", "a", 1)).unwrap();
    fifo.update(object("green", "b", 1)).unwrap();
    drain(&fifo);
    fifo.waive_scope(&green);
    let uncounted = green.uncounted();
    assert_eq!(list(&fifo, &uncounted, &[object("green", "a", 2)], "2"), 1);
    list(&fifo, &blue, &[], "1");
    assert_eq!(fifo.store().applied_version(), None, "green/b is not handled");
    drain(&fifo);
    assert_eq!(stored(&fifo), ["green/a"]);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("1"), "green is waived");
    assert_eq!(fifo.resource_version().as_deref(), Some("1"), "green is waived");

    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    fifo.waive_scope(&green);
    let uncounted = green.uncounted();
    list(&fifo, &uncounted, &[], "2");
    fifo.await_scope(&green);
    list(&fifo, &uncounted, &[], "3");
    list(&fifo, &blue, &[], "1");
    assert!(!fifo.has_synced(), "green is not listed");
    assert_eq!(fifo.resource_version(), None, "green is not listed");
    list(&fifo, &green, &[], "4");
    assert!(fifo.has_synced());
    // The removal of a scope through such a handle ends the wait for the scope, too.
    let late = fused();
    let [blue, green] = two_scopes(&late);
    list(&late, &blue, &[], "1");
    late.remove_scope(&green.uncounted()).unwrap();
    assert!(late.has_synced());
}

#[test]
fn open_relist_of_a_waived_scope_delays_the_sync_until_its_offers_are_handled() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "1");
    let mut relist = fifo.begin_replace_in(&green);
    relist.offer(vec![object("green", "a", 1)]).unwrap();
    fifo.waive_scope(&green);
    relist.offer(vec![object("green", "b", 1)]).unwrap();
    for _ in 0..2 {
        assert!(!fifo.has_synced(), "an offer of the first list is not handled");
        fifo.try_pop().unwrap().apply(|_| ()).unwrap();
    }
    assert!(fifo.has_synced(), "the sync does not wait for the commit");
    relist.commit("1").unwrap();
}

#[test]
fn wait_for_a_version_waits_for_a_new_scope_and_is_not_rewound() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "5");
    list(&fifo, &green, &[], "5");
    let store = fifo.store();
    let mut waiting = pin!(store.wait_for_resource_version_async("6"));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    fifo.bookmark_in(&blue, "6").unwrap();
    fifo.bookmark_in(&green, "6").unwrap();
    assert!(waiting.as_mut().poll(&mut context).is_pending(), "red has no version");
    list(&fifo, &red, &[], "6");
    assert!(matches!(waiting.poll(&mut context), Poll::Ready(Ok(()))));
}

#[test]
fn removed_scope_drops_its_keys_and_relists() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1), object("blue", "b", 1)], "1");
    list(&fifo, &green, &[object("green", "a", 1)], "1");
    drain(&fifo);
    fifo.update(object("blue", "c", 2)).unwrap(); // pending only
    let mut open = fifo.begin_replace_in(&blue);
    open.offer(vec![object("blue", "d", 2)]).unwrap();
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 4);
    assert!(matches!(open.commit("3"), Err(RelistError::Superseded)));
    drain(&fifo);
    assert_eq!(stored(&fifo), ["green/a"]);
    let unknown = |error: RelistError| matches!(error, RelistError::UnknownScope { scope } if scope == "blue");
    assert!(unknown(fifo.remove_scope(&blue).unwrap_err()));
    let mut late = fifo.begin_replace_in(&blue);
    assert!(unknown(late.offer(vec![object("blue", "a", 4)]).unwrap_err()));
    assert!(unknown(late.commit("4").unwrap_err()));
    // The namespace can be added again. The old handle stays without effect.
    let again = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    list(&fifo, &again, &[object("blue", "a", 5)], "5");
    assert!(unknown(fifo.begin_replace_in(&blue).commit("5").unwrap_err()));
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/a", "green/a"]);
}

#[test]
fn tombstone_says_whether_its_scope_was_removed() {
    for with_objects_elsewhere in [false, true] {
        let known = Arc::new(Elsewhere::default());
        let fifo = if with_objects_elsewhere {
            let known = Arc::clone(&known);
            DeltaFifo::builder(KeyFunc::meta_namespace(Names)).known_objects(known).build()
        } else {
            fused()
        };
        let [blue, green] = two_scopes(&fifo);
        let objects = [object("blue", "a", 1), object("green", "a", 1), object("green", "b", 1)];
        if with_objects_elsewhere {
            let named = objects.map(|one| (format!("{}/{}", one.namespace, one.name), one));
            known.0.lock().unwrap().extend(named);
        } else {
            list(&fifo, &blue, &objects[..1], "1");
            list(&fifo, &green, &objects[1..], "1");
            drain(&fifo);
        }
        list(&fifo, &blue, &[], "2");
        fifo.remove_scope(&green).unwrap();
        let mut popped = Vec::new();
        while let Some(item) = fifo.try_pop() {
            let DeltaObject::Tombstone(last) = &item.deltas()[0].object else { panic!("swept") };
            popped.push(format!("{} {}", last.key, last.scope_removed));
            item.done();
        }
        popped.sort();
        assert_eq!(popped, ["blue/a false", "green/a true", "green/b true"]);
    }
}

#[test]
fn resync_or_deletion_saves_no_key_that_only_another_scope_has_listed() {
    for deletes in [false, true] {
        let known = Arc::new(Elsewhere::default());
        let objects = Arc::clone(&known);
        let fifo =
            DeltaFifo::builder(KeyFunc::meta_namespace(Names)).known_objects(objects).build();
        let [blue, green] = two_scopes(&fifo);
        // A key that is written while a relist is open counts as listed by that relist.
        let _open = fifo.begin_replace_in(&blue);
        fifo.add(object("green", "a", 1)).unwrap();
        let item = fifo.try_pop().unwrap();
        known.apply("green/a", item.deltas());
        item.done();
        let relist = fifo.begin_replace_in(&green);
        if deletes {
            fifo.delete(object("green", "a", 1)).unwrap();
        } else {
            fifo.resync();
        }
        assert_eq!(relist.commit("1").unwrap().deleted, 1);
        let item = fifo.try_pop().unwrap();
        assert_eq!(item.deltas().newest().unwrap().kind, DeltaType::Deleted);
        item.done();
    }
}

#[test]
fn deletion_by_a_list_before_or_behind_a_removal_keeps_its_own_cause() {
    let fifo = fused();
    let [blue, _green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1), object("blue", "b", 1)], "1");
    drain(&fifo);
    fifo.remove_scope(&blue).unwrap();
    let again = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    list(&fifo, &again, &[object("blue", "b", 1)], "2");
    // The new list does not have `a`: it is gone. `b` was there all the time.
    let expected = ["blue/a: removed false", "blue/b: removed true, listed"];
    assert_eq!(pop_causes(&fifo), expected);

    list(&fifo, &again, &[object("blue", "c", 3), object("blue", "d", 3)], "3");
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    list(&fifo, &again, &[object("blue", "d", 3)], "4");
    fifo.remove_scope(&again).unwrap();
    assert_eq!(pop_causes(&fifo), ["blue/c: removed false", "blue/d: removed true"]);
}

/// Pops all items. Returns a text for each, with its key and the causes of its deltas.
fn pop_causes(fifo: &Fifo) -> Vec<String> {
    let mut popped = Vec::new();
    while let Some(item) = fifo.try_pop() {
        let shown = item.deltas().iter().map(|delta| match &delta.object {
            DeltaObject::Tombstone(last) => format!("removed {}", last.scope_removed),
            DeltaObject::Object(_) => "listed".to_owned(),
        });
        popped.push(format!("{}: {}", item.key(), shown.collect::<Vec<_>>().join(", ")));
        item.done();
    }
    popped.sort();
    popped
}

#[test]
fn keys_outside_the_scope_are_refused_and_released() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &green, &[object("green", "a", 1)], "1");
    drain(&fifo);
    let mut of_green = fifo.begin_replace_in(&green);
    let mut of_blue = fifo.begin_replace_in(&blue);
    let refused = of_blue.offer(vec![object("green", "a", 2), object("blue", "a", 2)]).unwrap();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].index, 0);
    assert!(
        matches!(&refused[0].source, OfferError::OutOfScope { key, scope, older: None } if key == "green/a" && scope == "blue")
    );
    let out = |error: &RelistError| matches!(error, RelistError::OutOfScope { key, .. } if key == "green/a");
    assert!(out(&of_blue.keep("green/a").unwrap_err()));
    assert!(out(&of_blue.probe(&[("green/a", "1")]).unwrap_err()));
    assert!(
        matches!(of_blue.delete(object("green", "a", 1)), Err(StoreError::Relist(error)) if out(&error))
    );
    of_blue.commit("2").unwrap();
    of_green.keep("green/b").unwrap();
    assert_eq!(of_green.commit("3").unwrap().deleted, 1, "nothing has stamped green/a");
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/a"]);
}

#[test]
fn unchanged_objects_are_skipped_in_a_scope_as_in_the_whole_queue() {
    let fifo = fused();
    let [blue, _green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1), object("blue", "b", 1)], "1");
    drain(&fifo);
    let mut relist = fifo.begin_replace_in(&blue);
    assert_eq!(relist.probe(&[("blue/a", "1"), ("blue/b", "2")]).unwrap(), [false, true]);
    relist.offer(vec![object("blue", "b", 2)]).unwrap();
    assert_eq!(relist.commit("2").unwrap().deleted, 0);
    let item = fifo.try_pop().unwrap();
    assert_eq!((item.key(), item.deltas().newest().unwrap().kind), ("blue/b", DeltaType::Replaced));
    item.done();
    assert!(fifo.try_pop().is_none());
}

#[test]
fn overlapping_scopes_and_relists_of_the_whole_queue_are_refused() {
    let fifo = fused();
    let whole = fifo.begin_replace();
    let namespace = || KeyScope::namespace("blue");
    assert!(matches!(fifo.add_scope(namespace()), Err(ScopeError::RelistOpen { .. })));
    drop(whole);
    let blue = fifo.add_scope(namespace()).unwrap();
    assert!(matches!(fifo.add_scope(namespace()), Err(ScopeError::Overlaps { .. })));
    assert!(matches!(fifo.replace(vec![object("blue", "a", 1)], "1"), Err(RelistError::HasScopes)));
    let mut whole = fifo.begin_replace();
    assert!(matches!(whole.offer(vec![object("blue", "a", 1)]), Err(RelistError::HasScopes)));
    assert!(matches!(whole.commit("1"), Err(RelistError::HasScopes)));
    assert!(!fifo.has_synced());
    list(&fifo, &blue, &[object("blue", "a", 1)], "1");
    drain(&fifo);
    let overlapping = KeyScope::keys("names of a", |key| key.ends_with("/a"));
    assert!(
        matches!(fifo.add_scope(overlapping), Err(ScopeError::CommonKey { key, .. }) if key == "blue/a")
    );
    fifo.remove_scope(&blue).unwrap();
    // Without scopes, the whole queue can be relisted again.
    fifo.replace(vec![object("red", "a", 3)], "3").unwrap();
    drain(&fifo);
    assert_eq!(stored(&fifo), ["red/a"]);
}

#[test]
fn key_that_comes_later_and_lies_in_two_scopes_belongs_to_the_older_one() {
    for newer_is_a_namespace in [false, true] {
        let fifo = fused();
        let of_a = KeyScope::keys("names of a", |key| key.ends_with("/a"));
        let namespace = KeyScope::namespace("blue");
        let scopes = if newer_is_a_namespace { [of_a, namespace] } else { [namespace, of_a] };
        // Beside the open relist of the older one, which keeps its keys.
        let [first, second] = scopes;
        let older = fifo.add_scope(first).unwrap();
        let mut relist = fifo.begin_replace_in(&older);
        let newer = fifo.add_scope(second).unwrap();
        relist.offer(vec![object("blue", "a", 1)]).unwrap();
        relist.commit("1").unwrap();

        // The newer one refuses the key, and neither lists nor deletes it.
        let mut relist = fifo.begin_replace_in(&newer);
        let refused = relist.offer(vec![object("blue", "a", 2)]).unwrap();
        let [Refused { index: 0, source }] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!(
            source.to_string(),
            format!(
                "key \"blue/a\" does not belong to scope {:?}, because the older scope {:?} contains \
                 it as well (change a predicate), so the object was not queued",
                newer.name(),
                older.name(),
            )
        );
        assert!(matches!(
            relist.keep("blue/a"),
            Err(RelistError::OutOfScope { older: Some(name), .. }) if name == older.name()
        ));
        assert_eq!(relist.commit("2").unwrap().deleted, 0);
        drain(&fifo);
        assert_eq!(stored(&fifo), ["blue/a"]);

        // The older one deletes it.
        assert_eq!(list(&fifo, &older, &[], "3"), 1);
        fifo.add(object("blue", "a", 4)).unwrap();
        assert_eq!(fifo.remove_scope(&older).unwrap().deleted, 1);
        drain(&fifo);
        assert_eq!(stored(&fifo), [""; 0]);

        // Without the older scope it belongs to the newer one.
        list(&fifo, &newer, &[object("blue", "a", 5)], "5");
        drain(&fifo);
        assert_eq!(stored(&fifo), ["blue/a"]);
        assert_eq!(list(&fifo, &newer, &[], "6"), 1);
    }
}

#[test]
fn deleted_key_with_a_stale_entry_in_the_backlog_does_not_refuse_a_scope() {
    let store = Indexer::builder(KeyFunc::meta_namespace(Names)).build().unwrap();
    let fifo = DeltaFifo::over(store).live_lane(true).build();
    fifo.add(object("green", "a", 1)).unwrap();
    drain(&fifo);
    fifo.resync();
    // Leaves the backlog, whose entry keeps the slot.
    fifo.delete(object("green", "a", 2)).unwrap();
    fifo.try_pop().unwrap().apply(|_| ()).unwrap();
    assert!(fifo.store().is_empty());
    fifo.add_scope(KeyScope::namespace("green")).unwrap();
    fifo.add_scope(KeyScope::keys("names of a", |key| key.ends_with("/a"))).unwrap();
}

#[test]
fn namespace_scope_requires_namespaced_keys() {
    let keys = KeyFunc::custom(Names, |object: &Object| Ok(object.name.to_owned()));
    let fifo = DeltaFifo::builder(keys).build();
    assert!(matches!(
        fifo.add_scope(KeyScope::namespace("blue")),
        Err(ScopeError::NeedsNames { .. })
    ));
}

#[test]
fn namespace_with_a_slash_in_its_name_is_refused() {
    let fifo = fused();
    fifo.add_scope(KeyScope::namespace("a")).unwrap();
    for name in ["a/b", "a/", "/a", "/"] {
        let refused = fifo.add_scope(KeyScope::namespace(name));
        assert!(matches!(&refused, Err(ScopeError::NotANamespace { scope }) if scope == name));
    }
    // A predicate names the keys of a part of a namespace, and is compared with the other scopes.
    fifo.add(object("a", "b/c", 1)).unwrap();
    let part = fifo.add_scope(KeyScope::keys("a/b", |key| key.starts_with("a/b/")));
    assert!(matches!(part, Err(ScopeError::CommonKey { .. })));
}

#[test]
fn applied_version_is_the_minimum_of_the_scopes() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1)], "10");
    drain(&fifo);
    assert_eq!((fifo.store().applied_version(), fifo.resource_version()), (None, None));
    list(&fifo, &green, &[object("green", "a", 1)], "5");
    assert_eq!(fifo.store().applied_version(), None, "green's item is not handled");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("5"));
    assert_eq!(fifo.resource_version().as_deref(), Some("5"));
    fifo.bookmark_in(&green, "12").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    fifo.bookmark_in(&blue, "11").unwrap();
    fifo.bookmark_in(&blue, "3").unwrap();
    assert_eq!(
        fifo.store().applied_version().as_deref(),
        Some("11"),
        "a lower bookmark changes nothing"
    );
    assert!(matches!(fifo.bookmark_in(&blue, "new"), Err(VersionError::NotANumber { .. })));
    fifo.store().wait_for_resource_version("11").unwrap();
    // The scope that held the version back is removed.
    fifo.remove_scope(&blue).unwrap();
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("12"));
}

#[test]
fn bookmark_of_the_whole_queue_is_refused_while_it_has_scopes() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "10");
    let refused = fifo.bookmark("500");
    assert!(matches!(&refused, Err(VersionError::HasScopes { version }) if version == "500"));
    drain(&fifo);
    assert_eq!(fifo.store().applied_version(), None, "green is not listed");
    list(&fifo, &green, &[], "20");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("10"));
    fifo.remove_scope(&blue).unwrap();
    assert!(matches!(fifo.bookmark("500"), Err(VersionError::HasScopes { .. })));
    fifo.remove_scope(&green).unwrap();
    fifo.bookmark("500").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("500"));
}

#[test]
fn after_a_restore_no_version_is_applied_until_every_scope_relisted() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    list(&fifo, &green, &[], "90");
    drain(&fifo);
    assert_eq!(fifo.store().applied_version().as_deref(), Some("90"));
    // Blue's list shows another history, which green has not noticed yet.
    list(&fifo, &blue, &[], "20");
    fifo.bookmark_in(&blue, "95").unwrap();
    fifo.bookmark_in(&green, "91").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "91 of green is of the former history");
    list(&fifo, &green, &[], "30");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("30"));
    // Green's version in the new history is higher than before. Its list is still required.
    list(&fifo, &blue, &[], "40");
    list(&fifo, &green, &[], "200");
    fifo.bookmark_in(&blue, "250").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("200"));
    fifo.close();
    assert!(matches!(fifo.store().wait_for_resource_version("300"), Err(WaitError::Closed { .. })));
}

#[test]
fn scope_that_listed_before_a_restore_was_noticed_is_of_the_former_history_until_its_next_list() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    list(&fifo, &green, &[], "50");
    // The API server is restored to 80. Green had not come so far, so its list shows nothing of it.
    list(&fifo, &green, &[], "85");
    list(&fifo, &blue, &[], "86");
    for version in ["87", "200"] {
        fifo.bookmark_in(&blue, version).unwrap();
        fifo.bookmark_in(&green, version).unwrap();
        assert_eq!(
            fifo.store().applied_version(),
            None,
            "85 of green may be of the former history"
        );
    }
    list(&fifo, &green, &[], "200");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("200"));
}

#[test]
fn list_that_began_before_a_new_history_is_of_the_former_one() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    list(&fifo, &green, &[], "90");
    let began_before = fifo.begin_replace_in(&green);
    list(&fifo, &blue, &[], "80");
    began_before.commit("120").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "120 of green is of the former history");
    list(&fifo, &green, &[], "81");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("80"));
}

#[test]
fn bookmark_of_a_scope_without_a_list_is_of_the_history_in_which_the_scope_was_added() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[], "100");
    fifo.bookmark_in(&green, "100").unwrap();
    assert_eq!(fifo.store().applied_version().as_deref(), Some("100"));
    let red = fifo.add_scope(KeyScope::namespace("red")).unwrap();
    list(&fifo, &blue, &[], "80");
    list(&fifo, &green, &[], "81");
    // The watch of the bookmark may have been opened before the restore.
    fifo.bookmark_in(&red, "110").unwrap();
    assert_eq!(fifo.store().applied_version(), None, "110 of red is of the former history");
    list(&fifo, &red, &[], "82");
    assert_eq!(fifo.store().applied_version().as_deref(), Some("80"));

    let new = fifo.add_scope(KeyScope::namespace("new")).unwrap();
    fifo.bookmark_in(&new, "83").unwrap();
    assert_eq!(
        fifo.store().applied_version().as_deref(),
        Some("80"),
        "it was added after the restore"
    );
}

#[test]
fn lists_of_two_scopes_show_the_same_histories_in_either_order() {
    for commits_blue_first in [true, false] {
        let fifo = fused();
        let [blue, green] = two_scopes(&fifo);
        list(&fifo, &blue, &[], "100");
        list(&fifo, &green, &[], "90");
        let (of_blue, of_green) = (fifo.begin_replace_in(&blue), fifo.begin_replace_in(&green));
        let mut commits = [(of_blue, "80"), (of_green, "70")];
        if !commits_blue_first {
            commits.reverse();
        }
        for (relist, version) in commits {
            relist.commit(version).unwrap();
        }
        assert_eq!(
            fifo.store().applied_version().as_deref(),
            Some("70"),
            "both began the same history"
        );
    }
}

#[test]
fn panicking_predicate_abandons_the_relist_and_loses_no_key() {
    let fifo = fused();
    let scope = KeyScope::keys("calm", |key| {
        if key == "blue/z" { panic!("by the test") } else { key != "red/a" }
    });
    let calm = fifo.add_scope(scope).unwrap();
    list(&fifo, &calm, &[object("blue", "a", 1)], "1");
    drain(&fifo);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut relist = fifo.begin_replace_in(&calm);
        relist.offer(vec![object("blue", "b", 2), object("blue", "z", 2)])
    }));
    assert!(panicked.is_err());
    assert_eq!(
        list(&fifo, &calm, &[object("blue", "a", 1)], "3"),
        0,
        "nothing of the page was queued"
    );
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/a"]);
}

/// An external store that the handler writes.
#[derive(Default)]
struct Elsewhere(Mutex<HashMap<String, Arc<Object>>>);

impl Elsewhere {
    fn apply(&self, key: &str, deltas: &Deltas<Object>) {
        let mut known = self.0.lock().unwrap();
        match deltas.newest() {
            Some(Delta { kind, object: DeltaObject::Object(object), .. })
                if *kind != DeltaType::Deleted =>
            {
                known.insert(key.to_owned(), object.clone());
            }
            _ => drop(known.remove(key)),
        }
    }
}

impl KnownObjects<Object> for Elsewhere {
    fn list_keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.0.lock().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Object>>, BoxError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }
}

/// Returns a scope of all keys of the namespace green. While `panics` is set, its predicate panics
/// for the key `green/20`.
fn fragile_green(panics: &Arc<AtomicBool>) -> KeyScope {
    let panics = Arc::clone(panics);
    KeyScope::keys("green", move |key| {
        assert!(!(key == "green/20" && panics.load(Ordering::Relaxed)), "as the test wants");
        key.starts_with("green/")
    })
}

#[test]
fn sweep_with_a_panicking_predicate_deletes_nothing_and_leaves_no_key_stuck() {
    // Enough names for many shards. The predicate panics for one key, and no other key may have
    // been swept before the panic.
    let names: Vec<_> = concat!(
        "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 ",
        "30 31 32 33 34 35 36 37 38 39",
    )
    .split(' ')
    .collect();
    for removes in [false, true] {
        let store = Indexer::builder(KeyFunc::meta_namespace(Names)).build().unwrap();
        let fifo = DeltaFifo::over(store).build();
        let panics = Arc::new(AtomicBool::new(false));
        let green = fifo.add_scope(fragile_green(&panics)).unwrap();
        let objects: Vec<_> = names.iter().map(|name| object("green", name, 1)).collect();
        list(&fifo, &green, &objects, "1");
        drain(&fifo);
        panics.store(true, Ordering::Relaxed);
        let swept = catch_unwind(AssertUnwindSafe(|| {
            if removes {
                fifo.remove_scope(&green).map(drop)
            } else {
                fifo.begin_replace_in(&green).commit("2").map(drop)
            }
        }));
        swept.unwrap_err();
        panics.store(false, Ordering::Relaxed);
        assert_eq!(fifo.pending_deltas(), 0, "nothing is counted that is not queued");
        for object in &objects {
            fifo.delete(Arc::clone(object)).unwrap();
        }
        drain(&fifo);
        assert_eq!(stored(&fifo), [""; 0], "every key can still be queued");
    }
}

#[test]
fn removal_with_a_panicking_predicate_ends_the_wait_for_its_first_list() {
    let fifo = fused();
    let panics = Arc::new(AtomicBool::new(false));
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    let green = fifo.add_scope(fragile_green(&panics)).unwrap();
    list(&fifo, &blue, &[], "1");
    fifo.add(object("green", "20", 1)).unwrap();
    drain(&fifo);
    panics.store(true, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| fifo.remove_scope(&green))).unwrap_err();
    assert!(fifo.has_synced(), "the other scope was listed");
    // Its keys can be given to another scope, although they have stayed.
    panics.store(false, Ordering::Relaxed);
    fifo.add_scope(KeyScope::keys("green again", |key| key.starts_with("green/"))).unwrap();
}

#[test]
fn scopes_over_an_external_store_delete_their_unlisted_keys() {
    let known = Arc::new(Elsewhere::default());
    let fifo = DeltaFifo::builder(KeyFunc::meta_namespace(Names))
        .known_objects(known.clone())
        .ordered_walks(true)
        .build();
    let handle = || {
        while let Some(item) = fifo.try_pop() {
            known.apply(item.key(), item.deltas());
            item.done();
        }
    };
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1), object("blue", "b", 1)], "1");
    list(&fifo, &green, &[object("green", "a", 1), object("green", "b", 1)], "1");
    handle();
    assert!(fifo.has_synced());
    let mut of_blue = fifo.begin_replace_in(&blue);
    let mut of_green = fifo.begin_replace_in(&green);
    of_blue.offer(vec![object("blue", "b", 2)]).unwrap();
    of_green.offer(vec![object("green", "a", 2)]).unwrap();
    handle(); // their slots are gone, and with them the stamps
    fifo.update(object("blue", "c", 3)).unwrap();
    handle();
    assert_eq!(of_green.commit("2").unwrap().deleted, 1);
    assert_eq!(of_blue.commit("2").unwrap().deleted, 1);
    handle();
    assert_eq!(known.list_keys(), ["blue/b", "blue/c", "green/a"]);
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 2);
    handle();
    assert_eq!(known.list_keys(), ["green/a"]);
}

/// An external store that runs an action when the queue asks for its keys.
#[derive(Default)]
struct Interrupted {
    objects: Elsewhere,
    action: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Interrupted {
    /// Creates the store with these objects, and a queue over it.
    fn over(objects: &[Arc<Object>]) -> (Arc<Self>, Arc<Fifo>) {
        let known = Arc::new(Self::default());
        for object in objects {
            let key = format!("{}/{}", object.namespace, object.name);
            known.objects.0.lock().unwrap().insert(key, Arc::clone(object));
        }
        let keys = KeyFunc::meta_namespace(Names);
        let fifo = DeltaFifo::builder(keys).known_objects(known.clone()).build();
        (known, Arc::new(fifo))
    }

    /// Sets `action` to run when the queue next asks for the keys.
    fn when_asked(&self, action: impl FnOnce() + Send + 'static) {
        *self.action.lock().unwrap() = Some(Box::new(action));
    }

    /// Sets `action` to run when the queue next asks for the keys. Returns the receiver of its
    /// result.
    fn result_when_asked<R: Send + 'static>(
        &self,
        action: impl FnOnce() -> R + Send + 'static,
    ) -> mpsc::Receiver<R> {
        let (sender, result) = mpsc::channel();
        self.when_asked(move || sender.send(action()).unwrap());
        result
    }

    /// Handles all pending keys, and returns the keys of the store.
    fn handle(&self, fifo: &Fifo) -> Vec<String> {
        while let Some(item) = fifo.try_pop() {
            self.objects.apply(item.key(), item.deltas());
            item.done();
        }
        self.objects.list_keys()
    }
}

impl KnownObjects<Object> for Interrupted {
    fn list_keys(&self) -> Vec<String> {
        let action = self.action.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        self.objects.list_keys()
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Object>>, BoxError> {
        self.objects.get_by_key(key)
    }
}

#[test]
fn removal_deletes_no_key_of_a_scope_that_is_added_again_during_it() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1), object("blue", "b", 1)]);
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    known.when_asked({
        let (known, fifo) = (known.clone(), fifo.clone());
        move || {
            let again = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
            assert_eq!(list(&fifo, &again, &[object("blue", "a", 2)], "2"), 1);
            assert_eq!(known.handle(&fifo), ["blue/a"]);
            // By the watch that follows the list.
            fifo.add(object("blue", "c", 3)).unwrap();
            known.handle(&fifo);
        }
    });
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 0);
    assert_eq!(known.handle(&fifo), ["blue/a", "blue/c"]);
}

#[test]
fn relist_of_the_whole_queue_is_not_ended_by_the_removal_of_the_last_scope() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1), object("blue", "b", 1)]);
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    let whole = known.result_when_asked({
        let (known, fifo) = (known.clone(), fifo.clone());
        move || {
            let mut relist = DeltaFifo::begin_replace_owned(&fifo);
            relist.offer(vec![object("blue", "a", 2)]).unwrap();
            known.handle(&fifo);
            relist
        }
    });
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 1);
    let mut whole = whole.try_recv().unwrap();
    assert!(matches!(
        fifo.add_scope(KeyScope::namespace("blue")),
        Err(ScopeError::RelistOpen { .. })
    ));
    whole.offer(vec![object("green", "a", 2)]).unwrap();
    fifo.add(object("green", "b", 3)).unwrap();
    assert_eq!(known.handle(&fifo), ["blue/a", "green/a", "green/b"]);
    assert_eq!(whole.commit("3").unwrap().deleted, 0);
    assert_eq!(known.handle(&fifo), ["blue/a", "green/a", "green/b"]);
}

#[test]
fn removal_during_a_new_scope_does_not_end_the_wait_for_its_first_list() {
    let (known, fifo) = Interrupted::over(&[]);
    let green = fifo.add_scope(KeyScope::namespace("green")).unwrap();
    let red = known.result_when_asked({
        let fifo = fifo.clone();
        move || fifo.add_scope(KeyScope::namespace("red")).unwrap()
    });
    fifo.remove_scope(&green).unwrap();
    assert!(!fifo.has_synced(), "red is not listed");
    let red = red.try_recv().unwrap();
    assert_eq!(list(&fifo, &red, &[object("red", "a", 1)], "1"), 0);
    assert!(!fifo.has_synced(), "its list was not handled");
    assert_eq!(known.handle(&fifo), ["red/a"]);
    assert!(fifo.has_synced());
}

#[test]
fn removal_during_a_relist_of_the_whole_queue_does_not_sync_it() {
    let (known, fifo) = Interrupted::over(&[]);
    let green = fifo.add_scope(KeyScope::namespace("green")).unwrap();
    let whole = known.result_when_asked({
        let fifo = fifo.clone();
        move || DeltaFifo::begin_replace_owned(&fifo)
    });
    fifo.remove_scope(&green).unwrap();
    assert!(!fifo.has_synced(), "the relist is open");
    let whole = whole.try_recv().unwrap();
    whole.commit("1").unwrap();
    assert!(fifo.has_synced());
}

/// Checks that a key that is offered during the removal of its scope stays, although an older
/// relist of the whole queue is superseded during that removal.
#[test]
fn key_offered_during_a_removal_and_a_superseded_relist_stays() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1)]);
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    known.when_asked({
        let (known, fifo) = (known.clone(), fifo.clone());
        move || {
            let older = DeltaFifo::begin_replace_owned(&fifo);
            drop(DeltaFifo::begin_replace_owned(&fifo));
            assert!(matches!(older.commit("1"), Err(RelistError::Superseded)));
            fifo.add(object("blue", "c", 3)).unwrap();
            known.handle(&fifo);
        }
    });
    fifo.remove_scope(&blue).unwrap();
    assert_eq!(known.handle(&fifo), ["blue/c"]);
}

#[test]
fn scope_is_removed_after_a_failed_commit_and_by_a_failing_removal() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1), object("blue", "b", 1)]);
    let namespace = || KeyScope::namespace("blue");
    let panics = || {
        known.when_asked(|| resume_unwind(Box::new("expected by this test")));
    };
    let unknown = |error: RelistError| matches!(error, RelistError::UnknownScope { .. });

    // The commit is superseded, or the store fails.
    let blue = fifo.add_scope(namespace()).unwrap();
    let older = fifo.begin_replace_in(&blue);
    drop(fifo.begin_replace_in(&blue));
    assert!(matches!(older.commit("1"), Err(RelistError::Superseded)));
    panics();
    catch_unwind(AssertUnwindSafe(|| list(&fifo, &blue, &[], "2"))).unwrap_err();
    assert_eq!(known.handle(&fifo), ["blue/a", "blue/b"]);
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 2);
    assert!(unknown(fifo.remove_scope(&blue).unwrap_err()));

    // The store fails at the removal. The keys stay until the scope is listed again.
    let again = fifo.add_scope(namespace()).unwrap();
    list(&fifo, &again, &[object("blue", "b", 3)], "3");
    assert_eq!(known.handle(&fifo), ["blue/b"]);
    panics();
    catch_unwind(AssertUnwindSafe(|| fifo.remove_scope(&again))).unwrap_err();
    assert!(unknown(fifo.remove_scope(&again).unwrap_err()));
    assert_eq!(known.handle(&fifo), ["blue/b"]);
    let last = fifo.add_scope(namespace()).unwrap();
    assert_eq!(list(&fifo, &last, &[], "4"), 1);
    assert_eq!(known.handle(&fifo), [""; 0]);
    assert_eq!(fifo.remove_scope(&last).unwrap().deleted, 0);
    // No scope is left behind.
    fifo.replace(vec![object("green", "a", 5)], "5").unwrap();
    assert_eq!(known.handle(&fifo), ["green/a"]);
}

/// The cause of a deletion, in ascending order: if a key is deleted several times in a row, the
/// deletion with the greatest cause is handed out.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    ScopeRemoved,
    Unlisted,
    Watched,
}

/// A plain model of a queue with scopes.
#[derive(Default)]
struct Model {
    /// The objects that are stored once everything is handled.
    stored: HashMap<String, u64>,
    /// The keys that are stored now.
    handled: HashSet<String>,
    /// The keys with pending deltas, each with the cause of its deletion, or with `None` if its
    /// newest delta is not a deletion.
    pending: HashMap<String, Option<Cause>>,
    /// The open relists by scope, each with the keys that it has listed or that were written since
    /// it began.
    open: HashMap<usize, HashSet<String>>,
}

impl Model {
    fn write(&mut self, scope: usize, key: &str, version: u64) {
        self.stored.insert(key.to_owned(), version);
        self.pending.insert(key.to_owned(), None);
        if let Some(listed) = self.open.get_mut(&scope) {
            listed.insert(key.to_owned());
        }
    }

    fn delete(&mut self, key: &str, cause: Cause) {
        if !self.exists(key) {
            return;
        }
        self.stored.remove(key);
        let newest = self.pending.entry(key.to_owned()).or_default();
        *newest = (*newest).max(Some(cause));
    }

    fn exists(&self, key: &str) -> bool {
        self.handled.contains(key) || self.pending.contains_key(key)
    }

    /// Deletes the keys of a scope that are not listed. Returns their number.
    fn sweep(&mut self, scope: usize, listed: &HashSet<String>, cause: Cause) -> usize {
        let keys = NAMES.map(|name| format!("{}/{name}", NAMESPACES[scope]));
        let swept = |key: &&String| self.exists(key) && !listed.contains(*key);
        let swept: Vec<_> = keys.iter().filter(swept).cloned().collect();
        for key in &swept {
            self.delete(key, cause);
        }
        swept.len()
    }

    fn commit(&mut self, scope: usize) -> usize {
        let listed = self.open.remove(&scope).expect("the relist is open");
        self.sweep(scope, &listed, Cause::Unlisted)
    }

    fn remove(&mut self, scope: usize) -> usize {
        self.open.remove(&scope);
        self.sweep(scope, &HashSet::new(), Cause::ScopeRemoved)
    }

    /// Handles all pending deltas. Returns the handled keys, each with the cause of its deletion,
    /// or with `None` if its newest delta is not a deletion.
    fn handle(&mut self) -> HashMap<String, Option<Cause>> {
        self.handled = self.stored.keys().cloned().collect();
        std::mem::take(&mut self.pending)
    }
}

/// Handles all pending deltas. Returns the handled keys, each with the cause of its deletion, or
/// with `None` if its newest delta is not a deletion.
fn drain_causes(fifo: &Fifo) -> HashMap<String, Option<Cause>> {
    let mut popped = HashMap::new();
    while let Some(mut item) = fifo.try_pop() {
        let newest = item.deltas().newest().unwrap();
        let cause = match &newest.object {
            _ if newest.kind != DeltaType::Deleted => None,
            DeltaObject::Object(_) => Some(Cause::Watched),
            DeltaObject::Tombstone(last) if last.scope_removed => Some(Cause::ScopeRemoved),
            DeltaObject::Tombstone(_) => Some(Cause::Unlisted),
        };
        popped.insert(item.key().to_owned(), cause);
        item.apply(|_| ()).unwrap();
    }
    popped
}

const NAMESPACES: [&str; 3] = ["blue", "green", "red"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn random_histories_of_three_scopes_match_the_model() {
    let mut causes = HashSet::new();
    for seed in 1..=if cfg!(miri) { 2 } else { 600 } {
        let mut state = seed;
        let mut random = move |below: u64| {
            state = u64::wrapping_mul(state, 6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((state >> 33) % below).unwrap()
        };
        let fifo = fused();
        let mut scopes = NAMESPACES.map(|name| fifo.add_scope(KeyScope::namespace(name)).unwrap());
        let mut relists: [Option<_>; 3] = [None, None, None];
        let mut model = Model::default();
        for version in 1..120 {
            let (scope, name) = (random(3), NAMES[random(5)]);
            let key = format!("{}/{name}", NAMESPACES[scope]);
            match random(11) {
                0 | 1 => {
                    // Supersedes the open relist, whose listed keys no longer count.
                    relists[scope] = Some(fifo.begin_replace_in(&scopes[scope]));
                    model.open.insert(scope, HashSet::new());
                }
                2 | 3 => {
                    if let Some(relist) = &mut relists[scope] {
                        let page = vec![object(NAMESPACES[scope], name, version)];
                        assert!(relist.offer(page).unwrap().is_empty());
                        model.write(scope, &key, version);
                    }
                }
                4 => {
                    if let Some(relist) = relists[scope].take() {
                        let committed = relist.commit(&version.to_string()).unwrap();
                        assert_eq!(committed.deleted, model.commit(scope), "seed {seed}");
                    }
                }
                5 => {
                    if relists[scope].take().is_some() {
                        model.open.remove(&scope);
                    }
                }
                6 | 7 => {
                    fifo.update(object(NAMESPACES[scope], name, version)).unwrap();
                    model.write(scope, &key, version);
                }
                8 => {
                    fifo.delete(object(NAMESPACES[scope], name, version)).unwrap();
                    model.delete(&key, Cause::Watched);
                }
                // Seldom, because it deletes everything.
                9 if random(3) == 0 => {
                    let removed = fifo.remove_scope(&scopes[scope]).unwrap();
                    assert_eq!(removed.deleted, model.remove(scope), "seed {seed}");
                    if let Some(relist) = relists[scope].take() {
                        assert!(matches!(relist.commit("1"), Err(RelistError::Superseded)));
                    }
                    scopes[scope] = fifo.add_scope(KeyScope::namespace(NAMESPACES[scope])).unwrap();
                }
                _ => {
                    let popped = drain_causes(&fifo);
                    causes.extend(popped.values().flatten().copied());
                    assert_eq!(popped, model.handle(), "seed {seed}");
                }
            }
        }
        drop(relists);
        assert_eq!(drain_causes(&fifo), model.handle(), "seed {seed}");
        let stored = fifo.store().list();
        let stored: HashMap<_, _> = stored
            .iter()
            .map(|object| {
                (
                    format!("{}/{}", object.namespace, object.name),
                    object.version.parse::<u64>().unwrap(),
                )
            })
            .collect();
        assert_eq!(stored, model.stored, "seed {seed}");
    }
    assert!(cfg!(miri) || causes.len() == 3, "every cause occurs");
}

/// Commits a relist of a scope whose predicate begins a later relist of the scope during the sweep.
/// The commit fails with `Superseded`, and applies no version.
#[test]
fn relist_of_a_scope_that_is_superseded_within_its_commit_applies_no_version() {
    type Target = Option<(Weak<Fifo>, ScopeId)>;
    let target: Arc<Mutex<Target>> = Arc::default();
    let armed = target.clone();
    let fifo = Arc::new(fused());
    let supersedes = KeyScope::keys("all", move |_| {
        if let Some((fifo, scope)) = armed.lock().unwrap().take() {
            drop(fifo.upgrade().unwrap().begin_replace_in(&scope));
        }
        true
    });
    let scope = fifo.add_scope(supersedes).unwrap();
    fifo.add(object("blue", "a", 1)).unwrap();
    drain(&fifo);
    let relist = fifo.begin_replace_in(&scope);
    *target.lock().unwrap() = Some((Arc::downgrade(&fifo), scope));
    assert!(matches!(relist.commit("7"), Err(RelistError::Superseded)));
    drain(&fifo);
    assert_eq!((fifo.store().applied_version(), fifo.store().len()), (None, 1));
}
