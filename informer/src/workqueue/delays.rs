//! The times that keys wait for, earliest first. A key is represented by the [place](EntryPlace)
//! at which the shards have its entry.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::shard::EntryPlace;

/// A wait of a key: the time at which it ends, and a unique number, so that the queue's task
/// ([`Keeper`](super::keeper::Keeper)), if it is late, does not end a later wait of the same entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Delay {
    pub(super) at: Instant,
    number: u64,
}

/// The waits of all keys, ordered by time.
#[derive(Default)]
pub(super) struct Delays {
    waiting: BTreeMap<Delay, EntryPlace>,
    number: u64,
}

impl Delays {
    /// Starts a wait until `at`. Returns the wait, and whether it is the earliest.
    pub(super) fn insert(&mut self, at: Instant, place: EntryPlace) -> (Delay, bool) {
        self.number += 1;
        let delay = Delay { at, number: self.number };
        self.waiting.insert(delay, place);
        (delay, self.waiting.first_key_value().is_some_and(|(first, _)| *first == delay))
    }

    pub(super) fn remove(&mut self, delay: Delay) {
        self.waiting.remove(&delay);
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(delay, _)| delay.at)
    }

    /// Removes and returns up to `max` waits that are due, earliest first.
    pub(super) fn due(&mut self, now: Instant, max: usize) -> Vec<(Delay, EntryPlace)> {
        let mut due = Vec::new();
        while due.len() < max
            && let Some(first) = self.waiting.first_entry()
            && first.key().at <= now
        {
            due.push(first.remove_entry());
        }
        due
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
