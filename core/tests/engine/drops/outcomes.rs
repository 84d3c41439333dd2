//! Tests of the outcomes of calls in which a destructor panics: what is stored, applied, reported
//! and pushed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rig::{Arsenal, Bomb, all_dropped, dropped_with_a_panic, keys, store};
use crate::common::failing_late;
use deltafifo::caches::UndeltaStore;
use deltafifo::{Indexer, KeyFunc, NoMeta, ReflectorStore, Store, StoreError};

#[test]
fn list_sets_the_applied_version_although_the_destructors_of_replaced_objects_panic() {
    let (store, arsenal) = (store(), Arsenal(Arc::default()));
    ReflectorStore::replace(&store, arsenal.bombs(), "9").unwrap();
    let replaced = ReflectorStore::replace(&store, vec![], "5");
    assert!(matches!(replaced, Err(StoreError::Released { .. })));
    assert!(store.is_empty());
    assert_eq!(store.applied_version().as_deref(), Some("5"));
}

/// Checks a list for which one object is not stored and another one is released with a panic. An
/// error that says that everything is stored would be wrong.
#[test]
fn refused_object_is_reported_although_a_destructor_panicked_before() {
    let arsenal = Arsenal(Arc::default());
    let late = failing_late(|bomb: &Bomb| bomb.key == "b");
    let store = Indexer::builder(keys()).index("late", late).build().unwrap();
    store.add(arsenal.bomb("a")).unwrap();
    let refused = arsenal.bomb("b");
    let replaced = store.replace(vec![arsenal.bomb("a"), refused.clone()]);
    dropped_with_a_panic(store);
    dropped_with_a_panic(refused);
    assert!(matches!(replaced, Err(StoreError::Index { key, .. }) if key == "b"));
}

/// Asserts that `replace` stores the list, which has version 5, except for `a`, which the store
/// refuses and whose destructor panics. The version is applied, and the panic propagates.
#[track_caller]
fn stores_all_but_a(
    store: Indexer<Bomb, NoMeta>,
    arsenal: &Arsenal,
    replace: impl FnOnce(&Indexer<Bomb, NoMeta>, Vec<Arc<Bomb>>),
) {
    store.bookmark("9").unwrap();
    let replaced = catch_unwind(AssertUnwindSafe(|| replace(&store, arsenal.bombs())));
    let (mut stored, applied) = (store.list_keys(), store.applied_version());
    stored.sort();
    dropped_with_a_panic(store);
    assert_eq!(stored, ["b", "c"]);
    assert_eq!(applied.as_deref(), Some("5"));
    replaced.unwrap_or_else(|panic| resume_unwind(panic));
}

#[test]
#[cfg_attr(
    miri,
    ignore = "the error that a call returns leaks if a destructor panics on the way out"
)]
fn list_is_stored_although_the_destructor_of_a_refused_object_panics() {
    // The index function fails after the first `answers` calls.
    let not_indexed = |answers| {
        let calls = AtomicUsize::new(0);
        let index = move |bomb: &Bomb| {
            let fails = calls.fetch_add(1, Ordering::Relaxed) >= answers && bomb.key == "a";
            if fails { Err("fails".into()) } else { Ok(vec![]) }
        };
        Indexer::builder(keys()).index("index", index).build().unwrap()
    };
    all_dropped(3, |arsenal| {
        stores_all_but_a(not_indexed(3), arsenal, |store, list| {
            ReflectorStore::replace(store, list, "5").unwrap();
        });
    });
    all_dropped(3, |arsenal| {
        stores_all_but_a(not_indexed(0), arsenal, |store, list| {
            drop(Store::replace_keeping(store, list, &[], "5"));
        });
    });
    all_dropped(3, |arsenal| {
        let keys = KeyFunc::custom(NoMeta, |bomb: &Bomb| match bomb.key {
            "a" => Err("no key".into()),
            key => Ok(key.to_owned()),
        });
        let store = Indexer::builder(keys).build().unwrap();
        stores_all_but_a(store, arsenal, |store, list| {
            drop(Store::replace_keeping(store, list, &[], "5"));
        });
    });
}

#[test]
fn state_is_pushed_although_the_destructor_of_a_replaced_object_panics() {
    let pushes = Arc::new(AtomicUsize::new(0));
    let count = pushes.clone();
    let store = UndeltaStore::new(store(), move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let arsenal = Arsenal(Arc::default());
    let changes: [&dyn Fn() -> Result<(), StoreError>; 5] = [
        &|| store.add(arsenal.bomb("a")),
        &|| store.add(arsenal.bomb("a")),
        &|| store.update(arsenal.bomb("a")),
        &|| store.replace(vec![arsenal.bomb("b")], "1"),
        &|| store.delete(arsenal.bomb("b").into()),
    ];
    for (number, change) in changes.iter().enumerate() {
        drop(catch_unwind(AssertUnwindSafe(change)));
        assert_eq!(pushes.load(Ordering::Relaxed), number + 1);
    }
    assert!(store.store().is_empty());
}
