//! Counts work in flight. Each piece of work holds a guard and keeps running even if the future
//! that started it is dropped; [`InFlight::wait_idle`] resolves once every guard is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::util::sleep::wait_until_some;

/// The number of pieces of work in flight.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Count>);

#[derive(Default)]
struct Count {
    guards: AtomicUsize,
    /// The signal that the number has dropped to 0.
    idle: Notify,
}

impl InFlight {
    /// Counts a piece of work that is about to start.
    pub(crate) fn begin(&self) -> WorkGuard {
        // Relaxed: the caller holds another guard, or a lock orders this increment before the
        // check that must see it.
        self.0.guards.fetch_add(1, Ordering::Relaxed);
        WorkGuard(self.0.clone())
    }

    /// Returns whether no work is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        // Acquire: pairs with the Release of each guard's drop, so all that the work did is
        // visible.
        self.0.guards.load(Ordering::Acquire) == 0
    }

    /// Waits until no work is in flight.
    pub(crate) async fn wait_idle(&self) {
        wait_until_some(&self.0.idle, || self.is_idle().then_some(())).await;
    }
}

/// A guard of one piece of work, which is in flight until the guard is dropped.
pub(crate) struct WorkGuard(Arc<Count>);

impl Drop for WorkGuard {
    fn drop(&mut self) {
        // Release: pairs with the Acquire load of the waiter. Acquire: the drop of the last guard
        // also makes the effects of the other guards' work visible to the waiter.
        if self.0.guards.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
