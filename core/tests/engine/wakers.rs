//! Tests of wakers, which are user code: they panic, call the queue, or poll their task
//! immediately. No other waiter may be affected.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crate::common::{Fifo, Mode, Rig, ends, obj, waker};
use deltafifo::Closed;

fn panics() {
    // Skips the panic hook, because the panic is expected.
    resume_unwind(Box::new("a waker that panics"));
}

/// Polls a future that must not be ready yet.
fn waits<F: Future>(future: F, waker: &Waker) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    future
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs `work` while a task waits for `waiting` with a waker that panics; `work` wakes the task.
fn while_it_waits(waiting: impl Future, work: impl FnOnce()) {
    let (waker, called) = waker(panics);
    let waiting = waits(waiting, &waker);
    work();
    assert_eq!(called.load(Ordering::SeqCst), 1);
    drop(waiting);
}

/// Runs `work` on a queue that is full with `deltas` deltas, while a task with a panicking waker
/// waits for room in it. Checks that keys are pending afterwards, and that all of them can be
/// popped.
fn over_a_bad_waker(deltas: u64, work: impl FnOnce(&Fifo)) {
    let fifo =
        Rig::with(Mode::Nowhere, |builder| builder.high_water(usize::try_from(deltas).unwrap()))
            .fifo;
    for n in 0..deltas {
        fifo.add(obj(&format!("key-{n}"), n)).unwrap();
    }
    while_it_waits(fifo.ready_async(), || work(&fifo));
    let rest = fifo.list_keys();
    assert!(!rest.is_empty(), "the taken keys are requeued");
    for _ in rest {
        fifo.try_pop().expect("what is pending can be popped").done();
    }
}

#[test]
fn batch_pop_that_wakes_a_panicking_waker_returns_its_keys() {
    over_a_bad_waker(2, |fifo| {
        let mut batch = fifo.try_pop_batch(2).unwrap();
        batch.next().unwrap().done();
        drop(batch);
    });
}

#[test]
fn pop_that_wakes_a_panicking_waker_requeues_its_deltas() {
    over_a_bad_waker(1, |fifo| drop(fifo.try_pop()));
}

#[test]
fn panicking_waker_at_a_handlers_end_does_not_block_the_sync() {
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
fn handler_panic_and_waker_panic_become_one_panic() {
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
fn panicking_waker_of_the_first_key_does_not_stop_the_second_wake() {
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
fn close_wakes_all_waiters_although_wakers_panic() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let (healthy, woken) = waker(|| ());
    // The waker of an earlier wait, whose task is gone.
    while_it_waits(fifo.pop_async(), || fifo.add(obj("a", 1)).unwrap());
    fifo.try_pop().unwrap().done();
    while_it_waits(fifo.pop_async(), || {
        let mut pop = waits(fifo.pop_async(), &healthy);
        let mut other = waits(fifo.pop_async(), &healthy);
        fifo.close();
        assert_eq!(woken.load(Ordering::SeqCst), 2);
        assert!(matches!(poll(&mut pop), Poll::Ready(Err(Closed))));
        assert!(matches!(poll(&mut other), Poll::Ready(Err(Closed))));
    });
}

#[test]
fn task_whose_waker_panicked_continues() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let (bad, _) = waker(panics);
    let mut waiting = waits(fifo.pop_async(), &bad);
    fifo.add(obj("a", 1)).unwrap();
    assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))));
}

#[test]
fn task_moved_to_another_executor_is_woken_there() {
    let fifo = Rig::new(Mode::Fused).fifo;
    let ((before, rest), (after, woken)) = (waker(|| ()), waker(|| ()));
    let mut waiting = waits(fifo.pop_async(), &before);
    for _ in 0..2 {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&after)).is_pending());
    }
    fifo.add(obj("a", 1)).unwrap();
    assert_eq!((rest.load(Ordering::SeqCst), woken.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn waker_may_call_the_queue() {
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

/// A task that its waker polls immediately.
#[derive(Default)]
struct Inline {
    task: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        // A caller further up the stack is polling it already.
        let Ok(mut task) = self.task.try_lock() else { return };
        if task
            .as_mut()
            .is_some_and(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
        {
            *task = None;
        }
    }
}

/// Starts a task that consumes all items, and that its waker polls.
fn consumes(fifo: &Arc<Fifo>) -> Arc<Inline> {
    let (consumed, task) = (fifo.clone(), Arc::new(Inline::default()));
    *task.task.lock().unwrap() = Some(Box::pin(async move {
        while let Ok(item) = consumed.pop_async().await {
            item.done();
        }
    }));
    task.clone().wake();
    task
}

#[test]
fn waker_may_poll_its_task() {
    ends(|| {
        let fifo = Rig::new(Mode::Fused).fifo;
        let task = consumes(&fifo);
        for n in 1..4 {
            fifo.add(obj("a", n)).unwrap();
            assert_eq!(fifo.pending_deltas(), 0, "the waker handled the item");
        }
        fifo.close();
        assert!(task.task.lock().unwrap().is_none(), "the task has ended");
    });
}

/// A value whose destructor makes an offer.
struct LastOffer(Arc<Fifo>);

impl Drop for LastOffer {
    fn drop(&mut self) {
        self.0.add(obj("last", 1)).unwrap();
    }
}

/// Checks an offer by the destructor of a thread-local variable. A thread that ends drops its
/// variables in the reverse order of their first use. This variable is used before those of the
/// queue, so they are dropped before the offer.
#[test]
fn waker_may_poll_its_task_when_an_ending_thread_calls_it() {
    thread_local!(static LAST: RefCell<Option<LastOffer>> = const { RefCell::new(None) });
    ends(|| {
        let fifo = Rig::new(Mode::Fused).fifo;
        let task = consumes(&fifo);
        let offered = fifo.clone();
        let offers = thread::spawn(move || {
            LAST.set(Some(LastOffer(offered.clone())));
            offered.add(obj("first", 1)).unwrap();
        });
        offers.join().unwrap();
        assert_eq!(fifo.pending_deltas(), 0, "the waker handled both items");
        fifo.close();
        drop(task);
    });
}
