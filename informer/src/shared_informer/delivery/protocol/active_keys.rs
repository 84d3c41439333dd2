//! The keys that workers have in hand, as walks see them.

use crate::shared_informer::sync::{Arc, Mutex};

/// The keys that a worker has in hand.
enum ActiveKey {
    None,
    One(Arc<str>),
    All,
}

/// The desk of one worker.
struct WorkerState {
    active: ActiveKey,
    /// Whether a walk passed the key.
    passed: bool,
}

/// The desks of all workers.
pub(in super::super) struct ActiveKeys(Box<[Mutex<WorkerState>]>);

impl ActiveKeys {
    pub(in super::super) fn new(workers: usize) -> Self {
        Self(
            (0..workers)
                .map(|_| Mutex::new(WorkerState { active: ActiveKey::None, passed: false }))
                .collect(),
        )
    }

    /// Records that worker `number` is about to apply a change of `key`, or of all keys.
    pub(in super::super) fn begin(&self, number: usize, key: Option<&Arc<str>>) {
        let active = key.map_or(ActiveKey::All, |key| ActiveKey::One(key.clone()));
        *self.0[number].lock() = WorkerState { active, passed: false };
    }

    /// Records that the worker has applied and offered the change. Returns whether a walk passed
    /// the key in between.
    pub(in super::super) fn end(&self, number: usize) -> bool {
        let nothing = WorkerState { active: ActiveKey::None, passed: false };
        std::mem::replace(&mut *self.0[number].lock(), nothing).passed
    }

    /// Marks the desks whose key a walk has passed, stored or not, and returns these keys. `None`
    /// if a worker has all keys in hand.
    pub(super) fn pass(&self, is_in_stride: impl Fn(&str) -> bool) -> Option<Vec<Arc<str>>> {
        let mut passed = Vec::new();
        for worker in &self.0 {
            let mut worker = worker.lock();
            match &worker.active {
                ActiveKey::All => {
                    worker.passed = true;
                    return None;
                }
                ActiveKey::One(key) if is_in_stride(key) => passed.push(key.clone()),
                ActiveKey::None | ActiveKey::One(_) => continue,
            }
            worker.passed = true;
        }
        Some(passed)
    }
}
