//! Tests of concurrent readers and writers, and of objects that are dropped with no lock held.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use super::rig::{indexed, primes};
use crate::common::{Obj, ObjMeta, ends, keys, obj};
use deltafifo::{
    BoxError, Delta, DeltaFifo, DeltaType, ExplicitKey, Indexer, KeyFunc, NAMESPACE_INDEX,
};

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
