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

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    /// Checks that an event between two checks of the condition is not lost: the condition is
    /// checked once before the event, and once after it.
    #[test]
    fn event_before_the_sleep_is_noticed() {
        let (place, mut checks) = (Notify::new(), 0);
        let sleep = wait_until_some(&place, || {
            checks += 1;
            let seen = (checks > 1).then_some(checks);
            place.notify_waiters();
            seen
        });
        assert_eq!(pin!(sleep).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(2));
    }

    /// Checks that a waiter uses up only one of two wake-ups, if two events happen between its
    /// second check and its sleep. The next waiter is then woken as well.
    #[test]
    fn waiter_about_to_sleep_counts_as_sleeping() {
        let place = Notify::new();
        let sleeps = |events: usize| {
            let mut checks = 0;
            let sleep = wait_until_some(&place, || {
                checks += 1;
                if checks == 2 {
                    (0..events).for_each(|_| place.notify_one());
                }
                (checks > 2).then_some(checks)
            });
            pin!(sleep).poll(&mut Context::from_waker(Waker::noop()))
        };
        assert_eq!(
            [sleeps(2), sleeps(0), sleeps(0)],
            [Poll::Ready(3), Poll::Ready(3), Poll::Pending]
        );
    }
}
