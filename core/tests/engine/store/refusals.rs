//! Tests of lists and offers of which the store refuses some objects.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rig::{digits, numbers};
use crate::common::{Obj, ObjMeta, failing_late, keys, nameless, obj, versioned};
use deltafifo::{
    BoxError, DeltaFifo, InOrderFifo, Indexer, KeyFunc, OfferError, StoreError, Transaction,
    error_chain,
};

#[test]
fn store_holds_transformed_objects_and_no_refused_ones() {
    let doubled = |object: Arc<Obj>| {
        if object.n == 13 {
            Err(BoxError::from("unlucky"))
        } else {
            Ok(obj(&object.name, 2 * object.n))
        }
    };
    let indexed =
        || Indexer::builder(keys()).index("digits", digits).transformer(doubled).build().unwrap();
    let is_refused = |error: StoreError, key: &str| {
        let StoreError::Refused(OfferError::Transform { key: of, .. }) = &error else {
            panic!("{error}")
        };
        assert_eq!(of, key);
    };
    let store = indexed();
    store.add(obj("a", 1)).unwrap();
    store.update(obj("b", 2)).unwrap();
    is_refused(store.add(obj("c", 13)).unwrap_err(), "c");
    is_refused(store.update(obj("a", 13)).unwrap_err(), "a");
    assert_eq!(
        (numbers(store.list()), store.index_keys("digits", "4").unwrap()),
        (vec![2, 4], vec!["b".to_owned()])
    );
    is_refused(store.replace(vec![obj("a", 5), obj("b", 13)]).unwrap_err(), "b");
    assert_eq!(numbers(store.list()), [2, 4], "nothing was changed");
    store.replace(vec![obj("c", 3)]).unwrap();
    let failed =
        store.transaction([13, 4].map(|n| Transaction::Update(obj("c", n)))).unwrap_err().failed;
    assert_eq!((failed.len(), numbers(store.list())), (1, vec![8]));
    store.delete(&*obj("c", 13)).unwrap();
    assert!(store.is_empty(), "deleted objects are not transformed");

    let fifo = DeltaFifo::over(indexed()).build();
    fifo.add(obj("a", 1)).unwrap();
    assert!(fifo.add(obj("a", 13)).is_err());
    fifo.pop().unwrap().apply(|_| ()).unwrap();
    assert_eq!(numbers(fifo.store().list()), [2], "once, by the queue");
    let fifo = InOrderFifo::over(indexed()).build();
    fifo.add(obj("a", 1)).unwrap();
    fifo.pop().unwrap().apply(|_, _| ()).unwrap();
    assert_eq!(numbers(fifo.store().list()), [2]);
    let own = DeltaFifo::over(indexed()).transformer(Ok).build();
    own.add(obj("a", 13)).unwrap();
}

#[test]
fn list_with_refused_objects_stores_the_others_and_keeps_earlier_ones() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let doubled = move |object: Arc<Obj>| {
        counted.fetch_add(1, Ordering::Relaxed);
        if object.n == 11 {
            Err(BoxError::from("no eleven"))
        } else {
            Ok(versioned(&object.name, 2 * object.n, "8"))
        }
    };
    let unlucky =
        |object: &Obj| if object.n == 26 { Err(BoxError::from("unlucky")) } else { Ok(vec![]) };
    let store =
        Indexer::builder(keys()).index("unlucky", unlucky).transformer(doubled).build().unwrap();
    store
        .replace(["a", "b", "c", "d", "e"].iter().zip(1..).map(|(key, n)| obj(key, n)).collect())
        .unwrap();
    asked.store(0, Ordering::Relaxed);
    let list = vec![
        versioned("b", 11, "7"),
        obj("d", 14),
        nameless(),
        versioned("a", 13, "7"),
        obj("new", 11),
    ];
    let refused = store.replace_keeping(list, ["c", "unknown", "d"]);
    let refused: Vec<_> = refused.iter().map(|error| error_chain(error)).collect();
    assert!(
        refused[0].contains(r#""b" at version "7""#) && refused[0].ends_with("no eleven"),
        "{refused:?}"
    );
    assert!(refused[1].contains("no name"), "{refused:?}");
    assert!(
        refused[2].contains(r#""a" at version "8""#) && refused[2].ends_with("unlucky"),
        "{refused:?}"
    );
    assert!(refused[3].contains(r#""new""#) && refused.len() == 4, "{refused:?}");
    let mut stored: Vec<_> =
        store.list().iter().map(|object| (object.name.clone(), object.n)).collect();
    stored.sort();
    let expected = [("a", 2), ("b", 4), ("c", 6), ("d", 28)].map(|(key, n)| (key.to_owned(), n));
    assert_eq!(stored, expected, "e is not listed");
    assert_eq!(asked.load(Ordering::Relaxed), 4, "kept objects are not transformed");
    assert!(store.replace_keeping(vec![], []).is_empty() && store.is_empty());
}

#[test]
fn list_with_a_panicking_key_function_stores_the_others_and_removes_nothing() {
    let keys = KeyFunc::custom(ObjMeta, |object: &Obj| {
        if object.n == 13 { resume_unwind(Box::new("no key")) } else { Ok(object.name.clone()) }
    });
    let store = Indexer::builder(keys).build().unwrap();
    store.replace(vec![obj("b", 1), obj("z", 2)]).unwrap();
    let list = || vec![obj("a", 3), obj("b", 13), obj("c", 4)];
    // All objects of this list need a key before the first one is stored.
    catch_unwind(AssertUnwindSafe(|| store.replace(list()))).unwrap_err();
    assert_eq!(numbers(store.list()), [1, 2]);
    let panic = catch_unwind(AssertUnwindSafe(|| store.replace_keeping(list(), []))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"no key"));
    assert_eq!(numbers(store.list()), [1, 2, 3, 4]);
}

#[test]
fn object_refused_by_an_index_while_it_is_stored_is_left_out_of_the_list() {
    let late = failing_late(|object: &Obj| object.n == 5);
    let store = Indexer::builder(keys()).index("late", late).build().unwrap();
    store.replace(vec![obj("a", 1), obj("b", 2), obj("c", 3)]).unwrap();
    let error = store.replace(vec![obj("a", 5), obj("b", 6)]).unwrap_err();
    assert!(matches!(error, StoreError::Index { key, .. } if key == "a"));
    assert_eq!(numbers(store.list()), [1, 6]);
}
