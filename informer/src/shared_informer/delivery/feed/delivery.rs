//! Deliveries, which contain notifications, and the methods by which a handler takes them from its
//! feed.

use std::task::{Context, Poll, Waker};

use deltafifo::panics::ignore_panic;
use tokio::time::Instant;

use super::super::notification::Notification;
use super::super::protocol::{DeferredDrops, NextAction};
use super::{AfterUnlock, Feed, Matches};
use crate::shared_informer::error::UserCode;
use crate::shared_informer::sync::mutant;

/// The notifications of one step: one, two, or none.
pub(in super::super) struct Delivery<K> {
    pub(in super::super) notifications: [Option<Notification<K>>; 2],
    is_in_initial_list: bool,
    /// The time at which the step was taken, if there are metrics.
    at: Option<Instant>,
}

impl<K: Send + Sync + 'static> Feed<K> {
    /// Polls for the handler's next delivery, or for `None` at the end of the feed. The caller must
    /// call [`done`](Self::done) when it has handled the delivery.
    pub(in super::super) fn poll(&self, context: &Context<'_>) -> Poll<Option<Delivery<K>>> {
        let next = match self.next(None) {
            Poll::Pending => {
                // Cloned with no lock held, because the waker is user code. Then the buffer is
                // checked again under the lock that stores the waker, so no wake-up is lost.
                let waker = context.waker().clone();
                self.next(Some(waker))
            }
            ready @ Poll::Ready(_) => ready,
        };
        next.map(|next| next.map(|next| self.delivery(next)))
    }

    pub(in super::super) fn next(&self, sleeper: Option<Waker>) -> Poll<Option<NextAction<K>>> {
        let mut after_unlock =
            AfterUnlock { drops: DeferredDrops::default(), wake: None, has_synced: false };
        let (mut before, mut has_room) = (None, false);
        let next = {
            let mut locked = self.locked.lock();
            if locked.has_ended {
                Poll::Ready(None)
            } else {
                let was_full = locked.inbox.holds_back();
                mutant!(SleepsWithoutRecheck => if sleeper.is_some() {
                    return locked.sleep(sleeper);
                });
                let next = locked.inbox.take(
                    self.known.as_ref(),
                    &self.active_keys,
                    &mut after_unlock.drops,
                );
                locked.update_high_water();
                after_unlock.has_synced = locked.inbox.syncs();
                has_room = was_full && !locked.inbox.holds_back();
                match (next, sleeper) {
                    (Some(next), unused) => {
                        // Moved out, because a waker is user code and is dropped after unlocking.
                        before = unused;
                        Poll::Ready(Some(next))
                    }
                    (None, Some(sleeper)) => {
                        before = locked.sleeper.replace(sleeper);
                        Poll::Pending
                    }
                    (None, None) => Poll::Pending,
                }
            }
        };
        ignore_panic(|| drop(before));
        mutant!(RoomWakesNoWaiter => let has_room = false);
        if has_room {
            self.room.notify_waiters();
        }
        self.finish(after_unlock);
        next
    }

    fn delivery(&self, next: NextAction<K>) -> Delivery<K> {
        let at = self.metrics.now();
        let step = match next {
            NextAction::ResyncBegins => return Delivery::only(Some(Notification::ResyncBegins)),
            NextAction::ResyncEnds => return Delivery::only(Some(Notification::ResyncEnds)),
            // An empty delivery, as for a step that the filter rejects, so that the caller yields
            // to other tasks.
            NextAction::Stride => return Delivery::only(None),
            NextAction::Step(step) => step,
        };
        let is_in_initial_list = step.is_in_initial_list;
        if let Some(now) = at {
            self.metrics.record(|metrics| metrics.notified(now, step.since));
        }
        // The panic of each user function is caught separately. If a panic discarded the whole
        // step, the handler would see a history that never happened.
        let accepts = |object: &K| {
            let matches = |matches: &Matches<K>| {
                self.on_error.catch(UserCode::Filter, || matches(object)).unwrap_or(false)
            };
            self.matches.as_deref().is_none_or(matches)
        };
        let notifications = self.on_error.catch(UserCode::Notifications, || {
            step.notifications(|object| self.uid(object), accepts)
        });
        Delivery { notifications: notifications.unwrap_or_default(), is_in_initial_list, at }
    }

    fn uid<'a>(&self, object: &'a K) -> Option<&'a str> {
        self.on_error.catch(UserCode::Accessor, || self.known.uid(object)).flatten()
    }

    /// Records that a delivery has been handled.
    pub(in super::super) fn done(&self, delivery: &Delivery<K>) {
        self.metrics.record(|metrics| metrics.done(delivery.at));
        if delivery.is_in_initial_list {
            self.with(|locked, _| locked.inbox.initial_done());
        }
    }
}

impl<K> Delivery<K> {
    fn only(notification: Option<Notification<K>>) -> Self {
        Self { notifications: [notification, None], is_in_initial_list: false, at: None }
    }
}

/// The code of a deliberate defect (`shared_informer/sync/mutants.rs`).
#[cfg(deltafifo_shuttle)]
mod defects {
    use super::super::Locked;
    use super::{NextAction, Poll, Waker};

    impl<K> Locked<K> {
        /// Stores the waker, with the defect `SleepsWithoutRecheck`: a step that has arrived since
        /// the last check wakes no handler.
        pub(super) fn sleep(&mut self, sleeper: Option<Waker>) -> Poll<Option<NextAction<K>>> {
            self.sleeper = sleeper;
            Poll::Pending
        }
    }
}
