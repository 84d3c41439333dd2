//! A gate at which handlers block until a scenario wakes them.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A gate that blocks handlers while a [`Blocked`] guard exists.
#[derive(Default)]
pub struct SleepGate {
    is_blocked: Mutex<bool>,
    unblocked: Condvar,
}

/// A guard that closes a [`SleepGate`] as long as it exists.
pub struct Blocked(Arc<SleepGate>);

impl SleepGate {
    pub fn block(self: &Arc<Self>) -> Blocked {
        *self.is_blocked.lock() = true;
        Blocked(self.clone())
    }

    /// Blocks while a [`Blocked`] guard exists.
    pub fn sleep(&self) {
        self.unblocked.wait_while(&mut self.is_blocked.lock(), |is_blocked| *is_blocked);
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        *self.0.is_blocked.lock() = false;
        self.0.unblocked.notify_all();
    }
}
