//! A turn: nobody else takes anything while it lasts, and how it can end.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;

use crate::common::{block_on, obj};
use crate::rig::{Fifo, apply, bare, events, over, show_turn, stored, told};
use deltafifo::ProcessError;

fn three() -> Fifo {
    let fifo = over([]);
    for (name, n) in [("a", 1), ("b", 2), ("c", 3)] {
        fifo.add(obj(name, n)).unwrap();
    }
    fifo
}

#[test]
fn nobody_takes_anything_while_a_turn_lasts() {
    let fifo = three();
    let turn = fifo.pop().unwrap();
    assert!(fifo.try_pop().is_none() && fifo.try_pop_batch(9).is_none());
    assert_eq!(fifo.store().len(), 0, "readers go on");
    fifo.add(obj("d", 4)).unwrap();
    assert_eq!(fifo.pending(), 4, "offers too");
    turn.done();
    assert_eq!(told(&fifo), ["A+b2", "A+c3", "A+d4"]);
}

#[test]
fn a_turn_dropped_unhandled_gives_its_event_back() {
    let fifo = three();
    drop(fifo.pop().unwrap());
    assert_eq!(fifo.pending(), 3);
    assert_eq!(told(&fifo), ["A+a1", "A+b2", "A+c3"]);
    assert_eq!(fifo.pending(), 0);
}

#[test]
fn a_cancelled_handler_gives_its_event_back() {
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
fn a_guard_whose_thread_panics_takes_the_event_in_hand_with_it_and_no_other() {
    let fifo = three();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut turn = fifo.pop_batch(9).unwrap();
        apply(&mut turn);
        resume_unwind(Box::new("meant"));
    }));
    assert!(caught.is_err());
    assert_eq!(told(&fifo), ["A+c3"], "b was in hand");
    assert_eq!(stored(&fifo), ["a1", "c3"]);
}

#[test]
fn a_panic_out_of_apply_leaves_its_event_applied_and_the_next_one_where_it_was() {
    let fifo = three();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut turn = fifo.pop_batch(9).unwrap();
        apply(&mut turn);
        turn.apply(|_, _| resume_unwind(Box::new("meant")))
    }));
    assert!(caught.is_err());
    assert_eq!(stored(&fifo), ["a1", "b2"]);
    assert_eq!(told(&fifo), ["A+c3"]);
}

#[test]
fn a_turn_begun_while_the_thread_unwinds_is_as_good_as_any() {
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
    assert_eq!(told(&fifo), ["A+b2", "A+c3"], "what was dropped came again");
}

#[test]
fn a_failing_handlers_event_is_gone_and_told_with_its_key() {
    let fifo = three();
    let failed = fifo.process(|_| Err::<(), _>("unseen"));
    assert!(matches!(failed, Err(ProcessError::Handler { key, source: "unseen" }) if key == "a"));
    let failed = fifo.process(|turn| {
        apply(turn);
        Err::<(), _>("late")
    });
    assert!(matches!(failed, Err(ProcessError::Handler { key, source: "late" }) if key == "b"));
    assert_eq!(stored(&fifo), ["b2"], "only what was applied");
    let value = fifo.process(|turn| Ok::<_, ()>(apply(turn).join(" ")));
    assert_eq!(value.unwrap(), "A+c3");
}

#[test]
fn a_panicking_handlers_event_is_gone_and_told_with_its_key() {
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
fn a_handler_that_keeps_its_event_in_hand_has_passed_it() {
    let fifo = three();
    fifo.process(|_| Ok::<(), ()>(())).unwrap();
    assert_eq!(told(&fifo), ["A+b2", "A+c3"]);
}

#[test]
fn a_handler_may_offer() {
    let fifo = three();
    fifo.process(|turn| {
        turn.apply(|key, _| {
            fifo.update(obj(key, 10)).unwrap();
            fifo.resync();
        })
    })
    .unwrap();
    let mut told = told(&fifo);
    // In no order.
    told[3..].sort();
    assert_eq!(told, ["A+b2", "A+c3", "U a1>10", "S a10>10", "S b2>2", "S c3>3"]);
}

#[test]
fn turns_and_futures_can_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let fifo = bare();
    is_send(&fifo.pop_async());
    is_send(&fifo.pop_batch_async(1));
    is_send(&fifo.ready_async());
    is_send(&fifo.wait_for_sync_async());
    fifo.add(obj("a", 1)).unwrap();
    let turn = fifo.pop().unwrap();
    thread::scope(|scope| scope.spawn(move || turn.done()).join().unwrap());
    assert!(events(&fifo).is_empty());
}
