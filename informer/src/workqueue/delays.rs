//! The times that keys wait for, earliest first. A key is represented by the number of its
//! [`Entry`](super::entry::Entry).

use std::collections::BTreeMap;

use tokio::time::Instant;

/// A wait of a key: the time at which it ends, and a number that makes it unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Delay {
    pub(super) at: Instant,
    number: u64,
}

/// The waits of all keys, ordered by time.
#[derive(Default)]
pub(super) struct Delays {
    waiting: BTreeMap<Delay, u32>,
    number: u64,
}

impl Delays {
    /// Starts a wait until `at`. Returns the wait, and whether it is the earliest.
    pub(super) fn insert(&mut self, at: Instant, slot: u32) -> (Delay, bool) {
        self.number += 1;
        let delay = Delay { at, number: self.number };
        self.waiting.insert(delay, slot);
        (delay, self.waiting.first_key_value().is_some_and(|(first, _)| *first == delay))
    }

    pub(super) fn remove(&mut self, delay: Delay) {
        self.waiting.remove(&delay);
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(delay, _)| delay.at)
    }

    /// Removes the earliest wait if it is due, and returns its key.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let first = self.waiting.first_entry()?;
        (first.key().at <= now).then(|| first.remove())
    }

    /// Returns the keys that wait.
    pub(super) fn into_slots(self) -> impl Iterator<Item = u32> {
        self.waiting.into_values()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
