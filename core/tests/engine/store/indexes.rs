//! Tests of indexes, also of those whose functions fail or panic.

use std::sync::{Arc, Mutex};

use super::rig::{indexed, numbers, primes};
use crate::common::{Obj, ObjMeta, keys, obj};
use deltafifo::{
    BoxError, Change, DeltaFifo, ExplicitKey, IndexError, Indexer, KeyFunc, NAMESPACE_INDEX,
    StoreError,
};

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
