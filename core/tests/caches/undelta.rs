//! Tests of `UndeltaStore`, which pushes its whole state after each change.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;

use crate::common::{Obj, ObjMeta, ends, failing_late, keys, nameless, obj};
use deltafifo::caches::UndeltaStore;
use deltafifo::{BoxError, Indexer, ReflectorStore, Store, StoreError};

type Undelta = UndeltaStore<Obj, Indexer<Obj, ObjMeta>>;

/// The states pushed so far, each as the numbers of its objects.
#[derive(Clone, Default)]
struct Pushed(Arc<Mutex<Vec<Vec<u64>>>>);

impl Pushed {
    fn note(&self, state: &[Arc<Obj>]) {
        let mut numbers: Vec<_> = state.iter().map(|object| object.n).collect();
        numbers.sort_unstable();
        self.0.lock().unwrap().push(numbers);
    }

    fn all(&self) -> Vec<Vec<u64>> {
        self.0.lock().unwrap().clone()
    }
}

fn indexer() -> Indexer<Obj, ObjMeta> {
    let unlucky =
        |object: &Obj| if object.n == 1313 { Err(BoxError::from("unlucky")) } else { Ok(vec![]) };
    Indexer::builder(keys()).index("unlucky", unlucky).build().unwrap()
}

fn undelta() -> (Undelta, Pushed) {
    let pushed = Pushed::default();
    let notes = pushed.clone();
    (UndeltaStore::new(indexer(), move |state| notes.note(&state)), pushed)
}

#[test]
fn every_change_pushes_the_whole_state() {
    let (store, pushed) = undelta();
    store.add(obj("a", 2)).unwrap();
    store.update(obj("a", 1)).unwrap();
    store.add(obj("b", 3)).unwrap();
    store.delete(obj("a", 0).into()).unwrap();
    store.replace(vec![obj("c", 4), obj("d", 5)], "0").unwrap();
    assert_eq!(
        store.replace_keeping(vec![obj("c", 6), obj("e", 1313)], &["d"], "1").unwrap().len(),
        1
    );
    store.replace(vec![], "1").unwrap();
    assert_eq!(
        pushed.all(),
        [vec![2], vec![1], vec![1, 3], vec![3], vec![4, 5], vec![5, 6], vec![]]
    );
}

#[test]
fn reads_and_resyncs_push_nothing() {
    let (store, pushed) = undelta();
    drop((store.list(), store.list_keys(), store.get_by_key("a"), store.get(&obj("a", 0))));
    store.resync().unwrap();
    assert!(store.store().is_empty() && pushed.all().is_empty());
}

#[test]
fn failed_change_pushes_nothing() {
    let (store, pushed) = undelta();
    store.add(nameless()).unwrap_err();
    store.update(nameless()).unwrap_err();
    store.delete(nameless().into()).unwrap_err();
    store.replace(vec![obj("a", 1), nameless()], "1").unwrap_err();
    assert!(matches!(store.add(obj("a", 1313)), Err(StoreError::Index { .. })));
    assert!(pushed.all().is_empty());
}

#[test]
fn list_is_pushed_although_an_object_is_refused_while_it_is_stored() {
    let late = failing_late(|object: &Obj| object.n == 13);
    let (pushed, store) = (Pushed::default(), Indexer::builder(keys()).index("late", late));
    let notes = pushed.clone();
    let store = UndeltaStore::new(store.build().unwrap(), move |state| notes.note(&state));
    let replaced = store.replace(vec![obj("a", 13), obj("b", 2)], "1");
    assert!(matches!(replaced, Err(StoreError::Index { .. })));
    assert_eq!(pushed.all(), [vec![2]]);
}

#[test]
fn push_that_changes_the_store_is_followed_by_another() {
    ends(|| {
        let this: Arc<OnceLock<Undelta>> = Arc::new(OnceLock::new());
        let (store, pushed) = (this.clone(), Pushed::default());
        let notes = pushed.clone();
        let undelta = this.get_or_init(|| {
            UndeltaStore::new(indexer(), move |state| {
                notes.note(&state);
                if state.len() < 3 {
                    let next = state.len() as u64 + 1;
                    store.get().unwrap().add(obj(&next.to_string(), next)).unwrap();
                }
            })
        });
        undelta.add(obj("1", 1)).unwrap();
        assert_eq!(pushed.all(), [vec![1], vec![1, 2], vec![1, 2, 3]]);
    });
}

#[test]
fn change_after_a_panicking_push_pushes_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let store = UndeltaStore::new(indexer(), move |_| {
        assert_ne!(count.fetch_add(1, Ordering::SeqCst), 0, "expected by this test");
    });
    assert!(catch_unwind(AssertUnwindSafe(|| store.add(obj("a", 1)))).is_err());
    store.add(obj("b", 1)).unwrap();
    assert_eq!((calls.load(Ordering::SeqCst), store.list_keys().len()), (2, 2));
}

#[test]
fn panicking_push_loses_no_push_of_another_thread() {
    ends(|| {
        let pushed = Pushed::default();
        let notes = pushed.clone();
        let (begun, other_is_done) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (begins, waits) = (begun.clone(), other_is_done.clone());
        let store = UndeltaStore::new(indexer(), move |state: Vec<Arc<Obj>>| {
            notes.note(&state);
            if state.len() == 1 {
                begins.wait();
                waits.wait();
            }
            assert!(state.len() > 2, "expected by this test: push of {}", state.len());
        });
        thread::scope(|scope| {
            let pushing = scope.spawn(|| store.add(obj("a", 1)));
            begun.wait();
            store.add(obj("b", 2)).unwrap();
            other_is_done.wait();
            let panic = pushing.join().unwrap_err();
            assert_eq!(panic.downcast_ref::<String>().unwrap(), "expected by this test: push of 1");
        });
        assert_eq!(pushed.all(), [vec![1], vec![1, 2]]);
        store.add(obj("c", 3)).unwrap();
        assert_eq!(pushed.all().len(), 3);
    });
}

#[test]
fn concurrent_changes_are_all_pushed_and_the_last_push_has_the_last_state() {
    let rounds: u64 = if cfg!(miri) { 5 } else { 300 };
    let (store, pushed) = undelta();
    let start = Barrier::new(3);
    thread::scope(|scope| {
        for writer in 0..3 {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                start.wait();
                (1..=rounds).for_each(|n| store.add(obj(&writer.to_string(), n)).unwrap());
            });
        }
    });
    let pushed = pushed.all();
    assert_eq!(pushed.len() as u64, 3 * rounds);
    assert_eq!(pushed.last().unwrap(), &[rounds; 3]);
    let sums: Vec<u64> = pushed.iter().map(|state| state.iter().sum()).collect();
    assert!(sums.is_sorted(), "pushed states never go back");
}
