//! Functions that wait on a [`Notify`] and lose no wake-up, with wakers that cannot panic.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use deltafifo::panics::ignore_panic;
use tokio::sync::Notify;

/// Calls `attempt` until it returns a value, and waits on `place` between the calls. Dropping the
/// returned future loses no wake-up: if the future was woken in vain, `Notify` wakes another
/// waiter.
pub(crate) async fn wait_until_some<T>(
    place: &Notify,
    mut attempt: impl FnMut() -> Option<T>,
) -> T {
    loop {
        if let Some(seen) = attempt() {
            return seen;
        }
        let mut woken = pin!(place.notified());
        // From here on a notification reaches this waiter. A notification between the first check
        // and this line reached no waiter, or left a single permit for two events. So check again.
        woken.as_mut().enable();
        if let Some(seen) = attempt() {
            return seen;
        }
        with_catching_waker(woken.as_mut()).await;
    }
}

/// Polls `sleep` with a waker that does not panic.
pub(crate) async fn with_catching_waker<S: Future>(sleep: S) -> S::Output {
    let mut sleep = pin!(sleep);
    poll_fn(|context| {
        let waker = Waker::from(Arc::new(CatchingWaker(context.waker().clone())));
        sleep.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// A wrapper of a waiter's waker that catches its panics. The waker is user code. If it panicked,
/// `notify_waiters` would skip the waiters after it. The drop of an earlier waiter, in which
/// `Notify` may wake this one, would panic as well.
struct CatchingWaker(Waker);

impl Wake for CatchingWaker {
    fn wake(self: Arc<Self>) {
        // The drop is included: it may drop the last clone of the user's waker.
        ignore_panic(move || self.0.wake_by_ref());
    }
}
