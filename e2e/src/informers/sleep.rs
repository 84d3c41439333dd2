//! A gate at which a scenario makes handlers block until it wakes them.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A gate that blocks handlers while a [`Blocked`] guard exists.
#[derive(Default)]
pub struct SleepGate {
    is_blocked: Mutex<bool>,
    unblocked: Condvar,
}

/// A guard that keeps a [`SleepGate`] closed while it exists.
pub struct Blocked(Arc<SleepGate>);

impl SleepGate {
    pub fn block(self: &Arc<Self>) -> Blocked {
        *self.is_blocked.lock() = true;
        Blocked(self.clone())
    }

    /// Blocks while there is a `Blocked`.
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
