//! The entry of a key, and all changes of its state. They follow the table in the docs of
//! [`workqueue`](super).

use deltafifo::locks::Mutex;
use tokio::time::Instant;

use super::delays::{Delay, Delays};
use super::line::{KeyOrder, QueuePhase};
use super::shard::EntryPlace;
use crate::util::slab::place_size;

/// The state outside of the shards: the order of queued keys, and the times that keys wait for.
pub(super) struct QueueState {
    pub(super) line: Mutex<KeyOrder>,
    pub(super) delays: Mutex<Delays>,
}

/// The state of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryState {
    /// Neither dirty nor processing: the key waits for a time, or the holder of the shard's lock
    /// is about to queue or remove it.
    Idle,
    /// Queued in the [`KeyOrder`], under this number.
    Queued(u32),
    Processing,
    /// The key was added while it was processed. It is queued when the processing ends.
    Again,
}

/// The options of an add that the item has.
#[derive(Clone, Copy, Default)]
pub(super) struct Requested {
    pub(super) priority: i32,
    #[cfg_attr(not(feature = "runtime"), allow(dead_code))]
    pub(super) tag: u8,
}

/// The entry of a key.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    state: EntryState,
    /// The priority of the requested processing, if the key is dirty or waits.
    priority: i32,
    /// The tag of the add that decides when the key is taken.
    tag: u8,
    /// The time at which the key became dirty, for metrics.
    since: Option<Instant>,
    /// The delay that the key waits for. A key that waits is not dirty.
    waits: Option<Delay>,
    /// Whether the rate limiter has been asked about the key since the key was last taken or
    /// forgotten. If so, the key is dirty or waits.
    limited: bool,
}

const _: () = assert!(place_size::<Entry<[usize; 3]>>() == 88, "the docs of the module say so");

/// The outcome of an add.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// The key is dirty and queued. The caller must wake a waiting caller of
    /// [`WorkQueue::get`](super::WorkQueue::get).
    Queued,
    /// The key is dirty and being processed. It is queued when the processing ends.
    Again,
    /// The key now has the earliest wait of all keys. The caller must wake the queue's task
    /// ([`Keeper`](super::keeper::Keeper)).
    WaitsFirst,
    /// No waiter has to be woken.
    Quietly,
}

/// The outcome of [`Entry::end`].
#[must_use]
pub(super) struct EntryEnd {
    /// Whether the key is queued again.
    pub(super) queued: bool,
    /// Whether the key is neither dirty nor waiting, so that its entry must be removed.
    pub(super) idle: bool,
    /// Whether this was the last key that a drain waits for.
    pub(super) drained: bool,
}

impl<K> Entry<K> {
    /// Creates an entry that is idle and does not wait. The caller must call [`add`](Self::add)
    /// before it releases the shard's lock.
    pub(super) fn new(key: K, hash: u64) -> Self {
        Self {
            key,
            hash,
            state: EntryState::Idle,
            priority: 0,
            tag: 0,
            since: None,
            waits: None,
            limited: false,
        }
    }

    fn is_asked_for(&self) -> bool {
        matches!(self.state, EntryState::Queued(_) | EntryState::Again) || self.waits.is_some()
    }

    /// Returns whether a rate-limited add does not count as a failure, because the key is queued
    /// or already backs off.
    pub(super) fn is_limited(&self) -> bool {
        self.limited || matches!(self.state, EntryState::Queued(_))
    }

    /// Records that the rate limiter was asked about the key, or, with `false`, that it forgot
    /// the key.
    pub(super) fn set_limited(&mut self, limited: bool) {
        self.limited = limited;
    }

    /// Raises the key to the priority of `to`, unless its priority is at least that. A key that is
    /// neither dirty nor waiting has no priority, and always gets this one.
    pub(super) fn raise(&mut self, place: EntryPlace, to: Requested, schedule: &QueueState) {
        if self.is_asked_for() && to.priority <= self.priority {
            return;
        }
        (self.priority, self.tag) = (to.priority, to.tag);
        if let EntryState::Queued(number) = self.state {
            schedule.line.lock().raise(number, place, to.priority);
        }
    }

    /// Requests that the key be processed, not before `at`.
    pub(super) fn add(
        &mut self,
        place: EntryPlace,
        requested: Requested,
        at: Option<Instant>,
        since: Option<Instant>,
        schedule: &QueueState,
    ) -> Added {
        self.raise(place, requested, schedule);
        match (self.state, at) {
            (EntryState::Queued(_) | EntryState::Again, _) => Added::Quietly,
            (EntryState::Idle | EntryState::Processing, Some(at)) => {
                self.wait(place, requested.tag, at, schedule)
            }
            (EntryState::Idle | EntryState::Processing, None) => {
                self.tag = requested.tag;
                if let Some(delay) = self.waits.take() {
                    schedule.delays.lock().remove(delay);
                }
                self.make_dirty(place, since, schedule)
            }
        }
    }

    /// Ends a wait, which makes the key dirty. Does nothing if the key no longer has this wait.
    pub(super) fn due(
        &mut self,
        place: EntryPlace,
        delay: Delay,
        since: Option<Instant>,
        schedule: &QueueState,
    ) -> Added {
        if self.waits != Some(delay) {
            return Added::Quietly;
        }
        self.waits = None;
        self.make_dirty(place, since, schedule)
    }

    fn wait(&mut self, place: EntryPlace, tag: u8, at: Instant, schedule: &QueueState) -> Added {
        if self.waits.is_some_and(|delay| delay.at <= at) {
            return Added::Quietly;
        }
        self.tag = tag;
        let mut delays = schedule.delays.lock();
        if let Some(later) = self.waits {
            delays.remove(later);
        }
        let (delay, is_first) = delays.insert(at, place);
        self.waits = Some(delay);
        if is_first { Added::WaitsFirst } else { Added::Quietly }
    }

    fn make_dirty(
        &mut self,
        place: EntryPlace,
        since: Option<Instant>,
        schedule: &QueueState,
    ) -> Added {
        self.since = since;
        if self.state == EntryState::Idle {
            self.state = EntryState::Queued(schedule.line.lock().push(place, self.priority));
            Added::Queued
        } else {
            self.state = EntryState::Again;
            Added::Again
        }
    }

    /// Marks the key as processing. Returns the options of the adds before, and the time at which
    /// it became dirty.
    pub(super) fn take(&mut self) -> (Requested, Option<Instant>) {
        self.state = EntryState::Processing;
        self.limited = false;
        (Requested { priority: self.priority, tag: self.tag }, self.since)
    }

    /// Ends the processing of the key.
    pub(super) fn end(&mut self, place: EntryPlace, schedule: &QueueState) -> EntryEnd {
        let mut line = schedule.line.lock();
        line.processed();
        let queued = self.state == EntryState::Again;
        self.state = if queued {
            EntryState::Queued(line.push(place, self.priority))
        } else {
            EntryState::Idle
        };
        EntryEnd {
            queued,
            idle: !self.is_asked_for(),
            drained: line.phase() == QueuePhase::Draining && !line.is_draining(),
        }
    }
}
