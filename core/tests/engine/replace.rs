//! client-go's `Replace` and the initial population, row by row, on one thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{KNOWING, MODES, Mode, Rig, nameless, obj, tombstone};
use deltafifo::{OfferError, RelistError};

#[test]
fn lists_in_list_order_then_deletes_the_pending_then_the_known_in_order() {
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
fn a_tombstone_holds_the_newest_pending_object_unwrapped() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("a", 1), obj("b", 1), obj("c", 1)], |builder| builder);
        for key in ["a", "b", "c"] {
            rig.fifo.update(obj(key, 2)).unwrap();
        }
        // b: deleted by an object, which is kept; c: by tombstones, of which the newer is kept.
        rig.fifo.delete(obj("b", 3)).unwrap();
        rig.fifo.delete(tombstone("c", Some(obj("c", 4)))).unwrap();
        rig.fifo.replace(vec![], "1").unwrap();
        assert_eq!(rig.drain(), ["a: U2 D(2)", "b: U2 D3", "c: U2 D(4)"], "{mode:?}");
    }
}

#[test]
fn an_explicitly_empty_tombstone_stays_empty_although_the_key_is_known() {
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
fn a_known_object_that_cannot_be_read_gives_a_tombstone_without_one_and_a_vanished_one_none() {
    let rig = Rig::knowing(Mode::Elsewhere, &[obj("a", 1), obj("b", 1)], |builder| builder);
    rig.outside.failing.lock().unwrap().push("a".to_owned());
    rig.outside.ghosts.lock().unwrap().push("ghost".to_owned());
    // Listed, and gone when asked for: client-go cannot tell that from a store that contradicts
    // itself and would report it; here handlers run meanwhile, and the one that deleted it has
    // reported it.
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
fn an_error_midway_keeps_the_prefix_deletes_nothing_and_leaves_the_queue_unpopulated() {
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
        // The first that succeeds is the initial population: x, and deletions of b (pending) and
        // old (where known).
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
fn after_a_failed_first_replace_an_add_populates_with_a_count_of_none() {
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
fn empty_and_first_is_synced_at_return_when_nothing_is_deleted() {
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
fn every_item_of_the_first_replace_is_in_the_initial_list_the_last_too_and_later_ones_are_not() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("gone", 1)], |builder| builder);
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
        rig.fifo.add(obj("c", 1)).unwrap();
        rig.fifo.update(obj("b", 2)).unwrap();
        // A later replace changes nothing about the count.
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
fn a_replace_after_an_add_is_no_initial_population() {
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
fn a_requeued_an_errored_a_panicked_or_a_dropped_initial_item_counts_as_handled() {
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
fn a_forgotten_guard_of_a_later_item_does_not_touch_the_sync() {
    let fifo = Rig::new(Mode::Fused).fifo;
    fifo.replace(vec![obj("a", 1)], "1").unwrap();
    fifo.add(obj("b", 1)).unwrap();
    fifo.pop().unwrap().done();
    std::mem::forget(fifo.pop().unwrap());
    assert!(fifo.has_synced());
}

#[test]
fn what_comes_between_begin_and_commit_cannot_make_the_queue_synced_nor_initial() {
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
fn has_synced_comes_only_after_the_last_initial_handler_has_ended() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.replace(vec![obj("a", 1), obj("b", 1)], "1").unwrap();
        let a = rig.fifo.pop().unwrap();
        let b = rig.fifo.pop().unwrap();
        assert!(a.is_in_initial_list() && b.is_in_initial_list());
        assert!(!rig.fifo.has_synced());
        b.done();
        assert!(!rig.fifo.has_synced());
        // What comes for a key after its initial item was taken does not belong to the initial
        // list.
        rig.fifo.update(obj("a", 2)).unwrap();
        a.done();
        assert!(rig.fifo.has_synced());
        let again = rig.fifo.pop().unwrap();
        assert!(!again.is_in_initial_list());
        again.done();
        assert!(rig.fifo.has_synced(), "once true it stays true");
    }
}

#[test]
fn a_deletion_dropped_by_the_rules_takes_its_mark_with_it() {
    for mode in MODES {
        // The relist lists nothing while the handler of x, which deletes x, runs: no deletion is
        // left to be told.
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
fn within_a_batch_the_queue_is_synced_one_item_after_the_last_of_the_initial_list() {
    let rig = Rig::new(Mode::Fused);
    rig.fifo.replace(vec![obj("a", 1)], "1").unwrap();
    for key in ["b", "c", "d"] {
        rig.fifo.add(obj(key, 1)).unwrap();
    }
    let mut batch = rig.fifo.try_pop_batch(4).unwrap();
    for (key, synced) in [("a", false), ("b", true), ("c", true), ("d", true)] {
        let item = batch.next().unwrap();
        assert_eq!((item.key(), rig.fifo.has_synced()), (key, synced));
        item.done();
    }
}
