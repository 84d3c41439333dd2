//! Which object is reconciled next, and when: the work queue, and before it the debounce if there is one.

use std::sync::Arc;
use std::time::Duration;

use super::Config;
use super::debounce::Debounce;
use super::key::Key;
use crate::shared_informer::Cause;
use crate::workqueue::{AddOptions, ItemExponentialFailureRateLimiter, RateLimiter, WorkQueue};

/// What is of a list, or of all objects, comes after what happens now (controller-runtime's `LowPriority`).
pub(super) const LOW: i32 = -100;

/// How important it is what an informer tells.
pub(super) fn priority(cause: Cause) -> i32 {
    match cause {
        Cause::Watch => 0,
        Cause::Initial | Cause::Relist | Cause::Resync => LOW,
    }
}

/// How long an object that failed waits for its next reconcile.
pub(super) type Retry = Box<dyn RateLimiter<Key>>;

/// All requests for reconciles come here.
pub(super) struct Schedule {
    pub(super) queue: WorkQueue<Key>,
    debounce: Option<Debounce>,
    /// Of panics, and of errors if the controller has a retry policy.
    retry: Retry,
    retries_errors: bool,
}

impl Schedule {
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn new(config: &Config, retry: Option<Retry>) -> Arc<Self> {
        let retries_errors = retry.is_some();
        let retry = retry.unwrap_or_else(|| {
            let (base, max) = (Duration::from_millis(5), Duration::from_secs(1000));
            Box::new(ItemExponentialFailureRateLimiter::new(base, max))
        });
        let mut queue = WorkQueue::builder();
        if let Some(name) = &config.name {
            queue = queue.name(name);
        }
        let queue =
            queue.build().unwrap_or_else(|error| panic!("a controller is to be polled within a runtime: {error}"));
        let debounce = (!config.debounce.is_zero()).then(|| Debounce::new(config.debounce, config.longest_debounce()));
        Arc::new(Self { queue, debounce, retry, retries_errors })
    }

    /// Counts a panic, and asks for the next reconcile of its object.
    pub(super) fn ask_after_panic(&self, key: Key, priority: i32) {
        let delay = self.retry.when(&key);
        self.queue.add_with(key, AddOptions::new().priority(priority).after(delay));
    }

    /// Asks for the next reconcile of an object whose reconciler returned an error. `after` is
    /// what the error policy wants: with a retry policy the least delay, or `None` to give the
    /// object up.
    pub(super) fn ask_after_error(&self, key: Key, priority: i32, after: Option<Duration>) {
        let Some(least) = after else { return self.forget(&key) };
        let delay = if self.retries_errors {
            self.retry.when(&key).max(least)
        } else {
            // The error policy has decided, so only panics count.
            self.forget(&key);
            least
        };
        self.ask_after(key, priority, delay);
    }

    /// Forgets the failures of an object that was reconciled well, given up or deleted.
    pub(super) fn forget(&self, key: &Key) {
        self.retry.forget(key);
    }

    /// Asks for a reconcile, at once.
    pub(super) fn ask(&self, key: Key, priority: i32) {
        self.ask_after(key, priority, Duration::ZERO);
    }

    /// The same, not before so long.
    pub(super) fn ask_after(&self, key: Key, priority: i32, after: Duration) {
        match &self.debounce {
            Some(debounce) => debounce.ask(key, priority, after),
            // A queue counts an add with a delay as a retry, if only of nothing.
            None if after.is_zero() => self.queue.add_with(key, AddOptions::new().priority(priority)),
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
