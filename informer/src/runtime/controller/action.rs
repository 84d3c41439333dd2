//! What a reconciler, or an error policy, wants next.

use std::time::Duration;

/// When an object is to be reconciled next, if nothing happens to it (kube's `Action`, whose field is private).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub(super) requeue_after: Option<Duration>,
}

impl Action {
    /// After so long, or when something happens, whichever is sooner.
    #[must_use]
    pub const fn requeue(duration: Duration) -> Self {
        Self { requeue_after: Some(duration) }
    }

    /// When something happens. No deletion or change is missed by this controller, but what is not watched may change, too.
    #[must_use]
    pub const fn await_change() -> Self {
        Self { requeue_after: None }
    }
}
