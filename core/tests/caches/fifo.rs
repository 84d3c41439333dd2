//! Tests of `Fifo`, the queue that holds the newest object of each key, in the order of the keys'
//! first offers.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Obj, ObjMeta, ends, keys, nameless, obj, tombstone};
use deltafifo::caches::{Fifo, Heap};
use deltafifo::{BoxError, Closed, ExplicitKey, KeyFunc, NoMeta, ProcessError};

fn fifo() -> Fifo<Obj, ObjMeta> {
    Fifo::new(keys())
}

/// Pops until the queue is empty. Returns the keys and numbers of the objects.
fn popped(fifo: &Fifo<Obj, ObjMeta>) -> Vec<(String, u64)> {
    (0..fifo.len())
        .map(|_| fifo.pop().unwrap())
        .map(|object| (object.name.clone(), object.n))
        .collect()
}

fn pairs<const N: usize>(pairs: [(&str, u64); N]) -> Vec<(String, u64)> {
    pairs.map(|(key, n)| (key.to_owned(), n)).to_vec()
}

#[test]
fn each_producers_objects_are_popped_in_its_order() {
    let amount: u64 = if cfg!(miri) { 20 } else { 500 };
    let fifo = fifo();
    thread::scope(|scope| {
        for producer in ["a", "b"] {
            let fifo = &fifo;
            scope.spawn(move || {
                (1..=amount).for_each(|n| fifo.add(obj(&format!("{producer}/{n}"), n)).unwrap());
            });
        }
        let mut last = BTreeMap::new();
        for _ in 0..2 * amount {
            let object = fifo.pop().unwrap();
            let before = last.insert(object.ns.clone(), object.n).unwrap_or(0);
            assert_eq!(object.n, before + 1, "of {}", object.ns);
        }
    });
    assert!(fifo.is_empty());
}

#[test]
fn update_replaces_the_queued_object_which_is_popped_once() {
    let fifo = fifo();
    fifo.add(obj("foo", 10)).unwrap();
    fifo.update(obj("foo", 15)).unwrap();
    assert_eq!(fifo.list().iter().map(|object| object.n).collect::<Vec<_>>(), [15]);
    assert_eq!((fifo.list_keys(), fifo.len(), fifo.is_empty()), (vec!["foo".to_owned()], 1, false));
    assert_eq!(fifo.get(&*obj("foo", 0)).unwrap().unwrap().n, 15);
    assert_eq!(popped(&fifo), pairs([("foo", 15)]));
    assert!(fifo.get(&*obj("foo", 0)).unwrap().is_none());
}

#[test]
fn replace_discards_the_queue_and_keeps_list_order() {
    let fifo = fifo();
    fifo.add(obj("foo", 10)).unwrap();
    fifo.add(obj("gone", 1)).unwrap();
    fifo.replace(vec![obj("new", 1), obj("foo", 15), obj("new", 2)]).unwrap();
    assert_eq!(popped(&fifo), pairs([("new", 2), ("foo", 15)]));
}

#[test]
fn queued_key_keeps_its_place_and_popped_key_joins_the_end() {
    let fifo = fifo();
    for (key, n) in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)] {
        fifo.add(obj(key, n)).unwrap();
    }
    assert_eq!(fifo.pop().unwrap().n, 13);
    fifo.add(obj("foo", 14)).unwrap();
    assert_eq!(popped(&fifo), pairs([("bar", 1), ("zab", 30), ("foo", 14)]));
}

#[test]
fn deleted_key_is_not_popped_and_returns_at_the_end() {
    let fifo = fifo();
    for key in ["a", "b", "c", "d"] {
        fifo.add(obj(key, 1)).unwrap();
    }
    fifo.delete(&*obj("a", 0)).unwrap();
    fifo.delete(ExplicitKey("b")).unwrap();
    fifo.delete(&tombstone("c", None)).unwrap();
    fifo.delete(ExplicitKey("none")).unwrap();
    fifo.add(obj("a", 2)).unwrap();
    assert_eq!(popped(&fifo), pairs([("d", 1), ("a", 2)]));
}

#[test]
fn failed_object_is_requeued_unless_a_newer_one_is_queued() {
    let fifo = fifo();
    fifo.add(obj("a", 1)).unwrap();
    fifo.add(obj("b", 1)).unwrap();
    let failed = fifo.process(|object, _| Err::<(), _>(object.clone()));
    let Err(ProcessError::Handler { error: failed, .. }) = failed else { unreachable!() };
    fifo.add_if_not_present(failed.clone()).unwrap();
    assert_eq!(fifo.len(), 2);
    fifo.add(obj("a", 2)).unwrap();
    fifo.add_if_not_present(failed).unwrap();
    assert_eq!(popped(&fifo), pairs([("b", 1), ("a", 2)]));
}

#[test]
fn queue_is_synced_once_the_initial_list_is_popped_or_another_offer_came_first() {
    type Act = fn(&Fifo<Obj, ObjMeta>);
    let list: Act = |fifo| fifo.replace(vec![obj("a", 1), obj("b", 2)]).unwrap();
    let pop: Act = |fifo| drop(fifo.pop().unwrap());
    let cases: [(&[Act], bool); 13] = [
        (&[], false),
        (&[|fifo| fifo.add(obj("a", 1)).unwrap()], true),
        (&[|fifo| fifo.add_if_not_present(obj("a", 1)).unwrap()], true),
        (&[|fifo| fifo.delete(ExplicitKey("a")).unwrap()], true),
        (&[|fifo| assert!(fifo.add(nameless()).is_err())], false),
        (&[|fifo| fifo.replace(vec![]).unwrap()], true),
        (&[list], false),
        (&[list, pop], false),
        (&[list, pop, pop], true),
        (&[list, |fifo| fifo.add(obj("c", 1)).unwrap(), pop, pop], true),
        // In client-go these two never sync: they wait for the pop of a key that is not queued.
        (&[list, pop, |fifo| fifo.delete(ExplicitKey("b")).unwrap()], true),
        (&[list, |fifo| fifo.replace(vec![obj("b", 3), obj("c", 3)]).unwrap(), pop], true),
        (&[list, |fifo| fifo.replace(vec![obj("c", 3), obj("a", 3)]).unwrap(), pop], false),
    ];
    for (number, (acts, synced)) in cases.into_iter().enumerate() {
        let fifo = fifo();
        for act in acts {
            act(&fifo);
        }
        assert_eq!(fifo.has_synced(), synced, "case {number}");
    }
}

#[test]
fn every_way_to_sync_wakes_waiters_for_the_sync() {
    type Act = fn(&Fifo<Obj, ObjMeta>);
    let cases: [(bool, Act); 7] = [
        (false, |fifo| fifo.add(obj("a", 1)).unwrap()),
        (false, |fifo| fifo.delete(ExplicitKey("a")).unwrap()),
        (false, |fifo| fifo.replace(vec![]).unwrap()),
        (true, |fifo| fifo.delete(ExplicitKey("a")).unwrap()),
        (true, |fifo| fifo.replace(vec![obj("b", 1)]).unwrap()),
        (true, |fifo| drop(fifo.pop().unwrap())),
        (true, |fifo| fifo.process(|_, _| Ok::<_, Closed>(())).unwrap()),
    ];
    // Repeated, so that in some runs the waiting thread already sleeps.
    ends(move || {
        for (listed, act) in cases.into_iter().cycle().take(if cfg!(miri) { 7 } else { 700 }) {
            let fifo = fifo();
            if listed {
                fifo.replace(vec![obj("a", 1)]).unwrap();
            }
            let start = Barrier::new(2);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    start.wait();
                    fifo.wait_for_sync()
                });
                start.wait();
                thread::yield_now();
                act(&fifo);
                assert_eq!(waiting.join().unwrap(), Ok(()));
            });
        }
    });
}

#[test]
fn list_with_an_object_without_a_key_changes_nothing() {
    let fifo = fifo();
    fifo.replace(vec![obj("a", 1), nameless()]).unwrap_err();
    assert!(fifo.is_empty() && !fifo.has_synced());
    fifo.replace(vec![obj("b", 1)]).unwrap();
    fifo.replace(vec![obj("a", 1), nameless()]).unwrap_err();
    assert_eq!(popped(&fifo), pairs([("b", 1)]));
}

#[test]
fn close_wakes_every_pop_and_queued_objects_can_still_be_popped() {
    ends(|| {
        let fifo = fifo();
        thread::scope(|scope| {
            let popping: Vec<_> = (0..10).map(|_| scope.spawn(|| fifo.pop())).collect();
            fifo.close();
            assert!(popping.into_iter().all(|popping| popping.join().unwrap() == Err(Closed)));
        });
        fifo.add(obj("a", 1)).unwrap();
        assert_eq!(
            fifo.pop().unwrap().n,
            1,
            "an add after the close still queues, as in client-go"
        );
        assert_eq!(fifo.pop(), Err(Closed));
    });
}

#[test]
fn object_behind_a_running_handler_is_popped_after_a_close() {
    ends(|| {
        let fifo = fifo();
        fifo.add(obj("a", 1)).unwrap();
        let (closed, is_closed) = mpsc::channel();
        thread::scope(|scope| {
            let handling = scope.spawn(|| {
                fifo.process(|_, _| {
                    fifo.add(obj("a", 2)).unwrap();
                    fifo.close();
                    closed.send(()).unwrap();
                    Ok::<_, BoxError>(())
                })
            });
            is_closed.recv().unwrap();
            // One of several consumers gets the item. The others return once nothing more can
            // come.
            let popping: Vec<_> = (0..3).map(|_| scope.spawn(|| fifo.pop())).collect();
            let popped: Vec<_> =
                popping.into_iter().filter_map(|popping| popping.join().unwrap().ok()).collect();
            assert_eq!(popped.iter().map(|object| object.n).collect::<Vec<_>>(), [2]);
            handling.join().unwrap().unwrap();
        });
        assert_eq!(fifo.pop(), Err(Closed));
    });
}

#[test]
fn blocked_pop_wakes_for_an_add_a_list_and_the_end_of_a_handler() {
    ends(|| {
        let fifo = fifo();
        thread::scope(|scope| {
            let popping = scope.spawn(|| fifo.pop().unwrap().n);
            fifo.add(obj("a", 1)).unwrap();
            assert_eq!(popping.join().unwrap(), 1);
            let popping: Vec<_> = (0..2).map(|_| scope.spawn(|| fifo.pop().unwrap().n)).collect();
            fifo.replace(vec![obj("a", 2), obj("b", 2)]).unwrap();
            assert!(popping.into_iter().all(|popping| popping.join().unwrap() == 2));
            fifo.add(obj("a", 3)).unwrap();
            let mut popping = None;
            fifo.process(|_, _| {
                fifo.add(obj("a", 4)).unwrap();
                popping = Some(scope.spawn(|| fifo.pop().unwrap().n));
                Ok::<_, Closed>(())
            })
            .unwrap();
            assert_eq!(popping.unwrap().join().unwrap(), 4);
        });
    });
}

#[test]
fn offer_during_a_handler_of_its_key_waits_for_the_end() {
    let fifo = fifo();
    fifo.add(obj("a", 1)).unwrap();
    fifo.add(obj("b", 1)).unwrap();
    fifo.process(|object, _| {
        assert_eq!(
            (object.n, fifo.get_by_key("a")),
            (1, None),
            "the object of a running handler is not queued"
        );
        fifo.add(obj("a", 2)).unwrap();
        fifo.update(obj("a", 3)).unwrap();
        fifo.add_if_not_present(obj("a", 4)).unwrap();
        assert_eq!(fifo.get_by_key("a").unwrap().n, 3);
        assert_eq!(fifo.pop().unwrap().name, "b", "another key is not blocked");
        fifo.add(obj("c", 1)).unwrap();
        Ok::<_, Closed>(())
    })
    .unwrap();
    assert_eq!(popped(&fifo), pairs([("a", 3), ("c", 1)]));

    fifo.add(obj("a", 5)).unwrap();
    fifo.process(|_, _| {
        fifo.add(obj("a", 6)).unwrap();
        fifo.delete(ExplicitKey("a")).unwrap();
        fifo.replace(vec![obj("a", 7), obj("d", 7)]).unwrap();
        assert_eq!(fifo.pop().unwrap().name, "d");
        Ok::<_, Closed>(())
    })
    .unwrap();
    assert_eq!(popped(&fifo), pairs([("a", 7)]));
}

#[test]
fn end_of_an_initial_handler_counts_despite_offers_during_it() {
    let fifo = fifo();
    fifo.replace(vec![obj("a", 1)]).unwrap();
    fifo.process(|_, initial| {
        assert!(initial);
        fifo.add(obj("a", 2)).unwrap();
        fifo.replace(vec![obj("a", 3)]).unwrap();
        assert!(!fifo.has_synced());
        Ok::<_, Closed>(())
    })
    .unwrap();
    assert!(fifo.has_synced());
    assert!(!fifo.process(|_, initial| Ok::<_, Closed>(initial)).unwrap());
}

#[test]
fn handlers_of_one_key_never_overlap_and_see_the_last_state() {
    let rounds: u64 = if cfg!(miri) { 10 } else { 1_000 };
    ends(move || {
        let fifo = fifo();
        let running: [AtomicUsize; 3] = Default::default();
        let start = Barrier::new(4);
        thread::scope(|scope| {
            let consumers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut last = [0; 3];
                        start.wait();
                        while fifo
                            .process(|object, _| {
                                let key = object.name.parse::<usize>().unwrap();
                                assert_eq!(
                                    running[key].fetch_add(1, Ordering::SeqCst),
                                    0,
                                    "two concurrent handlers"
                                );
                                last[key] = object.n;
                                thread::yield_now();
                                running[key].fetch_sub(1, Ordering::SeqCst);
                                Ok::<_, Closed>(())
                            })
                            .is_ok()
                        {}
                        last
                    })
                })
                .collect();
            start.wait();
            for n in 1..=rounds {
                (0..3).for_each(|key| fifo.add(obj(&key.to_string(), n)).unwrap());
            }
            while !fifo.is_empty() {
                thread::yield_now();
            }
            fifo.close();
            let lasts: Vec<_> =
                consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect();
            (0..3)
                .for_each(|key| assert_eq!(lasts.iter().map(|last| last[key]).max(), Some(rounds)));
        });
    });
}

#[test]
fn panicking_handler_leaves_its_key_usable() {
    let fifo = fifo();
    fifo.add(obj("a", 1)).unwrap();
    let panicked = fifo.process(|_, _| -> Result<(), Closed> {
        fifo.add(obj("a", 2)).unwrap();
        panic!("expected by this test")
    });
    assert!(matches!(panicked, Err(ProcessError::Panicked { key, .. }) if key == "a"));
    assert_eq!(popped(&fifo), pairs([("a", 2)]));
}

#[test]
fn panicking_key_function_changes_nothing() {
    let keys = KeyFunc::custom(NoMeta, |name: &String| {
        assert!(!name.is_empty(), "expected by this test");
        Ok(name.clone())
    });
    let fifo = Fifo::new(keys);
    let object = |name: &str| Arc::new(name.to_owned());
    fifo.add(object("a")).unwrap();
    assert!(
        catch_unwind(AssertUnwindSafe(|| fifo.replace(vec![object("b"), object("")]))).is_err()
    );
    assert!(catch_unwind(AssertUnwindSafe(|| fifo.add(object("")))).is_err());
    assert_eq!(fifo.list_keys(), ["a"]);
}

/// An object that reads its queue when it is dropped. The read hangs if the drop happens under the
/// queue's lock.
struct ReadsOnDrop {
    key: &'static str,
    queues: Weak<Queues>,
}

struct Queues {
    fifo: Fifo<ReadsOnDrop, NoMeta>,
    heap: Heap<ReadsOnDrop, NoMeta>,
}

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        if let Some(queues) = self.queues.upgrade() {
            drop((queues.fifo.list_keys(), queues.heap.list_keys()));
        }
    }
}

#[test]
fn no_object_is_dropped_under_the_lock() {
    ends(|| {
        let keys = || KeyFunc::custom(NoMeta, |object: &ReadsOnDrop| Ok(object.key.to_owned()));
        let heap = Heap::new(keys(), |a: &ReadsOnDrop, b: &ReadsOnDrop| a.key < b.key);
        let queues = Arc::new(Queues { fifo: Fifo::new(keys()), heap });
        let object = |key| Arc::new(ReadsOnDrop { key, queues: Arc::downgrade(&queues) });
        let Queues { fifo, heap } = &*queues;
        for key in ["a", "a", "b", "c"] {
            fifo.add(object(key)).unwrap();
            heap.add(object(key)).unwrap();
        }
        fifo.add_if_not_present(object("a")).unwrap();
        heap.add_if_not_present(object("a")).unwrap();
        fifo.delete(ExplicitKey("b")).unwrap();
        heap.delete(ExplicitKey("b")).unwrap();
        fifo.replace(vec![object("a"), object("a"), object("d")]).unwrap();
        heap.replace(vec![object("a"), object("a"), object("d")]).unwrap();
        fifo.process(|_, _| Ok::<_, Closed>(())).unwrap();
        heap.process(|_, _| Ok::<_, Closed>(())).unwrap();
        drop((fifo.pop(), heap.pop()));
        heap.close();
        heap.add(object("a")).unwrap_err();
    });
}

#[test]
fn key_deleted_and_added_again_is_at_the_end() {
    let fifo = fifo();
    for (key, n) in [("a", 1), ("b", 2)] {
        fifo.add(obj(key, n)).unwrap();
    }
    fifo.delete(ExplicitKey("a")).unwrap();
    fifo.add(obj("a", 3)).unwrap();
    assert_eq!(popped(&fifo), pairs([("b", 2), ("a", 3)]));
}

#[test]
fn pop_waiting_for_a_handler_ends_when_its_object_is_deleted() {
    // A pop that starts too late finds an empty queue. In some of these rounds it already sleeps.
    let rounds = if cfg!(miri) { 2 } else { 20 };
    ends(move || {
        for _ in 0..rounds {
            let fifo = fifo();
            fifo.add(obj("a", 1)).unwrap();
            thread::scope(|scope| {
                let handler = |_: &_, _| {
                    fifo.add(obj("a", 2)).unwrap();
                    fifo.close();
                    let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| fifo.pop())).collect();
                    // By time, because a thousand turns on a busy machine take minutes.
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(1) {
                        thread::yield_now();
                    }
                    fifo.delete(ExplicitKey("a")).unwrap();
                    assert!(waiting.into_iter().all(|pop| pop.join().unwrap() == Err(Closed)));
                    Ok::<_, BoxError>(())
                };
                fifo.process(handler).unwrap();
            });
        }
    });
}
