//! The entry of a key. Its state follows the table in the docs of [`workqueue`](super).

use tokio::time::Instant;

use super::delays::Delay;
use super::table::KeyHash;
use crate::util::slab::list::Links;
use crate::util::slab::place_size;

/// The state of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryState {
    /// Neither dirty nor processing: the key waits for a time, or the holder of the lock is about
    /// to queue or remove it.
    Idle,
    /// In the [`KeyOrder`](super::line::KeyOrder).
    Queued,
    Processing,
    /// The key was added while it was processed. It is queued when the processing ends.
    Again,
}

/// The time of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyTime {
    None,
    /// The time at which the key became dirty, for metrics.
    DirtySince(Instant),
    /// The delay that the key waits for. A key that waits is not dirty.
    WaitsFor(Delay),
}

/// The options of an add that the item has.
#[derive(Clone, Copy, Default)]
pub(super) struct Requested {
    pub(super) priority: i32,
    #[cfg_attr(not(feature = "runtime"), allow(dead_code))]
    pub(super) tag: u8,
}

/// The entry of a key, or a spare one.
pub(super) struct Entry<K> {
    /// `None` in a spare entry.
    pub(super) key: Option<K>,
    pub(super) hash: KeyHash,
    /// The neighbours of a queued key among the keys of its priority, and by age.
    pub(super) level: Links,
    pub(super) age: Links,
    pub(super) time: KeyTime,
    /// The priority of the requested processing, if the key is dirty or waits.
    pub(super) priority: i32,
    /// The tag of the add that decides when the key is taken.
    pub(super) tag: u8,
    pub(super) state: EntryState,
    /// Whether the rate limiter has been asked about the key since the key was last taken or
    /// forgotten. If so, the key is dirty or waits.
    pub(super) limited: bool,
}

const _: () = assert!(place_size::<Entry<String>>() == 80, "the docs of the module say so");

impl<K> Entry<K> {
    /// Creates a spare entry, which is idle and does not wait.
    pub(super) fn spare() -> Self {
        Self {
            key: None,
            hash: KeyHash::of(0),
            level: Links::NONE,
            age: Links::NONE,
            time: KeyTime::None,
            priority: 0,
            tag: 0,
            state: EntryState::Idle,
            limited: false,
        }
    }

    pub(super) fn level(&mut self) -> &mut Links {
        &mut self.level
    }

    pub(super) fn age(&mut self) -> &mut Links {
        &mut self.age
    }

    /// Returns whether the key is dirty or waits.
    pub(super) fn is_requested(&self) -> bool {
        matches!(self.state, EntryState::Queued | EntryState::Again) || self.delay().is_some()
    }

    /// Returns the delay that the key waits for.
    pub(super) fn delay(&self) -> Option<Delay> {
        match self.time {
            KeyTime::WaitsFor(delay) => Some(delay),
            KeyTime::None | KeyTime::DirtySince(_) => None,
        }
    }

    /// Returns the time at which the key became dirty, if that was recorded.
    pub(super) fn dirty_since(&self) -> Option<Instant> {
        match self.time {
            KeyTime::DirtySince(since) => Some(since),
            KeyTime::None | KeyTime::WaitsFor(_) => None,
        }
    }

    /// Returns whether a rate-limited add does not count as a failure, because the key is queued
    /// or already backs off.
    pub(super) fn is_limited(&self) -> bool {
        self.limited || self.state == EntryState::Queued
    }
}
