//! Tests of containers that are dropped: stores, caches, queues, and the functions that they own.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::rig::{Arsenal, Bomb, all_dropped, dropped_whole, keys, store};
use deltafifo::caches::{CacheMutationDetector, ExpirationCache, Fifo, Heap, MutationCache};
use deltafifo::{DeltaFifo, InOrderFifo, Indexer, KeyFunc, NoMeta};

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

/// Returns a key function that owns a bomb.
fn keys_of_bombs(arsenal: &Arsenal) -> KeyFunc<Bomb, NoMeta> {
    let held = arsenal.bomb("key");
    KeyFunc::custom(NoMeta, move |bomb: &Bomb| Ok(format!("{}{}", bomb.key, held.key.len())))
}

/// Returns a store whose two index functions, key function and transformer own one bomb each.
fn store_of_bombs(arsenal: &Arsenal) -> Indexer<Bomb, NoMeta> {
    let [one, another, transform] = ["one", "another", "transform"].map(|name| arsenal.bomb(name));
    let value = |held: Arc<Bomb>| move |_: &Bomb| Ok(vec![held.key.to_owned()]);
    Indexer::builder(keys_of_bombs(arsenal))
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
        let less = arsenal.bomb("less");
        let heap = Heap::new(keys_of_bombs(arsenal), move |a: &Bomb, _: &Bomb| a.key < less.key);
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
        let policy = arsenal.bomb("policy");
        ExpirationCache::new(keys_of_bombs(arsenal), move |_: &Bomb, _| policy.key.is_empty())
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
