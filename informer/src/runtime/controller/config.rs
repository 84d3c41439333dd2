//! What can be chosen of a controller.

use std::time::Duration;

/// How a controller runs (kube's `Config`, whose fields are private): by default without a debounce, and as many reconciles at a
/// time as there are objects to reconcile.
///
/// ```
/// use deltafifo_informer::runtime::controller::Config;
/// use std::time::Duration;
///
/// let config = Config::default().concurrency(8).debounce(Duration::from_millis(100)).name("billing");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub(super) debounce: Duration,
    /// `None` for the default, a multiple of the debounce.
    debounce_at_most: Option<Duration>,
    pub(super) concurrency: u16,
    pub(super) name: Option<String>,
    /// The inverse of what is set, so that the default is to wait.
    starts_early: bool,
}

impl Config {
    /// Delays the reconcile of an object until nothing has asked for it for this long: each request
    /// within that time delays it again, but not beyond [`debounce_at_most`](Self::debounce_at_most).
    /// Zero, the default, delays nothing.
    #[must_use]
    pub fn debounce(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Bounds the delay of a [`debounce`](Self::debounce), counted from the first request that waits: an
    /// object that changes all the time is reconciled this often. Ten times the debounce unless set;
    /// `Duration::MAX` for kube's behaviour, where such an object is never reconciled.
    #[must_use]
    pub fn debounce_at_most(mut self, longest: Duration) -> Self {
        self.debounce_at_most = Some(longest);
        self
    }

    /// So many reconciles run at a time; 0 for any number. Of one object there is never more than one.
    #[must_use]
    pub fn concurrency(mut self, concurrency: u16) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets whether reconciles wait for the first list of everything that the controller owns and watches:
    /// true unless set. With false they begin when the main objects are listed, as in kube.
    ///
    /// A reconciler must then expect stores of related objects to be incomplete. A related object that is
    /// deleted before its first list is there asks for no reconcile, whatever a reconciler has read of it.
    /// For one kind that may be missing there is [`optional`](super::Controller::optional).
    #[must_use]
    pub fn wait_for_related(mut self, wait: bool) -> Self {
        self.starts_early = !wait;
        self
    }

    /// Gives the controller's work queue a name, and with it [metrics](crate::workqueue::Builder::name), which say whether reconciles
    /// are behind (kube has none). They go to the recorder that is installed when the controller's stream is first polled. What
    /// waits for a [`debounce`](Self::debounce) is not in the queue yet.
    ///
    /// The counter `controller_objects_not_found_total`, with the label `name`, counts the reconciles that were
    /// asked for of objects that are not in the store: they were deleted, or are not selected.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(super) fn waits_for_related(&self) -> bool {
        !self.starts_early
    }

    /// Returns the longest delay of a debounce.
    pub(super) fn longest_debounce(&self) -> Duration {
        self.debounce_at_most.unwrap_or(self.debounce.saturating_mul(10))
    }

    pub(super) fn most_at_a_time(&self) -> usize {
        if self.concurrency == 0 { usize::MAX } else { self.concurrency.into() }
    }
}
