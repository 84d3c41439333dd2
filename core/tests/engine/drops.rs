//! Tests of containers of objects whose destructors all panic: every object is dropped, and
//! exactly one panic propagates.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::time::{Duration, Instant};

use crate::common::{ends, failing_late};
use deltafifo::caches::{
    CacheMutationDetector, ExpirationCache, Fifo, Heap, MutationCache, Queue, UndeltaStore,
};
use deltafifo::{
    BoxError, DeletedFinalStateUnknown, Delta, DeltaFifo, DeltaType, Deltas, ExplicitKey,
    InOrderFifo, Indexer, KeyFunc, KeyScope, KnownObjects, Labels, Lister, NoMeta, ProcessError,
    ReflectorStore, Selector, Store, StoreError, Transaction,
};

/// An object that counts its drop and panics in it.
struct Bomb {
    key: &'static str,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        // Skips the panic hook, whose output would only be noise.
        resume_unwind(Box::new("dropped"));
    }
}

/// A maker of bombs, with the count of their drops.
struct Arsenal(Arc<AtomicUsize>);

impl Arsenal {
    fn bomb(&self, key: &'static str) -> Arc<Bomb> {
        Arc::new(Bomb { key, dropped: self.0.clone() })
    }

    fn bombs(&self) -> Vec<Arc<Bomb>> {
        ["a", "b", "c"].map(|key| self.bomb(key)).into()
    }
}

/// An accessor that panics when it is asked for the namespace.
struct PanickingMeta;

impl deltafifo::Meta<Bomb> for PanickingMeta {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        resume_unwind(Box::new("dropped"));
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        Some(bomb.key)
    }

    fn version<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        None
    }
}

fn keys() -> KeyFunc<Bomb, NoMeta> {
    KeyFunc::custom(NoMeta, |bomb: &Bomb| Ok(bomb.key.to_owned()))
}

fn store() -> Indexer<Bomb, NoMeta> {
    Indexer::builder(keys())
        .index("key", |bomb: &Bomb| Ok(vec![bomb.key.to_owned()]))
        .build()
        .unwrap()
}

/// Asserts that `work` drops `count` bombs, and that only the first panic propagates.
#[track_caller]
fn all_dropped(count: usize, work: impl Fn(&Arsenal)) {
    let arsenal = Arsenal(Arc::default());
    let panic =
        catch_unwind(AssertUnwindSafe(|| work(&arsenal))).expect_err("the first panic propagates");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
    assert_eq!(arsenal.0.load(Ordering::Relaxed), count);
}

/// Drops `container`, which has bombs, and asserts that the drop panics.
#[track_caller]
fn dropped_with_a_panic<C>(container: C) {
    catch_unwind(AssertUnwindSafe(|| drop(container))).expect_err("it has bombs");
}

/// Asserts that all bombs in `container` are dropped, when it is dropped alone and while a panic
/// unwinds.
#[track_caller]
fn dropped_whole<C>(count: usize, container: impl Fn(&Arsenal) -> C) {
    all_dropped(count, |arsenal| drop(container(arsenal)));
    all_dropped(count, |arsenal| {
        let _container = container(arsenal);
        resume_unwind(Box::new("dropped"));
    });
}

#[test]
fn stores_drop_every_object_although_their_destructors_panic() {
    dropped_whole(3, |arsenal| {
        let store = store();
        store.replace(arsenal.bombs()).unwrap();
        store
    });
    dropped_whole(3, |arsenal| {
        let cache = ExpirationCache::with_ttl(keys(), Duration::ZERO);
        cache.replace(arsenal.bombs()).unwrap();
        cache
    });
    all_dropped(3, |arsenal| {
        let cache = ExpirationCache::with_ttl(keys(), Duration::ZERO);
        cache.replace(arsenal.bombs()).unwrap();
        cache.replace(vec![]).unwrap();
    });
    dropped_whole(3, |arsenal| {
        let detector = CacheMutationDetector::new("bombs", |bomb: &Bomb| bomb.key);
        arsenal.bombs().into_iter().for_each(|bomb| detector.add_object(bomb));
        detector
    });
}

#[test]
fn snapshot_and_object_of_a_detector_are_both_dropped() {
    dropped_whole(2, |arsenal| {
        let dropped = arsenal.0.clone();
        let detector = CacheMutationDetector::new("bombs", move |_: &Bomb| Bombs(dropped.clone()));
        detector.add_object(arsenal.bomb("a"));
        detector
    });
}

/// A detector's snapshot of an object. It counts its drop and panics in it.
struct Bombs(Arc<AtomicUsize>);

impl PartialEq for Bombs {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Bombs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a snapshot")
    }
}

impl Drop for Bombs {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("dropped"));
    }
}

#[test]
fn queues_drop_every_object_although_their_destructors_panic() {
    // Known objects, pending ones, and a pending one of a known key.
    dropped_whole(6, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.process(|item| item.apply(|_| ())).unwrap();
        for key in ["a", "a", "b", "b", "c"] {
            fifo.update(arsenal.bomb(key)).unwrap();
        }
        fifo
    });
    dropped_whole(6, |arsenal| {
        let fifo = InOrderFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
        fifo.update(arsenal.bomb("a")).unwrap();
        fifo.update(arsenal.bomb("b")).unwrap();
        fifo.replace(arsenal.bombs(), "1").unwrap();
        fifo
    });
    dropped_whole(3, |arsenal| {
        let fifo = Fifo::new(keys());
        fifo.replace(arsenal.bombs()).unwrap();
        fifo
    });
    dropped_whole(3, |arsenal| {
        let heap = Heap::new(keys(), |a: &Bomb, b: &Bomb| a.key < b.key);
        heap.bulk_add(arsenal.bombs()).unwrap();
        heap
    });
}

#[test]
fn item_drops_all_its_objects_although_their_destructors_panic() {
    dropped_whole(3, |arsenal| {
        arsenal
            .bombs()
            .into_iter()
            .map(|bomb| Delta::new(DeltaType::Added, bomb))
            .collect::<Deltas<_>>()
    });
    let twice_known = |arsenal: &Arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        for _ in 0..3 {
            fifo.update(arsenal.bomb("a")).unwrap();
        }
        fifo
    };
    // First handled without being applied; then applied, which replaces two objects and keeps one.
    all_dropped(3, |arsenal| twice_known(arsenal).try_pop().unwrap().done());
    all_dropped(3, |arsenal| {
        let fifo = twice_known(arsenal);
        let mut item = fifo.try_pop().unwrap();
        item.apply(|_| ()).unwrap();
        item.done();
    });
    // Here the handler panics as well.
    all_dropped(3, |arsenal| {
        let fifo = twice_known(arsenal);
        let mut item = fifo.try_pop().unwrap();
        let _ = item.apply(|_| resume_unwind(Box::new("dropped")));
    });
    all_dropped(4, |arsenal| {
        let fifo = InOrderFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
        fifo.replace(arsenal.bombs(), "1").unwrap();
        let _ = fifo.try_pop().unwrap().apply(|_, _| resume_unwind(Box::new("dropped")));
    });
}

#[test]
fn objects_that_the_end_of_a_handler_leaves_out_are_all_dropped() {
    // A deletion over a handler that leaves nothing behind has no effect.
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::builder(keys()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let _handled: Result<(), ProcessError<String>> = fifo.process(|_| {
            fifo.delete(arsenal.bomb("a")).unwrap();
            Ok(())
        });
    });
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let item = fifo.try_pop().unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        item.done();
    });
    // Here the handler panics as well.
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let _item = fifo.try_pop().unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        resume_unwind(Box::new("dropped"));
    });
    // Replaced by `apply`, then left out.
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        let mut item = fifo.try_pop().unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        item.apply(|_| ()).unwrap();
        item.done();
    });
}

#[test]
fn deleted_object_is_dropped_although_its_handler_and_its_destructor_panic() {
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_| ()).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        let _ = fifo.try_pop().unwrap().apply(|_| resume_unwind(Box::new("dropped")));
    });
    all_dropped(2, |arsenal| {
        let fifo = InOrderFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        let _ = fifo.try_pop().unwrap().apply(|_, _| resume_unwind(Box::new("dropped")));
    });
}

#[test]
#[cfg_attr(
    miri,
    ignore = "the error that a call returns leaks if a destructor panics on the way out"
)]
fn refused_page_drops_every_object_although_their_destructors_panic() {
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        let mut older = fifo.begin_replace();
        let _newer = fifo.begin_replace();
        let _ = older.offer(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let refuse = |_: Arc<Bomb>| Err("refused".into());
        let fifo = DeltaFifo::over(store()).transformer(refuse).build();
        let _ = fifo.replace(arsenal.bombs(), "1");
    });
    let keyless = || {
        KeyFunc::custom(
            NoMeta,
            |bomb: &Bomb| if bomb.key == "b" { Err("no key".into()) } else { Ok("k".into()) },
        )
    };
    all_dropped(3, |arsenal| {
        let _ = Indexer::builder(keyless()).build().unwrap().replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let _ = InOrderFifo::builder(keyless()).build().replace(arsenal.bombs(), "1");
    });
    all_dropped(3, |arsenal| {
        let fifo = InOrderFifo::over(store()).build();
        fifo.add_scope(KeyScope::keys("all", |_| true)).unwrap();
        let _ = fifo.replace(arsenal.bombs(), "1");
    });
}

#[test]
#[cfg_attr(
    miri,
    ignore = "the error that a call returns leaks if a destructor panics on the way out"
)]
fn refused_list_drops_every_object_although_their_destructors_panic() {
    let no_keys = || KeyFunc::custom(NoMeta, |_: &Bomb| Err("no key".into()));
    let last_has_none = || {
        KeyFunc::custom(NoMeta, |bomb: &Bomb| {
            if bomb.key == "c" { Err("no key".into()) } else { Ok(bomb.key.into()) }
        })
    };
    all_dropped(3, |arsenal| {
        let store = Indexer::builder(no_keys()).build().unwrap();
        let _ = store.replace_keeping(arsenal.bombs(), []);
    });
    // The destructor of the caller's iterator panics as well.
    all_dropped(2, |arsenal| {
        let store = Indexer::builder(no_keys()).build().unwrap();
        let captured = arsenal.bomb("captured");
        let changes = std::iter::repeat_with(|| Transaction::Add(arsenal.bomb("a")));
        let _ = store.transaction(changes.inspect(move |_| assert!(!captured.key.is_empty())));
    });
    all_dropped(3, |arsenal| {
        let _ = Fifo::new(last_has_none()).replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let heap = Heap::new(last_has_none(), |a: &Bomb, b: &Bomb| a.key < b.key);
        let _ = heap.bulk_add(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let heap = Heap::new(keys(), |a: &Bomb, b: &Bomb| a.key < b.key);
        heap.close();
        let _ = heap.replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let heap = Heap::new(keys(), |a: &Bomb, b: &Bomb| a.key < b.key);
        heap.close();
        let _ = heap.bulk_add(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let cache = ExpirationCache::with_ttl(last_has_none(), Duration::ZERO);
        let _ = cache.replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let cache = ExpirationCache::with_ttl(last_has_none(), Duration::ZERO);
        let _ = Store::replace_keeping(&cache, arsenal.bombs(), &[], "1");
    });
}

/// Checks that an iterator of the caller, which may be endless or wait for another thread, is not
/// emptied when a call ends early.
#[test]
fn iterator_of_the_caller_is_not_called_after_an_error_or_a_panic() {
    let store = || {
        let keys = KeyFunc::custom(NoMeta, |number: &u32| {
            if *number == 1 { resume_unwind(Box::new("key")) } else { Ok(number.to_string()) }
        });
        Indexer::builder(keys).build().unwrap()
    };
    let panics = |work: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    ends(move || {
        panics(&|| {
            let all_panic = std::iter::from_fn(|| -> Option<Transaction<u32>> {
                resume_unwind(Box::new("next"))
            });
            let _ = store().transaction(all_panic);
        });
        panics(&|| {
            let (send, receive) = mpsc::channel();
            send.send(Transaction::Add(Arc::new(1))).unwrap();
            let _ = store().transaction(receive);
            // A receiver that waits for the end would wait for ever.
            drop(send);
        });
        let keys = KeyFunc::custom(NoMeta, |number: &u32| {
            if *number == 5 { Err("no key".into()) } else { Ok(number.to_string()) }
        });
        let heap = Heap::new(keys, |a: &u32, b: &u32| a < b);
        let mut taken = 0;
        let endless = (0..).inspect(|_| taken += 1).map(Arc::new);
        assert!(heap.bulk_add(endless).is_err());
        assert_eq!((taken, heap.len()), (6, 0));
    });
}

/// Checks that all objects of a list are dropped although the accessor, which is called before each
/// object is stored, panics.
#[test]
fn list_is_dropped_whole_although_an_accessor_and_the_destructors_panic() {
    let store = || {
        let keys = KeyFunc::custom(PanickingMeta, |bomb: &Bomb| Ok(bomb.key.to_owned()));
        Indexer::builder(keys).build().unwrap()
    };
    all_dropped(3, |arsenal| {
        let _ = store().replace(arsenal.bombs());
    });
    all_dropped(3, |arsenal| {
        let _ = store().replace_keeping(arsenal.bombs(), []);
    });
}

#[test]
fn objects_of_a_reader_are_dropped_although_their_destructors_panic() {
    let filled = |arsenal: &Arsenal| {
        let store = store();
        store.replace(arsenal.bombs()).unwrap();
        store
    };
    let empty = |store: &Indexer<Bomb, NoMeta>| {
        for key in ["a", "b", "c"] {
            store.delete(ExplicitKey(key)).unwrap();
        }
    };
    // The visitor of the first object deletes all, so the reader has the last references.
    all_dropped(3, |arsenal| {
        let store = filled(arsenal);
        store.for_each(|_| empty(&store));
    });
    all_dropped(3, |arsenal| {
        let store = filled(arsenal);
        store.for_each(|_| {
            empty(&store);
            resume_unwind(Box::new("dropped"));
        });
    });
    // The policy empties the cache before it finds the first object expired.
    all_dropped(3, |arsenal| {
        let emptied = Arc::new(OnceLock::<Weak<ExpirationCache<Bomb, NoMeta>>>::new());
        let cache = {
            let emptied = emptied.clone();
            Arc::new(ExpirationCache::new(keys(), move |_: &Bomb, _| {
                emptied.get().unwrap().upgrade().unwrap().replace(vec![]).unwrap();
                true
            }))
        };
        emptied.set(Arc::downgrade(&cache)).unwrap();
        cache.replace(arsenal.bombs()).unwrap();
        cache.list();
    });
}

/// Returns a store whose two index functions, key function and transformer own one bomb each.
fn store_of_bombs(arsenal: &Arsenal) -> Indexer<Bomb, NoMeta> {
    let [by_key, one, another, transform] =
        ["key", "one", "another", "transform"].map(|name| arsenal.bomb(name));
    let keys =
        KeyFunc::custom(NoMeta, move |bomb: &Bomb| Ok(format!("{}{}", bomb.key, by_key.key.len())));
    let value = |held: Arc<Bomb>| move |_: &Bomb| Ok(vec![held.key.to_owned()]);
    Indexer::builder(keys)
        .index("one", value(one))
        .index("another", value(another))
        .transformer(
            move |bomb| if transform.key.is_empty() { Err("no key".into()) } else { Ok(bomb) },
        )
        .build()
        .unwrap()
}

#[test]
fn functions_whose_destructors_panic_are_all_dropped_with_their_store_or_queue() {
    dropped_whole(7, |arsenal| {
        let store = store_of_bombs(arsenal);
        store.replace(arsenal.bombs()).unwrap();
        store
    });
    dropped_whole(5, |arsenal| {
        let fifo = DeltaFifo::over(store_of_bombs(arsenal)).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo
    });
    dropped_whole(5, |arsenal| {
        let fifo = InOrderFifo::over(store_of_bombs(arsenal)).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo
    });
    dropped_whole(3, |arsenal| {
        let (by_key, less) = (arsenal.bomb("key"), arsenal.bomb("less"));
        let keys = KeyFunc::custom(NoMeta, move |bomb: &Bomb| {
            Ok(format!("{}{}", bomb.key, by_key.key.len()))
        });
        let heap = Heap::new(keys, move |a: &Bomb, _: &Bomb| a.key < less.key);
        heap.add(arsenal.bomb("a")).unwrap();
        heap
    });
    let clock = |held: Arc<Bomb>| {
        move || {
            assert!(!held.key.is_empty());
            Instant::now()
        }
    };
    dropped_whole(3, |arsenal| {
        let (policy, by_key) = (arsenal.bomb("policy"), arsenal.bomb("key"));
        let keys = KeyFunc::custom(NoMeta, move |bomb: &Bomb| {
            Ok(format!("{}{}", bomb.key, by_key.key.len()))
        });
        ExpirationCache::new(keys, move |_: &Bomb, _| policy.key.is_empty())
            .clock(clock(arsenal.bomb("clock")))
    });
    dropped_whole(3, |arsenal| {
        let snapshot = arsenal.bomb("snapshot");
        let detector =
            CacheMutationDetector::new("bombs", move |bomb: &Bomb| bomb.key == snapshot.key)
                .clock(clock(arsenal.bomb("clock")));
        detector.add_object(arsenal.bomb("a"));
        detector
    });
    dropped_whole(2, |arsenal| {
        let index = arsenal.bomb("index");
        let values = move |_: &Bomb| Ok(vec![index.key.to_owned()]);
        let store = Indexer::builder(keys()).index("one", values).build().unwrap();
        MutationCache::builder(store.reader()).clock(clock(arsenal.bomb("clock"))).build()
    });
}

#[test]
fn object_that_cannot_be_stored_is_dropped_although_its_accessor_and_destructor_panic() {
    let keys = || KeyFunc::custom(PanickingMeta, |bomb: &Bomb| Ok(bomb.key.to_owned()));
    all_dropped(1, |arsenal| {
        let store = Indexer::builder(keys()).build().unwrap();
        let _stored = store.add(arsenal.bomb("a"));
    });
    all_dropped(1, |arsenal| {
        let fifo = DeltaFifo::over(Indexer::builder(keys()).build().unwrap()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        let _applied = fifo.try_pop().unwrap().apply(|_| ());
    });
}

type Numbered = (u32, Arc<Bomb>);

/// Adds a second scope. The walk over the store that looks for keys of both scopes calls the
/// predicate of the first scope, which deletes every object. The walk then has the last references
/// to the objects of a shard. A shard with a single object would not show whether they are dropped
/// one by one, so each shard has many.
#[test]
fn last_references_of_a_walk_over_the_store_are_dropped_one_by_one() {
    const OBJECTS: u32 = if cfg!(miri) { 200 } else { 5_000 };
    let arsenal = Arsenal(Arc::default());
    let keys = KeyFunc::custom(NoMeta, |(number, _): &Numbered| Ok(number.to_string()));
    let fifo = Arc::new(InOrderFifo::over(Indexer::builder(keys).build().unwrap()).build());
    for number in 0..OBJECTS {
        fifo.add(Arc::new((number, arsenal.bomb("a")))).unwrap();
        fifo.try_pop().unwrap().apply(|_, _| ()).unwrap();
    }
    let of: Arc<OnceLock<Weak<InOrderFifo<Numbered, NoMeta>>>> = Arc::default();
    of.set(Arc::downgrade(&fifo)).unwrap_or_else(|_| unreachable!("set once"));
    let clears = move |_: &str| {
        let fifo = of.get().and_then(Weak::upgrade).unwrap();
        let is_first = fifo.store().len() == OBJECTS as usize;
        for number in (0..OBJECTS).filter(|_| is_first) {
            fifo.delete(DeletedFinalStateUnknown::new(number.to_string(), None)).unwrap();
            drop(catch_unwind(AssertUnwindSafe(|| fifo.try_pop().unwrap().apply(|_, _| ()))));
        }
        false
    };
    fifo.add_scope(KeyScope::keys("a", clears)).unwrap();
    let added = catch_unwind(AssertUnwindSafe(|| fifo.add_scope(KeyScope::keys("b", |_| false))));
    assert!(added.is_err(), "the first panic of a destructor propagates");
    assert_eq!(arsenal.0.load(Ordering::Relaxed), OBJECTS as usize);
}

/// An error that counts its drop and panics in it.
#[derive(Debug)]
struct BombError(Arc<AtomicUsize>);

impl std::fmt::Display for BombError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("meant")
    }
}

impl std::error::Error for BombError {}

impl Drop for BombError {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("dropped"));
    }
}

/// Returns a store with two indexes whose functions fail for every object.
fn failing_store(arsenal: &Arsenal) -> Indexer<Bomb, NoMeta> {
    let [one, other] = [0, 1].map(|_| {
        let dropped = arsenal.0.clone();
        move |_: &Bomb| Err(BombError(dropped.clone()).into())
    });
    Indexer::builder(keys()).index("one", one).index("other", other).build().unwrap()
}

/// Asserts that one panic, with the text `dropped`, propagates from `work`.
#[track_caller]
fn one_panic(work: impl FnOnce(&Arsenal)) {
    let arsenal = Arsenal(Arc::default());
    let panic = catch_unwind(AssertUnwindSafe(|| work(&arsenal))).expect_err("a panic propagates");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
}

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

/// A number of bombs, and a call that drops them.
type DropCase<'c> = (usize, &'c dyn Fn(&Arsenal));

/// Asserts for each case that all its bombs are dropped, and that only the first panic propagates.
#[track_caller]
fn each_drops(cases: &[DropCase<'_>]) {
    for (count, work) in cases {
        all_dropped(*count, work);
    }
}

/// Checks that all objects of a call are dropped although the key function panics, and that only
/// the first panic propagates.
#[test]
fn objects_whose_key_function_and_destructors_panic_are_all_dropped() {
    fn no_key() -> KeyFunc<Bomb, NoMeta> {
        KeyFunc::custom(NoMeta, |_: &Bomb| resume_unwind(Box::new("dropped")))
    }
    fn store() -> Indexer<Bomb, NoMeta> {
        Indexer::builder(no_key()).build().unwrap()
    }
    fn deltas(arsenal: &Arsenal) -> Deltas<Bomb> {
        Deltas::from_iter([Delta::new(DeltaType::Added, arsenal.bomb("a"))])
    }
    let (fifo, in_order) =
        (|| DeltaFifo::over(store()).build(), || InOrderFifo::over(store()).build());
    let all = || KeyScope::keys("all", |_| true);
    each_drops(&[
        (1, &|arsenal| drop(store().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(ReflectorStore::delete(&store(), arsenal.bomb("a").into()))),
        (3, &|arsenal| drop(store().replace(arsenal.bombs()))),
        (3, &|arsenal| drop(store().replace_keeping(arsenal.bombs(), []))),
        (1, &|arsenal| drop(store().transaction([Transaction::Add(arsenal.bomb("a"))]))),
        (1, &|arsenal| {
            drop(store().transaction([Transaction::Delete(arsenal.bomb("a").into())]));
        }),
        (1, &|arsenal| drop(fifo().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(fifo().delete(arsenal.bomb("a")))),
        (1, &|arsenal| drop(fifo().add_if_not_present(deltas(arsenal)))),
        (3, &|arsenal| drop(fifo().add_batch(arsenal.bombs()))),
        (3, &|arsenal| drop(fifo().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| drop(fifo().begin_replace().offer(arsenal.bombs()))),
        (1, &|arsenal| drop(fifo().begin_replace().delete(arsenal.bomb("a")))),
        (3, &|arsenal| {
            let fifo = fifo();
            let scope = fifo.add_scope(all()).unwrap();
            let _ = fifo.begin_replace_in(&scope).offer(arsenal.bombs());
        }),
        (1, &|arsenal| drop(in_order().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(in_order().delete(arsenal.bomb("a")))),
        (3, &|arsenal| drop(in_order().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| drop(in_order().replace_keeping(arsenal.bombs(), [], "1"))),
        (3, &|arsenal| {
            let fifo = in_order();
            let scope = fifo.add_scope(all()).unwrap();
            let _ = fifo.replace_in(&scope, arsenal.bombs(), "1");
        }),
        (1, &|arsenal| drop(Fifo::new(no_key()).add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(Fifo::new(no_key()).replace(arsenal.bombs()))),
        (1, &|arsenal| {
            drop(ReflectorStore::delete(&Fifo::new(no_key()), arsenal.bomb("a").into()));
        }),
        (1, &|arsenal| {
            let cache = ExpirationCache::with_ttl(no_key(), Duration::ZERO);
            let _ = cache.add(arsenal.bomb("a"));
        }),
        (3, &|arsenal| {
            let cache = ExpirationCache::with_ttl(no_key(), Duration::ZERO);
            let _ = Store::replace_keeping(&cache, arsenal.bombs(), &[], "1");
        }),
        (1, &|arsenal| {
            drop(MutationCache::builder(store().reader()).build().mutation(arsenal.bomb("a")));
        }),
    ]);
}

/// An accessor that panics when it is asked for the version.
struct NoVersion;

impl deltafifo::Meta<Bomb> for NoVersion {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        Some(bomb.key)
    }

    fn version<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        resume_unwind(Box::new("dropped"));
    }
}

#[test]
fn objects_whose_version_accessor_and_destructors_panic_are_all_dropped() {
    let builder = || Indexer::builder(KeyFunc::meta_namespace(NoVersion));
    let store = || builder().transformer(Ok).build().unwrap();
    let known_to_fail = || builder().index("x", |_: &Bomb| Err("no value".into())).build().unwrap();
    each_drops(&[
        (1, &|arsenal| drop(store().add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(store().replace_keeping(arsenal.bombs(), []))),
        (1, &|arsenal| drop(known_to_fail().add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(known_to_fail().replace(arsenal.bombs()))),
        (1, &|arsenal| drop(DeltaFifo::over(store()).build().add(arsenal.bomb("a")))),
        (1, &|arsenal| drop(InOrderFifo::over(store()).build().add(arsenal.bomb("a")))),
        (3, &|arsenal| drop(DeltaFifo::over(store()).build().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| drop(InOrderFifo::over(store()).build().replace(arsenal.bombs(), "1"))),
        (3, &|arsenal| {
            let fifo = DeltaFifo::over(builder().build().unwrap()).skip_unchanged(true).build();
            let _ = fifo.replace(arsenal.bombs(), "1");
        }),
        (1, &|arsenal| {
            let cache = MutationCache::builder(store().reader()).build();
            let _ = cache.mutation(arsenal.bomb("a"));
        }),
    ]);
}

#[test]
fn objects_whose_predicate_and_destructors_panic_are_all_dropped() {
    let predicate = || KeyScope::keys("x", |_| resume_unwind(Box::new("dropped")));
    each_drops(&[
        (3, &|arsenal| {
            let fifo = DeltaFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.begin_replace_in(&scope).offer(arsenal.bombs());
        }),
        (1, &|arsenal| {
            let fifo = DeltaFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.begin_replace_in(&scope).delete(arsenal.bomb("a"));
        }),
        (3, &|arsenal| {
            let fifo = InOrderFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.replace_in(&scope, arsenal.bombs(), "1");
        }),
        (3, &|arsenal| {
            let fifo = InOrderFifo::over(store()).build();
            let scope = fifo.add_scope(predicate()).unwrap();
            let _ = fifo.replace_keeping_in(&scope, arsenal.bombs(), [], "1");
        }),
    ]);
}

#[test]
fn objects_are_dropped_one_by_one_although_an_iterator_of_the_caller_panics() {
    let kept = || std::iter::once("x").inspect(|_| resume_unwind(Box::new("dropped")));
    each_drops(&[
        (3, &|arsenal| drop(store().replace_keeping(arsenal.bombs(), kept()))),
        (3, &|arsenal| {
            drop(InOrderFifo::over(store()).build().replace_keeping(arsenal.bombs(), kept(), "1"));
        }),
        (2, &|arsenal| {
            let deltas = [0, 1].map(|_| Delta::new(DeltaType::Added, arsenal.bomb("a")));
            let panics = std::iter::from_fn(|| resume_unwind(Box::new("dropped")));
            drop(deltas.into_iter().chain(panics).collect::<Deltas<_>>());
        }),
    ]);
}

/// An accessor that panics when it is dropped.
struct BombMeta(#[allow(dead_code)] Arc<Bomb>); // It is dropped only.

impl deltafifo::Meta<Bomb> for BombMeta {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        Some(bomb.key)
    }
}

#[test]
fn accessor_and_objects_whose_destructors_panic_are_all_dropped() {
    dropped_whole(4, |arsenal| {
        let keys = KeyFunc::meta_namespace(BombMeta(arsenal.bomb("meta")));
        let store = Indexer::builder(keys).build().unwrap();
        store.replace(arsenal.bombs()).unwrap();
        store
    });
    dropped_whole(4, |arsenal| {
        let heap = Heap::new(
            KeyFunc::meta_namespace(BombMeta(arsenal.bomb("meta"))),
            |a: &Bomb, b: &Bomb| a.key < b.key,
        );
        heap.bulk_add(arsenal.bombs()).unwrap();
        heap
    });
}

type Cleared = Arc<OnceLock<Weak<Indexer<Bomb, Clears>>>>;

/// An accessor that deletes all objects of a store when it is asked for a name or a label, so that
/// its caller has the last references.
struct Clears(Cleared);

impl Clears {
    fn clear(&self) {
        if let Some(store) = self.0.get().and_then(Weak::upgrade) {
            for key in ["a", "b", "c"] {
                store.delete(ExplicitKey(key)).unwrap();
            }
        }
    }
}

impl deltafifo::Meta<Bomb> for Clears {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        Some("n")
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        self.clear();
        Some(bomb.key)
    }
}

impl Labels<Bomb> for Clears {
    fn label<'a>(&self, _: &'a Bomb, _key: &str) -> Option<&'a str> {
        self.clear();
        None
    }
}

#[test]
fn objects_of_a_lister_are_dropped_although_their_destructors_panic() {
    let filled = |arsenal: &Arsenal| {
        let cleared = Cleared::default();
        let keys = KeyFunc::custom(Clears(cleared.clone()), |bomb: &Bomb| Ok(bomb.key.to_owned()));
        let store = Arc::new(Indexer::builder(keys).build().unwrap());
        store.replace(arsenal.bombs()).unwrap();
        cleared.set(Arc::downgrade(&store)).unwrap_or_else(|_| unreachable!("set once"));
        store
    };
    let selector: Selector = "app=x".parse().unwrap();
    each_drops(&[
        (3, &|arsenal| drop(Lister::new(filled(arsenal).reader()).select(&selector))),
        (3, &|arsenal| {
            let store = filled(arsenal);
            drop(Lister::new(store.reader()).namespace("n").get("no such name"));
        }),
        (3, &|arsenal| {
            let store = filled(arsenal);
            drop(Lister::new(store.reader()).namespace("n").get("a"));
        }),
    ]);
}

/// An accessor that returns the label value `x` for the object `c`, and `web` for the others. Once
/// it is armed, it deletes all objects the next time that it is asked for a namespace or a version,
/// and then panics if it was asked for a version.
#[derive(Default)]
struct ClearsArmed(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl ClearsArmed {
    fn arm(&self, clear: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(clear));
    }

    /// Deletes all objects, and returns true, if the accessor is armed.
    fn clear(&self) -> bool {
        let clear = self.0.lock().unwrap().take();
        clear.map(|clear| clear()).is_some()
    }
}

impl deltafifo::Meta<Bomb> for Arc<ClearsArmed> {
    fn namespace<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        Some(if self.clear() { "another" } else { "n" })
    }

    fn name<'a>(&self, bomb: &'a Bomb) -> Option<&'a str> {
        Some(bomb.key)
    }

    /// Returns a version that is not a number, so that a list also asks for the version of the
    /// known object.
    fn version<'a>(&self, _: &'a Bomb) -> Option<&'a str> {
        if self.clear() {
            resume_unwind(Box::new("dropped"));
        }
        Some("x")
    }
}

impl Labels<Bomb> for Arc<ClearsArmed> {
    fn label<'a>(&self, bomb: &'a Bomb, _key: &str) -> Option<&'a str> {
        Some(if bomb.key == "c" { "x" } else { "web" })
    }
}

#[test]
fn objects_of_a_label_in_a_namespace_are_dropped_although_their_destructors_panic() {
    let selector: Selector = "app=web".parse().unwrap();
    each_drops(&[(3, &|arsenal| {
        let meta = Arc::new(ClearsArmed::default());
        let keys = KeyFunc::custom(meta.clone(), |bomb: &Bomb| Ok(bomb.key.to_owned()));
        let store = Arc::new(Indexer::builder(keys).label("app").build().unwrap());
        store.replace(arsenal.bombs()).unwrap();
        let weak = Arc::downgrade(&store);
        let clear = move || {
            let store = weak.upgrade().unwrap();
            for key in ["a", "b", "c"] {
                store.delete(ExplicitKey(key)).unwrap();
            }
        };
        meta.arm(clear);
        drop(Lister::new(store.reader()).namespace("n").select(&selector));
    })]);
}

#[test]
fn known_objects_are_dropped_although_the_accessor_of_their_versions_panics() {
    each_drops(&[(4, &|arsenal| {
        let meta = Arc::new(ClearsArmed::default());
        let keys = KeyFunc::custom(meta.clone(), |bomb: &Bomb| Ok(bomb.key.to_owned()));
        let store = Indexer::builder(keys).build().unwrap();
        let fifo = Arc::new(DeltaFifo::over(store).skip_unchanged(true).build());
        for bomb in [arsenal.bomb("a"), arsenal.bomb("b")] {
            fifo.add(bomb).unwrap();
            fifo.try_pop().unwrap().apply(|_| ()).unwrap();
        }
        let weak = Arc::downgrade(&fifo);
        let clear = move || {
            let fifo = weak.upgrade().unwrap();
            for key in ["a", "b"] {
                fifo.delete(DeletedFinalStateUnknown::new(key, None)).unwrap();
                fifo.try_pop().unwrap().apply(|_| ()).unwrap();
            }
        };
        let list = vec![arsenal.bomb("a"), arsenal.bomb("b")];
        meta.arm(clear);
        let _ = fifo.replace(list, "2");
    })]);
}

#[test]
fn objects_are_dropped_although_the_handler_of_a_queue_trait_panics() {
    let panics = |fifo: &DeltaFifo<Bomb, NoMeta>| {
        Queue::process(fifo, &mut |_, _| resume_unwind(Box::new("handler"))).is_err()
    };
    all_dropped(2, |arsenal| {
        let fifo = DeltaFifo::over(store()).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        fifo.try_pop().unwrap().apply(|_| ()).unwrap();
        fifo.delete(arsenal.bomb("a")).unwrap();
        assert!(panics(&fifo));
    });
    // The destructor of an index function's error panics as well. Its panic is dropped.
    all_dropped(3, |arsenal| {
        let fifo = DeltaFifo::over(failing_store(arsenal)).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        assert!(panics(&fifo));
    });
    all_dropped(3, |arsenal| {
        let fifo = InOrderFifo::over(failing_store(arsenal)).build();
        fifo.add(arsenal.bomb("a")).unwrap();
        assert!(Queue::process(&fifo, &mut |_, _| resume_unwind(Box::new("handler"))).is_err());
    });
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

#[test]
fn handled_object_is_dropped_although_the_order_function_and_its_destructor_panic() {
    all_dropped(3, |arsenal| {
        let panics = Arc::new(AtomicBool::new(false));
        let is_less = {
            let panics = panics.clone();
            move |a: &Bomb, b: &Bomb| {
                if panics.load(Ordering::Relaxed) {
                    resume_unwind(Box::new("dropped"));
                }
                a.key < b.key
            }
        };
        let heap = Heap::new(keys(), is_less);
        heap.add(arsenal.bomb("a")).unwrap();
        heap.add(arsenal.bomb("b")).unwrap();
        let _handled: Result<(), ProcessError<BombError>> = heap.process(|_, _| {
            heap.add(arsenal.bomb("a")).unwrap();
            panics.store(true, Ordering::Relaxed);
            Err(BombError(Arc::default()))
        });
    });
}

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
