//! Tests of every store through the traits `Store` and `ReflectorStore` alone, as a reflector
//! writes it and a reader reads it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Obj, ObjMeta, keys, nameless, obj, show, tombstone, versioned};
use deltafifo::caches::{ExpirationCache, Fifo, Heap, UndeltaStore};
use deltafifo::{
    BoxError, DeltaFifo, Indexer, KeyError, OfferError, ReflectorStore, RelistError, Store,
    StoreError, Transaction, error_chain,
};

fn indexer() -> Indexer<Obj, ObjMeta> {
    Indexer::builder(keys()).build().unwrap()
}

/// Returns every store with its name.
fn stores() -> Vec<(&'static str, Box<dyn Store<Obj>>)> {
    vec![
        ("Indexer", Box::new(indexer())),
        ("Fifo", Box::new(Fifo::new(keys()))),
        ("Heap", Box::new(Heap::new(keys(), |a: &Obj, b: &Obj| a.n < b.n))),
        ("ExpirationCache", Box::new(ExpirationCache::with_ttl(keys(), Duration::from_secs(3600)))),
        ("UndeltaStore", Box::new(UndeltaStore::new(indexer(), |_| ()))),
    ]
}

fn numbers(store: &dyn Store<Obj>) -> BTreeSet<u64> {
    let list = store.list();
    let numbers: BTreeSet<_> = list.iter().map(|object| object.n).collect();
    assert_eq!(numbers.len(), list.len());
    assert_eq!(store.list_keys().into_iter().collect::<BTreeSet<_>>().len(), list.len());
    numbers
}

#[test]
fn every_store_holds_the_newest_object_of_each_key() {
    for (name, store) in stores() {
        let store = &*store;
        let stored = |key: &str| store.get_by_key(key).map(|object| object.n);
        store.add(obj("foo", 1)).unwrap();
        assert_eq!(store.get(&obj("foo", 0)).unwrap().unwrap().n, 1, "{name}");
        store.update(obj("foo", 2)).unwrap();
        assert_eq!(stored("foo").unwrap(), 2, "{name}");
        store.delete(obj("foo", 0).into()).unwrap();
        assert_eq!(stored("foo"), None, "{name}");
        store.delete(obj("foo", 0).into()).unwrap();

        for (key, n) in [("a", 1), ("ns/c", 2), ("e", 3)] {
            store.add(obj(key, n)).unwrap();
        }
        assert_eq!(numbers(store), BTreeSet::from([1, 2, 3]), "{name}");
        store.delete(tombstone("ns/c", None).into()).unwrap();
        assert_eq!(numbers(store), BTreeSet::from([1, 3]), "{name}");

        store.replace(vec![obj("foo", 7), obj("a", 8), obj("foo", 9)], "5").unwrap();
        assert_eq!(
            numbers(store),
            BTreeSet::from([8, 9]),
            "{name}: the later of two listed objects counts"
        );
        store.resync().unwrap();
        assert_eq!(numbers(store), BTreeSet::from([8, 9]), "{name}");
        let list = vec![obj("b", 10), nameless(), obj("a", 11)];
        let refused = store.replace_keeping(list, &["foo", "unknown", "a"], "6").unwrap();
        assert!(
            matches!(refused.as_slice(), [StoreError::Refused(OfferError::Key(_))]),
            "{name}: {refused:?}"
        );
        assert_eq!(
            numbers(store),
            BTreeSet::from([9, 10, 11]),
            "{name}: kept objects stay and listed ones count"
        );
        store.replace(vec![], "6").unwrap();
        assert!(store.list().is_empty() && store.list_keys().is_empty(), "{name}");
    }
}

#[test]
fn object_without_a_key_changes_no_store_and_no_queue() {
    let deltas = DeltaFifo::builder(keys()).build();
    let is_key =
        |error: StoreError| matches!(error, StoreError::Refused(OfferError::Key(KeyError::NoName)));
    for (name, store) in stores() {
        store.add(obj("a", 1)).unwrap();
        assert!(is_key(store.add(nameless()).unwrap_err()), "{name}");
        assert!(is_key(store.update(nameless()).unwrap_err()), "{name}");
        assert!(is_key(store.delete(nameless().into()).unwrap_err()), "{name}");
        assert!(is_key(store.replace(vec![obj("b", 1), nameless()], "1").unwrap_err()), "{name}");
        assert!(store.get(&nameless()).is_err(), "{name}");
        assert_eq!(store.list_keys(), ["a"], "{name}");
    }
    let deltas: &dyn ReflectorStore<Obj> = &deltas;
    assert!(is_key(deltas.add(nameless()).unwrap_err()));
    assert!(is_key(deltas.update(nameless()).unwrap_err()));
    assert!(is_key(deltas.delete(nameless().into()).unwrap_err()));
}

#[test]
fn delta_queue_accepts_the_calls_of_a_store() {
    let fifo = DeltaFifo::over(indexer()).ordered_walks(true).build();
    let fed: &dyn ReflectorStore<Obj> = &fifo;
    fed.replace(vec![obj("a", 1), obj("b", 1)], "7").unwrap();
    fed.add(obj("c", 1)).unwrap();
    fed.update(obj("a", 2)).unwrap();
    fed.delete(tombstone("b", None).into()).unwrap();
    assert_eq!(fifo.resource_version().as_deref(), Some("7"));
    for (key, shown) in [("a", "R1 U2"), ("b", "R1 D()"), ("c", "A1")] {
        let mut item = fifo.try_pop().unwrap();
        assert_eq!((item.key(), &*show(item.deltas())), (key, shown));
        item.apply(|_| ()).unwrap();
    }
    fed.resync().unwrap();
    assert_eq!(show(fifo.try_pop().unwrap().deltas()), "S2");
}

#[test]
fn bookmark_advances_the_version_of_a_store_that_has_one() {
    let tracked = DeltaFifo::over(indexer()).track_applied(true).build();
    let (store, undelta) =
        (indexer(), UndeltaStore::new(indexer(), |_| unreachable!("a bookmark changes nothing")));
    let fed: [&dyn ReflectorStore<Obj>; 3] = [&tracked, &store, &undelta];
    let applied = || {
        [
            tracked.store().applied_version(),
            store.applied_version(),
            undelta.store().applied_version(),
        ]
    };
    for (bookmark, then) in [("20", "20"), ("10", "20"), ("of no number", "20"), ("030", "30")] {
        for store in fed {
            store.bookmark(bookmark);
        }
        assert_eq!(applied(), [(); 3].map(|()| Some(then.to_owned())), "{bookmark}");
    }
    // A store without a version ignores bookmarks.
    let untracked = DeltaFifo::over(indexer()).build();
    ReflectorStore::bookmark(&untracked, "20");
    for (_, store) in stores() {
        store.bookmark("20");
    }
    assert_eq!(untracked.store().applied_version(), None);
}

#[test]
fn bookmarks_and_relists_advance_a_stores_version_and_writes_do_not() {
    let store = indexer();
    let fed: &dyn ReflectorStore<Obj> = &store;
    let applied = || store.applied_version().unwrap_or_default();
    fed.add(versioned("a", 1, "10")).unwrap();
    fed.update(versioned("a", 2, "20")).unwrap();
    fed.delete(versioned("a", 2, "30").into()).unwrap();
    store.transaction([Transaction::Add(versioned("b", 1, "40"))]).unwrap();
    assert_eq!(applied(), "");
    fed.bookmark("40");
    assert_eq!(applied(), "40");
    fed.replace(vec![versioned("c", 1, "50")], "55").unwrap();
    assert_eq!(applied(), "55", "the version of the list, not of its objects");
    store.wait_for_resource_version("55").unwrap();
}

#[test]
fn bookmarks_and_relists_advance_a_queues_version_and_offers_do_not() {
    let fifo = DeltaFifo::over(indexer()).track_applied(true).build();
    let fed: &dyn ReflectorStore<Obj> = &fifo;
    let handled = || while fifo.try_pop().is_some_and(|mut item| item.apply(|_| ()).is_ok()) {};
    let applied = || fifo.store().applied_version().unwrap_or_default();
    fed.replace(vec![versioned("a", 1, "3")], "5").unwrap();
    handled();
    assert_eq!(applied(), "5");
    fed.update(versioned("a", 2, "7")).unwrap();
    handled();
    assert_eq!(applied(), "5");
    fed.add(versioned("b", 1, "8")).unwrap();
    fed.bookmark("8");
    assert_eq!(applied(), "5", "not handled yet");
    handled();
    assert_eq!(applied(), "8");
}

#[test]
fn refusal_of_a_delta_queue_is_an_error_of_the_store() {
    let refuse =
        |object: Arc<Obj>| if object.n == 13 { Err(BoxError::from("unlucky")) } else { Ok(object) };
    let fifo = DeltaFifo::builder(keys()).transformer(refuse).build();
    let fed: &dyn ReflectorStore<Obj> = &fifo;
    let refused = fed.add(obj("a", 13)).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Refused(OfferError::Transform { key, .. }) if key == "a")
    );
    assert!(error_chain(&refused).contains("unlucky"));
    let stopped = fed.replace(vec![obj("a", 1), obj("b", 13)], "1").unwrap_err();
    assert!(matches!(stopped, StoreError::Relist(RelistError::Refused { index: 1, .. })));
    assert_eq!(fifo.list_keys(), ["a"]);
}

#[test]
fn closed_heap_is_a_store_error_and_a_missing_key_is_not() {
    let heap = Heap::new(keys(), |a: &Obj, b: &Obj| a.n < b.n);
    let fed: &dyn ReflectorStore<Obj> = &heap;
    fed.add(obj("a", 1)).unwrap();
    heap.pop().unwrap();
    fed.delete(obj("a", 1).into()).unwrap();
    heap.close();
    assert!(matches!(fed.add(obj("a", 1)), Err(StoreError::Heap(_))));
}
