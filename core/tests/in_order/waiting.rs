//! Tests of waits for an event, for the end of another turn, for room and for the sync, on threads
//! and as futures.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::common::{block_on, ends, keys, obj, waker};
use crate::rig::{Fifo, bare, notified, show_turn};
use deltafifo::{Closed, InOrderFifo, Indexer, VersionError, WaitError};

fn pop(fifo: &Fifo) -> Result<String, Closed> {
    fifo.pop().map(|turn| take(turn))
}

fn pop_async(fifo: &Fifo) -> Result<String, Closed> {
    block_on(fifo.pop_async()).map(|turn| take(turn))
}

fn pop_batch(fifo: &Fifo) -> Result<String, Closed> {
    fifo.pop_batch(1).map(|turn| take(turn))
}

fn take(turn: deltafifo::Turn<'_, crate::common::Obj, crate::common::ObjMeta>) -> String {
    let shown = show_turn(&turn).join(" ");
    turn.done();
    shown
}

type Way = fn(&Fifo) -> Result<String, Closed>;

/// The functions that wait for an event.
const WAYS: [Way; 3] = [pop, pop_async, pop_batch];

#[test]
fn blocked_pop_wakes_for_every_kind_of_offer() {
    type Offer = fn(&Fifo);
    let offers: [(Offer, &str); 5] = [
        (|fifo| fifo.add(obj("a", 1)).unwrap(), "a:A1"),
        (|fifo| fifo.update(obj("a", 2)).unwrap(), "a:U2"),
        (|fifo| fifo.delete(obj("a", 3)).unwrap(), "a:D3"),
        (|fifo| fifo.replace(vec![obj("a", 4)], "7").unwrap(), "all@7 a4"),
        (Fifo::resync, "sync"),
    ];
    ends(move || {
        for way in WAYS {
            for (offer, expected) in offers {
                let fifo = bare();
                thread::scope(|scope| {
                    let popping = scope.spawn(|| way(&fifo));
                    offer(&fifo);
                    assert_eq!(popping.join().unwrap().unwrap(), expected);
                });
            }
        }
    });
}

#[test]
fn waiter_for_another_turn_continues_at_its_end() {
    ends(|| {
        for way in WAYS {
            let fifo = bare();
            fifo.add(obj("a", 1)).unwrap();
            fifo.add(obj("b", 2)).unwrap();
            thread::scope(|scope| {
                let turn = fifo.pop().unwrap();
                let waiting = scope.spawn(|| way(&fifo));
                turn.done();
                assert_eq!(waiting.join().unwrap().unwrap(), "b:A2");
            });
            fifo.add(obj("c", 3)).unwrap();
            thread::scope(|scope| {
                let turn = fifo.pop().unwrap();
                let waiting = scope.spawn(|| way(&fifo));
                drop(turn);
                assert_eq!(waiting.join().unwrap().unwrap(), "c:A3", "the returned event");
            });
        }
    });
}

#[test]
fn end_of_a_turn_wakes_a_task_if_an_event_remains() {
    let fifo = bare();
    fifo.add(obj("a", 1)).unwrap();
    let mut waiting = pin!(fifo.pop_async());
    let (wake, wakes) = waker(|| ());
    let turn = fifo.pop().unwrap();
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending());
    turn.done();
    assert_eq!(wakes.load(Ordering::Relaxed), 0, "no event can be taken");
    fifo.add(obj("b", 2)).unwrap();
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    let Some(turn) = fifo.try_pop() else { panic!("an event is queued") };
    assert!(
        waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending(),
        "another was quicker"
    );
    drop(turn);
    assert_eq!(wakes.load(Ordering::Relaxed), 2);
    let Poll::Ready(Ok(turn)) = waiting.as_mut().poll(&mut Context::from_waker(&wake)) else {
        panic!("an event is queued")
    };
    assert_eq!(take(turn), "b:A2");
}

/// Checks that a second event wakes another consumer while the task that the first event woke does
/// not poll its future, because it is busy with another branch of a `select!`.
#[test]
fn event_wakes_another_consumer_while_a_notified_one_is_not_polled() {
    let fifo = bare();
    let ((busy_waker, busy), (free_waker, free)) = (waker(|| ()), waker(|| ()));
    let (mut unpolled, mut polled) = (pin!(fifo.pop_async()), pin!(fifo.pop_async()));
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(&busy_waker)).is_pending());
    assert!(polled.as_mut().poll(&mut Context::from_waker(&free_waker)).is_pending());
    fifo.add(obj("a", 1)).unwrap();
    fifo.add(obj("b", 1)).unwrap();
    assert_eq!((busy.load(Ordering::Relaxed), free.load(Ordering::Relaxed)), (1, 1));
    let Poll::Ready(Ok(turn)) = polled.as_mut().poll(&mut Context::from_waker(&free_waker)) else {
        panic!("an event is pending")
    };
    assert_eq!(take(turn), "a:A1");
}

#[test]
fn end_of_a_turn_wakes_a_consumer_for_each_remaining_event() {
    let fifo = bare();
    let ((busy_waker, busy), (free_waker, free)) = (waker(|| ()), waker(|| ()));
    fifo.replace(vec![obj("a", 1)], "1").unwrap();
    let turn = fifo.pop().unwrap();
    let (mut unpolled, mut polled) = (pin!(fifo.pop_async()), pin!(fifo.pop_async()));
    fifo.add(obj("b", 1)).unwrap();
    fifo.add(obj("c", 1)).unwrap();
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(&busy_waker)).is_pending());
    assert!(polled.as_mut().poll(&mut Context::from_waker(&free_waker)).is_pending());
    turn.done();
    assert_eq!((busy.load(Ordering::Relaxed), free.load(Ordering::Relaxed)), (1, 1));
    let Poll::Ready(Ok(turn)) = polled.as_mut().poll(&mut Context::from_waker(&free_waker)) else {
        panic!("an event is pending")
    };
    assert_eq!(take(turn), "b:A1");
}

#[test]
fn end_of_a_turn_wakes_a_consumer_although_a_notified_one_is_not_polled() {
    let fifo = bare();
    let ((busy_waker, busy), (free_waker, free)) = (waker(|| ()), waker(|| ()));
    let (mut unpolled, mut polled) = (pin!(fifo.pop_async()), pin!(fifo.pop_async()));
    assert!(unpolled.as_mut().poll(&mut Context::from_waker(&busy_waker)).is_pending());
    fifo.add(obj("a", 1)).unwrap();
    let turn = fifo.try_pop().unwrap();
    fifo.add(obj("b", 1)).unwrap();
    assert!(polled.as_mut().poll(&mut Context::from_waker(&free_waker)).is_pending());
    turn.done();
    assert_eq!((busy.load(Ordering::Relaxed), free.load(Ordering::Relaxed)), (1, 1));
    let Poll::Ready(Ok(turn)) = polled.as_mut().poll(&mut Context::from_waker(&free_waker)) else {
        panic!("an event is pending")
    };
    assert_eq!(take(turn), "b:A1");
}

#[test]
fn dropped_async_pop_takes_nothing_and_passes_its_wake_up_on() {
    let fifo = bare();
    let ((first_waker, first), (second_waker, second)) = (waker(|| ()), waker(|| ()));
    let mut staying = pin!(fifo.pop_async());
    {
        let mut dropped = pin!(fifo.pop_async());
        assert!(dropped.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
        assert!(staying.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
        fifo.add(obj("a", 1)).unwrap();
        let woken = (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
        assert_eq!(woken, (1, 0), "the longest waiting one");
    }
    assert_eq!(second.load(Ordering::Relaxed), 1);
    let Poll::Ready(Ok(turn)) = staying.as_mut().poll(&mut Context::from_waker(&second_waker))
    else {
        panic!("an event is queued")
    };
    assert_eq!(take(turn), "a:A1");
}

#[test]
fn closed_queue_is_drained_before_pops_return_closed() {
    let fifo = bare();
    fifo.add(obj("a", 1)).unwrap();
    fifo.close();
    assert!(fifo.is_closed());
    fifo.add(obj("b", 2)).unwrap();
    assert_eq!(
        (pop(&fifo).unwrap(), pop_async(&fifo).unwrap()),
        ("a:A1".to_owned(), "b:A2".to_owned())
    );
    assert!(WAYS.iter().all(|way| way(&fifo) == Err(Closed)));
    assert!(fifo.try_pop().is_none() && fifo.try_pop_batch(9).is_none());
}

#[test]
fn closed_queue_does_not_end_while_a_turn_may_return_events() {
    ends(|| {
        let fifo = bare();
        fifo.add(obj("a", 1)).unwrap();
        fifo.close();
        thread::scope(|scope| {
            let turn = fifo.pop().unwrap();
            let mut future = pin!(fifo.pop_async());
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let waiting = scope.spawn(|| pop(&fifo));
            drop(turn);
            // One of the two gets the event. The other one then finds the queue closed.
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(Ok(turn)) => {
                    assert_eq!(take(turn), "a:A1");
                    assert_eq!(waiting.join().unwrap(), Err(Closed));
                }
                _ => assert_eq!(waiting.join().unwrap().unwrap(), "a:A1"),
            }
        });
        assert_eq!(pop(&fifo), Err(Closed));
    });
}

#[test]
fn close_wakes_all_waiters() {
    ends(|| {
        let fifo = InOrderFifo::builder(keys()).high_water(1).build();
        // A first relist that is not handled: the queue has no room and is not synced.
        fifo.replace(vec![obj("a", 1)], "1").unwrap();
        let turn = fifo.pop().unwrap();
        thread::scope(|scope| {
            let mut waiting = Vec::new();
            for _ in 0..5 {
                waiting.push(scope.spawn(|| fifo.wait_for_sync()));
                waiting.push(scope.spawn(|| block_on(fifo.wait_for_sync_async())));
                waiting.push(scope.spawn(|| fifo.ready()));
                waiting.push(scope.spawn(|| block_on(fifo.ready_async())));
                waiting.push(scope.spawn(|| Err(block_on(fifo.closed_async()))));
            }
            fifo.close();
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == Err(Closed)));
            let popping: Vec<_> = WAYS.iter().map(|way| scope.spawn(|| way(&fifo))).collect();
            turn.done();
            assert!(popping.into_iter().all(|popping| popping.join().unwrap() == Err(Closed)));
        });
    });
}

#[test]
fn wait_for_sync_ends_with_the_first_relists_handler() {
    ends(|| {
        let fifo = bare();
        let mut waiting = pin!(fifo.wait_for_sync_async());
        let (wake, wakes) = waker(|| ());
        thread::scope(|scope| {
            let synced = scope.spawn(|| fifo.wait_for_sync());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending());
            fifo.replace(vec![obj("a", 1)], "1").unwrap();
            let turn = fifo.pop().unwrap();
            assert!(
                waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending(),
                "its handler still runs"
            );
            turn.done();
            synced.join().unwrap().unwrap();
        });
        assert!(wakes.load(Ordering::Relaxed) > 0);
        assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&wake)), Poll::Ready(Ok(())));
        fifo.close();
        fifo.wait_for_sync().unwrap();
    });
}

#[test]
fn ready_waits_for_less_than_the_high_water_mark() {
    ends(|| {
        let fifo = InOrderFifo::builder(keys()).high_water(3).build();
        fifo.add(obj("a", 1)).unwrap();
        fifo.resync();
        fifo.ready().unwrap();
        // A relist counts as many as it lists.
        fifo.replace(vec![obj("a", 2), obj("b", 2)], "2").unwrap();
        fifo.replace(vec![], "3").unwrap();
        assert_eq!(fifo.pending(), 5);
        let mut waiting = pin!(fifo.ready_async());
        let (wake, wakes) = waker(|| ());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending());
        pop(&fifo).unwrap();
        pop(&fifo).unwrap();
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending());
        thread::scope(|scope| {
            let ready = scope.spawn(|| fifo.ready());
            let turn = fifo.pop().unwrap();
            assert_eq!(fifo.pending(), 3, "current events count");
            turn.done();
            ready.join().unwrap().unwrap();
        });
        assert_eq!((wakes.load(Ordering::Relaxed), fifo.pending()), (1, 1));
        assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&wake)), Poll::Ready(Ok(())));
    });
}

#[test]
fn panicking_waker_does_not_affect_other_waiters() {
    let fifo = InOrderFifo::over(deltafifo::Indexer::builder(keys()).build().unwrap())
        .high_water(1)
        .build();
    let (bad, called) = waker(|| resume_unwind(Box::new("meant")));
    let poll = |waiting: std::pin::Pin<&mut dyn Future<Output = _>>| {
        assert!(waiting.poll(&mut Context::from_waker(&bad)).is_pending());
    };
    fifo.replace(vec![obj("a", 1)], "1").unwrap();
    {
        let (mut sync, mut room) = (pin!(fifo.wait_for_sync_async()), pin!(fifo.ready_async()));
        poll(sync.as_mut());
        poll(room.as_mut());
        assert_eq!(notified(&fifo), ["R+a1"]);
        assert_eq!(called.load(Ordering::Relaxed), 2);
    }
    let mut popping = pin!(fifo.pop_async());
    assert!(popping.as_mut().poll(&mut Context::from_waker(&bad)).is_pending());
    fifo.add(obj("b", 1)).unwrap();
    assert_eq!(called.load(Ordering::Relaxed), 3);
    let turn = fifo.try_pop().unwrap();
    assert!(popping.as_mut().poll(&mut Context::from_waker(&bad)).is_pending());
    drop(turn);
    assert_eq!(called.load(Ordering::Relaxed), 4);
    assert!(popping.as_mut().poll(&mut Context::from_waker(&bad)).is_ready());
    assert_eq!(notified(&fifo), ["A+b1"]);
}

#[test]
fn waker_may_call_the_queue() {
    ends(|| {
        let fifo = Arc::new(bare());
        let inner = fifo.clone();
        let (waker, called) = waker(move || {
            inner.add(obj("b", 1)).unwrap();
            inner.try_pop().unwrap().done();
            inner.close();
        });
        let mut waiting = pin!(fifo.pop_async());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        fifo.add(obj("a", 1)).unwrap();
        assert_eq!(called.load(Ordering::Relaxed), 1);
        assert_eq!(pop(&fifo).unwrap(), "b:A1");
    });
}

#[test]
fn wait_for_an_untracked_version_fails_at_once() {
    let refused = |version: &str| {
        Err(WaitError::Version(VersionError::NotTracked { version: version.to_owned() }))
    };
    ends(move || {
        let store = Indexer::builder(keys()).build().unwrap();
        let reader = store.reader();
        store.bookmark("5").unwrap();
        thread::scope(|scope| {
            // A waiter that started before there was a queue fails, too.
            let waiter = scope.spawn(|| reader.wait_for_resource_version("7"));
            let fifo = InOrderFifo::over(store).build();
            assert_eq!(waiter.join().unwrap(), refused("7"));
            fifo.replace(vec![obj("a", 1)], "7").unwrap();
            notified(&fifo);
            assert_eq!(block_on(fifo.store().wait_for_resource_version_async("7")), refused("7"));
        });
        assert_eq!(reader.wait_for_resource_version("7"), refused("7"));
        assert_eq!(reader.wait_for_resource_version("5"), Ok(()), "the earlier version stays");
    });
}
