//! Tests of the relists of scopes: the keys that a commit deletes, and the objects that it skips.

use std::sync::{Arc, Mutex, Weak};

use super::rig::{
    Elsewhere, Fifo, Names, drain, fused, list, object, over, store, stored, two_scopes,
};
use deltafifo::{DeltaFifo, DeltaType, KeyFunc, KeyScope, KnownObjects, RelistError, ScopeId};

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
    let store = store();
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
fn resync_or_deletion_saves_no_key_that_only_another_scope_has_listed() {
    for deletes in [false, true] {
        let known = Arc::new(Elsewhere::default());
        let fifo = over(known.clone());
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
