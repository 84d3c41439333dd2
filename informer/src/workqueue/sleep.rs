//! Sleeping without missing what one sleeps for.

use std::pin::pin;

use tokio::sync::Notify;

/// Looks, and sleeps at `place`, by turns, until there is something to see. Dropping the future loses no wake-up: if it was
/// meant for this sleeper, tokio's `Notify` passes it on.
pub(super) async fn sleep_until_some<T>(place: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        let mut woken = pin!(place.notified());
        // From here on whoever wakes wakes this sleeper, or another one. What came between the first look and this may
        // have woken nobody, or left one permit for two: so another look.
        woken.as_mut().enable();
        if let Some(seen) = look() {
            return seen;
        }
        woken.await;
    }
}
