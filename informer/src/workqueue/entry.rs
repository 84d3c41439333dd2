//! One key's entry, and every way its state changes. The table in the module's docs, in code.

use deltafifo::locks::Mutex;
use tokio::time::Instant;

use super::delays::{Delay, Delays};
use super::line::{Line, Phase};
use super::shard::Place;
use crate::slab::place_size;

/// What is outside the shards: the order of queued keys, and the times that keys wait for.
pub(super) struct Schedule {
    pub(super) line: Mutex<Line>,
    pub(super) delays: Mutex<Delays>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Neither dirty nor being processed: it waits for a time, or is about to be queued or removed
    /// by who holds the shard.
    Idle,
    /// In line, under this number.
    Queued(u32),
    Processing,
    /// Added while being processed: queued when that has ended.
    Again,
}

pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    state: State,
    /// Of what is asked for now: dirty or waiting.
    priority: i32,
    /// Since when it is dirty, for metrics.
    since: Option<Instant>,
    /// Only of who is not dirty.
    waits: Option<Delay>,
    /// Whether the rate limiter was asked about the key since it was last taken or forgotten.
    /// Then it is dirty or waits.
    limited: bool,
}

const _: () = assert!(place_size::<Entry<[usize; 3]>>() == 88, "the docs of the module say so");

/// What an add came to.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// Dirty now, and in line: somebody may sleep who should take it.
    Queued,
    /// Dirty now, and being processed.
    Again,
    /// Waits now for the earliest time of all.
    WaitsFirst,
    /// Nothing that anybody must be told of.
    Quietly,
}

/// What the end of a processing came to.
#[must_use]
pub(super) struct Ended {
    /// In line again.
    pub(super) queued: bool,
    /// Nothing is asked for: the entry has to go.
    pub(super) idle: bool,
    /// It was the last one that somebody waits for.
    pub(super) drained: bool,
}

impl<K> Entry<K> {
    /// Idle, waiting for nothing: to be added to at once.
    pub(super) fn new(key: K, hash: u64) -> Self {
        Self {
            key,
            hash,
            state: State::Idle,
            priority: 0,
            since: None,
            waits: None,
            limited: false,
        }
    }

    fn is_asked_for(&self) -> bool {
        matches!(self.state, State::Queued(_) | State::Again) || self.waits.is_some()
    }

    /// Whether a rate-limited add is no failure: the key is queued, or its back-off has begun
    /// already.
    pub(super) fn is_limited(&self) -> bool {
        self.limited || matches!(self.state, State::Queued(_))
    }

    /// Records that the rate limiter was asked about the key, or, with `false`, that it forgot
    /// the key.
    pub(super) fn set_limited(&mut self, limited: bool) {
        self.limited = limited;
    }

    /// Raises the key to `priority`, unless it is asked for with a higher one.
    pub(super) fn raise(&mut self, place: Place, priority: i32, schedule: &Schedule) {
        if self.is_asked_for() && priority <= self.priority {
            return;
        }
        self.priority = priority;
        if let State::Queued(number) = self.state {
            schedule.line.lock().raise(number, place, priority);
        }
    }

    /// Asks for it, not before `at` if there is such a time.
    pub(super) fn add(
        &mut self,
        place: Place,
        priority: i32,
        at: Option<Instant>,
        since: Option<Instant>,
        schedule: &Schedule,
    ) -> Added {
        self.raise(place, priority, schedule);
        match (self.state, at) {
            (State::Queued(_) | State::Again, _) => Added::Quietly,
            (State::Idle | State::Processing, Some(at)) => self.wait(place, at, schedule),
            (State::Idle | State::Processing, None) => {
                if let Some(delay) = self.waits.take() {
                    schedule.delays.lock().remove(delay);
                }
                self.make_dirty(place, since, schedule)
            }
        }
    }

    /// Its time has come, unless it waits for another one by now.
    pub(super) fn due(
        &mut self,
        place: Place,
        delay: Delay,
        since: Option<Instant>,
        schedule: &Schedule,
    ) -> Added {
        if self.waits != Some(delay) {
            return Added::Quietly;
        }
        self.waits = None;
        self.make_dirty(place, since, schedule)
    }

    fn wait(&mut self, place: Place, at: Instant, schedule: &Schedule) -> Added {
        if self.waits.is_some_and(|delay| delay.at <= at) {
            return Added::Quietly;
        }
        let mut delays = schedule.delays.lock();
        if let Some(later) = self.waits {
            delays.remove(later);
        }
        let (delay, is_first) = delays.insert(at, place);
        self.waits = Some(delay);
        if is_first { Added::WaitsFirst } else { Added::Quietly }
    }

    fn make_dirty(&mut self, place: Place, since: Option<Instant>, schedule: &Schedule) -> Added {
        self.since = since;
        if self.state == State::Idle {
            self.state = State::Queued(schedule.line.lock().push(place, self.priority));
            Added::Queued
        } else {
            self.state = State::Again;
            Added::Again
        }
    }

    /// It left the line to be processed; its priority, and since when it was dirty.
    pub(super) fn take(&mut self) -> (i32, Option<Instant>) {
        self.state = State::Processing;
        self.limited = false;
        (self.priority, self.since)
    }

    /// The processing has ended.
    pub(super) fn end(&mut self, place: Place, schedule: &Schedule) -> Ended {
        let mut line = schedule.line.lock();
        line.processed();
        let queued = self.state == State::Again;
        self.state =
            if queued { State::Queued(line.push(place, self.priority)) } else { State::Idle };
        Ended {
            queued,
            idle: !self.is_asked_for(),
            drained: line.phase() == Phase::Draining && !line.is_draining(),
        }
    }
}
