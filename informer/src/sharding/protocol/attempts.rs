//! The attempts of a member to write one Lease.

use std::time::Duration;

use super::types::{Answer, GroupTiming};
use crate::lease::Clocks;

/// The attempts to write one Lease, of which at most one is in progress. A member that joins counts
/// the creation of the group's Lease among the attempts for its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Attempts {
    pub(super) flight: Option<Flight>,
    /// No request is sent before this time of the monotonic clock.
    pub(super) not_before: Duration,
    /// The version that the last write contained, if that was applied or refused.
    pub(super) replaced: Option<Replaced>,
}

/// A version of a Lease that was replaced, as the answer to a write says. Nothing is written to
/// the Lease until the view shows another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Replaced {
    version: u64,
    /// The time of the monotonic clock until which the answer is believed: a webhook or a quota may
    /// refuse a write in the same way although the version is current.
    until: Duration,
}

/// An attempt in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    /// The version that the request contains. For a creation, the version of the last deletion that
    /// the view contains, or 0.
    pub(super) base: u64,
    /// The time when the request was sent.
    pub(super) sent: Clocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Create,
    Renew,
    Claim,
    Release,
    Fence,
    Delete,
}

impl Attempts {
    /// Returns whether a write that contains this version may be sent.
    pub(super) fn may_send(&self, now: Clocks, base: u64) -> bool {
        let replaced = self.replaced.filter(|replaced| now.monotonic < replaced.until);
        let is_replaced = replaced.is_some_and(|replaced| replaced.version == base);
        self.flight.is_none() && now.monotonic >= self.not_before && !is_replaced
    }

    /// Returns the times of the monotonic clock at which a write may become possible.
    pub(super) fn wakes_at(&self) -> [Option<Duration>; 2] {
        [Some(self.not_before), self.replaced.map(|replaced| replaced.until)]
    }

    /// Ends an attempt. Returns `None` if it is no longer in progress.
    pub(super) fn end<T>(
        &mut self,
        now: Clocks,
        number: u64,
        answer: &Answer<T>,
        timing: GroupTiming,
    ) -> Option<Flight> {
        let flight = self.flight.take_if(|flight| flight.number == number)?;
        let after = |pause| now.monotonic.saturating_add(pause);
        match answer {
            Answer::Written(_) | Answer::Conflict => {
                let is_refused = matches!(answer, Answer::Conflict);
                // A renewal that waits for the renew deadline comes too late.
                let believed = match flight.purpose {
                    Purpose::Renew if is_refused => timing.retry_period,
                    _ => timing.renew_deadline,
                };
                let (version, until) = (flight.base, after(believed));
                self.replaced = Some(Replaced { version, until });
            }
            Answer::Unclear { pause } => self.not_before = after(*pause),
        }
        Some(flight)
    }

    /// Gives up an attempt in progress. Its answer will not count.
    pub(super) fn abandon(&mut self) {
        self.flight = None;
    }
}
