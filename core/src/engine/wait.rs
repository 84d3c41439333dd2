//! Waiting, on a thread or as a future, until a look brings something.
//!
//! Whoever waits registers, looks again, then sleeps; whoever may have changed what a look brings tells the event after the
//! change. So no change falls between the last look and the sleep.

use std::time::Instant;

use crossbeam::utils::Backoff;

use crate::engine::sync::{self, Event, Listener, mutant};
use crate::error::Closed;

/// Repeats `look` until it brings something, and sleeps until `event` is told between two looks.
pub(crate) fn wait<R>(event: &Event, mut look: impl FnMut() -> Option<R>) -> R {
    loop {
        if let Some(found) = wait_deadline(event, None, &mut look) {
            return found;
        }
    }
}

/// The same until a time at most. `None`: that has passed.
pub(crate) fn wait_deadline<R>(
    event: &Event,
    deadline: Option<Instant>,
    mut look: impl FnMut() -> Option<R>,
) -> Option<R> {
    // A short spin saves most sleeps while somebody is at work on it.
    let backoff = Backoff::new();
    while !sync::MODEL && !backoff.is_completed() {
        if let Some(found) = look() {
            return Some(found);
        }
        backoff.snooze();
    }
    loop {
        let listener = event.listen();
        if let Some(found) = look() {
            return Some(found);
        }
        mutant!(NoSecondLook => {
            drop(listener);
            event.listen().wait();
            continue;
        });
        match deadline {
            None => listener.wait(),
            Some(deadline) => {
                if listener.wait_deadline(deadline).is_none() {
                    return look();
                }
            }
        }
    }
}

/// The same as [`wait`] for async callers. Dropping the future passes a wake-up on.
pub(crate) async fn wait_async<R>(event: &Event, mut look: impl FnMut() -> Option<R>) -> R {
    loop {
        // What is there already costs no registration.
        if let Some(found) = look() {
            return found;
        }
        let listener = event.listen();
        if let Some(found) = look() {
            return found;
        }
        mutant!(AsyncNoSecondLook => {
            drop(listener);
            event.listen().await;
            continue;
        });
        listener.await;
    }
}

/// Waits until `done`; an error once it is `closed` before.
pub(crate) fn wait_until(event: &Event, done: impl Fn() -> bool, closed: impl Fn() -> bool) -> Result<(), Closed> {
    wait(event, || done_or_closed(&done, &closed))
}

/// The same for async callers.
pub(crate) async fn wait_until_async(
    event: &Event,
    done: impl Fn() -> bool,
    closed: impl Fn() -> bool,
) -> Result<(), Closed> {
    wait_async(event, || done_or_closed(&done, &closed)).await
}

fn done_or_closed(done: impl Fn() -> bool, closed: impl Fn() -> bool) -> Option<Result<(), Closed>> {
    if done() { Some(Ok(())) } else { closed().then_some(Err(Closed)) }
}
