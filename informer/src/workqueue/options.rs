//! How a key is added.

use std::time::Duration;

/// Options of [`add_with`](super::WorkQueue::add_with) (controller-runtime `AddOpts`): by default
/// priority 0, at once.
///
/// ```
/// use deltafifo_informer::workqueue::AddOptions;
/// use std::time::Duration;
///
/// let at_leisure = AddOptions::new().priority(-100).after(Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AddOptions {
    pub(super) priority: i32,
    pub(super) after: Option<Duration>,
    pub(super) rate_limited: bool,
}

impl AddOptions {
    /// Priority 0, at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// The higher, the sooner.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Not before so much time has passed.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Not before the rate limiter's delay has passed, if this
    /// [is a failure](super::WorkQueue::add_rate_limited). With [`after`](Self::after) the
    /// shorter of the two counts, also that of a back-off that has begun; an `after` of zero is
    /// as good as none.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}
