//! Futures that are polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Polls a future once.
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

/// A future that sleeps, with a flag that says whether it has been woken since its last poll.
pub struct Sleeper<F> {
    woken: Arc<Woken>,
    future: Pin<Box<F>>,
}

impl<F: Future> Sleeper<F> {
    /// Polls a future once. The future must sleep, that is, not be ready.
    ///
    /// # Panics
    /// Panics if it does not sleep.
    pub fn of(future: F) -> Self {
        Self::or_output(future).unwrap_or_else(|_| panic!("the future does not wait"))
    }

    /// Polls a future until it sleeps or ends.
    ///
    /// # Errors
    /// Returns the output of a future that ended.
    pub fn or_output(future: F) -> Result<Self, F::Output> {
        let mut sleeper = Self { woken: Arc::default(), future: Box::pin(future) };
        match sleeper.poll() {
            Some(output) => Err(output),
            None => Ok(sleeper),
        }
    }

    /// Polls the future again.
    pub fn poll(&mut self) -> Option<F::Output> {
        self.woken.0.store(false, Ordering::SeqCst);
        poll(&mut self.future, &Waker::from(Arc::clone(&self.woken)))
    }

    /// Returns whether the future has been woken since its last poll.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }
}
