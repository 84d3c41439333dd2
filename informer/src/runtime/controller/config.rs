//! Options of a controller.

use std::time::Duration;

/// Options of a controller (kube-rs `controller::Config`). By default requests are not debounced,
/// and the number of concurrent reconciles is not limited.
///
/// ```
/// use deltafifo_informer::runtime::controller::Config;
/// use std::time::Duration;
///
/// let config =
///     Config::default().concurrency(8).debounce(Duration::from_millis(100)).name("billing");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub(super) debounce: Duration,
    /// The longest time that a debounce delays a reconcile. `None` means the default, ten times the
    /// debounce.
    debounce_at_most: Option<Duration>,
    pub(super) concurrency: u16,
    pub(super) name: Option<String>,
    /// The inverse of `wait_for_related`, so that the derived default is to wait.
    starts_early: bool,
}

impl Config {
    /// Delays the reconcile of an object until nothing has triggered it for this long. Each
    /// trigger within that time restarts the delay, up to
    /// [`debounce_at_most`](Self::debounce_at_most). Zero, the default, means no delay.
    #[must_use]
    pub fn debounce(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Limits the delay of a [`debounce`](Self::debounce), counted from the first trigger: an
    /// object that changes all the time is reconciled once in this time. The default is ten times
    /// the debounce. `Duration::MAX` gives kube's behaviour, where such an object is never
    /// reconciled.
    #[must_use]
    pub fn debounce_at_most(mut self, longest: Duration) -> Self {
        self.debounce_at_most = Some(longest);
        self
    }

    /// Limits how many reconciles run at the same time. 0, the default, means no limit. Two
    /// reconciles of one object never run at the same time.
    #[must_use]
    pub fn concurrency(mut self, concurrency: u16) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets whether reconciles wait for the initial list of everything that the controller owns and
    /// watches. The default is true. With false, reconciles begin once the main objects are
    /// listed, as in kube.
    ///
    /// With false, a reconciler must expect the stores of related objects to be incomplete. A
    /// related object that is deleted before its initial list arrives triggers no reconcile, even
    /// if a reconciler has already read it. For a single kind that may be missing, use
    /// [`optional`](super::Controller::optional) instead.
    #[must_use]
    pub fn wait_for_related(mut self, wait: bool) -> Self {
        self.starts_early = !wait;
        self
    }

    /// Names the controller's work queue and so enables its
    /// [metrics](crate::workqueue::Builder::name), which show whether reconciles fall behind (not
    /// in kube). The metrics use the recorder that is installed when the controller's stream is
    /// first polled. Requests that wait for a [`debounce`](Self::debounce) are not in the queue
    /// yet.
    ///
    /// The counter `controller_objects_not_found_total`, with the label `name`, counts reconciles
    /// requested for objects that are not in the store, because they were deleted or do not match
    /// the selectors. The counter `controller_objects_not_decoded_total`, with the same label,
    /// counts reconciles that did not run because the compact object [cannot be
    /// decoded](super::RunnerError::NotDecoded).
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(super) fn waits_for_related(&self) -> bool {
        !self.starts_early
    }

    /// Returns the longest time that a debounce delays a reconcile.
    pub(super) fn longest_debounce(&self) -> Duration {
        self.debounce_at_most.unwrap_or(self.debounce.saturating_mul(10))
    }

    pub(super) fn max_concurrent(&self) -> usize {
        if self.concurrency == 0 { usize::MAX } else { self.concurrency.into() }
    }
}
