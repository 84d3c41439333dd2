//! Tests of the store and its indexes, alone and fused with a queue.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use crate::common::{
    Obj, ObjMeta, deltas, ends, failing_late, keys, nameless, obj, show, tombstone, versioned,
};
use deltafifo::{
    BoxError, Change, Delta, DeltaFifo, DeltaType, ExplicitKey, InOrderFifo, IndexError, Indexer,
    KeyFunc, NAMESPACE_INDEX, OfferError, StoreError, Transaction, error_chain,
};

/// Returns every prime divisor of the object's number. Returns an error for 13.
fn primes(object: &Obj) -> Result<Vec<String>, BoxError> {
    if object.n == 13 {
        return Err("unlucky".into());
    }
    Ok([2, 3, 5, 7]
        .iter()
        .filter(|&&prime| object.n.is_multiple_of(prime))
        .map(ToString::to_string)
        .collect())
}

/// Returns index values that are unsorted and contain duplicates.
#[allow(clippy::unnecessary_wraps)] // The signature of an index function.
fn digits(object: &Obj) -> Result<Vec<String>, BoxError> {
    Ok(object.n.to_string().chars().rev().map(String::from).collect())
}

fn indexed() -> Indexer<Obj, ObjMeta> {
    Indexer::builder(keys()).index("primes", primes).index("digits", digits).build().unwrap()
}

#[allow(clippy::needless_pass_by_value)] // It is called on returned lists.
fn numbers(objects: Vec<Arc<Obj>>) -> Vec<u64> {
    let mut numbers: Vec<_> = objects.iter().map(|object| object.n).collect();
    numbers.sort_unstable();
    numbers
}

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
fn indexes_hold_any_number_of_values_and_lose_empty_sets() {
    let store = indexed();
    for (key, n) in [("a", 6), ("b", 10), ("c", 11), ("d", 6)] {
        store.add(obj(key, n)).unwrap();
    }
    assert_eq!(store.index_keys("primes", "2").unwrap(), ["a", "b", "d"]);
    assert_eq!(numbers(store.by_index("primes", "3").unwrap()), [6, 6]);
    assert_eq!(
        store.index_keys("digits", "1").unwrap(),
        ["b", "c"],
        "each once although 11 returns it twice"
    );
    assert_eq!(store.list_index_func_values("primes").unwrap(), ["2", "3", "5"]);
    assert_eq!(numbers(store.index("primes", &obj("elsewhere", 15)).unwrap()), [6, 6, 10]);
    assert_eq!(
        numbers(store.index("primes", &obj("elsewhere", 30)).unwrap()),
        [6, 6, 10],
        "each object once"
    );
    assert!(store.index("primes", &obj("elsewhere", 11)).unwrap().is_empty());
    store.update(obj("b", 14)).unwrap();
    assert_eq!(
        store.list_index_func_values("primes").unwrap(),
        ["2", "3", "7"],
        "5 has no more objects"
    );
    assert_eq!(store.index_keys("primes", "2").unwrap(), ["a", "b", "d"]);
    assert_eq!(
        numbers(store.by_index("primes", "2").unwrap()),
        [6, 6, 14],
        "a remaining value returns the new object"
    );
    for key in ["a", "b", "c", "d"] {
        store.delete(ExplicitKey(key)).unwrap();
    }
    for index in ["primes", "digits", NAMESPACE_INDEX] {
        assert!(store.list_index_func_values(index).unwrap().is_empty(), "{index}");
    }
}

#[test]
fn look_up_of_many_values_returns_each_key_once_during_updates() {
    #[allow(clippy::unnecessary_wraps)] // The signature of an index function.
    fn many(_: &Obj) -> Result<Vec<String>, BoxError> {
        Ok((0..20).map(|value| value.to_string()).collect())
    }
    let rounds = if cfg!(miri) { 3 } else { 1000 };
    let store = Indexer::builder(keys()).index("many", many).build().unwrap();
    store.add(obj("a", 0)).unwrap();
    let read = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1.. {
                store.update(obj("a", n)).unwrap();
                if read.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let most = (0..rounds).map(|_| store.index("many", &obj("a", 0)).unwrap().len()).max();
        read.store(true, Ordering::Relaxed);
        assert_eq!(most, Some(1));
    });
}

/// Moves an object between the values 1 and 2 of an index. A reader of both values always finds
/// the object. A reader of one value must not get the object in a state that has the other value.
#[test]
fn reader_of_both_values_finds_an_object_that_moves_between_them() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let store = indexed();
    store.add(obj("a", 1)).unwrap();
    let read = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in (1..=2).cycle() {
                store.update(obj("a", n)).unwrap();
                if read.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let found = |round: u64| {
            let of_digit = round % 2 + 1;
            let digit = store.by_index("digits", &of_digit.to_string()).unwrap();
            (
                store.index("digits", &obj("elsewhere", 12)).unwrap().len() == 1
                    && digit.iter().all(|object| object.n == of_digit),
                round,
            )
        };
        let missed = (0..rounds).map(found).find(|(found, _)| !found);
        read.store(true, Ordering::Relaxed);
        assert_eq!(missed, None);
    });
}

#[test]
fn unknown_indexes_and_failing_index_functions_are_errors() {
    let store = indexed();
    let unknown =
        |error: IndexError| assert!(matches!(error, IndexError::Unknown(name) if name == "nope"));
    unknown(store.by_index("nope", "1").unwrap_err());
    unknown(store.index_keys("nope", "1").unwrap_err());
    unknown(store.list_index_func_values("nope").unwrap_err());
    unknown(store.index("nope", &obj("a", 1)).unwrap_err());
    let error = store.index("primes", &obj("a", 13)).unwrap_err();
    assert!(matches!(error, IndexError::Function { index, .. } if index == "primes"));
}

#[test]
fn duplicate_or_built_in_index_name_is_a_conflict() {
    for names in [["a", "a"], ["a", NAMESPACE_INDEX]] {
        let [first, second] = names;
        let built = Indexer::builder(keys()).index(first, primes).index(second, primes).build();
        assert!(matches!(built.map(|_| ()), Err(IndexError::Conflict(name)) if name == second));
    }
}

#[test]
fn failing_index_function_leaves_the_store_unchanged() {
    let store = indexed();
    store.add(obj("a", 6)).unwrap();
    let error = store.update(obj("a", 13)).unwrap_err();
    assert!(
        matches!(error, StoreError::Index { index, key, .. } if index == "primes" && key == "a")
    );
    store.add(obj("b", 13)).unwrap_err();
    assert_eq!(store.get_by_key("a").unwrap().n, 6);
    assert_eq!(store.list_keys(), ["a"]);
    assert_eq!(store.list_index_func_values("primes").unwrap(), ["2", "3"]);
    assert_eq!(store.list_index_func_values("digits").unwrap(), ["6"]);
    store.delete(ExplicitKey("a")).unwrap();
    assert!(store.is_empty());
}

#[test]
fn applied_object_is_stored_and_in_other_indexes_if_one_function_fails() {
    let fifo = DeltaFifo::over(indexed()).build();
    for n in [6, 13] {
        fifo.update(obj("a", n)).unwrap();
    }
    let error = fifo.pop().unwrap().apply(|_| ()).unwrap_err();
    assert!(
        matches!(error, StoreError::NotIndexed { index, key, .. } if index == "primes" && key == "a")
    );
    let store = fifo.store();
    assert_eq!(store.get_by_key("a").unwrap().n, 13);
    assert!(store.list_index_func_values("primes").unwrap().is_empty());
    assert_eq!(store.list_index_func_values("digits").unwrap(), ["1", "3"]);
    fifo.update(obj("a", 14)).unwrap();
    fifo.pop().unwrap().apply(|_| ()).unwrap();
    assert_eq!(store.list_index_func_values("primes").unwrap(), ["2", "7"]);
}

#[test]
fn index_error_in_apply_is_returned_after_everything_is_applied() {
    let fifo = DeltaFifo::over(indexed()).build();
    for n in [6, 13, 10] {
        fifo.update(obj("a", n)).unwrap();
    }
    let mut notified = Vec::new();
    let mut guard = fifo.pop().unwrap();
    let error = guard.apply(|change| match change {
        Change::Added { new, .. } => notified.push(format!("+{}", new.n)),
        Change::Updated { old, new, .. } => notified.push(format!("{}>{}", old.n, new.n)),
        Change::Deleted { .. } => unreachable!(),
    });
    guard.done();
    assert!(matches!(error, Err(StoreError::NotIndexed { .. })));
    assert_eq!(notified, ["+6", "6>13", "13>10"]);
    assert_eq!(fifo.store().list_index_func_values("primes").unwrap(), ["2", "5"]);
}

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
fn namespace_index_follows_objects_under_custom_keys() {
    let default = Indexer::builder(keys()).build().unwrap();
    let custom = KeyFunc::custom(ObjMeta, |object: &Obj| Ok(object.name.clone()));
    let by_name = Indexer::builder(custom).build().unwrap();
    for store in [default, by_name] {
        for key in ["n1/a", "n1/b", "n2/c", "d"] {
            store.add(obj(key, 1)).unwrap();
        }
        assert_eq!(store.list_index_func_values(NAMESPACE_INDEX).unwrap(), ["", "n1", "n2"]);
        assert_eq!(store.by_index(NAMESPACE_INDEX, "n1").unwrap().len(), 2);
        assert_eq!(store.index(NAMESPACE_INDEX, &obj("n2/other", 1)).unwrap().len(), 1);
        assert_eq!(store.len(), 4);
    }
    let custom = KeyFunc::custom(ObjMeta, |object: &Obj| Ok(object.name.clone()));
    let fifo = DeltaFifo::over(Indexer::builder(custom).build().unwrap()).build();
    for key in ["n1/a", "n2/a", "a"] {
        fifo.update(obj(key, 1)).unwrap();
        let mut guard = fifo.pop().unwrap();
        guard.apply(|_| ()).unwrap();
        guard.done();
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        assert_eq!(fifo.store().list_index_func_values(NAMESPACE_INDEX).unwrap(), [namespace]);
        assert_eq!(fifo.store().len(), 1);
    }
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

#[test]
fn concurrent_writers_are_serialisable_and_keep_the_indexes_consistent() {
    let rounds: u64 = if cfg!(miri) { 20 } else { 3_000 };
    let store = indexed();
    let (done, start) = (AtomicBool::new(false), Barrier::new(4));
    thread::scope(|scope| {
        let (store, start, done) = (&store, &start, &done);
        let writers: Vec<_> = (0..3)
            .map(|writer: u64| {
                scope.spawn(move || {
                    start.wait();
                    for round in 0..rounds {
                        // All threads write the same four keys. The number identifies the writer
                        // and the index values.
                        let key =
                            ["a", "b", "n/c", "n/d"][usize::try_from(round + writer).unwrap() % 4];
                        match (round * 7 + writer) % 5 {
                            0 => store.delete(ExplicitKey(key)).unwrap(),
                            _ => store.add(obj(key, round * 3 + writer)).unwrap_or_else(drop),
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            start.wait();
            while !done.load(Ordering::Acquire) {
                for prime in [2, 3, 5, 7] {
                    for object in store.by_index("primes", &prime.to_string()).unwrap() {
                        assert_eq!(
                            object.n % prime,
                            0,
                            "by_index returned an object that does not match"
                        );
                    }
                }
                drop(store.list());
                thread::yield_now();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    let stored = store.list();
    let mut expected = BTreeMap::<String, Vec<String>>::new();
    for object in &stored {
        for prime in primes(object).unwrap_or_default() {
            expected.entry(prime).or_default().push(keys().key(object).unwrap());
        }
    }
    for keys in expected.values_mut() {
        keys.sort();
    }
    assert_eq!(
        store.list_index_func_values("primes").unwrap(),
        expected.keys().cloned().collect::<Vec<_>>()
    );
    for (prime, keys) in &expected {
        assert_eq!(&store.index_keys("primes", prime).unwrap(), keys);
    }
    assert_eq!((store.len(), store.list_keys().len()), (stored.len(), stored.len()));
}

/// Runs `work` in a process of its own: starts this test program again for the test `test`, whose
/// path begins with the name of the program. An environment variable marks the child. Fails if the
/// child does not run the test, or fails.
fn in_a_process_of_its_own(test: &str, work: impl FnOnce()) {
    const CHILD: &str = "DELTAFIFO_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return work();
    }
    let (_program, test) = test.split_once("::").unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let shown = [&child.stdout, &child.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(child.status.success() && shown[0].contains("1 passed"), "{}: {shown:?}", child.status);
}

#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn index_function_that_panics_on_two_deltas_does_not_abort_the_process() {
    let test = "index_function_that_panics_on_two_deltas_does_not_abort_the_process";
    in_a_process_of_its_own(&format!("{}::{test}", module_path!()), || {
        let store = Indexer::builder(keys())
            .index("bad", |_: &Obj| panic!("expected by this test"))
            .build()
            .unwrap();
        let fifo = DeltaFifo::over(store).build();
        fifo.add(obj("a", 1)).unwrap();
        fifo.update(obj("a", 2)).unwrap();
        assert!(fifo.process(|popped| popped.apply(|_| ())).is_err());
        fifo.add(obj("b", 1)).unwrap();
        assert_eq!(fifo.pop().unwrap().key(), "b");
    });
}

/// An object that looks up its key in the queue when it is dropped. The look-up hangs if the drop
/// happens under a lock.
struct ReadsOnDrop {
    key: String,
    fifo: std::sync::Weak<DeltaFifo<ReadsOnDrop, deltafifo::NoMeta>>,
}

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        if let Some(fifo) = self.fifo.upgrade() {
            fifo.get_by_key(&self.key);
            drop(fifo.store().get_by_key(&self.key));
            fifo.store().by_index("all", "all").unwrap();
            fifo.list_keys();
            fifo.try_pop_batch(1);
        }
    }
}

#[test]
fn no_object_is_dropped_under_a_lock() {
    ends(|| {
        let keys =
            KeyFunc::custom(deltafifo::NoMeta, |object: &ReadsOnDrop| Ok(object.key.clone()));
        let store = Indexer::builder(keys)
            .index("all", |_: &ReadsOnDrop| Ok(vec!["all".to_owned()]))
            .build()
            .unwrap();
        let fifo = Arc::new(DeltaFifo::over(store).skip_unchanged(true).build());
        let curious =
            |key: &str| Arc::new(ReadsOnDrop { key: key.to_owned(), fifo: Arc::downgrade(&fifo) });
        let deltas = |key: &str| [Delta::new(DeltaType::Added, curious(key))].into_iter().collect();
        for round in 0..6 {
            fifo.delete(curious("ignored")).unwrap();
            fifo.replace(vec![curious("a"), curious("b"), curious("a")], "1").unwrap();
            fifo.delete(curious("b")).unwrap();
            fifo.delete(curious("b")).unwrap();
            fifo.add_if_not_present(deltas("a")).unwrap();
            fifo.resync();
            drop(fifo.list());
            for _ in 0..3 {
                let Some(mut guard) = fifo.try_pop() else { break };
                fifo.delete(curious(guard.key())).unwrap();
                fifo.add_if_not_present(deltas("a")).unwrap();
                fifo.replace(vec![], "2").unwrap();
                match round % 3 {
                    0 => guard.apply(|_| ()).unwrap(),
                    1 => guard.retry(),
                    _ => {}
                }
                guard.done();
            }
        }
    });
}

/// Offers a change to the queue, and applies it.
fn apply(
    fifo: &DeltaFifo<Obj, ObjMeta>,
    offer: impl FnOnce(&DeltaFifo<Obj, ObjMeta>),
) -> Result<(), StoreError> {
    offer(fifo);
    fifo.pop().unwrap().apply(|_| ())
}

#[test]
fn unreliable_index_functions_leave_no_stale_entries() {
    let answer = Arc::new(Mutex::new(Ok("before")));
    let says = answer.clone();
    let says = move |_: &Obj| {
        says.lock().unwrap().map(|value: &str| vec![value.to_owned()]).map_err(BoxError::from)
    };
    let store =
        Indexer::builder(keys()).index("says", says).index("primes", primes).build().unwrap();
    let fifo = DeltaFifo::over(store).build();
    let store = fifo.store();
    apply(&fifo, |fifo| fifo.add(obj("a", 3)).unwrap()).unwrap();

    *answer.lock().unwrap() = Err("not now");
    apply(&fifo, |fifo| fifo.update(obj("a", 2)).unwrap()).unwrap_err();
    assert_eq!(
        store.list_index_func_values("says").unwrap(),
        [""; 0],
        "the function failed for both objects"
    );
    assert_eq!(store.list_index_func_values("primes").unwrap(), ["2"]);

    *answer.lock().unwrap() = Ok("after");
    apply(&fifo, |fifo| fifo.update(obj("a", 5)).unwrap()).unwrap();
    assert_eq!(store.list_index_func_values("says").unwrap(), ["after"]);
    *answer.lock().unwrap() = Ok("other");
    apply(&fifo, |fifo| fifo.delete(obj("a", 5)).unwrap()).unwrap();
    assert_eq!(store.list_index_func_values("says").unwrap(), [""; 0]);
    assert_eq!(store.list_index_func_values("primes").unwrap(), [""; 0]);
}

#[test]
fn two_index_functions_that_fail_in_turn_leave_no_stale_entries() {
    let fails = Arc::new(Mutex::new(""));
    let failing = |name: &'static str| {
        let fails = fails.clone();
        move |object: &Obj| {
            if *fails.lock().unwrap() == name {
                Err("not now".into())
            } else {
                Ok(vec![object.n.to_string()])
            }
        }
    };
    let store = Indexer::builder(keys())
        .index("one", failing("one"))
        .index("other", failing("other"))
        .build()
        .unwrap();
    let fifo = DeltaFifo::over(store).build();
    let store = fifo.store();
    *fails.lock().unwrap() = "one";
    apply(&fifo, |fifo| fifo.add(obj("a", 1)).unwrap()).unwrap_err();
    *fails.lock().unwrap() = "other";
    apply(&fifo, |fifo| fifo.update(obj("a", 2)).unwrap()).unwrap_err();
    assert_eq!(store.list_index_func_values("one").unwrap(), ["2"]);
    assert_eq!(
        store.list_index_func_values("other").unwrap(),
        [""; 0],
        "an object is found under its old value"
    );
}

#[test]
fn index_entries_of_concurrent_writers_are_added_and_removed() {
    let store = Indexer::builder(KeyFunc::meta_namespace(ObjMeta)).build().unwrap();
    for n in 0..80 {
        thread::scope(|scope| drop(scope.spawn(|| store.add(obj(&format!("ns/{n}"), n)).unwrap())));
    }
    assert_eq!(store.by_index(NAMESPACE_INDEX, "ns").unwrap().len(), 80);
    for n in 0..80 {
        thread::scope(|scope| {
            drop(scope.spawn(|| store.delete(&*obj(&format!("ns/{n}"), n)).unwrap()));
        });
    }
    assert!(store.list_index_func_values(NAMESPACE_INDEX).unwrap().is_empty());
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

/// Reads an object that has two index values while it is replaced. The reader that finds it under
/// the second value may hold the last reference. `Obj` aborts the process if it is dropped under a
/// lock. Few rounds meet that moment; the model `user_code::object_found_twice_is_the_last` always
/// does.
#[test]
fn object_replaced_during_a_two_value_read_is_dropped_without_a_lock() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let both = |_: &Obj| Ok(vec!["a".to_owned(), "b".to_owned()]);
    let store = Indexer::builder(keys()).index("both", both).build().unwrap();
    store.add(obj("x", 0)).unwrap();
    let written = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !written.load(Ordering::Relaxed) {
                    assert_eq!(store.index("both", &obj("x", 0)).unwrap().len(), 1);
                }
            });
        }
        (1..ROUNDS).for_each(|n| store.update(obj("x", n)).unwrap());
        written.store(true, Ordering::Relaxed);
    });
}
