//! A clock that a test advances.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A clock that only [`advance`](Self::advance) moves. Clones share their time.
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<Instant>>);

impl Default for ManualClock {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl ManualClock {
    /// Returns a function that reads the clock.
    pub fn reader(&self) -> impl Fn() -> Instant + Send + Sync + 'static {
        let clock = self.clone();
        move || *clock.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }
}
