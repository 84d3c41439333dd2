//! Wakers are strangers' code: they panic, call the queue, poll their task at once. Nobody else
//! may notice.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::common::{Fifo, Mode, Rig, ends, obj, waker};
use deltafifo::Closed;

fn panics() {
    // Without the hook: it is meant.
    resume_unwind(Box::new("a waker that panics"));
}

/// A future, and the same once it waits.
fn waits<F: Future>(future: F, waker: &Waker) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    future
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// `work` wakes the task of `waiting`, and that panics.
fn while_it_waits(waiting: impl Future, work: impl FnOnce()) {
    let (waker, called) = waker(panics);
    let waiting = waits(waiting, &waker);
    work();
    assert_eq!(called.load(Ordering::SeqCst), 1);
    drop(waiting);
}

/// `work` meets a waker that panics, on a queue of `deltas` that is full with them.
fn over_a_bad_waker(deltas: u64, work: impl FnOnce(&Fifo)) {
    let fifo =
        Rig::with(Mode::Nowhere, |builder| builder.high_water(usize::try_from(deltas).unwrap()))
            .fifo;
    for n in 0..deltas {
        fifo.add(obj(&format!("key-{n}"), n)).unwrap();
    }
    while_it_waits(fifo.ready_async(), || work(&fifo));
    let left = fifo.list_keys();
    assert!(!left.is_empty(), "what was taken is back");
    for _ in left {
        fifo.try_pop().expect("what is pending can be popped").done();
    }
}

#[test]
fn a_batch_that_meets_one_that_panics_gives_its_keys_back() {
    over_a_bad_waker(2, |fifo| {
        let mut batch = fifo.try_pop_batch(2).unwrap();
        batch.next().unwrap().done();
        drop(batch);
    });
}

#[test]
fn a_pop_that_meets_one_that_panics_puts_its_deltas_back() {
    over_a_bad_waker(1, |fifo| drop(fifo.try_pop()));
}

#[test]
fn a_handlers_end_that_meets_one_that_panics_still_ends_the_initial_population() {
    let rig = Rig::new(Mode::Fused);
    let fifo = &rig.fifo;
    fifo.replace(vec![obj("a", 1)], "1").unwrap();
    let mut item = fifo.try_pop().unwrap();
    fifo.update(obj("a", 2)).unwrap();
    item.apply(|_| ()).unwrap();
    while_it_waits(fifo.pop_async(), || item.done());
    rig.drain();
    assert!(fifo.has_synced());
    assert_eq!(fifo.pending_deltas(), 0);
}

#[test]
fn a_handler_that_panics_beside_a_waker_that_does_is_one_panic() {
    let rig = Rig::new(Mode::Fused);
    rig.fifo.replace(vec![obj("a", 1)], "1").unwrap();
    while_it_waits(rig.fifo.wait_for_sync_async(), || {
        let handled = catch_unwind(AssertUnwindSafe(|| {
            let _item = rig.fifo.try_pop().unwrap();
            panics();
        }));
        assert!(handled.is_err());
    });
    assert!(rig.fifo.has_synced());
}

#[test]
fn each_of_two_keys_finds_a_task_though_the_first_ones_waker_panics() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let (healthy, woken) = waker(|| ());
    while_it_waits(fifo.pop_async(), || {
        let waiting = waits(fifo.pop_async(), &healthy);
        fifo.add_batch(vec![obj("a", 1), obj("b", 1)]).unwrap();
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        drop(waiting);
    });
}

#[test]
fn a_close_is_told_to_all_though_wakers_panic() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let (healthy, woken) = waker(|| ());
    // An earlier one, whose task is long gone.
    while_it_waits(fifo.pop_async(), || fifo.add(obj("a", 1)).unwrap());
    fifo.try_pop().unwrap().done();
    while_it_waits(fifo.pop_async(), || {
        let mut pop = waits(fifo.pop_async(), &healthy);
        let mut batch = waits(fifo.pop_batch_async(3), &healthy);
        fifo.close();
        assert_eq!(woken.load(Ordering::SeqCst), 2);
        assert!(matches!(poll(&mut pop), Poll::Ready(Err(Closed))));
        assert!(matches!(poll(&mut batch), Poll::Ready(Err(Closed))));
    });
}

#[test]
fn the_task_of_a_waker_that_panicked_goes_on() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let (bad, _) = waker(panics);
    let mut waiting = waits(fifo.pop_async(), &bad);
    fifo.add(obj("a", 1)).unwrap();
    assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))));
}

#[test]
fn a_task_that_moves_to_another_executor_is_woken_there() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let ((before, left), (after, woken)) = (waker(|| ()), waker(|| ()));
    let mut waiting = waits(fifo.pop_async(), &before);
    for _ in 0..2 {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&after)).is_pending());
    }
    fifo.add(obj("a", 1)).unwrap();
    assert_eq!((left.load(Ordering::SeqCst), woken.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn a_waker_may_call_the_queue() {
    ends(|| {
        let fifo = Rig::new(Mode::Fused).fifo;
        let inner = fifo.clone();
        let (waker, called) = waker(move || {
            inner.add(obj("b", 1)).unwrap();
            inner.close();
        });
        let waiting = waits(fifo.pop_async(), &waker);
        fifo.add(obj("a", 1)).unwrap();
        assert_eq!(called.load(Ordering::SeqCst), 1);
        assert_eq!(fifo.list_keys().len(), 2);
        drop(waiting);
    });
}

/// A task that its waker polls at once.
#[derive(Default)]
struct Inline {
    task: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        // Polled already, further up.
        let Ok(mut task) = self.task.try_lock() else { return };
        if task
            .as_mut()
            .is_some_and(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
        {
            *task = None;
        }
    }
}

#[test]
fn a_waker_may_poll_its_task() {
    ends(|| {
        let fifo = Rig::new(Mode::Fused).fifo;
        let (consumed, task) = (fifo.clone(), Arc::new(Inline::default()));
        *task.task.lock().unwrap() = Some(Box::pin(async move {
            while let Ok(item) = consumed.pop_async().await {
                item.done();
            }
        }));
        task.clone().wake();
        for n in 1..4 {
            fifo.add(obj("a", n)).unwrap();
            assert_eq!(fifo.pending_deltas(), 0, "the waker handled it");
        }
        fifo.close();
        assert!(task.task.lock().unwrap().is_none(), "the task has ended");
    });
}
