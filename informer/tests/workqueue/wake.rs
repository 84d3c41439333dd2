//! Futures polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Polls once.
pub fn poll<F: Future>(future: &mut Pin<Box<F>>, waker: &Waker) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A future that waits, and whether it was woken.
pub struct Sleeper<F: Future> {
    future: Pin<Box<F>>,
    woken: Arc<Woken>,
}

impl<F: Future> Sleeper<F> {
    /// Polls it until it sleeps.
    pub fn of(future: F) -> Self {
        let mut sleeper = Self { future: Box::pin(future), woken: Arc::default() };
        assert!(sleeper.poll().is_none(), "it does not wait");
        sleeper
    }

    pub fn poll(&mut self) -> Option<F::Output> {
        poll(&mut self.future, &Waker::from(Arc::clone(&self.woken)))
    }

    pub fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }
}
