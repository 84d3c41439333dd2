//! The options of an add.

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
#[doc(alias = "AddOpts")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AddOptions {
    pub(super) priority: i32,
    pub(super) after: Option<Duration>,
    pub(super) rate_limited: bool,
    /// A byte that the caller chooses, and that the item carries.
    pub(super) tag: u8,
}

impl AddOptions {
    /// Creates the default options: priority 0, at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the priority. Keys of a higher priority are taken first. Default: 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the delay after which the key is queued, unless another add queues it earlier.
    /// Default: no delay. See also [`rate_limited`](Self::rate_limited).
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Sets a byte that the taken item carries. If several adds were merged, it is the byte of the
    /// add that decides when the key is taken: the first, unless a later one ends or shortens its
    /// wait, or raises its priority.
    #[cfg(feature = "runtime")]
    pub(crate) fn tag(mut self, tag: u8) -> Self {
        self.tag = tag;
        self
    }

    /// Delays the key by the rate limiter's delay, if the add [counts as a
    /// failure](super::WorkQueue::add_rate_limited). With [`after`](Self::after) the shorter of
    /// the two delays applies, even if the key already backs off; an `after` of zero is ignored.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}
