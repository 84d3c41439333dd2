//! Tests of waits for items, for room and for the sync, on threads and as futures.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::common::{Fifo, Mode, Rig, block_on, deltas, ends, obj, show, waker};
use deltafifo::{Closed, DeltaType};

fn fifo() -> Arc<Fifo> {
    Rig::new(Mode::Fused).fifo
}

#[test]
fn blocked_pop_wakes_for_every_kind_of_offer() {
    type Offer = fn(&Fifo);
    let offers: [(Offer, &str); 6] = [
        (|fifo| fifo.add(obj("a", 1)).unwrap(), "a"),
        (|fifo| fifo.update_batch(vec![obj("b", 1)]).unwrap(), "b"),
        (|fifo| assert!(fifo.replace(vec![obj("c", 1), obj("k", 1)], "1").is_ok()), "c"),
        (|fifo| assert!(fifo.replace(vec![], "2").is_ok()), "k"),
        (|fifo| fifo.add_if_not_present(deltas([(DeltaType::Added, obj("d", 1))])).unwrap(), "d"),
        (Fifo::resync, "k"),
    ];
    ends(move || {
        for (offer, key) in offers {
            let rig = Rig::knowing(Mode::Fused, &[obj("k", 1)], |builder| builder);
            thread::scope(|scope| {
                let popping = scope.spawn(|| {
                    let guard = rig.fifo.pop().unwrap();
                    let key = guard.key().to_owned();
                    guard.done();
                    key
                });
                offer(&rig.fifo);
                assert_eq!(popping.join().unwrap(), key);
            });
        }
    });
}

#[test]
fn blocked_pop_wakes_for_a_requeue_and_for_a_returned_batch() {
    ends(|| {
        let fifo = fifo();
        fifo.add(obj("a", 1)).unwrap();
        let guard = fifo.pop().unwrap();
        thread::scope(|scope| {
            let popping = scope.spawn(|| fifo.pop().unwrap().done());
            guard.requeue();
            popping.join().unwrap();
        });
        for key in ["a", "b", "c"] {
            fifo.add(obj(key, 1)).unwrap();
        }
        let batch = fifo.pop_batch(9).unwrap();
        thread::scope(|scope| {
            let popping: Vec<_> =
                (0..3).map(|_| scope.spawn(|| fifo.pop().unwrap().done())).collect();
            drop(batch);
            for popping in popping {
                popping.join().unwrap();
            }
        });
    });
}

#[test]
fn one_run_wakes_as_many_consumers_as_it_has_keys() {
    ends(|| {
        let fifo = fifo();
        let (popped, is_popped) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..8 {
                let (fifo, popped) = (&fifo, popped.clone());
                // Each consumer keeps its key until all eight have one.
                scope.spawn(move || {
                    let guard = fifo.pop().unwrap();
                    popped.send(guard).unwrap();
                });
            }
            fifo.replace((0..8).map(|n| obj(&format!("k{n}"), 1)).collect(), "1").unwrap();
            let held: Vec<_> = is_popped.iter().take(8).collect();
            assert_eq!(held.len(), 8);
            held.into_iter().for_each(deltafifo::Popped::done);
        });
        assert!(fifo.has_synced());
    });
}

#[test]
fn close_wakes_all_waiters() {
    ends(|| {
        let fifo = fifo();
        // A first relist claims the initial population, so waiting for the sync blocks.
        let relist = fifo.begin_replace();
        thread::scope(|scope| {
            let mut waiting = Vec::new();
            for _ in 0..10 {
                waiting.push(scope.spawn(|| fifo.pop().map(drop)));
                waiting.push(scope.spawn(|| fifo.pop_batch(3).map(drop)));
                waiting.push(scope.spawn(|| block_on(fifo.pop_async()).map(drop)));
                waiting.push(scope.spawn(|| fifo.wait_for_sync()));
                waiting.push(scope.spawn(|| block_on(fifo.wait_for_sync_async())));
                waiting.push(scope.spawn(|| Err(block_on(fifo.closed_async()))));
            }
            fifo.close();
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == Err(Closed)));
        });
        drop(relist);
    });
}

#[test]
fn async_pops_get_later_offers() {
    ends(|| {
        let fifo = fifo();
        thread::scope(|scope| {
            let one = scope.spawn(|| block_on(fifo.pop_async()).unwrap().done());
            fifo.add(obj("a", 1)).unwrap();
            one.join().unwrap();
        });
        fifo.add(obj("c", 1)).unwrap();
        fifo.close();
        block_on(fifo.pop_async()).unwrap().done();
        assert_eq!(block_on(fifo.pop_async()).map(drop), Err(Closed));
    });
}

#[test]
fn futures_and_guards_can_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let fifo = fifo();
    is_send(&fifo.pop_async());
    is_send(&fifo.ready_async());
    is_send(&fifo.wait_for_sync_async());
    is_send(&fifo.closed_async());
    fifo.add(obj("a", 1)).unwrap();
    let guard = fifo.pop().unwrap();
    thread::scope(|scope| scope.spawn(move || guard.done()).join().unwrap());
    assert!(fifo.try_pop().is_none());
}

#[test]
fn dropped_async_pop_takes_nothing_and_passes_its_wake_up_on() {
    let fifo = fifo();
    let ((first_waker, first), (second_waker, second)) = (waker(|| ()), waker(|| ()));
    let mut staying = pin!(fifo.pop_async());
    {
        let mut dropped = pin!(fifo.pop_async());
        assert!(dropped.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
        assert!(staying.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
        fifo.add(obj("a", 1)).unwrap();
        assert_eq!(
            first.load(Ordering::Acquire) + second.load(Ordering::Acquire),
            1,
            "one key wakes one"
        );
        assert_eq!(first.load(Ordering::Acquire), 1, "the longest waiting one");
    }
    assert_eq!(second.load(Ordering::Acquire), 1, "the dropped future passes its wake-up on");
    let Poll::Ready(popped) = staying.as_mut().poll(&mut Context::from_waker(&second_waker)) else {
        panic!("a key is pending")
    };
    popped.unwrap().done();
}

#[test]
fn cancelled_handler_leaves_its_key_to_another_consumer() {
    let fifo = fifo();
    fifo.add(obj("a", 1)).unwrap();
    {
        let mut handling = pin!(async {
            let guard = fifo.pop_async().await.unwrap();
            std::future::pending::<()>().await;
            guard.done();
        });
        assert!(handling.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(fifo.try_pop().is_none());
    }
    let guard = block_on(fifo.pop_async()).unwrap();
    assert_eq!(show(guard.deltas()), "A1");
    guard.done();
}

#[test]
fn ready_waits_for_fewer_than_the_high_water_mark() {
    ends(|| {
        let fifo = Rig::with(Mode::Nowhere, |builder| builder.high_water(3)).fifo;
        for n in 0..2 {
            fifo.add(obj("a", n)).unwrap();
        }
        fifo.ready().unwrap();
        fifo.add(obj("b", 1)).unwrap();
        fifo.add(obj("b", 2)).unwrap();
        let mut waiting = pin!(fifo.ready_async());
        let (wake, wakes) = waker(|| ());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending());
        thread::scope(|scope| {
            let ready = scope.spawn(|| fifo.ready());
            fifo.pop().unwrap().done();
            ready.join().unwrap().unwrap();
        });
        assert_eq!(wakes.load(Ordering::Acquire), 1);
        assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&wake)), Poll::Ready(Ok(())));
        // The requeue raises the queue above the mark again. Then it is closed.
        fifo.add(obj("c", 1)).unwrap();
        fifo.pop().unwrap().requeue();
        assert_eq!(fifo.pending_deltas(), 3);
        thread::scope(|scope| {
            let closed = scope.spawn(|| fifo.ready());
            fifo.close();
            assert_eq!(closed.join().unwrap(), Err(Closed));
        });
    });
}

#[test]
fn without_a_high_water_mark_ready_and_adds_never_wait() {
    let fifo = fifo();
    for n in 0..1000 {
        fifo.add(obj("a", n)).unwrap();
    }
    fifo.ready().unwrap();
    block_on(fifo.ready_async()).unwrap();
}

#[test]
fn wait_for_sync_ends_with_the_last_initial_handler() {
    ends(|| {
        let fifo = fifo();
        let mut waiting = pin!(fifo.wait_for_sync_async());
        let (wake, wakes) = waker(|| ());
        thread::scope(|scope| {
            let synced = scope.spawn(|| fifo.wait_for_sync());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending());
            fifo.replace(vec![obj("a", 1)], "1").unwrap();
            let mut guard = fifo.pop().unwrap();
            guard.apply(|_| ()).unwrap();
            assert!(
                waiting.as_mut().poll(&mut Context::from_waker(&wake)).is_pending(),
                "its handler still runs"
            );
            guard.done();
            synced.join().unwrap().unwrap();
        });
        assert!(wakes.load(Ordering::Acquire) > 0);
        assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&wake)), Poll::Ready(Ok(())));
        fifo.close();
        fifo.wait_for_sync().unwrap();
        block_on(fifo.wait_for_sync_async()).unwrap();
    });
}

#[test]
fn error_of_waits_on_a_closed_queue_with_deltas_does_not_call_it_empty() {
    let rig = Rig::knowing(Mode::Fused, &[], |builder| builder.high_water(1));
    assert!(rig.fifo.replace(vec![obj("a", 1)], "1").is_ok());
    rig.fifo.close();
    for ended in [rig.fifo.ready(), rig.fifo.wait_for_sync()] {
        assert!(!ended.unwrap_err().to_string().contains("empty"));
    }
    assert_eq!(rig.fifo.pending_deltas(), 1);
}
