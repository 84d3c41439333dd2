//! A sleep that handlers do not end by themselves.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Where handlers sleep.
#[derive(Default)]
pub struct Bed {
    is_night: Mutex<bool>,
    morning: Condvar,
}

/// Handlers sleep while this exists.
pub struct Night(Arc<Bed>);

impl Bed {
    pub fn night(self: &Arc<Self>) -> Night {
        *self.is_night.lock() = true;
        Night(self.clone())
    }

    /// Blocks while there is a `Night`.
    pub fn sleep(&self) {
        self.morning.wait_while(&mut self.is_night.lock(), |is_night| *is_night);
    }
}

impl Drop for Night {
    fn drop(&mut self) {
        *self.0.is_night.lock() = false;
        self.0.morning.notify_all();
    }
}
