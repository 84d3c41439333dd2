//! One step a key, in the order in which keys came in.

use std::sync::Arc;

use hashbrown::hash_map::Entry;
use tokio::time::Instant;

use super::super::step::{Now, Step};
use super::queue::Queue;
use super::steps::Steps;
use super::{STRIDE, Waiting};

/// So many places of keys that left are nothing to be tidied up.
const FEW: usize = 64;

pub(in super::super) struct Compress<K> {
    steps: Steps<K>,
    /// How many of them.
    len: usize,
    /// Keys in order. A place whose key has left, or came again later, is passed over.
    order: Queue<(u64, Arc<str>)>,
    next: u64,
    initial: usize,
    /// Steps taken out since a walk put some in.
    since_walked: usize,
}

impl<K> Compress<K> {
    pub(in super::super) fn new() -> Self {
        Self { steps: Steps::new(), len: 0, order: Queue::new(), next: 0, initial: 0, since_walked: 0 }
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.order.len()
    }

    /// Keys may come and go for as long as the handler sleeps: their places must not pile up.
    fn tidy(&mut self) {
        if self.order.len() > 2 * self.len + FEW {
            let steps = &self.steps;
            self.order.retain(|(place, key)| steps.get(key).is_some_and(|(number, _)| number == place));
        }
    }
}

impl<K: Send + Sync> Waiting<K> for Compress<K> {
    fn push(&mut self, step: Step<K>) -> [Option<Step<K>>; 2] {
        if step.is_walked {
            self.since_walked = 0;
        }
        let mut entry = match self.steps.entry(step.key.clone()) {
            Entry::Vacant(vacant) => {
                if matches!((&step.told, &step.now), (None, Now::Gone(_))) {
                    return [Some(step), None];
                }
                self.initial += usize::from(step.is_in_initial_list);
                self.order.push_back((self.next, step.key.clone()));
                vacant.insert((self.next, step));
                self.next += 1;
                self.len += 1;
                return [None, None];
            }
            Entry::Occupied(entry) => entry,
        };
        let (mut step, (_, waiting)) = (step, entry.get_mut());
        std::mem::swap(&mut waiting.now, &mut step.now);
        waiting.cause = step.cause;
        if step.is_in_initial_list && !waiting.is_in_initial_list {
            waiting.is_in_initial_list = true;
            self.initial += 1;
        }
        if waiting.told.is_some() || matches!(waiting.now, Now::Stored(_)) {
            return [Some(step), None];
        }
        self.initial -= usize::from(waiting.is_in_initial_list);
        let (_, never_told) = entry.remove();
        self.len -= 1;
        self.tidy();
        [Some(step), Some(never_told)]
    }

    fn pop(&mut self) -> Option<Step<K>> {
        loop {
            let (place, key) = self.order.pop_front()?;
            let Entry::Occupied(entry) = self.steps.entry(key) else { continue };
            if entry.get().0 == place {
                let (_, step) = entry.remove();
                self.len -= 1;
                self.initial -= usize::from(step.is_in_initial_list);
                self.since_walked += 1;
                return Some(step);
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn changes(&self) -> usize {
        self.len
    }

    /// By turns with what waits, else who is slow would never come to the end of a walk.
    fn takes_stride(&self) -> bool {
        self.len < STRIDE || self.since_walked >= STRIDE
    }

    fn initial(&self) -> usize {
        self.initial
    }

    fn oldest(&self) -> Option<Instant> {
        let waiting = |(place, key): &(u64, Arc<str>)| self.steps.get(key).filter(|(number, _)| number == place);
        self.order.iter().find_map(waiting).map(|(_, step)| step.since)
    }

    fn covers(&self, key: &str) -> bool {
        self.steps.get(key).is_some()
    }
}
