//! Helpers that all tests share: the queues and objects of the oracle, running a future, and
//! detecting hangs.
#![allow(dead_code, unused_imports)] // Each test program uses a part of it.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use deltafifo::BoxError;
pub use deltafifo_oracle::{
    Fifo, Guard, KNOWING, MODES, Mode, Obj, ObjMeta, Outside, Rig, abort_if_locked, deltas,
    key_func as keys, nameless, obj, show, show_one, tombstone, versioned,
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns an index function that fails for the chosen objects, except in its first call for one of
/// them. The first call checks a list, and a later one stores the object.
pub fn failing_late<T>(
    is_chosen: impl Fn(&T) -> bool + Send + Sync + 'static,
) -> impl Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync + 'static {
    let calls = AtomicUsize::new(0);
    move |object: &T| {
        let fails = is_chosen(object) && calls.fetch_add(1, Ordering::Relaxed) > 0;
        if fails { Err("late".into()) } else { Ok(vec![]) }
    }
}

/// Runs a future on the current thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A waker that calls a function. It aborts the process if it is woken or dropped under a lock.
struct Does<F>(F);

impl<F> Drop for Does<F> {
    fn drop(&mut self) {
        abort_if_locked("a waker's destructor");
    }
}

impl<F: Fn() + Send + Sync> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        abort_if_locked("a waker");
        (self.0)();
    }
}

/// Returns a waker that calls `does`, and a counter of its calls.
pub fn waker(does: impl Fn() + Send + Sync + 'static) -> (Waker, Arc<AtomicUsize>) {
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let does = Does(move || {
        count.fetch_add(1, Ordering::SeqCst);
        does();
    });
    (Waker::from(Arc::new(does)), called)
}

/// Runs `work`, and panics if it takes too long, so that a deadlock fails the test instead of
/// hanging it.
pub fn ends<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let result = work();
        drop(send);
        result
    });
    assert_ne!(
        receive.recv_timeout(Duration::from_secs(if cfg!(miri) { 3600 } else { 120 })),
        Err(mpsc::RecvTimeoutError::Timeout),
        "the work does not end"
    );
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
