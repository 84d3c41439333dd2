//! The shards that were closed to new work, and whose running work has not ended.

use std::collections::BTreeMap;
use std::time::Duration;

use super::shards::ShardSet;
use crate::lease::REPORT_EVERY;

/// The shards whose work has not ended. All times are those of the monotonic clock.
#[derive(Default)]
pub(super) struct Drains {
    /// The drain timeout of each shard.
    ends: BTreeMap<u8, Duration>,
    /// The time of the last report, if a shard was past its drain timeout since then.
    reported_at: Option<Duration>,
}

impl Drains {
    /// Adds a shard that was closed, whose work is dropped at `end`.
    pub(super) fn insert(&mut self, shard: u8, end: Duration) {
        self.ends.insert(shard, end);
    }

    /// Removes a shard whose work has ended, or that was opened. Returns whether it was draining.
    pub(super) fn remove(&mut self, shard: u8) -> bool {
        self.ends.remove(&shard).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the shards whose work continues after the drain timeout, and the time since the
    /// first of these timeouts, if they are to be reported: after a minute, and each minute from
    /// then on.
    pub(super) fn overdue(&mut self, now: Duration) -> Option<(ShardSet, Duration)> {
        let first = self.ends.values().min();
        let Some(waited) = first.and_then(|end| now.checked_sub(*end)) else {
            self.reported_at = None;
            return None;
        };
        let unreported = self.reported_at.map_or(waited, |at| now.saturating_sub(at));
        if unreported < REPORT_EVERY {
            return None;
        }
        self.reported_at = Some(now);
        let overdue = self.ends.iter().filter(|(_, end)| **end <= now);
        Some((overdue.map(|(shard, _)| *shard).collect(), waited))
    }
}
