//! The plain work queue: the state of every key in a map that is searched from end to end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::op::AddArgs;

/// The delay of the first failure. It doubles with each further failure.
pub(super) const BASE: Duration = Duration::from_secs(1);
/// The largest delay.
pub(super) const MOST: Duration = Duration::from_secs(3);

#[derive(Default)]
struct State {
    priority: i32,
    dirty: bool,
    processing: bool,
    failures: u32,
    /// Whether the key has failed since it was last taken or forgotten.
    limited: bool,
    /// The time at which the key's delay ends, if the key has a delay, and a number that orders
    /// delays that end together.
    waits: Option<(Duration, u32)>,
    /// If the key is queued: the number of the event that queued it, and the number of the event
    /// that gave it its current priority.
    in_line: Option<(u32, u32)>,
}

/// The state of the shutdown. It is `Draining` if a caller waits for the end of all work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    ShutDown,
    Draining,
}

/// The plain queue.
pub struct Model {
    keys: BTreeMap<u8, State>,
    now: Duration,
    /// The number of the last numbered event. These numbers order the keys.
    number: u32,
    passed_over: u32,
    phase: Phase,
    /// The number of times that a key became dirty, that is, in need of processing. A key stays
    /// dirty until it is taken.
    pub adds: u32,
    /// The number of delayed adds and failures.
    pub retries: u32,
}

impl Model {
    pub(super) fn new() -> Self {
        let keys = BTreeMap::new();
        Self {
            keys,
            now: Duration::ZERO,
            number: 0,
            passed_over: 0,
            phase: Phase::Open,
            adds: 0,
            retries: 0,
        }
    }

    fn number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    fn state(&mut self, key: u8) -> &mut State {
        self.keys.entry(key).or_default()
    }

    fn limit(&mut self, key: u8) -> Duration {
        let State { failures, limited, .. } = self.state(key);
        *failures += 1;
        *limited = true;
        MOST.min(BASE * 2_u32.saturating_pow(*failures - 1))
    }

    pub(super) fn add(&mut self, AddArgs { key, priority, after, limited }: AddArgs) {
        if self.is_shutting_down() {
            return;
        }
        let mut after = after.map(Duration::from_secs);
        // A rate-limited add of a key that is queued or backs off is not counted as a failure, and
        // gets no delay.
        let fails = limited && !self.state(key).limited && self.state(key).in_line.is_none();
        if limited {
            after = after.filter(|after| !after.is_zero());
        }
        if fails {
            let limit = self.limit(key);
            after = Some(after.map_or(limit, |after| after.min(limit)));
        }
        self.retries += u32::from(after.is_some());
        let (number, at) = (self.number(), self.now + after.unwrap_or_default());
        let is_later = at > self.now;
        let asks_for_no_time = limited && after.is_none();
        let state = self.state(key);
        if !state.dirty && state.waits.is_none() {
            state.priority = priority;
        } else if priority > state.priority {
            state.priority = priority;
            state.in_line = state.in_line.map(|(age, _)| (age, number));
        }
        if state.dirty || asks_for_no_time {
            return;
        }
        if !is_later {
            self.make_dirty(key);
        } else if state.waits.is_none_or(|(earlier, _)| earlier > at) {
            state.waits = Some((at, number));
        }
    }

    fn make_dirty(&mut self, key: u8) {
        self.adds += 1;
        let number = self.number();
        let state = self.state(key);
        state.waits = None;
        state.dirty = true;
        if !state.processing {
            state.in_line = Some((number, number));
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        let mut due: Vec<_> =
            self.keys.iter().filter_map(|(&key, state)| Some((state.waits?, key))).collect();
        due.retain(|((at, _), _)| *at <= self.now && !self.is_shutting_down());
        due.sort_unstable();
        for (_, key) in due {
            self.make_dirty(key);
        }
    }

    /// Takes the next key and its priority.
    pub(super) fn take(&mut self) -> Option<(u8, i32)> {
        let line = || {
            self.keys.iter().filter_map(|(&key, state)| Some((key, state.priority, state.in_line?)))
        };
        let (oldest, ..) = line().min_by_key(|(_, _, (age, _))| *age)?;
        let (highest, ..) = line().min_by_key(|&(_, priority, (_, since))| (-priority, since))?;
        let key = if self.passed_over == 7 { oldest } else { highest };
        self.passed_over = if key == oldest { 0 } else { self.passed_over + 1 };
        let state = self.state(key);
        (state.dirty, state.processing, state.in_line, state.limited) = (false, true, None, false);
        Some((key, state.priority))
    }

    pub(super) fn done(&mut self, key: u8) {
        let number = self.number();
        let state = self.state(key);
        state.processing = false;
        state.in_line = state.dirty.then_some((number, number));
    }

    pub(super) fn forget(&mut self, key: u8) {
        let state = self.state(key);
        (state.failures, state.limited) = (0, false);
    }

    pub(super) fn failures(&mut self, key: u8) -> u32 {
        self.state(key).failures
    }

    pub(super) fn end(&mut self, drains: bool) {
        self.phase = if drains { Phase::Draining } else { Phase::ShutDown };
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(super) fn is_draining(&self) -> bool {
        let works = |state: &State| state.processing || state.in_line.is_some();
        self.phase == Phase::Draining && self.keys.values().any(works)
    }

    /// Returns the number of keys that can be taken.
    pub(super) fn len(&self) -> usize {
        self.keys.values().filter(|state| state.in_line.is_some()).count()
    }

    /// Returns the number of dirty keys, including those in work.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.keys.values().filter(|state| state.dirty).count()
    }
}
