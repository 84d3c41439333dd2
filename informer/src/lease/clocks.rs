//! The clocks of a process, and the deadline of a holder.

use std::time::Duration;

/// A reading of both clocks of a process.
///
/// The holder of a lease stops at its deadline by *either* clock: the monotonic clock may stand
/// still while the machine sleeps, and the wall clock may be set back. An observer waits by the
/// monotonic clock *alone*: a wall clock that is set forward would end its wait early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clocks {
    /// The monotonic clock, since an arbitrary origin.
    pub(crate) monotonic: Duration,
    /// The wall clock, since the Unix epoch.
    pub(crate) wall: Duration,
}

impl Clocks {
    /// Returns the time `duration` later by both clocks.
    pub(crate) fn after(self, duration: Duration) -> Self {
        Self {
            monotonic: self.monotonic.saturating_add(duration),
            wall: self.wall.saturating_add(duration),
        }
    }

    /// Returns whether this time, the deadline of a holder, has come by either clock.
    pub(crate) fn has_passed(self, now: Self) -> bool {
        now.monotonic >= self.monotonic || now.wall >= self.wall
    }
}
