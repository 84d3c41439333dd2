//! The active keys, that is, the keys whose changes workers are applying.

use crate::shared_informer::sync::{Arc, Mutex};

/// The key whose change a worker is applying.
enum ActiveKey {
    None,
    One(Arc<str>),
    All,
}

/// The active key of one worker.
struct WorkerState {
    active: ActiveKey,
    /// Whether a walk has passed the key.
    passed: bool,
}

/// The active keys of all workers.
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

    /// Marks the active keys for which `is_in_stride` is true as passed by a walk, and returns
    /// them. Returns `None` if all keys are active.
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
