//! Waiting, on a thread or as a future, until a look brings something.

use std::time::Instant;

use crossbeam::utils::Backoff;

use crate::sync::{self, Event, Listener, mutant};

/// Repeats `look` until it brings something. Between two looks it sleeps until `event` is told, which whoever may have
/// changed the answer does after the change. `None`: the deadline has passed.
pub(super) fn wait<R>(event: &Event, deadline: Option<Instant>, mut look: impl FnMut() -> Option<R>) -> Option<R> {
    // A short spin saves most sleeps while a producer is at work.
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
        mutant!(SleepsOnTheFirstLook => {
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

/// The same for async callers.
pub(super) async fn wait_async<R>(event: &Event, mut look: impl FnMut() -> Option<R>) -> R {
    loop {
        let listener = event.listen();
        if let Some(found) = look() {
            return found;
        }
        mutant!(FutureRestsOnTheFirstLook => {
            drop(listener);
            event.listen().await;
            continue;
        });
        listener.await;
    }
}
