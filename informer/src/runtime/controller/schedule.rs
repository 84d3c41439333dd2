//! Which object is reconciled next, and when: the work queue, and before it the debounce if there is one.

use std::sync::Arc;
use std::time::Duration;

use super::Config;
use super::debounce::Debounce;
use super::key::Key;
use crate::shared_informer::Cause;
use crate::workqueue::{AddOptions, ItemExponentialFailureRateLimiter, WorkQueue};

/// What is of a list, or of all objects, comes after what happens now (controller-runtime's `LowPriority`).
pub(super) const LOW: i32 = -100;

/// How important it is what an informer tells.
pub(super) fn priority(cause: Cause) -> i32 {
    match cause {
        Cause::Watch => 0,
        Cause::Initial | Cause::Relist | Cause::Resync => LOW,
    }
}

/// All requests for reconciles come here.
pub(super) struct Schedule {
    pub(super) queue: WorkQueue<Key>,
    debounce: Option<Debounce>,
}

impl Schedule {
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn new(config: &Config) -> Arc<Self> {
        let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1000));
        let mut queue = WorkQueue::builder().rate_limiter(limiter);
        if let Some(name) = &config.name {
            queue = queue.name(name);
        }
        let queue =
            queue.build().unwrap_or_else(|error| panic!("a controller is to be polled within a runtime: {error}"));
        let debounce = (!config.debounce.is_zero()).then(|| Debounce::new(config.debounce, config.longest_debounce()));
        Arc::new(Self { queue, debounce })
    }

    /// Asks for a reconcile, at once.
    pub(super) fn ask(&self, key: Key, priority: i32) {
        self.ask_after(key, priority, Duration::ZERO);
    }

    /// The same, not before so long.
    pub(super) fn ask_after(&self, key: Key, priority: i32, after: Duration) {
        match &self.debounce {
            Some(debounce) => debounce.ask(key, priority, after),
            None => self.queue.add_with(key, AddOptions::new().priority(priority).after(after)),
        }
    }

    /// Asks for a deletion to be told, which no debounce puts off.
    pub(super) fn ask_for_deletion(&self, key: Key) {
        self.queue.add(key);
    }

    /// Has what was quiet for long enough reconciled, for ever. At once at its end if there is no debounce.
    pub(super) async fn run(&self) {
        if let Some(debounce) = &self.debounce {
            debounce.run(&self.queue).await;
        }
    }
}
