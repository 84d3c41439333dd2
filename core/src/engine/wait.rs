//! Waiting, as a blocked thread or as a future, until a check succeeds.
//!
//! A waiter registers with the event, checks again, and then sleeps. A thread that may have changed
//! the result of the check notifies the event after the change. So the waiter misses no change
//! between its last check and its sleep.

use crossbeam::utils::Backoff;

use crate::engine::sync::{self, Event, Listener, mutant};
use crate::error::Closed;

/// Repeats `check` until it returns a value. Between two attempts it sleeps until `event` is
/// notified.
pub(crate) fn wait<R>(event: &Event, mut check: impl FnMut() -> Option<R>) -> R {
    // A short spin avoids most sleeps while another thread is about to change the result.
    let backoff = Backoff::new();
    while !sync::MODEL && !backoff.is_completed() {
        if let Some(value) = check() {
            return value;
        }
        backoff.snooze();
    }
    loop {
        let listener = event.listen();
        if let Some(value) = check() {
            return value;
        }
        mutant!(NoSecondCheck => let listener = { drop(listener); event.listen() });
        listener.wait();
    }
}

/// Waits like [`wait`], for async callers. If the future is dropped with an unused notification,
/// another waiter gets the notification.
pub(crate) async fn wait_async<R>(event: &Event, mut check: impl FnMut() -> Option<R>) -> R {
    loop {
        // If the result is already available, no registration is needed.
        if let Some(value) = check() {
            return value;
        }
        let listener = event.listen();
        if let Some(value) = check() {
            return value;
        }
        mutant!(AsyncNoSecondCheck => let listener = { drop(listener); event.listen() });
        listener.await;
    }
}

/// Waits until `done` is true. Returns an error if `closed` becomes true first.
pub(crate) fn wait_until(
    event: &Event,
    done: impl Fn() -> bool,
    closed: impl Fn() -> bool,
) -> Result<(), Closed> {
    wait(event, || done_or_closed(&done, &closed))
}

/// Waits like [`wait_until`], for async callers.
pub(crate) async fn wait_until_async(
    event: &Event,
    done: impl Fn() -> bool,
    closed: impl Fn() -> bool,
) -> Result<(), Closed> {
    wait_async(event, || done_or_closed(&done, &closed)).await
}

fn done_or_closed(
    done: impl Fn() -> bool,
    closed: impl Fn() -> bool,
) -> Option<Result<(), Closed>> {
    if done() { Some(Ok(())) } else { closed().then_some(Err(Closed)) }
}
