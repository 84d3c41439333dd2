//! A handler's buffer with at most one pending change (step) per key, in the order in which the
//! keys were pushed.

use tokio::time::Instant;

use super::super::notification::Cause;
use super::super::step::{CurrentState, Step};
use super::steps::Steps;
use super::{STRIDE, StepBuffer};

/// The buffer of [`Buffer::Compress`](super::Buffer::Compress).
pub(in super::super) struct Compress<K> {
    steps: Steps<K>,
    initial: usize,
    /// The number of steps that were popped since a walk last pushed a step.
    since_walked: usize,
}

impl<K> Compress<K> {
    pub(in super::super) fn new() -> Self {
        Self { steps: Steps::new(), initial: 0, since_walked: 0 }
    }
}

impl<K: Send + Sync> StepBuffer<K> for Compress<K> {
    fn push(&mut self, mut step: Step<K>) -> [Option<Step<K>>; 2] {
        if step.is_walked {
            self.since_walked = 0;
        }
        let Some(place) = self.steps.find(&step.key) else {
            if matches!((&step.delivered, &step.now), (None, CurrentState::Gone(_))) {
                return [Some(step), None];
            }
            self.initial += usize::from(step.is_in_initial_list);
            self.steps.push(step);
            return [None, None];
        };
        let waiting = &mut self.steps[place];
        std::mem::swap(&mut waiting.now, &mut step.now);
        if step.cause != Cause::Resync {
            waiting.cause = step.cause;
        }
        if step.is_in_initial_list && !waiting.is_in_initial_list {
            waiting.is_in_initial_list = true;
            self.initial += 1;
        }
        if waiting.delivered.is_some() || matches!(waiting.now, CurrentState::Stored(_)) {
            return [Some(step), None];
        }
        let undelivered = self.steps.remove(place);
        self.initial -= usize::from(undelivered.is_in_initial_list);
        [Some(step), Some(undelivered)]
    }

    fn pop(&mut self) -> Option<Step<K>> {
        let step = self.steps.remove(self.steps.first()?);
        self.initial -= usize::from(step.is_in_initial_list);
        self.since_walked += 1;
        Some(step)
    }

    fn len(&self) -> usize {
        self.steps.len()
    }

    fn changes(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if fewer than [`STRIDE`] steps wait, or if the handler has taken at least
    /// `STRIDE` steps since a walk last pushed one. Without the second condition, a walk would
    /// never end if the buffer of a slow handler stays full.
    fn takes_stride(&self) -> bool {
        self.steps.len() < STRIDE || self.since_walked >= STRIDE
    }

    fn initial(&self) -> usize {
        self.initial
    }

    fn oldest(&self) -> Option<Instant> {
        self.steps.first().map(|place| self.steps[place].since)
    }

    fn covers(&self, key: &str) -> bool {
        self.steps.find(key).is_some()
    }
}
