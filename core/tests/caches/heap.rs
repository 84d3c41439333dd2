//! Tests of `Heap`, the queue that holds the newest object of each key, with the least object
//! first.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Obj, ObjMeta, ends, keys, nameless, obj, tombstone};
use deltafifo::caches::{Heap, HeapError};
use deltafifo::{Closed, ExplicitKey, Indexer, KeyFunc};

fn heap() -> Heap<Obj, ObjMeta> {
    Heap::new(keys(), |a, b| a.n < b.n)
}

fn filled<const N: usize>(objects: [(&str, u64); N]) -> Heap<Obj, ObjMeta> {
    let heap = heap();
    for (key, n) in objects {
        heap.add(obj(key, n)).unwrap();
    }
    heap
}

/// Pops until the queue is empty. Returns the numbers of the objects.
fn popped(heap: &Heap<Obj, ObjMeta>) -> Vec<u64> {
    (0..heap.len()).map(|_| heap.pop().unwrap().n).collect()
}

const AMOUNT: u64 = if cfg!(miri) { 30 } else { 500 };

#[test]
fn objects_of_two_producers_are_popped_in_ascending_order() {
    let heap = heap();
    thread::scope(|scope| {
        scope.spawn(|| {
            (1..=AMOUNT).rev().for_each(|n| heap.add(obj(&format!("a/{n}"), n)).unwrap());
        });
        scope.spawn(|| (1..=AMOUNT).for_each(|n| heap.add(obj(&format!("b/{n}"), n)).unwrap()));
    });
    assert_eq!(popped(&heap), (1..=AMOUNT).flat_map(|n| [n, n]).collect::<Vec<_>>());
}

#[test]
fn add_moves_a_key_to_the_place_of_its_newest_object() {
    let heap = filled([("foo", 10), ("bar", 1), ("baz", 11), ("zab", 30), ("foo", 13)]);
    assert_eq!((heap.pop().unwrap().n, heap.pop().unwrap().n), (1, 11));
    assert!(
        matches!(heap.delete(ExplicitKey("baz")), Err(HeapError::NotFound { key }) if key == "baz")
    );
    heap.add(obj("foo", 14)).unwrap();
    assert_eq!(popped(&heap), [14, 30]);
}

/// Checks that a heap's order function, which runs under the heap's lock, may read another store.
/// Debug builds must not mistake the heap's lock for a lock of that store.
#[test]
fn order_function_may_read_another_store() {
    let by_name = KeyFunc::custom(ObjMeta, |object: &Obj| Ok(object.name.clone()));
    let ranks = Indexer::builder(by_name).build().unwrap();
    for (name, rank) in [("a", 2), ("b", 3), ("c", 1)] {
        ranks.add(obj(name, rank)).unwrap();
    }
    let rank = move |object: &Obj| ranks.get(object).unwrap().unwrap().n;
    let heap = Heap::new(keys(), move |a, b| rank(a) < rank(b));
    heap.bulk_add(["a", "b", "c"].map(|name| obj(name, 0))).unwrap();
    assert_eq!([(); 3].map(|()| heap.pop().unwrap().name.clone()), ["c", "a", "b"]);
}

#[test]
fn bulk_add_is_popped_only_when_it_is_complete() {
    ends(|| {
        let heap = heap();
        thread::scope(|scope| {
            scope.spawn(|| {
                heap.bulk_add((1..=AMOUNT).rev().map(|n| obj(&format!("a/{n}"), n))).unwrap();
            });
            (1..=AMOUNT).for_each(|n| assert_eq!(heap.pop().unwrap().n, n));
        });
    });
}

#[test]
fn bulk_add_with_an_object_without_a_key_adds_nothing() {
    let heap = heap();
    assert!(matches!(heap.bulk_add([obj("a", 1), nameless()]), Err(HeapError::Key(_))));
    assert!(heap.is_empty() && !heap.has_synced());
}

#[test]
fn close_ends_a_blocked_pop_of_an_empty_heap() {
    ends(|| {
        let heap = heap();
        thread::scope(|scope| {
            let popping = scope.spawn(|| heap.pop());
            heap.close();
            assert_eq!(popping.join().unwrap(), Err(Closed));
        });
    });
}

#[test]
fn add_if_not_present_keeps_the_queued_object() {
    let heap = heap();
    for (key, n) in [("foo", 10), ("bar", 1), ("baz", 11), ("zab", 30), ("foo", 13)] {
        heap.add_if_not_present(obj(key, n)).unwrap();
    }
    assert_eq!(heap.len(), 4);
    assert_eq!((heap.pop().unwrap().n, heap.pop().unwrap().n), (1, 10));
    heap.add_if_not_present(obj("bar", 14)).unwrap();
    assert_eq!(popped(&heap), [11, 14, 30]);
}

#[test]
fn delete_removes_the_first_the_last_and_a_middle_key() {
    let heap = filled([("foo", 10), ("bar", 1), ("bal", 31), ("baz", 11)]);
    heap.delete(&*obj("bar", 200)).unwrap();
    assert_eq!(heap.pop().unwrap().n, 10);
    heap.add(obj("zab", 30)).unwrap();
    heap.add(obj("faz", 30)).unwrap();
    assert!(matches!(heap.delete(&*obj("non-existent", 10)), Err(HeapError::NotFound { .. })));
    assert!(matches!(heap.delete(&*nameless()), Err(HeapError::Key(_))));
    assert_eq!(heap.len(), 4);
    heap.delete(&tombstone("bal", None)).unwrap();
    heap.delete(ExplicitKey("zab")).unwrap();
    assert_eq!(popped(&heap), [11, 30]);
}

#[test]
fn update_moves_a_key_to_the_head_or_back() {
    let heap = filled([("foo", 10), ("bar", 1), ("bal", 31), ("baz", 11)]);
    heap.update(obj("baz", 0)).unwrap();
    assert_eq!(heap.pop().unwrap().name, "baz");
    heap.update(obj("bar", 100)).unwrap();
    assert_eq!(popped(&heap), [10, 31, 100]);
}

#[test]
fn queued_objects_can_be_read_and_listed() {
    let heap = heap();
    assert!(heap.list().is_empty() && heap.list_keys().is_empty());
    let objects = BTreeMap::from([("foo", 10), ("bar", 1), ("bal", 30), ("baz", 11), ("faz", 30)]);
    for (key, n) in &objects {
        heap.add(obj(key, *n)).unwrap();
    }
    assert_eq!(heap.get(&*obj("baz", 0)).unwrap().unwrap().n, 11);
    assert_eq!(heap.get_by_key("faz").unwrap().n, 30);
    assert!(heap.get(&*obj("non-existing", 0)).unwrap().is_none());
    assert!(heap.get_by_key("non-existing").is_none());
    assert!(heap.get(&*nameless()).is_err());
    let list = heap.list();
    let listed: BTreeMap<_, _> = list.iter().map(|object| (&*object.name, object.n)).collect();
    assert_eq!((list.len(), listed), (5, objects));
    let mut keys = heap.list_keys();
    keys.sort();
    assert_eq!(keys, ["bal", "bar", "baz", "faz", "foo"]);
}

#[test]
fn closed_heap_refuses_offers_and_pops_queued_objects() {
    let heap = filled([("foo", 10)]);
    assert!(!heap.is_closed());
    heap.close();
    assert!(heap.is_closed());
    assert!(matches!(heap.add(obj("test", 1)), Err(HeapError::Closed)));
    assert!(matches!(heap.add_if_not_present(obj("test", 1)), Err(HeapError::Closed)));
    assert!(matches!(heap.bulk_add([obj("test", 1)]), Err(HeapError::Closed)));
    assert!(matches!(heap.replace(vec![obj("test", 1)]), Err(HeapError::Closed)));
    assert_eq!(heap.list_keys(), ["foo"]);
    assert_eq!(heap.pop().unwrap().n, 10);
    assert_eq!(heap.pop(), Err(Closed));
}

#[test]
fn equal_objects_are_popped_in_order_of_arrival() {
    let heap = heap();
    let names: Vec<_> = (0..20).map(|n| format!("{:02}", n * 7 % 20)).collect();
    for name in &names {
        heap.add(obj(name, 5)).unwrap();
    }
    heap.update(obj(&names[3], 5)).unwrap();
    assert_eq!(names, (0..20).map(|_| heap.pop().unwrap().name.clone()).collect::<Vec<_>>());
}

#[test]
fn panicking_order_function_loses_no_object_and_no_waiting_pop() {
    let panics = Arc::new(AtomicBool::new(false));
    let flag = panics.clone();
    let heap = Heap::new(keys(), move |a: &Obj, b: &Obj| {
        assert!(!flag.load(Ordering::SeqCst), "expected by this test");
        a.n < b.n
    });
    for n in [5, 3, 8, 1] {
        heap.add(obj(&n.to_string(), n)).unwrap();
    }
    panics.store(true, Ordering::SeqCst);
    let panicked = |act: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    panicked(&|| drop(heap.pop()));
    panicked(&|| drop(heap.add(obj("7", 7))));
    panicked(&|| drop(heap.update(obj("5", 0))));
    panicked(&|| drop(heap.delete(ExplicitKey("1"))));
    panicked(&|| drop(heap.process(|_, _| Ok::<_, Closed>(()))));
    assert_eq!(heap.len(), 5);
    panicked(&|| drop(heap.bulk_add([obj("x", 9), obj("3", 4), obj("y", 2), obj("z", 6)])));
    assert_eq!(heap.len(), 8);
    assert_eq!(heap.get_by_key("3").unwrap().n, 4);
    panics.store(false, Ordering::SeqCst);
    let mut all = popped(&heap);
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 4, 6, 7, 8, 9], "each object once");
    heap.bulk_add([1, 2, 3].map(|n| obj(&n.to_string(), n))).unwrap();
    panics.store(true, Ordering::SeqCst);
    panicked(&|| drop(heap.replace(vec![obj("a", 3), obj("b", 2), obj("c", 1)])));
    assert_eq!(heap.len(), 3);
    panics.store(false, Ordering::SeqCst);
    for (key, n) in [("a", 6), ("b", 5), ("c", 4), ("d", 7)] {
        heap.update(obj(key, n)).unwrap();
    }
    let mut all = popped(&heap);
    all.sort_unstable();
    assert_eq!(all, [4, 5, 6, 7], "each object once");
}
