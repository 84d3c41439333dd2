//! The lease as seen by a candidate that does not hold it.

use std::time::Duration;

use super::types::Record;
use crate::lease::Clocks;

/// The lease, as a candidate that does not hold it last saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Seen<T, B> {
    Unknown,
    Absent,
    Known {
        record: Record<T, B>,
        /// The time when this version was first seen.
        since: Clocks,
        /// The time of the monotonic clock when the version was last seen.
        checked: Duration,
    },
}

impl<T: Eq, B> Seen<T, B> {
    /// Records a state of the lease, or `None` if the lease does not exist. Only another version
    /// restarts the wait for the lease to expire.
    pub(super) fn update(&mut self, now: Clocks, state: Option<Record<T, B>>) {
        let Some(record) = state else {
            *self = Self::Absent;
            return;
        };
        match self {
            Self::Known { record: known, checked, .. } if known.version == record.version => {
                *checked = now.monotonic;
            }
            _ => *self = Self::Known { record, since: now, checked: now.monotonic },
        }
    }
}
