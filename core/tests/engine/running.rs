//! Tests of keys whose handler runs. An offer during a handler has the effect of an offer just
//! after it, and no way of ending a handler damages the queue.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::common::{Fifo, Guard, KNOWING, MODES, Mode, Rig, deltas, obj, show, tombstone};
use deltafifo::DeltaType::{Added, Sync};
use deltafifo::{Batch, DeltaFifo, Indexer, KeyFunc, NoMeta, Popped, ProcessError, StoreError};

/// Runs `check` while the key `x` is handled, with the guard of the item. The item is an update to
/// the object with number 2. If the mode has known objects, `x` is known with the number 1.
fn running(mode: Mode, check: impl FnOnce(&Rig, Guard<'_>)) {
    let rig = Rig::knowing(mode, &[obj("x", 1)], |builder| builder);
    rig.fifo.update(obj("x", 2)).unwrap();
    let guard = rig.fifo.pop().unwrap();
    check(&rig, guard);
    assert_eq!(rig.fifo.pending_deltas(), 0);
}

fn finish(rig: &Rig, mut guard: Guard<'_>) {
    rig.apply(&mut guard);
    guard.done();
}

#[test]
fn delete_during_a_handler_sees_the_stored_object() {
    for mode in MODES {
        running(mode, |rig, guard| {
            rig.fifo.delete(obj("x", 3)).unwrap();
            assert!(rig.fifo.try_pop().is_none(), "per key handlers never overlap");
            finish(rig, guard);
            let expected: &[&str] = if mode == Mode::Nowhere { &[] } else { &["x: D3"] };
            assert_eq!(rig.drain(), expected, "{mode:?}");
            assert_eq!(rig.stored(), [""; 0]);
        });
    }
}

#[test]
fn newest_state_is_uncertain_during_a_handler() {
    running(Mode::Fused, |rig, guard| {
        let newest_is = |n| rig.fifo.newest_is(&obj("x", 0), |newest| newest.n == n);
        assert_eq!(newest_is(1), None);
        // The object of this Sync is not decided before the handler ends.
        rig.fifo.resync();
        assert_eq!(newest_is(1), None);
        finish(rig, guard);
        assert_eq!(newest_is(2), Some(true));
        rig.drain();
    });
}

#[test]
fn newest_state_is_certain_once_a_handler_puts_its_deltas_back() {
    running(Mode::Fused, |rig, guard| {
        guard.requeue();
        assert_eq!(rig.fifo.newest_is(&obj("x", 0), |newest| newest.n == 2), Some(true));
        rig.drain();
    });
}

#[test]
fn delete_during_the_handler_of_the_first_add_counts() {
    for mode in KNOWING {
        let rig = Rig::new(mode);
        rig.fifo.add(obj("x", 1)).unwrap();
        let guard = rig.fifo.pop().unwrap();
        rig.fifo.delete(obj("x", 2)).unwrap();
        rig.fifo.delete(tombstone("x", None)).unwrap();
        finish(&rig, guard);
        assert_eq!(rig.drain(), ["x: D2"], "{mode:?}");
        assert_eq!(rig.stored(), [""; 0]);
    }
}

#[test]
fn delete_during_a_deleting_handler_is_not_reported_twice() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("x", 1)], |builder| builder);
        rig.fifo.update(obj("x", 2)).unwrap();
        rig.fifo.delete(obj("x", 2)).unwrap();
        let guard = rig.fifo.pop().unwrap();
        rig.fifo.delete(obj("x", 3)).unwrap();
        rig.fifo.replace(vec![], "1").unwrap();
        rig.fifo.resync();
        finish(&rig, guard);
        assert_eq!(rig.drain(), [""; 0], "{mode:?}");
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn delete_and_add_during_a_deleting_handler_keep_the_add_only() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("x", 1)], |builder| builder);
        rig.fifo.delete(obj("x", 1)).unwrap();
        let guard = rig.fifo.pop().unwrap();
        rig.fifo.delete(obj("x", 2)).unwrap();
        rig.fifo.add(obj("x", 3)).unwrap();
        rig.fifo.delete(obj("x", 4)).unwrap();
        rig.fifo.add(obj("x", 5)).unwrap();
        finish(&rig, guard);
        assert_eq!(rig.drain(), ["x: A3 D4 A5"], "{mode:?}");
        assert_eq!(rig.stored(), ["x=5"]);
    }
}

#[test]
fn replace_during_a_handler_deletes_with_the_stored_object() {
    for mode in KNOWING {
        running(mode, |rig, guard| {
            rig.fifo.replace(vec![], "1").unwrap();
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: D(2)"], "{mode:?}");
            assert_eq!(rig.stored(), [""; 0]);
        });
    }
    running(Mode::Nowhere, |rig, guard| {
        rig.fifo.replace(vec![], "1").unwrap();
        finish(rig, guard);
        assert_eq!(rig.drain(), [""; 0]);
    });
}

#[test]
fn replace_that_lists_a_running_key_queues_it_behind_the_handler() {
    for mode in MODES {
        running(mode, |rig, guard| {
            rig.fifo.replace(vec![obj("x", 3), obj("y", 1)], "1").unwrap();
            finish(rig, guard);
            let mut drained = rig.drain();
            drained.sort();
            assert_eq!(drained, ["x: R3", "y: R1"], "{mode:?}");
        });
    }
}

#[test]
fn resync_during_a_handler_syncs_the_stored_object_unless_more_is_pending() {
    for mode in KNOWING {
        running(mode, |rig, guard| {
            rig.fifo.resync();
            rig.fifo.resync();
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: S2"], "{mode:?}");
        });
        running(mode, |rig, guard| {
            rig.fifo.update(obj("x", 3)).unwrap();
            rig.fifo.resync();
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: U3"], "{mode:?}");
        });
        running(mode, |rig, guard| {
            rig.fifo.resync();
            rig.fifo.update(obj("x", 3)).unwrap();
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: S2 U3"], "{mode:?}");
        });
    }
}

#[test]
fn resync_during_the_first_add_depends_on_the_handlers_result() {
    for mode in KNOWING {
        for (applies, expected) in [(true, &["x: S1"][..]), (false, &[])] {
            let rig = Rig::new(mode);
            rig.fifo.add(obj("x", 1)).unwrap();
            let guard = rig.fifo.pop().unwrap();
            rig.fifo.resync();
            if applies {
                finish(&rig, guard);
            } else {
                guard.done();
            }
            assert_eq!(rig.drain(), expected, "{mode:?}");
            assert_eq!(rig.fifo.pending_deltas(), 0);
        }
    }
}

#[test]
fn add_if_not_present_during_a_handler_counts_unless_more_is_pending() {
    for mode in MODES {
        running(mode, |rig, guard| {
            rig.fifo
                .add_if_not_present(deltas([(Added, obj("x", 3)), (Sync, obj("x", 4))]))
                .unwrap();
            rig.fifo.add_if_not_present(deltas([(Added, obj("x", 5))])).unwrap();
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: A3 S4"], "{mode:?}");
        });
        running(mode, |rig, guard| {
            rig.fifo.update(obj("x", 3)).unwrap();
            rig.fifo.add_if_not_present(deltas([(Added, obj("x", 5))])).unwrap();
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: U3"], "{mode:?}");
        });
        running(mode, |rig, guard| {
            rig.fifo.add_if_not_present(deltas([(Added, obj("x", 5))])).unwrap();
            guard.requeue();
            assert_eq!(rig.drain(), ["x: U2"], "{mode:?}");
        });
    }
}

#[test]
fn requeued_deltas_precede_later_offers() {
    for mode in MODES {
        running(mode, |rig, guard| {
            rig.fifo.add(obj("y", 1)).unwrap();
            rig.fifo.update(obj("x", 3)).unwrap();
            rig.fifo.delete(obj("x", 4)).unwrap();
            rig.fifo.resync();
            guard.requeue();
            assert_eq!(rig.drain(), ["y: A1", "x: U2 U3 D4"], "{mode:?}");
        });
    }
}

#[test]
fn delete_or_relist_during_a_requeueing_handler_counts_without_known_objects() {
    for mode in MODES {
        running(mode, |rig, guard| {
            rig.fifo.delete(obj("x", 3)).unwrap();
            guard.requeue();
            assert_eq!(rig.drain(), ["x: U2 D3"], "{mode:?}");
        });
        running(mode, |rig, guard| {
            rig.fifo.replace(vec![], "1").unwrap();
            guard.requeue();
            assert_eq!(rig.drain(), ["x: U2 D(2)"], "{mode:?}");
        });
    }
}

#[test]
fn guard_dropped_without_a_verdict_requeues_its_deltas_in_front() {
    for mode in MODES {
        running(mode, |rig, guard| {
            rig.fifo.update(obj("x", 3)).unwrap();
            drop(guard);
            assert_eq!(rig.drain(), ["x: U2 U3"], "{mode:?}");
        });
    }
}

#[test]
fn applied_guard_that_is_dropped_or_requeued_is_not_delivered_again() {
    for requeue in [false, true] {
        let rig = Rig::new(Mode::Fused);
        rig.fifo.add(obj("x", 1)).unwrap();
        let mut guard = rig.fifo.pop().unwrap();
        guard.apply(|_| ()).unwrap();
        assert!(guard.deltas().is_empty());
        guard.apply(|_| unreachable!("everything is applied")).unwrap();
        if requeue {
            guard.requeue();
        } else {
            drop(guard);
        }
        assert_eq!(rig.drain(), [""; 0]);
        assert_eq!(rig.stored(), ["x=1"]);
    }
}

#[test]
fn apply_without_a_fused_store_fails_and_keeps_the_deltas() {
    let rig = Rig::new(Mode::Elsewhere);
    rig.fifo.add(obj("x", 1)).unwrap();
    let mut guard = rig.fifo.pop().unwrap();
    assert!(
        matches!(guard.apply(|_| unreachable!()), Err(StoreError::NoStore { key }) if key == "x")
    );
    assert_eq!(show(guard.deltas()), "A1");
    drop(guard);
    assert_eq!(rig.drain(), ["x: A1"]);
}

fn panics(rig: &Rig, how: &str) {
    let fifo: &Fifo = &rig.fifo;
    let handler = |popped: &mut Guard<'_>| -> Result<(), ()> {
        popped.retry();
        // A delta that arrives while the handler runs survives its panic.
        fifo.update(obj("x", 3)).unwrap();
        panic!("expected by {}", "this test")
    };
    let is_reported = |error: &ProcessError<()>| matches!(error, ProcessError::Panicked { key, message } if key == "x" && message == "expected by this test");
    if how == "process" {
        assert!(is_reported(&fifo.process(handler).unwrap_err()));
    } else {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = fifo.pop().unwrap();
            handler(&mut guard)
        }));
        assert!(panicked.is_err());
    }
}

#[test]
fn panicking_handler_loses_only_its_own_deltas() {
    for mode in MODES {
        for how in ["process", "guard"] {
            let rig = Rig::new(mode);
            rig.fifo.add(obj("x", 1)).unwrap();
            rig.fifo.add(obj("y", 1)).unwrap();
            panics(&rig, how);
            assert_eq!(rig.drain(), ["y: A1", "x: U3"], "{mode:?} {how}");
            rig.fifo.add(obj("x", 4)).unwrap();
            assert_eq!(rig.drain(), ["x: A4"]);
            assert_eq!(rig.fifo.pending_deltas(), 0);
        }
    }
}

#[test]
fn panic_inside_apply_leaves_the_store_up_to_date() {
    let rig = Rig::new(Mode::Fused);
    for n in 1..=3 {
        rig.fifo.update(obj("x", n)).unwrap();
    }
    let mut notified = 0;
    let error = rig.fifo.process(|popped| {
        popped.apply(|_| {
            notified += 1;
            assert!(notified < 2, "expected by this test");
        })
    });
    assert!(matches!(error, Err(ProcessError::Panicked { .. })));
    assert_eq!(notified, 2, "deltas after the panic are applied without a callback");
    assert_eq!(rig.stored(), ["x=3"]);
    assert_eq!(rig.drain(), [""; 0]);
}

#[test]
#[cfg_attr(miri, ignore = "forgets a guard, which leaks by design")]
fn leaked_guard_blocks_only_its_own_key() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("x", 1)], |builder| builder);
        rig.fifo.update(obj("x", 2)).unwrap();
        std::mem::forget(rig.fifo.pop().unwrap());
        rig.fifo.add(obj("y", 1)).unwrap();
        rig.fifo.resync();
        rig.fifo.replace(vec![obj("y", 2)], "1").unwrap();
        assert_eq!(rig.drain(), ["y: A1 R2"], "{mode:?}");
        // The deletion, and a Sync where objects are known, wait for the handler that never ends.
        assert_eq!(rig.fifo.pending_deltas(), if mode == Mode::Nowhere { 1 } else { 2 });
        rig.fifo.close();
        assert!(rig.fifo.pop().is_err());
    }
}

#[test]
#[cfg_attr(miri, ignore = "leaks a batch, on purpose")]
fn leaked_batch_blocks_only_its_own_keys() {
    let rig = Rig::with(Mode::Fused, |builder| builder.high_water(2));
    rig.fifo.replace(vec![obj("x", 1), obj("y", 1)], "1").unwrap();
    let mut batch = rig.fifo.pop_batch(2).unwrap();
    batch.next().unwrap().done();
    std::mem::forget(batch);
    rig.fifo.add(obj("x", 2)).unwrap();
    rig.fifo.add(obj("z", 1)).unwrap();
    assert_eq!(rig.drain(), ["x: A2", "z: A1"]);
    assert_eq!(rig.fifo.pending_deltas(), 2, "one taken of x, one pending of y");
    let mut ready = std::pin::pin!(rig.fifo.ready_async());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(ready.as_mut().poll(&mut context).is_pending());
    assert!(!rig.fifo.has_synced());
}

#[test]
fn deltas_of_a_running_handler_are_not_pending_and_later_ones_are() {
    for mode in MODES {
        running(mode, |rig, guard| {
            assert!(rig.fifo.get_by_key("x").is_none() && rig.fifo.list_keys().is_empty());
            rig.fifo.update(obj("x", 3)).unwrap();
            assert_eq!(rig.pending("x").unwrap(), "U3");
            assert_eq!(rig.fifo.list_keys(), ["x"]);
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: U3"]);
        });
    }
}

#[test]
fn two_consumers_never_handle_one_key_at_once() {
    let rig = Rig::new(Mode::Fused);
    rig.fifo.add(obj("x", 1)).unwrap();
    rig.fifo.add(obj("y", 1)).unwrap();
    let (taken, is_taken) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let fifo = &rig.fifo;
        scope.spawn(move || {
            let guard = fifo.pop().unwrap();
            taken.send(guard.key().to_owned()).unwrap();
            may_go_on.recv().unwrap();
            guard.done();
        });
        assert_eq!(is_taken.recv().unwrap(), "x");
        rig.fifo.update(obj("x", 2)).unwrap();
        assert_eq!(rig.handle().unwrap(), "y: A1", "another key can be handled");
        assert!(rig.fifo.try_pop().is_none());
        assert!(rig.fifo.try_pop_batch(9).is_none());
        go_on.send(()).unwrap();
        let guard = rig.fifo.pop().unwrap();
        assert_eq!(show(guard.deltas()), "U2");
        guard.done();
    });
}

#[test]
fn partly_handled_batch_returns_the_rest_in_order() {
    for mode in MODES {
        let rig = Rig::new(mode);
        for key in ["a", "b", "c", "d", "e"] {
            rig.fifo.add(obj(key, 1)).unwrap();
        }
        let mut batch = rig.fifo.pop_batch(4).unwrap();
        assert_eq!((batch.len(), batch.is_empty()), (4, false));
        batch.next().unwrap().done();
        let held = batch.next().unwrap();
        rig.fifo.update(obj("c", 2)).unwrap();
        assert_eq!(rig.pending("d").unwrap(), "A1", "taken only in its turn");
        rig.fifo.add(obj("f", 1)).unwrap();
        drop(batch);
        held.requeue();
        assert_eq!(rig.drain(), ["c: A1 U2", "d: A1", "e: A1", "f: A1", "b: A1"], "{mode:?}");
        assert_eq!(rig.fifo.pending_deltas(), 0);
    }
}

#[test]
fn batch_respects_its_limit_and_starts_with_the_oldest_key() {
    for mode in MODES {
        let rig = Rig::new(mode);
        rig.fifo.add(obj("a", 1)).unwrap();
        rig.fifo.add(obj("b", 1)).unwrap();
        // The batch is a run of its own in the queue.
        rig.fifo.add_batch(["c", "d", "e", "f", "g"].map(|key| obj(key, 1)).to_vec()).unwrap();
        let mut handled = Vec::new();
        while let Some(mut batch) = rig.fifo.try_pop_batch(4) {
            let mut keys = String::new();
            while let Some(popped) = batch.next() {
                keys.push_str(popped.key());
                popped.done();
            }
            assert!(batch.is_empty());
            handled.push(keys);
        }
        assert_eq!(handled, ["abcd", "efg"], "{mode:?}");
    }
}

/// An object that panics when it is dropped, if it is armed.
struct Bomb {
    armed: bool,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.armed, "released");
    }
}

fn bombs() -> DeltaFifo<Bomb, NoMeta> {
    DeltaFifo::over(
        Indexer::builder(KeyFunc::custom(NoMeta, |_: &Bomb| Ok("x".to_owned()))).build().unwrap(),
    )
    .build()
}

fn bomb(armed: bool) -> Arc<Bomb> {
    Arc::new(Bomb { armed })
}

/// Checks that the queue still works: the key can be popped again, the counts are right, and the
/// first relist has ended.
fn is_usable(fifo: &DeltaFifo<Bomb, NoMeta>) {
    assert_eq!(fifo.pending_deltas(), 0);
    assert!(fifo.has_synced());
    fifo.add(bomb(false)).unwrap();
    fifo.try_pop().expect("the key is stuck").done();
}

#[test]
fn object_drop_panic_at_the_end_of_a_handler_leaves_its_key_usable() {
    let fifo = bombs();
    fifo.replace(vec![bomb(false)], "1").unwrap();
    let guard = fifo.pop().unwrap();
    // The item is not applied, so no object is known when the handler ends. The deletion has no
    // effect and its object is dropped.
    fifo.delete(bomb(true)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| guard.done())).is_err());
    is_usable(&fifo);
}

#[test]
fn object_drop_panic_when_deletions_fold_leaves_its_key_usable() {
    let fifo = bombs();
    fifo.replace(vec![bomb(false)], "1").unwrap();
    fifo.delete(bomb(false)).unwrap();
    fifo.delete(bomb(true)).unwrap();
    assert!(
        catch_unwind(AssertUnwindSafe(|| fifo.try_pop().map(deltafifo::Popped::done))).is_err()
    );
    is_usable(&fifo);
}

#[test]
fn object_drop_panics_suppress_no_notification_of_their_item() {
    let goes_off =
        |item: Popped<'_, Bomb, NoMeta>| catch_unwind(AssertUnwindSafe(|| item.done())).is_err();
    for batched in [false, true] {
        let fifo = bombs();
        fifo.replace(vec![bomb(true)], "1").unwrap();
        fifo.process(|item| item.apply(|_| ())).unwrap();
        fifo.update(bomb(true)).unwrap();
        fifo.delete(bomb(true)).unwrap();
        fifo.add(bomb(false)).unwrap();
        let mut batch = batched.then(|| fifo.pop_batch(2).unwrap());
        let item = batch.as_mut().map_or_else(|| fifo.try_pop(), Batch::next);
        let (mut item, mut notified) = (item.unwrap(), 0);
        item.apply(|_| notified += 1).unwrap();
        assert_eq!(notified, 3);
        assert!(goes_off(item), "all three panicked, and the first panic propagates");
        drop(batch);
        is_usable(&fifo);
    }
}

#[test]
fn offer_that_may_have_no_effect_is_not_listed_as_pending() {
    running(Mode::Elsewhere, |rig, guard| {
        rig.fifo.resync();
        assert!(rig.fifo.get_by_key("x").is_none());
        assert_eq!(rig.fifo.list_keys(), [""; 0]);
        finish(rig, guard);
        assert_eq!(rig.drain(), ["x: S2"]);
    });
}

#[test]
fn sync_during_a_handler_that_deleted_its_key_is_not_pending() {
    let rig = Rig::new(Mode::Fused);
    rig.know([obj("x", 1)]);
    rig.fifo.delete(obj("x", 1)).unwrap();
    let mut guard = rig.fifo.pop().unwrap();
    rig.fifo.resync();
    rig.apply(&mut guard);
    // No object is known any more, so there is no object to sync. The key must not be pending with
    // an empty list.
    assert_eq!(rig.pending("x"), None);
    assert_eq!((rig.fifo.list().len(), rig.fifo.list_keys()), (0, vec![]));
    guard.done();
    assert_eq!(rig.drain(), [""; 0]);
}

#[test]
fn sync_behind_another_offer_during_a_handler_is_not_shown() {
    for mode in KNOWING {
        running(mode, |rig, guard| {
            rig.fifo.update(obj("x", 3)).unwrap();
            rig.fifo.resync();
            assert_eq!(rig.pending("x").as_deref(), Some("U3"), "{mode:?}");
            finish(rig, guard);
            assert_eq!(rig.drain(), ["x: U3"]);
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "such a payload is forgotten, which leaks by design")]
fn panic_payload_that_panics_on_drop_is_contained() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            resume_unwind(Box::new("a payload"));
        }
    }
    let rig = Rig::new(Mode::Fused);
    rig.fifo.add(obj("key", 1)).unwrap();
    let fails = |_: &mut Guard<'_>| -> Result<(), ()> { resume_unwind(Box::new(Payload)) };
    assert!(rig.fifo.process(fails).is_err());
    assert_eq!(rig.fifo.pending_deltas(), 0);
}

#[test]
fn queue_drop_releases_all_objects_although_one_panics() {
    struct Numbered(u64, #[allow(dead_code)] Bomb);
    let fifo =
        DeltaFifo::builder(KeyFunc::custom(NoMeta, |object: &Numbered| Ok(object.0.to_string())))
            .build();
    let mut released = Vec::new();
    for number in 0..10 {
        let object = Arc::new(Numbered(number, Bomb { armed: number == 3 }));
        released.push(Arc::downgrade(&object));
        fifo.add(object).unwrap();
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(fifo))).is_err());
    assert!(released.iter().all(|object| object.strong_count() == 0));
}
