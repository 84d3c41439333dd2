//! The schedule of reconciles, which decides their times and their order: the work queue, and the
//! debounce in front of it.

use std::sync::Arc;
use std::time::Duration;

use super::Config;
use super::debounce::Debounce;
use super::key::StoreKey;
use super::reason::Reason;
use crate::shared_informer::Cause;
use crate::workqueue::{
    AddOptions, Item, ItemExponentialFailureRateLimiter, RateLimiter, WorkQueue,
};

/// The priority of reconciles for lists and for `reconcile_all_on`, below the priority of watch
/// events (controller-runtime's `LowPriority`).
pub(super) const LOW: i32 = -100;

/// The priority of reconciles of the objects of shards that have moved to this member. Nobody has
/// worked on them for a while, so they come before lists and resyncs.
#[cfg(feature = "leader-election")]
pub(super) const MOVED: i32 = -50;

/// Returns the priority of a notification.
pub(super) fn priority(cause: Cause) -> i32 {
    match cause {
        Cause::Watch => 0,
        Cause::Initial
        | Cause::Relist
        | Cause::Resync
        | Cause::NamespaceRemoved
        | Cause::ShardMoved => LOW,
    }
}

/// The policy that sets the delay before a failed object is reconciled again.
pub(super) type Retry = Box<dyn RateLimiter<StoreKey>>;

/// The entry point of all requests for reconciles.
pub(super) struct Schedule {
    pub(super) queue: WorkQueue<StoreKey>,
    debounce: Option<Debounce>,
    /// The policy that delays retries after a panic, after a failed decoding that no policy of the
    /// user handles, and after an error if the controller has a retry policy.
    retry: Retry,
    retries_errors: bool,
}

impl Schedule {
    /// Creates a schedule without requests.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
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
        let queue = queue.build().unwrap_or_else(|error| {
            panic!("controller polled outside of a tokio runtime: {error}")
        });
        let debounce = (!config.debounce.is_zero())
            .then(|| Debounce::new(config.debounce, config.longest_debounce()));
        Arc::new(Self { queue, debounce, retry, retries_errors })
    }

    /// Counts a failure that is not an error of the reconciler, and requests a reconcile after the
    /// retry delay.
    pub(super) fn request_after_failure(&self, key: StoreKey, priority: i32, reason: Reason) {
        let delay = self.retry.when(&key);
        let options = AddOptions::new().priority(priority).tag(reason.tag());
        self.queue.add_with(key, options.after(delay));
    }

    /// Requests a reconcile of an object for which an error policy was called. `after` is the
    /// result of that policy: `None` gives the object up. With a retry policy `after` is only the
    /// minimum of the delay.
    pub(super) fn request_after_error(
        &self,
        key: StoreKey,
        priority: i32,
        after: Option<Duration>,
    ) {
        let Some(least) = after else { return self.forget(&key) };
        let delay = if self.retries_errors {
            self.retry.when(&key).max(least)
        } else {
            // Without a retry policy for errors, the delay after a later panic must not grow with
            // errors.
            self.forget(&key);
            least
        };
        self.request_after(key, priority, delay, Reason::ErrorPolicyRequestedRetry);
    }

    /// Forgets the failures of an object that was reconciled, given up or deleted.
    pub(super) fn forget(&self, key: &StoreKey) {
        self.retry.forget(key);
    }

    /// Requests a reconcile without a delay.
    pub(super) fn request(&self, key: StoreKey, priority: i32, reason: Reason) {
        self.request_after(key, priority, Duration::ZERO, reason);
    }

    /// Requests a reconcile after a delay.
    pub(super) fn request_after(
        &self,
        key: StoreKey,
        priority: i32,
        after: Duration,
        reason: Reason,
    ) {
        let options = AddOptions::new().priority(priority).tag(reason.tag());
        match &self.debounce {
            Some(debounce) => debounce.request(key, priority, after, reason),
            // `after` is set only if needed, because the queue counts every add with a delay as a
            // retry.
            None if after.is_zero() => self.queue.add_with(key, options),
            None => self.queue.add_with(key, options.after(after)),
        }
    }

    /// Queues an item again, under a key that may be another one.
    pub(super) fn rename(&self, item: &Item<StoreKey>, key: StoreKey) {
        self.queue.add_with(key, AddOptions::new().priority(item.priority()).tag(item.tag()));
    }

    /// Requests a call of the deletion handlers of `key`, without a debounce.
    pub(super) fn request_deletion_call(&self, key: StoreKey) {
        self.queue.add(key);
    }

    /// Moves debounced requests to the work queue when they are due, and never returns. If requests
    /// are not debounced, returns at once.
    pub(super) async fn run(&self) {
        if let Some(debounce) = &self.debounce {
            debounce.run(&self.queue).await;
        }
    }
}
