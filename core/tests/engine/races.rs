//! Tests of offers that depend on known objects, concurrent with handlers that end.
//!
//! Over an external store, each test holds the offer inside the store's answer until the handler
//! has ended. The effect of the offer must still correspond to some order of the two. Over a fused
//! store both run concurrently, many times. Under Miri a few times suffice, because Miri can show
//! a thread any old value that the memory model allows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use crate::common::{Mode, Rig, ends, obj};

/// Runs `offer` on a thread, and `during` on the current thread while the store answers the offer.
///
/// The answer, to a listing if `listing` and otherwise to a look-up, is held back until `during`
/// has ended. If the offer does not ask the store, `during` runs after it. Handles all pending
/// keys after `during` and again at the end. Returns the handled deltas.
fn between(
    rig: &Rig,
    listing: bool,
    offer: impl FnOnce(&Rig) + Send,
    during: impl FnOnce(&Rig),
) -> Vec<String> {
    let (asked, was_asked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let ended = asked.clone();
    let hook = move |_: &str| {
        asked.send(()).unwrap();
        may_go_on.recv().unwrap();
    };
    if listing {
        rig.outside.once_after_list(hook);
    } else {
        rig.outside.once_after_get(hook);
    }
    let mut handled = Vec::new();
    thread::scope(|scope| {
        let offering = scope.spawn(move || {
            offer(rig);
            ended.send(()).unwrap();
        });
        was_asked.recv().unwrap();
        during(rig);
        handled.extend(rig.drain());
        go_on.send(()).unwrap();
        offering.join().unwrap();
    });
    handled.extend(rig.drain());
    handled
}

fn knowing_x() -> Rig {
    Rig::knowing(Mode::Elsewhere, &[obj("x", 1)], |builder| builder)
}

#[test]
fn delete_during_the_end_of_the_adds_handler_is_not_lost() {
    ends(|| {
        let rig = Rig::new(Mode::Elsewhere);
        rig.fifo.add(obj("x", 1)).unwrap();
        // The key was pending when the delete was offered, so it exists and the delete must count.
        let handled = between(&rig, false, |rig| rig.fifo.delete(obj("x", 2)).unwrap(), |_| ());
        assert_eq!(
            rig.stored(),
            [""; 0],
            "the deletion was dropped, x stays for ever: {handled:?}"
        );
    });
}

#[test]
fn delete_during_the_end_of_another_is_reported_once() {
    ends(|| {
        let rig = knowing_x();
        let delete = |rig: &Rig| rig.fifo.delete(obj("x", 1)).unwrap();
        assert_eq!(between(&rig, false, delete, delete), ["x: D1"]);
    });
}

#[test]
fn resync_does_not_restore_a_concurrently_deleted_object() {
    ends(|| {
        let rig = knowing_x();
        let handled = between(
            &rig,
            false,
            |rig| rig.fifo.resync(),
            |rig| rig.fifo.delete(obj("x", 1)).unwrap(),
        );
        assert_eq!(rig.stored(), [""; 0], "a stale Sync brought x back: {handled:?}");
    });
}

#[test]
fn resync_does_not_revert_a_concurrent_update() {
    ends(|| {
        let rig = knowing_x();
        let handled = between(
            &rig,
            false,
            |rig| rig.fifo.resync(),
            |rig| rig.fifo.update(obj("x", 2)).unwrap(),
        );
        assert_eq!(rig.stored(), ["x=2"], "a stale Sync took x back to 1: {handled:?}");
    });
}

#[test]
fn commit_does_not_report_a_concurrent_deletion_twice() {
    ends(|| {
        let rig = knowing_x();
        rig.fifo.delete(obj("x", 1)).unwrap();
        // x is pending when the commit begins. Its handler ends while the store lists its keys.
        let handled =
            between(&rig, true, |rig| assert!(rig.fifo.replace(vec![], "1").is_ok()), |_| ());
        assert_eq!(handled, ["x: D1"]);
    });
}

#[test]
fn commit_and_a_concurrent_delete_report_one_deletion() {
    ends(|| {
        let rig = knowing_x();
        let commit = |rig: &Rig| assert!(rig.fifo.replace(vec![], "1").is_ok());
        let handled = between(&rig, true, commit, |rig| rig.fifo.delete(obj("x", 1)).unwrap());
        assert_eq!(handled, ["x: D1"]);
    });
}

#[test]
fn update_during_a_commits_look_up_follows_the_deletion() {
    ends(|| {
        let rig = knowing_x();
        let relist = rig.fifo.begin_replace();
        let commit = |_: &Rig| assert_eq!(relist.commit("1").unwrap().deleted, 1);
        let handled = between(&rig, false, commit, |rig| rig.fifo.update(obj("x", 2)).unwrap());
        assert_eq!(handled, ["x: D(1) U2"], "in one pop, the update last");
        assert_eq!(rig.stored(), ["x=2"]);
    });
}

#[test]
fn offer_at_the_end_of_a_handler_sees_the_stored_object() {
    for round in 0..if cfg!(miri) { 12 } else { 2_000 } {
        let rig = Rig::new(Mode::Fused);
        rig.fifo.add(obj("x", 1)).unwrap();
        let mut guard = rig.fifo.pop().unwrap();
        let start = Barrier::new(2);
        thread::scope(|scope| {
            let (fifo, start) = (&rig.fifo, &start);
            scope.spawn(move || {
                start.wait();
                if round % 2 == 0 { fifo.delete(obj("x", 2)).unwrap() } else { fifo.resync() }
            });
            start.wait();
            rig.apply(&mut guard);
            guard.done();
        });
        // The key exists all the time, so both offers count in either order.
        let expected = if round % 2 == 0 { "x: D2" } else { "x: S1" };
        assert_eq!(rig.drain(), [expected], "round {round}");
    }
}

/// Pushes a delta onto a slot's list of deltas, whose address the pusher read earlier. In between,
/// a consumer frees that list and another one is allocated, possibly at the same address. Only
/// Miri detects an error here, and only if it reuses addresses (`ci/miri.sh`).
#[test]
fn push_over_a_freed_and_reallocated_list_is_sound() {
    ends(|| {
        let rig = Rig::new(Mode::Nowhere);
        (1..=2).for_each(|n| rig.fifo.update(obj("x", n)).unwrap());
        thread::scope(|scope| {
            scope.spawn(|| (3..15).for_each(|n| rig.fifo.update_batch(vec![obj("x", n)]).unwrap()));
            scope.spawn(|| {
                for item in (0..40).filter_map(|_| rig.fifo.try_pop()) {
                    if item.deltas().len() > 4 { item.done() } else { item.requeue() }
                }
            });
        });
        while let Some(item) = rig.fifo.try_pop() {
            item.done();
        }
        assert_eq!(rig.fifo.pending_deltas(), 0);
    });
}

#[test]
fn reading_pending_deltas_shows_a_consistent_state() {
    let rig = Rig::new(Mode::Fused);
    rig.know([obj("x", 1)]);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (rig, over) = (&rig, &over);
        scope.spawn(move || {
            for n in 1..if cfg!(miri) { 30 } else { 20_000 } {
                // A Sync carries the known object, and precedes later deltas.
                rig.fifo.resync();
                rig.fifo.update(obj("x", 2 * n)).unwrap();
                rig.fifo.update(obj("x", 2 * n + 1)).unwrap();
                rig.drain();
            }
            over.store(true, Ordering::Release);
        });
        while !over.load(Ordering::Acquire) {
            let Some(deltas) = rig.fifo.get_by_key("x") else { continue };
            let numbers: Vec<u64> =
                deltas.iter().map(|delta| delta.object.object().unwrap().n).collect();
            if !numbers.is_sorted() {
                over.store(true, Ordering::Release);
                panic!("an order that was never pending: {numbers:?}");
            }
        }
    });
}
