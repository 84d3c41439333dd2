//! Tests of errors whose destructors panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rig::{Arsenal, BombError, failing_store, one_panic, store};
use deltafifo::caches::UndeltaStore;
use deltafifo::{
    BoxError, DeltaFifo, InOrderFifo, Indexer, KeyFunc, KnownObjects, NoMeta, Store, StoreError,
};

#[test]
fn errors_whose_destructors_panic_do_not_end_the_process() {
    // The handler panics as well.
    one_panic(|arsenal| {
        let fifo = DeltaFifo::over(failing_store(arsenal)).build();
        for _ in 0..3 {
            fifo.update(arsenal.bomb("a")).unwrap();
        }
        let _ = fifo.try_pop().unwrap().apply(|_| resume_unwind(Box::new("dropped")));
    });
    one_panic(|arsenal| {
        let fifo = InOrderFifo::over(failing_store(arsenal)).build();
        fifo.replace(arsenal.bombs(), "1").unwrap();
        let _ = fifo.try_pop().unwrap().apply(|_, _| resume_unwind(Box::new("dropped")));
    });
    // The destructors of the objects panic as well.
    one_panic(|arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.update(arsenal.bomb("a")).unwrap();
        let _ = fifo.process(|_| Err::<(), _>(BombError(arsenal.0.clone())));
    });
}

/// Returns an index function that fails for 1 and 2, with errors whose destructors panic.
fn failing_for_small(arsenal: &Arsenal) -> impl Fn(&u32) -> Result<Vec<String>, BoxError> + use<> {
    let dropped = arsenal.0.clone();
    move |number| {
        if *number < 3 { Err(BombError(dropped.clone()).into()) } else { Ok(vec![]) }
    }
}

fn store_of_numbers(
    index: impl Fn(&u32) -> Result<Vec<String>, BoxError> + Send + Sync + 'static,
) -> Indexer<u32, NoMeta> {
    let keys = KeyFunc::custom(NoMeta, |_: &u32| Ok("a".to_owned()));
    Indexer::builder(keys).index("failing", index).build().unwrap()
}

/// Known objects that fail, with errors whose destructors panic.
struct FailingKnown(Arc<AtomicUsize>);

impl KnownObjects<u32> for FailingKnown {
    fn list_keys(&self) -> Vec<String> {
        vec![]
    }

    fn get_by_key(&self, _key: &str) -> Result<Option<Arc<u32>>, BoxError> {
        Err(BombError(self.0.clone()).into())
    }
}

/// Checks a queue with a transformer, which is called only for deletions that can have an effect.
/// So each deletion first asks the known objects.
#[test]
fn deletion_is_queued_although_the_destructor_of_the_known_objects_error_panics() {
    let known = Arc::new(FailingKnown(Arc::default()));
    let keys = KeyFunc::custom(NoMeta, |_: &u32| Ok("a".to_owned()));
    let fifo = DeltaFifo::builder(keys).known_objects(known.clone()).transformer(Ok).build();
    fifo.delete(Arc::new(1)).unwrap();
    fifo.try_pop().unwrap().done();
    let asked = known.0.load(Ordering::Relaxed);
    let mut relist = fifo.begin_replace();
    relist.delete(Arc::new(1)).unwrap();
    fifo.try_pop().unwrap().done();
    assert!(asked > 0 && known.0.load(Ordering::Relaxed) > asked);
}

/// Asserts that `apply` fails, with an error whose destructor panics.
#[track_caller]
fn fails_with_a_bomb(apply: impl FnOnce() -> Result<(), StoreError>) {
    let failed = || drop(apply().expect_err("the index function fails"));
    assert!(catch_unwind(AssertUnwindSafe(failed)).is_err());
}

#[test]
fn object_is_stored_although_the_destructor_of_the_former_ones_index_error_panics() {
    let arsenal = Arsenal(Arc::default());
    let fifo = DeltaFifo::over(store_of_numbers(failing_for_small(&arsenal))).build();
    fifo.add(Arc::new(1)).unwrap();
    fails_with_a_bomb(|| fifo.try_pop().unwrap().apply(|_| ()));
    fifo.update(Arc::new(3)).unwrap();
    fifo.try_pop().unwrap().apply(|_| ()).unwrap();
    assert_eq!(fifo.store().get_by_key("a").as_deref(), Some(&3));

    let fifo = InOrderFifo::over(store_of_numbers(failing_for_small(&arsenal))).build();
    fifo.add(Arc::new(1)).unwrap();
    fails_with_a_bomb(|| fifo.try_pop().unwrap().apply(|_, _| ()));
    fifo.update(Arc::new(3)).unwrap();
    fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
    assert_eq!(fifo.store().get_by_key("a").as_deref(), Some(&3));
}

#[test]
fn handler_gets_every_change_although_the_destructor_of_an_index_error_panics() {
    let arsenal = Arsenal(Arc::default());
    let fifo = DeltaFifo::over(store_of_numbers(failing_for_small(&arsenal))).build();
    fifo.add(Arc::new(1)).unwrap();
    fifo.update(Arc::new(2)).unwrap();
    let mut changes = 0;
    fails_with_a_bomb(|| fifo.try_pop().unwrap().apply(|_| changes += 1));
    assert_eq!(changes, 2);

    let keys = KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string()));
    let store = Indexer::builder(keys).index("failing", failing_for_small(&arsenal));
    let fifo = InOrderFifo::over(store.build().unwrap()).build();
    fifo.replace([1, 2, 3].map(Arc::new).into(), "1").unwrap();
    let mut changes = 0;
    fails_with_a_bomb(|| fifo.try_pop().unwrap().apply(|_, _| changes += 1));
    assert_eq!(changes, 3);
}

/// Checks a list for which the index function fails only after it has been checked.
#[test]
fn list_is_stored_except_for_failures_although_the_destructors_of_their_errors_panic() {
    let arsenal = Arsenal(Arc::default());
    let (fails, calls) = (failing_for_small(&arsenal), AtomicUsize::new(0));
    let keys = KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string()));
    let late = move |number: &u32| {
        if calls.fetch_add(1, Ordering::Relaxed) < 4 { Ok(vec![]) } else { fails(number) }
    };
    let store = Indexer::builder(keys).index("late", late).build().unwrap();
    fails_with_a_bomb(|| store.replace([1, 2, 3, 4].map(Arc::new).into()));
    let mut stored = store.list_keys();
    stored.sort();
    assert_eq!(stored, ["3", "4"]);
}

#[test]
fn refused_objects_errors_are_dropped_although_a_push_of_the_state_panics() {
    one_panic(|arsenal| {
        let dropped = arsenal.0.clone();
        let keys = KeyFunc::custom(NoMeta, move |number: &u32| {
            if *number < 2 {
                Err(BombError(dropped.clone()).into())
            } else {
                Ok(number.to_string())
            }
        });
        let store = Indexer::builder(keys).build().unwrap();
        let store = UndeltaStore::new(store, |_| resume_unwind(Box::new("dropped")));
        let _ = Store::replace_keeping(&store, [0, 1, 2].map(Arc::new).into(), &[], "1");
    });
}
