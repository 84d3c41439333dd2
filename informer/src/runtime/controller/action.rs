//! The result of a reconciler or an error policy: the time of the next reconcile.

use std::time::Duration;

/// The time of an object's next reconcile, unless something triggers one earlier (kube's `Action`,
/// whose field is private).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub(super) requeue_after: Option<Duration>,
}

impl Action {
    /// Reconciles the object after `duration`, or earlier if something triggers it.
    #[must_use]
    pub const fn requeue(duration: Duration) -> Self {
        Self { requeue_after: Some(duration) }
    }

    /// Reconciles the object when something triggers it. The controller misses no change or
    /// deletion of the objects that it watches; use [`requeue`](Self::requeue) if the reconciler
    /// reads anything else.
    #[must_use]
    pub const fn await_change() -> Self {
        Self { requeue_after: None }
    }
}
