//! A handler's buffer with every pending change (step), in order.

use tokio::time::Instant;

use super::super::step::Step;
use super::StepBuffer;
use super::queue::ChunkedQueue;

/// The buffer of [`Buffer::HoldBack`](super::Buffer::HoldBack) and
/// [`Buffer::DropAndResync`](super::Buffer::DropAndResync).
pub(in super::super) struct Log<K> {
    steps: ChunkedQueue<Step<K>>,
    initial: usize,
    walked: usize,
}

impl<K> Log<K> {
    pub(in super::super) fn new() -> Self {
        Self { steps: ChunkedQueue::new(), initial: 0, walked: 0 }
    }
}

impl<K: Send + Sync> StepBuffer<K> for Log<K> {
    fn push(&mut self, step: Step<K>) -> [Option<Step<K>>; 2] {
        self.initial += usize::from(step.is_in_initial_list);
        self.walked += usize::from(step.is_walked);
        self.steps.push_back(step);
        [None, None]
    }

    fn pop(&mut self) -> Option<Step<K>> {
        let step = self.steps.pop_front()?;
        self.initial -= usize::from(step.is_in_initial_list);
        self.walked -= usize::from(step.is_walked);
        Some(step)
    }

    fn len(&self) -> usize {
        self.steps.len()
    }

    fn changes(&self) -> usize {
        self.steps.len() - self.walked
    }

    /// Returns true if no step of an earlier stride waits. This bounds the number of steps that a
    /// walk adds to the buffer.
    fn takes_stride(&self) -> bool {
        self.walked == 0
    }

    fn initial(&self) -> usize {
        self.initial
    }

    fn oldest(&self) -> Option<Instant> {
        self.steps.iter().next().map(|step| step.since)
    }

    /// Returns false: a step in the buffer is delivered before the walk's step of its key, and may
    /// have an older state.
    fn covers(&self, _key: &str) -> bool {
        false
    }
}
