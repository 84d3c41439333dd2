//! Tests of turns: only one runs at a time, and it ends in one of several ways.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;

use crate::common::{block_on, obj};
use crate::rig::{Fifo, apply, bare, events, notified, over, show_turn, stored};
use deltafifo::ProcessError;

fn three() -> Fifo {
    let fifo = over([]);
    for (name, n) in [("a", 1), ("b", 2), ("c", 3)] {
        fifo.add(obj(name, n)).unwrap();
    }
    fifo
}

#[test]
fn no_event_is_taken_during_a_turn() {
    let fifo = three();
    let turn = fifo.pop().unwrap();
    assert!(fifo.try_pop().is_none() && fifo.try_pop_batch(9).is_none());
    assert_eq!(fifo.store().len(), 0, "readers go on");
    fifo.add(obj("d", 4)).unwrap();
    assert_eq!(fifo.pending(), 4, "offers too");
    turn.done();
    assert_eq!(notified(&fifo), ["A+b2", "A+c3", "A+d4"]);
}

#[test]
fn dropped_turn_returns_its_unhandled_event() {
    let fifo = three();
    drop(fifo.pop().unwrap());
    assert_eq!(fifo.pending(), 3);
    assert_eq!(notified(&fifo), ["A+a1", "A+b2", "A+c3"]);
    assert_eq!(fifo.pending(), 0);
}

#[test]
fn cancelled_handler_returns_its_event() {
    let fifo = three();
    {
        let mut handling = pin!(async {
            let mut turn = fifo.pop_async().await.unwrap();
            std::future::pending::<()>().await;
            apply(&mut turn);
        });
        assert!(handling.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(fifo.try_pop().is_none());
    }
    let turn = block_on(fifo.pop_async()).unwrap();
    assert_eq!(show_turn(&turn), ["a:A1"]);
    turn.done();
}

#[test]
fn thread_panic_during_a_turn_loses_only_the_current_event() {
    let fifo = three();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut turn = fifo.pop_batch(9).unwrap();
        apply(&mut turn);
        resume_unwind(Box::new("meant"));
    }));
    assert!(caught.is_err());
    assert_eq!(notified(&fifo), ["A+c3"], "b was the current event");
    assert_eq!(stored(&fifo), ["a1", "c3"]);
}

#[test]
fn panic_in_apply_leaves_its_event_applied_and_the_next_one_queued() {
    let fifo = three();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut turn = fifo.pop_batch(9).unwrap();
        apply(&mut turn);
        turn.apply(|_, _| resume_unwind(Box::new("meant")))
    }));
    assert!(caught.is_err());
    assert_eq!(stored(&fifo), ["a1", "b2"]);
    assert_eq!(notified(&fifo), ["A+c3"]);
}

#[test]
fn turn_begun_during_unwinding_works_normally() {
    struct Takes<'f>(&'f Fifo);
    impl Drop for Takes<'_> {
        fn drop(&mut self) {
            drop(self.0.try_pop());
            apply(&mut self.0.try_pop().unwrap());
        }
    }
    let fifo = three();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _takes = Takes(&fifo);
        resume_unwind(Box::new("meant"));
    }));
    assert!(caught.is_err());
    assert_eq!(notified(&fifo), ["A+b2", "A+c3"], "the dropped events were popped again");
}

#[test]
fn event_of_a_failing_handler_is_consumed_and_reported_with_its_key() {
    let fifo = three();
    let failed = fifo.process(|_| Err::<(), _>("unseen"));
    assert!(matches!(failed, Err(ProcessError::Handler { key, error: "unseen" }) if key == "a"));
    let failed = fifo.process(|turn| {
        apply(turn);
        Err::<(), _>("late")
    });
    assert!(matches!(failed, Err(ProcessError::Handler { key, error: "late" }) if key == "b"));
    assert_eq!(stored(&fifo), ["b2"], "only applied objects");
    let value = fifo.process(|turn| Ok::<_, ()>(apply(turn).join(" ")));
    assert_eq!(value.unwrap(), "A+c3");
}

#[test]
fn event_of_a_panicking_handler_is_consumed_and_reported_with_its_key() {
    let fifo = three();
    let failed = fifo.process::<(), ()>(|_| resume_unwind(Box::new("early")));
    assert!(
        matches!(failed, Err(ProcessError::Panicked { key, message }) if key == "a" && message == "early")
    );
    let failed = fifo.process(|turn| turn.apply(|_, _| resume_unwind(Box::new("inside"))));
    assert!(
        matches!(failed, Err(ProcessError::Panicked { key, message }) if key == "b" && message == "inside")
    );
    let failed = fifo.process::<(), ()>(|turn| {
        apply(turn);
        resume_unwind(Box::new("late"))
    });
    assert!(
        matches!(failed, Err(ProcessError::Panicked { key, message }) if key == "c" && message == "late")
    );
    assert_eq!(stored(&fifo), ["b2", "c3"]);
    assert!(fifo.try_pop().is_none());
}

#[test]
fn event_not_applied_by_its_handler_is_passed() {
    let fifo = three();
    fifo.process(|_| Ok::<(), ()>(())).unwrap();
    assert_eq!(notified(&fifo), ["A+b2", "A+c3"]);
}

#[test]
fn handler_may_offer_events() {
    let fifo = three();
    fifo.process(|turn| {
        turn.apply(|key, _| {
            fifo.update(obj(key, 10)).unwrap();
            fifo.resync();
        })
    })
    .unwrap();
    let mut notified = notified(&fifo);
    // Sorted, because a resync has no order.
    notified[3..].sort();
    assert_eq!(notified, ["A+b2", "A+c3", "U a1>10", "S a10>10", "S b2>2", "S c3>3"]);
}

#[test]
fn turns_and_futures_can_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let fifo = bare();
    is_send(&fifo.pop_async());
    is_send(&fifo.ready_async());
    is_send(&fifo.wait_for_sync_async());
    fifo.add(obj("a", 1)).unwrap();
    let turn = fifo.pop().unwrap();
    thread::scope(|scope| scope.spawn(move || turn.done()).join().unwrap());
    assert!(events(&fifo).is_empty());
}
