//! Offers that depend on what is known, against handlers that end meanwhile.
//!
//! Over a store elsewhere each test holds the offer inside the store's answer until the handler
//! has ended: what the offer then does must still be in some order with the handler. Over a fused
//! store the two only run at once, many times; under Miri, which shows a thread old values where
//! the memory model allows it, a few times are enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use crate::common::{Mode, Rig, ends, obj};

/// Runs `offer` on a thread, and `meanwhile` here between the store's next answer (to a look-up,
/// or to a listing) and the offer's getting it; or after the offer, should it not ask. Everything
/// pending is handled at the end of `meanwhile`, and again when both are over: gives what was
/// handled.
fn between(
    rig: &Rig,
    listing: bool,
    offer: impl FnOnce(&Rig) + Send,
    meanwhile: impl FnOnce(&Rig),
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
        meanwhile(rig);
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
fn a_delete_is_not_lost_when_the_handler_of_the_add_ends_meanwhile() {
    ends(|| {
        let rig = Rig::new(Mode::Elsewhere);
        rig.fifo.add(obj("x", 1)).unwrap();
        // Pending when the delete came, hence it exists, and the delete must count.
        let handled = between(&rig, false, |rig| rig.fifo.delete(obj("x", 2)).unwrap(), |_| ());
        assert_eq!(
            rig.stored(),
            [""; 0],
            "the deletion was dropped, x stays for ever: {handled:?}"
        );
    });
}

#[test]
fn a_delete_is_not_reported_twice_when_another_ends_meanwhile() {
    ends(|| {
        let rig = knowing_x();
        let delete = |rig: &Rig| rig.fifo.delete(obj("x", 1)).unwrap();
        assert_eq!(between(&rig, false, delete, delete), ["x: D1"]);
    });
}

#[test]
fn a_resync_does_not_bring_back_what_was_deleted_meanwhile() {
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
fn a_resync_does_not_take_an_update_back() {
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
fn a_commit_does_not_report_a_deletion_twice() {
    ends(|| {
        let rig = knowing_x();
        rig.fifo.delete(obj("x", 1)).unwrap();
        // x is pending when the commit begins; its handler ends while the store lists its keys.
        let handled =
            between(&rig, true, |rig| assert!(rig.fifo.replace(vec![], "1").is_ok()), |_| ());
        assert_eq!(handled, ["x: D1"]);
    });
}

#[test]
fn a_commit_and_a_delete_meanwhile_report_one_deletion() {
    ends(|| {
        let rig = knowing_x();
        let commit = |rig: &Rig| assert!(rig.fifo.replace(vec![], "1").is_ok());
        let handled = between(&rig, true, commit, |rig| rig.fifo.delete(obj("x", 1)).unwrap());
        assert_eq!(handled, ["x: D1"]);
    });
}

#[test]
fn an_update_while_a_commit_asks_about_its_key_comes_after_the_deletion() {
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
fn an_offer_that_meets_the_end_of_a_handler_sees_what_the_handler_stored() {
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
        // The key existed all the time, so both count whenever they come.
        let expected = if round % 2 == 0 { "x: D2" } else { "x: S1" };
        assert_eq!(rig.drain(), [expected], "round {round}");
    }
}

/// A pusher links to a list that it only guesses; meanwhile a consumer frees that list and makes
/// another, perhaps at the same address. Only Miri sees what is wrong with that, and only when it
/// gives addresses out again (`ci/miri.sh`).
#[test]
fn a_push_over_a_list_that_was_freed_and_made_again() {
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
fn a_look_at_what_is_pending_shows_one_moment() {
    let rig = Rig::new(Mode::Fused);
    rig.know([obj("x", 1)]);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (rig, over) = (&rig, &over);
        scope.spawn(move || {
            for n in 1..if cfg!(miri) { 30 } else { 20_000 } {
                // A Sync stands for what is known, and in front of what came after it.
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
                panic!("pending in an order that never was: {numbers:?}");
            }
        }
    });
}
