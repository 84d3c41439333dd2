//! The result of a reconciler or an error policy: the time of the next reconcile.

use std::time::Duration;

use kube::runtime::controller as kubes;

/// The time of an object's next reconcile, unless something triggers one earlier (kube's `Action`,
/// whose field cannot be read).
///
/// Code that takes kube's `Action`, such as a function that reports results, gets it by `into`. The
/// reverse is impossible:
///
/// ```
/// use deltafifo_informer::runtime::controller::Action;
/// use std::time::Duration;
///
/// let action = Action::requeue(Duration::from_secs(5));
/// assert_eq!(action.requeue_after(), Some(Duration::from_secs(5)));
///
/// let kubes: kube::runtime::controller::Action = action.into();
/// assert_eq!(kubes, kube::runtime::controller::Action::requeue(Duration::from_secs(5)));
/// ```
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

    /// Returns the time after which the object is reconciled again, or `None` if only a trigger
    /// reconciles it.
    #[must_use]
    pub const fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

impl From<Action> for kubes::Action {
    fn from(action: Action) -> Self {
        action.requeue_after.map_or_else(Self::await_change, Self::requeue)
    }
}
