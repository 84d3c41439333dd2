//! Tests of the objects of a store: how they are written, read, visited and released.

use std::sync::Arc;

use super::rig::{indexed, numbers};
use crate::common::{Obj, ObjMeta, deltas, keys, nameless, obj, show, tombstone};
use deltafifo::{
    Change, DeltaFifo, DeltaType, ExplicitKey, Indexer, KeyFunc, OfferError, StoreError,
    Transaction,
};

#[test]
fn objects_are_stored_and_read_by_key() {
    let store = indexed();
    assert!(store.is_empty());
    store.add(obj("ns/a", 1)).unwrap();
    store.update(obj("b", 2)).unwrap();
    store.add(obj("ns/a", 3)).unwrap();
    assert_eq!(store.len(), 2);
    assert_eq!(store.get(&*obj("ns/a", 9)).unwrap().unwrap().n, 3);
    assert_eq!(store.get(ExplicitKey("b")).unwrap().unwrap().n, 2);
    assert_eq!(store.get(&tombstone("b", None)).unwrap().unwrap().n, 2);
    assert!(store.get(&*nameless()).is_err());
    assert!(store.get_by_key("a").is_none());
    assert_eq!(numbers(store.list()), [2, 3]);
    let mut keys = store.list_keys();
    keys.sort();
    assert_eq!(keys, ["b", "ns/a"]);
    store.delete(ExplicitKey("b")).unwrap();
    store.delete(ExplicitKey("b")).unwrap();
    store.delete(&tombstone("ns/a", None)).unwrap();
    assert!(store.is_empty() && store.list().is_empty() && store.list_keys().is_empty());
    assert!(matches!(store.add(nameless()), Err(StoreError::Refused(OfferError::Key(_)))));
    assert!(matches!(store.delete(&*nameless()), Err(StoreError::Refused(OfferError::Key(_)))));
}

#[test]
fn replace_stores_exactly_the_list() {
    let store = indexed();
    store.replace(vec![obj("a", 2), obj("b", 3), obj("a", 5)]).unwrap();
    assert_eq!(numbers(store.list()), [3, 5]);
    assert!(matches!(
        store.replace(vec![obj("c", 7), nameless()]),
        Err(StoreError::Refused(OfferError::Key(_)))
    ));
    assert_eq!(numbers(store.list()), [3, 5], "nothing was changed");
    assert!(matches!(
        store.replace(vec![obj("x", 13), obj("b", 7)]),
        Err(StoreError::Index { .. })
    ));
    assert_eq!(numbers(store.list()), [3, 5], "nor was anything this time");
    assert_eq!(store.list_index_func_values("primes").unwrap(), ["3", "5"]);
    store.replace(vec![]).unwrap();
    assert!(store.is_empty());
}

#[test]
fn transaction_applies_the_rest_and_names_the_failures() {
    let store = indexed();
    store.add(obj("gone", 2)).unwrap();
    let error = store
        .transaction([
            Transaction::Add(obj("a", 6)),
            Transaction::Add(nameless()),
            Transaction::Update(obj("a", 10)),
            Transaction::Update(obj("b", 13)),
            Transaction::Delete(obj("gone", 0).into()),
            Transaction::Delete(obj("never", 0).into()),
        ])
        .unwrap_err();
    let failed: Vec<_> = error
        .failed
        .iter()
        .map(|(number, error)| (*number, matches!(error, StoreError::Refused(OfferError::Key(_)))))
        .collect();
    assert_eq!((failed, error.total), (vec![(1, true), (3, false)], 6));
    assert!(error.to_string().starts_with("2 of 6 changes of the transaction failed"), "{error}");
    assert_eq!(numbers(store.list()), [10]);
    assert_eq!(store.list_index_func_values("primes").unwrap(), ["2", "5"]);
    store.transaction([]).unwrap();
}

#[test]
fn visitor_may_change_the_store_and_remaining_keys_are_visited_once() {
    let store = Indexer::builder(keys()).build().unwrap();
    let stay = if cfg!(miri) { 70 } else { 3_000 };
    (0..stay).for_each(|n| store.add(obj(&format!("ns/stays-{n}"), n)).unwrap());
    let mut visited = Vec::new();
    store.for_each(|object: &Arc<Obj>| {
        if object.name.starts_with("stays") {
            visited.push(object.n);
            // No lock is held: other threads add keys, so that the tables grow, and remove some.
            (0..3).for_each(|other| {
                store.add(obj(&format!("ns/other-{}-{other}", object.n), 0)).unwrap();
            });
            store.delete(ExplicitKey(&format!("ns/other-{}-0", object.n))).unwrap();
        }
    });
    visited.sort_unstable();
    assert!(visited.iter().copied().eq(0..stay));
}

#[test]
fn apply_reports_old_and_new_objects_and_updates_the_indexes() {
    let fifo = DeltaFifo::over(indexed()).build();
    let reader = fifo.store();
    fifo.add(obj("a", 6)).unwrap();
    fifo.update(obj("a", 10)).unwrap();
    fifo.delete(tombstone("a", None)).unwrap();
    fifo.add(obj("a", 21)).unwrap();
    let mut notified = Vec::new();
    let mut guard = fifo.pop().unwrap();
    guard
        .apply(|change| {
            // The store already has the new state.
            let stored = reader.get_by_key("a").map(|object| object.n);
            notified.push(match change {
                Change::Added { new, kind } => (format!("{kind} +{}", new.n), stored),
                Change::Updated { old, new, kind } => {
                    (format!("{kind} {}>{}", old.n, new.n), stored)
                }
                Change::Deleted { last, old } => {
                    (format!("-{} tombstone {}", old.unwrap().n, last.is_tombstone()), stored)
                }
            });
        })
        .unwrap();
    guard.done();
    let notified: Vec<_> =
        notified.iter().map(|(change, stored)| (change.as_str(), *stored)).collect();
    let expected = [
        ("Added +6", Some(6)),
        ("Updated 6>10", Some(10)),
        ("-10 tombstone true", None),
        ("Added +21", Some(21)),
    ];
    assert_eq!(notified, expected);
    assert_eq!(reader.list_index_func_values("primes").unwrap(), ["3", "7"]);
}

#[test]
fn delete_of_a_pending_unstored_key_reports_no_old_object() {
    let fifo = DeltaFifo::over(indexed()).build();
    fifo.add_if_not_present(deltas([(DeltaType::Deleted, obj("a", 1))])).unwrap();
    let mut guard = fifo.pop().unwrap();
    guard.apply(|change| assert!(matches!(change, Change::Deleted { old: None, .. }))).unwrap();
    guard.done();
    assert!(fifo.store().is_empty() && fifo.store().get_by_key("a").is_none());
}

#[test]
fn reader_serves_another_queue_as_its_known_objects() {
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjMeta)).build().unwrap();
    store.add(obj("kept", 1)).unwrap();
    store.add(obj("gone", 1)).unwrap();
    let known = Arc::new(store.reader());
    let fifo = DeltaFifo::builder(KeyFunc::meta_namespace(ObjMeta)).known_objects(known).build();
    assert_eq!(fifo.replace(vec![obj("kept", 2)], "1").unwrap().deleted, 1);
    fifo.resync();
    let shown: Vec<_> = std::iter::from_fn(|| fifo.try_pop())
        .map(|item| {
            let shown = format!("{}: {}", item.key(), show(item.deltas()));
            item.done();
            shown
        })
        .collect();
    assert_eq!(shown, ["kept: R2", "gone: D(1)"]);
    fifo.resync();
    assert_eq!(fifo.list_keys().len(), 2, "the keys of the store");
}

#[test]
fn readers_outlive_the_queue_and_pending_objects_are_released() {
    let (stored, pending) = (obj("a", 6), obj("b", 1));
    let fifo = DeltaFifo::over(indexed()).build();
    fifo.add(stored.clone()).unwrap();
    let mut guard = fifo.pop().unwrap();
    guard.apply(|_| ()).unwrap();
    guard.done();
    fifo.add(pending.clone()).unwrap();
    fifo.update(pending.clone()).unwrap();
    let reader = fifo.store();
    drop(fifo);
    assert_eq!(Arc::strong_count(&pending), 1);
    assert_eq!(reader.by_index("primes", "3").unwrap().len(), 1);
    assert!(Arc::ptr_eq(&reader.get_by_key("a").unwrap(), &stored));
    assert_eq!((reader.len(), reader.list_keys()), (1, vec!["a".to_owned()]));
    drop(reader);
    assert_eq!(Arc::strong_count(&stored), 1);
}

#[test]
fn dropping_an_indexer_releases_its_objects() {
    let object = obj("a", 6);
    let store = indexed();
    store.add(object.clone()).unwrap();
    let reader = store.reader();
    drop(store);
    assert_eq!(Arc::strong_count(&object), 2);
    drop(reader);
    assert_eq!(Arc::strong_count(&object), 1, "the object outlives the store");
}
