//! Sleeping without missing what one sleeps for, and without harm to who wakes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use tokio::sync::Notify;

use crate::strangers::unharmed;

/// Looks, and sleeps at `place`, by turns, until there is something to see. Dropping the future
/// loses no wake-up: if it was meant for this sleeper, tokio's `Notify` passes it on.
pub(crate) async fn sleep_until_some<T>(place: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        let mut woken = pin!(place.notified());
        // From here on whoever wakes wakes this sleeper, or another one. What came between the
        // first look and this may have woken nobody, or left one permit for two: so another look.
        woken.as_mut().enable();
        if let Some(seen) = look() {
            return seen;
        }
        soundly(woken.as_mut()).await;
    }
}

/// Waits for `sleep`, whoever is woken by it.
pub(crate) async fn soundly<S: Future>(sleep: S) -> S::Output {
    let mut sleep = pin!(sleep);
    poll_fn(|context| {
        let waker = Waker::from(Arc::new(Sleeper(context.waker().clone())));
        sleep.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// A sleeper's own waker, which may be a stranger's, in one that never panics: who wakes it,
/// waking all perhaps, would forget those behind it, and who goes away and hands its wake-up on
/// would end with a panic that is not its own.
struct Sleeper(Waker);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        // With its drop, which may be the last one.
        unharmed(move || self.0.wake_by_ref());
    }
}
