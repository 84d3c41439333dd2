//! The clocks of a process, and the deadline of a holder.

use std::time::Duration;

use deltafifo::tenure::Nanos;

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

    /// Returns these times in nanoseconds. Times after the year 2500 are cut.
    pub(crate) fn nanos(self) -> Nanos {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Nanos { monotonic: nanos(self.monotonic), wall: nanos(self.wall) }
    }

    /// Returns whether this time, the deadline of a holder, has come by either clock.
    pub(crate) fn has_passed(self, now: Self) -> bool {
        now.monotonic >= self.monotonic || now.wall >= self.wall
    }
}

/// The clocks of the worlds that the searches of the protocols visit.
#[cfg(test)]
pub(crate) mod explored {
    use std::time::Duration;

    use super::Clocks;

    /// The length of a tick, in milliseconds, by a clock with a rate of 100 %.
    pub(crate) const TICK: u64 = 100;

    /// The present, by every clock.
    pub(crate) const NOW: Clocks =
        Clocks { monotonic: Duration::from_secs(100), wall: Duration::from_secs(100) };

    /// A step of a wall clock, longer than any lease.
    pub(crate) const WALL_STEP: Duration = Duration::from_millis(20 * TICK);

    /// Returns `time` moved into the past by `elapsed`, since a clock has advanced by that, and
    /// [`NOW`] stays. `Duration::MAX` stays: it is the deadline of a mutant that ignores the clock.
    pub(crate) fn past(time: Duration, elapsed: Duration) -> Duration {
        if time == Duration::MAX { time } else { time.saturating_sub(elapsed) }
    }
}
