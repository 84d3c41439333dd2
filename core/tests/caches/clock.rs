//! Time that passes when a test says so.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone)]
pub struct Hands(Arc<Mutex<Instant>>);

impl Hands {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub fn clock(&self) -> impl Fn() -> Instant + Send + Sync + 'static {
        let hands = self.clone();
        move || *hands.0.lock().unwrap()
    }

    pub fn move_on(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}
