//! Tests of client-go's `Replace` and of the initial population, row by row of the table of
//! semantics (`docs/src/semantics.md`), on one thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{KNOWING, MODES, Mode, Rig, ends, nameless, obj, tombstone};
use deltafifo::{OfferError, RelistError};

#[test]
fn replace_queues_the_list_then_deletions_of_pending_then_of_known_keys() {
    for mode in KNOWING {
        let rig = Rig::knowing(
            mode,
            &[obj("k2", 1), obj("k1", 1), obj("listed", 1), obj("p2", 0)],
            |builder| builder,
        );
        for key in ["p2", "z", "p1"] {
            rig.fifo.add(obj(key, 1)).unwrap();
        }
        let committed = rig
            .fifo
            .replace(vec![obj("z", 2), obj("b", 2), obj("listed", 2), obj("a", 2)], "9")
            .unwrap();
        assert_eq!(committed.deleted, 4);
        assert_eq!(rig.fifo.resource_version().as_deref(), Some("9"));
        let expected = [
            "p2: A1 D(1)",
            "z: A1 R2",
            "p1: A1 D(1)",
            "b: R2",
            "listed: R2",
            "a: R2",
            "k1: D(1)",
            "k2: D(1)",
        ];
        assert_eq!(rig.drain(), expected, "{mode:?}");
        assert_eq!(rig.stored(), ["a=2", "b=2", "listed=2", "z=2"]);
    }
    let rig = Rig::new(Mode::Nowhere);
    rig.fifo.add(obj("p", 1)).unwrap();
    assert_eq!(rig.fifo.replace(vec![obj("a", 2)], "9").unwrap().deleted, 1);
    assert_eq!(rig.drain(), ["p: A1 D(1)", "a: R2"]);
    assert_eq!(rig.fifo.replace(vec![], "10").unwrap().deleted, 0);
}

#[test]
fn tombstone_holds_the_newest_pending_object_unwrapped() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("a", 1), obj("b", 1), obj("c", 1)], |builder| builder);
        for key in ["a", "b", "c"] {
            rig.fifo.update(obj(key, 2)).unwrap();
        }
        // b is deleted by an object, which is kept. c is deleted by two tombstones, of which the
        // newer one is kept.
        rig.fifo.delete(obj("b", 3)).unwrap();
        rig.fifo.delete(tombstone("c", Some(obj("c", 4)))).unwrap();
        rig.fifo.replace(vec![], "1").unwrap();
        assert_eq!(rig.drain(), ["a: U2 D(2)", "b: U2 D3", "c: U2 D(4)"], "{mode:?}");
    }
}

#[test]
fn explicitly_empty_tombstone_stays_empty_for_a_known_key() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("a", 1), obj("b", 1)], |builder| builder);
        rig.fifo.delete(tombstone("a", None)).unwrap();
        assert_eq!(rig.pending("a").unwrap(), "D()");
        rig.fifo.replace(vec![], "1").unwrap();
        assert_eq!(rig.pending("b").unwrap(), "D(1)");
        assert_eq!(rig.drain(), ["a: D()", "b: D(1)"], "{mode:?}");
    }
}

#[test]
fn unreadable_known_object_gives_an_empty_tombstone_and_a_vanished_one_none() {
    let rig = Rig::knowing(Mode::Elsewhere, &[obj("a", 1), obj("b", 1)], |builder| builder);
    rig.outside.failing.lock().unwrap().push("a".to_owned());
    rig.outside.ghosts.lock().unwrap().push("ghost".to_owned());
    // The key is listed by the store but gone at the look-up. client-go cannot distinguish this
    // from an inconsistent store and would queue a deletion. Here handlers run concurrently, and
    // the handler that deleted the key has handled its deletion.
    assert_eq!(rig.fifo.replace(vec![], "1").unwrap().deleted, 2);
    assert_eq!(rig.drain(), ["a: D()", "b: D(1)"]);
}

#[test]
fn duplicates_are_both_appended_counted_once_and_popped_once() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1), obj("a", 2), obj("a", 1)], "1").unwrap();
        assert_eq!(rig.handle().unwrap(), "a: R1 R2 R1");
        assert!(!rig.fifo.has_synced());
        assert_eq!(rig.handle().unwrap(), "b: R1");
        assert!(rig.fifo.has_synced());
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn error_within_a_replace_keeps_the_prefix_and_deletes_nothing() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("old", 1)], |builder| builder);
        let error = rig
            .fifo
            .replace(vec![obj("a", 1), obj("b", 1), nameless(), obj("c", 1)], "1")
            .unwrap_err();
        assert!(
            matches!(&error, RelistError::Refused { index: 2, source: OfferError::Key(_) }),
            "{error}"
        );
        assert!(!rig.fifo.has_synced());
        assert_eq!(rig.fifo.resource_version(), None);
        let guard = rig.fifo.pop().unwrap();
        assert!(guard.is_in_initial_list());
        guard.done();
        assert!(!rig.fifo.has_synced());
        // The first relist that succeeds is the initial population: x, and the deletions of b,
        // which is pending, and of old in modes in which it is known.
        rig.fifo.replace(vec![obj("x", 2)], "2").unwrap();
        let expected: &[&str] = if mode == Mode::Nowhere {
            &["b: R1 D(1)", "x: R2"]
        } else {
            &["b: R1 D(1)", "x: R2", "old: D(1)"]
        };
        for shown in expected {
            assert!(!rig.fifo.has_synced());
            assert_eq!(&rig.handle().unwrap(), shown, "{mode:?}");
        }
        assert!(rig.fifo.has_synced());
    }
}

#[test]
fn add_after_a_failed_first_replace_populates_without_initial_items() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.replace(vec![obj("a", 1), nameless()], "1").unwrap_err();
        rig.fifo.add(obj("b", 1)).unwrap();
        assert!(rig.fifo.has_synced());
        for _ in 0..2 {
            let guard = rig.fifo.pop().unwrap();
            assert!(!guard.is_in_initial_list());
            guard.done();
        }
    }
}

#[test]
fn empty_first_replace_is_synced_at_once_if_nothing_is_deleted() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.replace(vec![], "1").unwrap();
        assert!(rig.fifo.has_synced());
        let rig = Rig::knowing(mode, &[obj("a", 1)], |builder| builder);
        rig.fifo.replace(vec![], "1").unwrap();
        assert_eq!(rig.fifo.has_synced(), mode == Mode::Nowhere);
        rig.drain();
        assert!(rig.fifo.has_synced());
    }
}

#[test]
fn exactly_the_items_of_the_first_replace_are_in_the_initial_list() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("gone", 1)], |builder| builder);
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
        rig.fifo.add(obj("c", 1)).unwrap();
        rig.fifo.update(obj("b", 2)).unwrap();
        // A later relist does not change the count.
        rig.fifo.replace(vec![obj("a", 3), obj("b", 3), obj("c", 3), obj("d", 3)], "2").unwrap();
        let mut initial = Vec::new();
        while let Some(mut guard) = rig.fifo.try_pop() {
            assert!(!rig.fifo.has_synced() || !guard.is_in_initial_list());
            if guard.is_in_initial_list() {
                initial.push(guard.key().to_owned());
            }
            rig.apply(&mut guard);
            guard.done();
            assert_eq!(
                rig.fifo.has_synced(),
                initial.len() == if mode == Mode::Nowhere { 2 } else { 3 }
            );
        }
        let expected: &[&str] =
            if mode == Mode::Nowhere { &["a", "b"] } else { &["a", "b", "gone"] };
        assert_eq!(initial, expected, "{mode:?}");
    }
}

#[test]
fn replace_after_an_add_is_not_the_initial_population() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.replace(vec![obj("a", 2), obj("b", 2)], "1").unwrap();
        assert!(rig.fifo.has_synced());
        while let Some(guard) = rig.fifo.try_pop() {
            assert!(!guard.is_in_initial_list());
            guard.done();
        }
    }
}

#[test]
fn requeued_failed_panicked_or_dropped_initial_item_counts_as_handled() {
    for end in ["done", "requeue", "error", "panic", "drop", "guard panic"] {
        let fifo = Rig::new(Mode::Fused).fifo;
        fifo.replace(vec![obj("a", 1)], "1").unwrap();
        match end {
            "done" => fifo.pop().unwrap().done(),
            "requeue" => fifo.pop().unwrap().requeue(),
            "drop" => drop(fifo.pop().unwrap()),
            "error" => fifo.process(|_| Err::<(), _>("no")).map_or((), |()| unreachable!()),
            "panic" => drop(
                fifo.process(|_| -> Result<(), ()> { panic!("expected by this test") })
                    .unwrap_err(),
            ),
            _ => {
                let panicked = catch_unwind(AssertUnwindSafe(|| {
                    let _guard = fifo.pop().unwrap();
                    panic!("expected by this test");
                }));
                assert!(panicked.is_err());
            }
        }
        assert!(fifo.has_synced(), "{end}");
        if let Some(guard) = fifo.try_pop() {
            assert!(["requeue", "drop"].contains(&end), "{end}");
            assert!(!guard.is_in_initial_list());
            guard.done();
        }
        assert!(fifo.has_synced());
    }
}

#[test]
#[cfg_attr(miri, ignore = "forgets a guard, which leaks by design")]
fn leaked_guard_of_a_later_item_does_not_affect_the_sync() {
    let fifo = Rig::new(Mode::Fused).fifo;
    fifo.replace(vec![obj("a", 1)], "1").unwrap();
    fifo.add(obj("b", 1)).unwrap();
    fifo.pop().unwrap().done();
    std::mem::forget(fifo.pop().unwrap());
    assert!(fifo.has_synced());
}

#[test]
fn offer_between_begin_and_commit_neither_syncs_nor_is_initial() {
    for mode in MODES {
        let rig = Rig::new(mode);
        let mut relist = rig.fifo.begin_replace();
        rig.fifo.add(obj("x", 1)).unwrap();
        rig.fifo.update(obj("y", 1)).unwrap();
        assert!(!rig.fifo.has_synced());
        relist.offer(vec![obj("a", 1)]).unwrap();
        for (key, initial) in [("x", false), ("y", false), ("a", true)] {
            let mut guard = rig.fifo.pop().unwrap();
            assert_eq!((guard.key(), guard.is_in_initial_list()), (key, initial), "{mode:?}");
            rig.apply(&mut guard);
            guard.done();
            assert!(!rig.fifo.has_synced());
        }
        relist.commit("1").unwrap();
        assert!(rig.fifo.has_synced());
    }
}

#[test]
fn has_synced_is_true_only_after_the_last_initial_handler() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
        let a = rig.fifo.pop().unwrap();
        let b = rig.fifo.pop().unwrap();
        assert!(a.is_in_initial_list() && b.is_in_initial_list());
        assert!(!rig.fifo.has_synced());
        b.done();
        assert!(!rig.fifo.has_synced());
        // A delta that arrives after the key's initial item was taken does not belong to the
        // initial list.
        rig.fifo.update(obj("a", 2)).unwrap();
        a.done();
        assert!(rig.fifo.has_synced());
        let again = rig.fifo.pop().unwrap();
        assert!(!again.is_in_initial_list());
        again.done();
        assert!(rig.fifo.has_synced(), "has_synced stays true");
    }
}

#[test]
fn deletion_dropped_by_the_rules_drops_its_initial_mark() {
    for mode in MODES {
        // The relist lists nothing, and the handler of x deletes x at the same time. No deletion
        // remains to be handed out.
        let rig = Rig::knowing(mode, &[obj("x", 1)], |builder| builder);
        let relist = rig.fifo.begin_replace();
        rig.fifo.update(obj("x", 2)).unwrap();
        rig.fifo.delete(obj("x", 3)).unwrap();
        let mut guard = rig.fifo.pop().unwrap();
        drop(relist);
        let relist = rig.fifo.begin_replace();
        rig.apply(&mut guard);
        relist.commit("1").unwrap();
        guard.done();
        assert_eq!(rig.drain(), [""; 0], "{mode:?}");
        assert!(rig.fifo.has_synced(), "{mode:?}");
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn batch_syncs_the_queue_with_the_handler_of_the_last_initial_item() {
    let rig = Rig::new(Mode::Fused);
    rig.fifo.replace(["a", "b", "c"].map(|key| obj(key, 1)).into(), "1").unwrap();
    // So that the deltas of `b` are a list.
    for key in ["b", "d", "e"] {
        rig.fifo.add(obj(key, 1)).unwrap();
    }
    let mut batch = rig.fifo.try_pop_batch(5).unwrap();
    for (key, synced) in [("a", false), ("b", false), ("c", true), ("d", true), ("e", true)] {
        let item = batch.next().unwrap();
        assert_eq!(item.key(), key);
        item.done();
        assert_eq!(rig.fifo.has_synced(), synced, "after {key}");
    }
}

#[test]
fn consumer_can_wait_for_the_initial_population_between_two_items_of_its_batch() {
    ends(|| {
        let rig = Rig::new(Mode::Fused);
        rig.fifo.replace(vec![obj("a", 1)], "1").unwrap();
        rig.fifo.add(obj("b", 1)).unwrap();
        let mut batch = rig.fifo.try_pop_batch(2).unwrap();
        batch.next().unwrap().done();
        rig.fifo.wait_for_sync().unwrap();
        assert_eq!(batch.next().unwrap().key(), "b");
    });
}
