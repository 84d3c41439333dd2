//! The keys that workers have in hand, as walks see them.

use crate::shared_informer::sync::{Arc, Mutex};

/// The keys that a worker has in hand.
enum InHand {
    Nothing,
    Key(Arc<str>),
    Everything,
}

/// The desk of one worker.
struct Desk {
    in_hand: InHand,
    /// Whether a walk passed the key.
    passed: bool,
}

/// The desks of all workers.
pub(in super::super) struct Desks(Box<[Mutex<Desk>]>);

impl Desks {
    pub(in super::super) fn new(workers: usize) -> Self {
        Self(
            (0..workers)
                .map(|_| Mutex::new(Desk { in_hand: InHand::Nothing, passed: false }))
                .collect(),
        )
    }

    /// Records that worker `number` is about to apply a change of `key`, or of all keys.
    pub(in super::super) fn begin(&self, number: usize, key: Option<&Arc<str>>) {
        let in_hand = key.map_or(InHand::Everything, |key| InHand::Key(key.clone()));
        *self.0[number].lock() = Desk { in_hand, passed: false };
    }

    /// Records that the worker has applied and offered the change. Returns whether a walk passed
    /// the key in between.
    pub(in super::super) fn end(&self, number: usize) -> bool {
        let nothing = Desk { in_hand: InHand::Nothing, passed: false };
        std::mem::replace(&mut *self.0[number].lock(), nothing).passed
    }

    /// Marks the desks whose key a walk has passed, stored or not, and returns these keys. `None`
    /// if a worker has all keys in hand.
    pub(super) fn pass(&self, came_by: impl Fn(&str) -> bool) -> Option<Vec<Arc<str>>> {
        let mut passed = Vec::new();
        for desk in &self.0 {
            let mut desk = desk.lock();
            match &desk.in_hand {
                InHand::Everything => {
                    desk.passed = true;
                    return None;
                }
                InHand::Key(key) if came_by(key) => passed.push(key.clone()),
                InHand::Nothing | InHand::Key(_) => continue,
            }
            desk.passed = true;
        }
        Some(passed)
    }
}
