//! Time that passes when a test says so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The hands of a clock, which stands still by itself. Clones are of the same clock.
#[derive(Clone)]
pub struct Hands(Arc<Mutex<Instant>>);

impl Default for Hands {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Hands {
    /// What looks at them.
    pub fn clock(&self) -> impl Fn() -> Instant + Send + Sync + 'static {
        let hands = self.clone();
        move || *hands.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets time pass.
    pub fn move_on(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }
}
