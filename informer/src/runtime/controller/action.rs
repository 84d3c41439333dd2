//! The result of a reconciler or an error policy: the time of the next reconcile.

use std::time::Duration;

/// The time of an object's next reconcile, unless something triggers one earlier (kube's `Action`,
/// whose field is private).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub(super) requeue_after: Option<Duration>,
}

impl Action {
    /// Returns the action after which the object is reconciled again when `duration` has passed, or
    /// earlier if something triggers it.
    #[must_use]
    pub const fn requeue(duration: Duration) -> Self {
        Self { requeue_after: Some(duration) }
    }

    /// Returns the action after which the object is reconciled again only if something triggers it.
    /// The controller misses no change or deletion of the objects that it watches; use
    /// [`requeue`](Self::requeue) if the reconciler reads anything else.
    #[must_use]
    pub const fn await_change() -> Self {
        Self { requeue_after: None }
    }
}
