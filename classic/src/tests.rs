//! Tests of behaviour that the conformance vectors do not cover: blocking, failing look-ups, and
//! the indexes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use deltafifo::{BoxError, Closed, KeyFunc, KnownObjects, Meta, ProcessError};

use super::{Change, MutexFifo, MutexStore, Popped, Verdict};

type Obj = (&'static str, &'static str);

struct Pair;

impl Meta<Obj> for Pair {
    fn namespace<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(object.0)
    }

    fn name<'a>(&self, object: &'a Obj) -> Option<&'a str> {
        Some(object.1)
    }
}

fn done(_: &Popped<Obj>) -> Verdict<()> {
    Verdict::Done
}

#[test]
fn blocked_pops_share_the_items_and_end_on_close() {
    let fifo = MutexFifo::builder(KeyFunc::meta_namespace(Pair)).build();
    let handled = AtomicUsize::new(0);
    let popping = Barrier::new(5);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                popping.wait();
                loop {
                    match fifo.pop(done) {
                        Ok(()) => handled.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            return assert!(matches!(error, ProcessError::Closed(Closed)));
                        }
                    };
                }
            });
        }
        popping.wait();
        fifo.replace(vec![Arc::new(("a", "x")), Arc::new(("a", "y"))], "1").unwrap();
        fifo.add(Arc::new(("b", "z"))).unwrap();
        // Closed only when nothing is left, so that the blocked pops are woken by the close.
        while handled.load(Ordering::Relaxed) < 3 {
            thread::yield_now();
        }
        fifo.close();
    });
    assert_eq!(handled.into_inner(), 3);
    assert!(fifo.has_synced());
}

#[test]
fn requeued_item_is_popped_again_unless_newer_deltas_exist() {
    let fifo = MutexFifo::builder(KeyFunc::meta_namespace(Pair)).build();
    fifo.add(Arc::new(("a", "x"))).unwrap();
    assert!(matches!(fifo.try_pop(|_| Verdict::Requeue::<()>(None)), Some(Ok(()))));
    let requeued = fifo.get_by_key("a/x").unwrap();
    assert_eq!(requeued.len(), 1);
    fifo.update(Arc::new(("a", "x"))).unwrap();
    fifo.add_if_not_present(requeued).unwrap();
    assert_eq!(fifo.get_by_key("a/x").unwrap().len(), 2);
}

#[test]
fn queue_is_usable_after_a_handler_panics() {
    let fifo = MutexFifo::builder(KeyFunc::meta_namespace(Pair)).build();
    fifo.add(Arc::new(("a", "x"))).unwrap();
    fifo.add(Arc::new(("a", "y"))).unwrap();
    let panicking = || fifo.try_pop(|_| -> Verdict<()> { panic!("deliberate") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
    assert!(matches!(
        fifo.try_pop(|item| {
            assert_eq!(&**item.key(), "a/y");
            done(item)
        }),
        Some(Ok(()))
    ));
    assert!(fifo.try_pop(done).is_none());
}

struct Broken;

impl KnownObjects<Obj> for Broken {
    fn list_keys(&self) -> Vec<String> {
        vec!["a/x".to_owned()]
    }

    fn get_by_key(&self, _key: &str) -> Result<Option<Arc<Obj>>, BoxError> {
        Err("broken".into())
    }
}

#[test]
fn failing_lookup_does_not_suppress_a_deletion() {
    let fifo =
        MutexFifo::builder(KeyFunc::meta_namespace(Pair)).known_objects(Arc::new(Broken)).build();
    fifo.resync();
    assert!(fifo.list_keys().is_empty());
    fifo.delete(Arc::new(("b", "y"))).unwrap();
    fifo.replace(Vec::new(), "1").unwrap();
    let mut keys = fifo.list_keys();
    keys.sort();
    assert_eq!(keys, ["a/x", "b/y"]);
    let known_only = fifo.get_by_key("a/x").unwrap();
    assert!(known_only[0].object.is_tombstone());
    assert!(known_only[0].object.object().is_none());
}

#[test]
fn indexes_follow_an_object_that_changes_its_values() {
    let keys = KeyFunc::custom(Pair, |object: &Obj| Ok(object.1.to_owned()));
    let store = MutexStore::indexed(keys, |object: &Obj| format!("in {}", object.0));
    let fifo = MutexFifo::over(Arc::new(store)).build();
    let store = fifo.store().unwrap();
    let mut changes = Vec::new();
    fifo.replace(vec![Arc::new(("a", "x"))], "1").unwrap();
    fifo.update(Arc::new(("b", "x"))).unwrap();
    fifo.delete(Arc::new(("b", "x"))).unwrap();
    fifo.try_pop(|item| {
        store.apply(item, |change| {
            let counts = ["a", "b"].map(|namespace| store.by_namespace(namespace).len());
            assert_eq!(["in a", "in b"].map(|value| store.by_index(value).len()), counts);
            changes.push(match change {
                Change::Added { is_in_initial_list, .. } => ("added", is_in_initial_list, counts),
                Change::Updated { old, .. } => ("updated", old.0 == "a", counts),
                Change::Deleted { old, .. } => ("deleted", old.is_some(), counts),
            });
        });
        Verdict::<()>::Done
    });
    assert_eq!(
        changes,
        [("added", true, [1, 0]), ("updated", true, [0, 1]), ("deleted", true, [0, 0])]
    );
    assert!(store.is_empty());
}
