//! Tests of indexes that are added to a filled store while it is written and read.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, Weak};
use std::thread;

use crate::common::{Fifo, Obj, ObjMeta, ends, keys, obj};
use deltafifo::{
    BoxError, DeltaFifo, ExplicitKey, Fields, IndexError, IndexReader, Indexer, Indexers, Labels,
    Meta, NAMESPACE_INDEX, OWNER_INDEX, Owners,
};

/// A number of objects that is larger than one step of a walk.
const MANY: u32 = if cfg!(miri) { 70 } else { 1_000 };

type Reader = IndexReader<Obj, ObjMeta>;

fn parity() -> Indexers<Obj> {
    Indexers::new().index("parity", |object: &Obj| Ok(vec![(object.n % 2).to_string()]))
}

/// Checks that the store and its index `parity` have this number of objects, and that the index
/// has each of them under the right value.
fn check(store: &Reader, objects: usize) {
    let mut found = 0;
    for value in ["0", "1"] {
        for object in store.by_index("parity", value).unwrap() {
            assert_eq!((object.n % 2).to_string(), value);
            found += 1;
        }
        assert_eq!(
            store.index_keys("parity", value).unwrap().len(),
            store.by_index("parity", value).unwrap().len()
        );
    }
    assert_eq!((found, store.len()), (objects, objects));
}

#[test]
fn index_added_to_a_filled_store_is_complete() {
    let store = Indexer::builder(keys()).build().unwrap();
    for n in 0..u64::from(MANY) {
        store.add(obj(&n.to_string(), n)).unwrap();
    }
    store.add_indexers(parity()).unwrap();
    check(&store, MANY as usize);
    store.update(obj("7", 8)).unwrap();
    store.add(obj("new", 9)).unwrap();
    store.delete(ExplicitKey("9")).unwrap();
    check(&store, MANY as usize);
    store.replace(vec![obj("a", 1), obj("b", 2)]).unwrap();
    check(&store, 2);
    let error = store
        .add_indexers(Indexers::new())
        .map(|()| store.list_index_func_values("parity").unwrap());
    assert_eq!(error.unwrap(), ["0", "1"]);
}

#[test]
fn existing_index_name_rejects_all_new_indexes() {
    let store = Indexer::builder(keys()).index("a", |_: &Obj| Ok(vec![])).build().unwrap();
    let none = |_: &Obj| Ok(vec![]);
    for (new, conflict) in
        [(["b", "a"], "a"), (["b", "b"], "b"), (["b", NAMESPACE_INDEX], NAMESPACE_INDEX)]
    {
        let added = store.add_indexers(Indexers::new().index(new[0], none).index(new[1], none));
        assert!(matches!(added, Err(IndexError::Conflict(name)) if name == conflict));
        assert!(matches!(store.by_index("b", ""), Err(IndexError::Unknown(_))), "none was added");
    }
    store.add_indexers(Indexers::new().index("b", none)).unwrap();
    assert!(store.by_index("b", "").unwrap().is_empty());
}

/// An accessor for which the parity of an object is the value of every label, the owner and the
/// field `/parity`. It calls the function `F` before each of these reads.
struct ParityMeta<F>(F);

impl<F: Send + Sync + 'static> Meta<Obj> for ParityMeta<F> {
    fn namespace<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        ObjMeta.namespace(object)
    }

    fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        ObjMeta.name(object)
    }
}

impl<F: Fn() + Send + Sync + 'static> Labels<Obj> for ParityMeta<F> {
    fn label<'a>(&self, object: &'a Obj, _key: &str) -> Option<&'a str> {
        (self.0)();
        Some(if object.n.is_multiple_of(2) { "0" } else { "1" })
    }
}

impl<F: Fn() + Send + Sync + 'static> Owners<Obj> for ParityMeta<F> {
    fn owners<'a>(&self, object: &'a Obj) -> Vec<Cow<'a, str>> {
        self.label(object, "").into_iter().map(Cow::Borrowed).collect()
    }
}

impl<F: Fn() + Send + Sync + 'static> Fields<Obj> for ParityMeta<F> {
    fn field<'a>(&self, object: &'a Obj, pointer: &str) -> Result<Option<Cow<'a, str>>, BoxError> {
        if pointer != "/parity" {
            return Err("not a field".into());
        }
        Ok(self.label(object, "").map(Cow::Borrowed))
    }
}

#[test]
fn users_share_the_indexes_of_labels_owners_and_fields() {
    let store = Indexer::builder(keys()).build().unwrap();
    store.add(obj("a", 1)).unwrap();
    let label = || Indexers::new().label(ParityMeta(|| ()), "parity");
    let all = || label().owners(ParityMeta(|| ())).field(ParityMeta(|| ()), "/parity");
    for indexers in [label(), all(), all()] {
        store.add_indexers(indexers).unwrap();
    }
    for index in ["label:parity", OWNER_INDEX, "field:/parity"] {
        assert_eq!(store.index_keys(index, "1").unwrap(), ["a"]);
        let none = |_: &Obj| Ok(vec![]);
        let conflict = store.add_indexers(Indexers::new().index("b", none).index(index, none));
        assert!(matches!(conflict, Err(IndexError::Conflict(name)) if name == index));
    }
    assert!(matches!(store.by_index("b", ""), Err(IndexError::Unknown(_))), "none was added");
    let other = store.add_indexers(Indexers::new().field(ParityMeta(|| ()), "/other"));
    assert!(matches!(other, Err(IndexError::Build { index, .. }) if index == "field:/other"));
}

/// Adds an index on two threads. The second call begins while the first one builds the index. It
/// waits until readers find the index, or builds it if the first build fails.
#[test]
fn user_waits_for_the_index_that_another_thread_builds() {
    for fails in [false, true] {
        ends(move || {
            let store = Indexer::builder(keys()).build().unwrap();
            store.add(obj("a", 1)).unwrap();
            let [begun, go] = [(); 2].map(|()| Arc::new(Barrier::new(2)));
            let slow = {
                let (begun, go) = (begun.clone(), go.clone());
                ParityMeta(move || {
                    begun.wait();
                    go.wait();
                    if fails {
                        std::panic::resume_unwind(Box::new("expected by this test"));
                    }
                })
            };
            thread::scope(|scope| {
                let one = scope.spawn(|| store.add_indexers(Indexers::new().label(slow, "parity")));
                begun.wait();
                let other = scope.spawn(|| {
                    let both = Indexers::new().label(ParityMeta(|| ()), "parity");
                    store.add_indexers(both.owners(ParityMeta(|| ()))).unwrap();
                    ["label:parity", OWNER_INDEX].map(|index| store.index_keys(index, "1").unwrap())
                });
                go.wait();
                assert_eq!(one.join().unwrap().is_err(), fails);
                assert_eq!(other.join().unwrap(), [["a"], ["a"]]);
            });
        });
    }
}

#[test]
fn index_function_does_not_wait_for_the_index_that_its_thread_builds() {
    ends(|| {
        let store = Arc::new(Indexer::builder(keys()).build().unwrap());
        store.add(obj("a", 1)).unwrap();
        let (weak, seen) = (Arc::downgrade(&store), Arc::new(OnceLock::new()));
        let see = seen.clone();
        let curious = move || {
            let same = Indexers::new().label(ParityMeta(|| ()), "parity");
            see.set(weak.upgrade().unwrap().add_indexers(same)).unwrap();
        };
        store.add_indexers(Indexers::new().label(ParityMeta(curious), "parity")).unwrap();
        assert!(matches!(seen.get(), Some(Err(IndexError::Conflict(_)))));
    });
}

#[test]
fn index_whose_function_fails_or_panics_is_not_added_and_leaves_nothing() {
    let store = Indexer::builder(keys()).build().unwrap();
    for n in 0..u64::from(MANY) {
        store.add(obj(&n.to_string(), n)).unwrap();
    }
    for panics in [false, true] {
        let failing = parity().index("failing", move |object: &Obj| match object.n {
            67 if panics => std::panic::resume_unwind(Box::new("expected by this test")),
            67 => Err("unlucky".into()),
            n => Ok(vec![n.to_string()]),
        });
        match store.add_indexers(failing) {
            Err(IndexError::Build { index, key, .. }) => {
                assert_eq!((&*index, &*key), ("failing", "67"));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(store.by_index("parity", "0"), Err(IndexError::Unknown(_))));
    }
    store.add_indexers(parity()).unwrap();
    check(&store, MANY as usize);
    // The withdrawn indexes keep no slot alive.
    let held = store.get_by_key("5").unwrap();
    store.replace(vec![]).unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn index_function_may_use_the_store_and_add_an_index() {
    ends(|| {
        let store = Arc::new(Indexer::builder(keys()).build().unwrap());
        for n in 0..100 {
            store.add(obj(&n.to_string(), n)).unwrap();
        }
        // Weak, because the store owns the function.
        let (writer, once) = (Arc::downgrade(&store), AtomicBool::new(false));
        let curious = Indexers::new().index("curious", move |object: &Obj| {
            if !once.swap(true, Ordering::Relaxed) {
                let writer = writer.upgrade().unwrap();
                writer.add_indexers(parity())?;
                // Changes the object under the index function.
                writer.add(obj(&object.name, object.n + 1000))?;
                let another = if object.name == "50" { "51" } else { "50" };
                writer.delete(ExplicitKey(another))?;
            }
            Ok(vec![(object.n / 1000).to_string()])
        });
        store.add_indexers(curious).unwrap();
        assert_eq!(
            store.by_index("curious", "0").unwrap().len()
                + store.by_index("curious", "1").unwrap().len(),
            99
        );
        assert_eq!(store.by_index("curious", "1").unwrap().len(), 1);
        check(&store, 99);
    });
}

/// Checks that an index keeps an object for which its function fails once. While the index "slow"
/// is built, a write calls the function of the index "name" for the old object. That call adds a
/// third index, and fails. Because an index was added, the write is planned again: this calls the
/// function a second time, which does not fail.
#[test]
fn object_stays_in_an_index_whose_function_fails_once_while_others_are_built() {
    let (fails, queue) =
        (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::<Weak<Fifo>>::new()));
    let name = {
        let (fails, queue) = (fails.clone(), queue.clone());
        move |object: &Obj| {
            if object.n == 1 && fails.swap(false, Ordering::Relaxed) {
                queue.get().unwrap().upgrade().unwrap().store().add_indexers(parity()).unwrap();
                return Err("fails once".into());
            }
            Ok(vec![object.name.clone()])
        }
    };
    let store = Indexer::builder(keys()).index("name", name).build().unwrap();
    let fifo = Arc::new(DeltaFifo::over(store).build());
    queue.set(Arc::downgrade(&fifo)).unwrap();
    fifo.add(obj("a", 1)).unwrap();
    fifo.try_pop().unwrap().apply(|_| ()).unwrap();
    fifo.update(obj("a", 2)).unwrap();
    let slow = Indexers::new().index("slow", move |_: &Obj| {
        if let Some(mut item) = queue.get().unwrap().upgrade().unwrap().try_pop() {
            fails.store(true, Ordering::Relaxed);
            item.apply(|_| ()).unwrap();
        }
        Ok(vec![])
    });
    fifo.store().add_indexers(slow).unwrap();
    assert_eq!(fifo.store().index_keys("name", "a").unwrap(), ["a"]);
    check(&fifo.store(), 1);
}

/// Returns the function of an index of names, which fails once for an object with the number 1.
fn name_failing_once() -> impl Fn(&Obj) -> Result<Vec<String>, BoxError> + Send + Sync + 'static {
    let fails = AtomicBool::new(true);
    move |object: &Obj| {
        if object.n == 1 && fails.swap(false, Ordering::Relaxed) {
            return Err("fails once".into());
        }
        Ok(vec![object.name.clone()])
    }
}

/// Offers an object and applies it. Returns whether every index has it.
fn apply(fifo: &Fifo, name: &str, n: u64) -> bool {
    fifo.update(obj(name, n)).unwrap();
    fifo.try_pop().unwrap().apply(|_| ()).is_ok()
}

#[test]
fn object_joins_an_index_that_lacks_the_former_object_while_another_is_built() {
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build());
    fifo.store().add_indexers(Indexers::new().index("name", name_failing_once())).unwrap();
    assert!(!apply(&fifo, "a", 1));
    fifo.update(obj("a", 2)).unwrap();
    // Weak, because the queue owns the function.
    let queue = Arc::downgrade(&fifo);
    let slow = Indexers::new().index("slow", move |_: &Obj| {
        if let Some(mut item) = queue.upgrade().unwrap().try_pop() {
            item.apply(|_| ()).unwrap();
        }
        Ok(vec![])
    });
    fifo.store().add_indexers(slow).unwrap();
    assert_eq!(fifo.store().get_by_key("a").unwrap().n, 2);
    assert_eq!(fifo.store().index_keys("name", "a").unwrap(), ["a"]);
}

/// Checks two writes to a key that the builder of the index has visited. The function fails for the
/// first of them.
#[test]
fn object_joins_an_index_under_construction_that_lacks_the_former_object() {
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build());
    for n in 0..MANY {
        assert!(apply(&fifo, &n.to_string(), 0));
    }
    let (queue, calls) = (Arc::downgrade(&fifo), AtomicU64::new(0));
    let (first, by_name) = (OnceLock::new(), name_failing_once());
    let visited = Arc::new(OnceLock::new());
    let name = {
        let visited = visited.clone();
        move |object: &Obj| {
            let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
            let first: &String = first.get_or_init(|| object.name.clone());
            // The last object: the builder has added the first one.
            if call == u64::from(MANY) {
                let fifo = queue.upgrade().unwrap();
                assert!(!apply(&fifo, first, 1));
                assert!(apply(&fifo, first, 2));
                visited.set(first.clone()).unwrap();
            }
            by_name(object)
        }
    };
    fifo.store().add_indexers(Indexers::new().index("name", name)).unwrap();
    let key = visited.get().unwrap();
    assert_eq!(fifo.store().index_keys("name", key).unwrap(), [&**key]);
}

/// Checks a write for which two index functions matter: one failed when the old object was stored,
/// and the other one fails for the old object now. The slot has as many entries as the functions
/// return values.
#[test]
fn object_joins_an_index_that_lacks_the_former_object_although_another_function_fails() {
    let fails = Arc::new(AtomicBool::new(false));
    let fifo = DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build();
    let parity = {
        let fails = fails.clone();
        move |object: &Obj| {
            if object.n == 1 && fails.swap(false, Ordering::Relaxed) {
                return Err("fails for the old object".into());
            }
            Ok(vec![(object.n % 2).to_string()])
        }
    };
    let indexers = Indexers::new().index("name", name_failing_once()).index("parity", parity);
    fifo.store().add_indexers(indexers).unwrap();
    assert!(!apply(&fifo, "a", 1));
    fails.store(true, Ordering::Relaxed);
    assert!(apply(&fifo, "a", 2));
    assert_eq!(fifo.store().index_keys("name", "a").unwrap(), ["a"]);
    check(&fifo.store(), 1);
}

#[test]
fn index_function_is_called_for_the_old_object_only_if_the_values_change() {
    let called = Arc::new(Mutex::new(Vec::new()));
    let parity = {
        let called = called.clone();
        move |object: &Obj| {
            called.lock().unwrap().push(object.n);
            Ok(vec![(object.n % 2).to_string()])
        }
    };
    let store = Indexer::builder(keys()).index("parity", parity).build().unwrap();
    let fifo = DeltaFifo::over(store).build();
    for (n, calls) in [(1, &[1][..]), (3, &[3]), (4, &[4, 3])] {
        assert!(apply(&fifo, "a", n));
        assert_eq!(std::mem::take(&mut *called.lock().unwrap()), calls, "update to {n}");
        check(&fifo.store(), 1);
        called.lock().unwrap().clear();
    }
}

/// Adds indexes on two threads while consumers apply and readers read. A new index is complete for
/// the objects that do not change, never wrong for the others, and exact for all at the end.
#[test]
fn indexes_added_during_writes_and_reads_are_exact() {
    const KEYS: u64 = if cfg!(miri) { 20 } else { 400 };
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 30 };
    let fifo = DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build();
    let store = fifo.store();
    let key = |n: u64| format!("k{n}");
    for n in 0..KEYS {
        fifo.add(obj(&key(n), n)).unwrap();
    }
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    let (start, writing) = (Barrier::new(5), AtomicU64::new(2));
    thread::scope(|scope| {
        for producer in 0..2 {
            let (fifo, start, writing) = (&fifo, &start, &writing);
            scope.spawn(move || {
                start.wait();
                for round in 1..=ROUNDS {
                    // A quarter of the keys never changes.
                    for n in (0..KEYS).filter(|n| n % 4 != 3 && n % 2 == producer) {
                        match (n + round) % 5 {
                            0 => fifo.delete(obj(&key(n), 0)).unwrap(),
                            _ => fifo.update(obj(&key(n), n * 1_000 + round)).unwrap(),
                        }
                    }
                    while let Some(mut item) = fifo.try_pop() {
                        item.apply(|_| ()).unwrap();
                    }
                }
                if writing.fetch_sub(1, Ordering::Relaxed) == 1 {
                    fifo.close();
                }
            });
        }
        for name in ["one", "two"] {
            let (store, start, writing) = (&store, &start, &writing);
            scope.spawn(move || {
                start.wait();
                let mut number = 0;
                while number == 0 || writing.load(Ordering::Relaxed) > 0 && number < 20 {
                    let name = format!("{name}-{number}");
                    let parity =
                        |object: &Obj| Ok(vec![(object.n % 2).to_string(), "all".to_owned()]);
                    store.add_indexers(Indexers::new().index(&name, parity)).unwrap();
                    let mut quiet = 0;
                    for value in ["0", "1"] {
                        for object in store.by_index(&name, value).unwrap() {
                            assert_eq!(
                                (object.n % 2).to_string(),
                                value,
                                "found under a wrong value"
                            );
                            let n: u64 = object.name[1..].parse().unwrap();
                            quiet += u64::from(n % 4 == 3);
                        }
                    }
                    assert_eq!(quiet, KEYS / 4, "unchanged objects are found");
                    number += 1;
                }
            });
        }
        start.wait();
    });
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    store.add_indexers(parity()).unwrap();
    check(&store, store.len());
    assert_eq!(store.by_index("one-0", "all").unwrap().len(), store.len());
    assert_eq!(store.by_index("two-0", "all").unwrap().len(), store.len());
}

/// Checks that an object that is written while an index is built gets one entry in the index. The
/// writer adds the entry first. The builder runs on another thread, which may use another shard of
/// the index; it must still find the writer's entry and add none.
#[test]
fn object_written_during_an_index_build_is_indexed_once() {
    let store = Arc::new(Indexer::builder(keys()).build().unwrap());
    (0..8).for_each(|n| store.add(obj(&format!("k{n}"), n)).unwrap());
    // Weak, because the store owns the function.
    let (writer, once) = (Arc::downgrade(&store), AtomicBool::new(false));
    let parity = Indexers::new().index("parity", move |object: &Obj| {
        if !once.swap(true, Ordering::Relaxed) {
            let writer = writer.upgrade().unwrap();
            thread::scope(|scope| {
                for n in 0..8 {
                    let writer = &writer;
                    scope.spawn(move || writer.update(obj(&format!("k{n}"), n + 1)).unwrap());
                }
            });
        }
        Ok(vec![(object.n % 2).to_string()])
    });
    store.add_indexers(parity).unwrap();
    check(&store, 8);
    (0..8).for_each(|n| store.delete(ExplicitKey(&format!("k{n}"))).unwrap());
    check(&store, 0);
}
