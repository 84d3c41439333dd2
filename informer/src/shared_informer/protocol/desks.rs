//! What each worker has in hand, for walks to see.

use super::super::sync::{Arc, Mutex};

/// What a worker has in hand.
enum InHand {
    Nothing,
    Key(Arc<str>),
    Everything,
}

struct Desk {
    in_hand: InHand,
    /// Whether a walk came by it.
    passed: bool,
}

/// One for each worker.
pub(in super::super) struct Desks(Box<[Mutex<Desk>]>);

impl Desks {
    pub(in super::super) fn new(workers: usize) -> Self {
        Self(
            (0..workers)
                .map(|_| Mutex::new(Desk { in_hand: InHand::Nothing, passed: false }))
                .collect(),
        )
    }

    /// Worker `number` is going to apply something to `key`, or to all there are.
    pub(in super::super) fn begin(&self, number: usize, key: Option<&Arc<str>>) {
        let in_hand = key.map_or(InHand::Everything, |key| InHand::Key(key.clone()));
        *self.0[number].lock() = Desk { in_hand, passed: false };
    }

    /// It has applied it, and told of it. Whether a walk came by meanwhile.
    pub(in super::super) fn end(&self, number: usize) -> bool {
        let nothing = Desk { in_hand: InHand::Nothing, passed: false };
        std::mem::replace(&mut *self.0[number].lock(), nothing).passed
    }

    /// A walk came by some keys, stored or not: which of them are on a desk. `None`: everything is.
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
