//! Counts work in flight. Each piece of work holds a guard and keeps running even if the future
//! that started it is dropped; [`back`](Shares::back) resolves once every guard is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::sleep::sleep_until_some;

/// The number of pieces of work in flight.
#[derive(Clone, Default)]
pub(crate) struct Shares(Arc<Held>);

#[derive(Default)]
struct Held {
    shares: AtomicUsize,
    /// Notified when the number drops to 0.
    back: Notify,
}

impl Shares {
    /// Counts a piece of work that is about to start.
    pub(crate) fn take(&self) -> Share {
        // Relaxed: the caller holds another guard, or a lock orders this increment before the
        // check that must see it.
        self.0.shares.fetch_add(1, Ordering::Relaxed);
        Share(self.0.clone())
    }

    /// Returns whether no work is in flight.
    pub(crate) fn are_back(&self) -> bool {
        // Acquire: pairs with the Release of each guard's drop, so all that the work did is
        // visible.
        self.0.shares.load(Ordering::Acquire) == 0
    }

    /// Waits until no work is in flight.
    pub(crate) async fn back(&self) {
        sleep_until_some(&self.0.back, || self.are_back().then_some(())).await;
    }
}

/// A guard of one piece of work, which is in flight until the guard is dropped.
pub(crate) struct Share(Arc<Held>);

impl Drop for Share {
    fn drop(&mut self) {
        // Release: pairs with the Acquire load of the waiter. Acquire: the last guard passes on
        // the effects of the other guards' work.
        if self.0.shares.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.back.notify_waiters();
        }
    }
}
