//! How long a key waits that is added rate-limited: the trait, and client-go's limiters under
//! client-go's names.

mod bucket;
mod combined;
mod exponential;
mod failures;
mod fast_slow;

use std::time::Duration;

pub use bucket::BucketRateLimiter;
pub use combined::{JitteredRateLimiter, MaxOfRateLimiter, WithMaxWaitRateLimiter};
pub use exponential::ItemExponentialFailureRateLimiter;
pub use fast_slow::ItemFastSlowRateLimiter;

use super::Key;

/// Decides how long a key waits (client-go `TypedRateLimiter`). Called with no lock of the queue
/// held, and by a work queue only for [failures](super::WorkQueue::add_rate_limited).
pub trait RateLimiter<K>: Send + Sync {
    /// The key failed once more: how long it is to wait.
    fn when(&self, key: &K) -> Duration;

    /// The key is not tried again because of failures: there were none any more.
    fn forget(&self, key: &K);

    /// How often the key failed since it was last forgotten.
    fn num_requeues(&self, key: &K) -> u32;
}

/// What client-go gives controllers (`DefaultTypedControllerRateLimiter`): the longer of 5 ms,
/// doubled with each failure of the key up to 1000 s, and a bucket for all keys of 100 that gets
/// 10 a second.
///
/// ```
/// use deltafifo_informer::workqueue::{RateLimiter, default_controller_rate_limiter};
/// use std::time::Duration;
///
/// let limiter = default_controller_rate_limiter();
/// assert_eq!(limiter.when(&"web"), Duration::from_millis(5));
/// assert_eq!(limiter.when(&"web"), Duration::from_millis(10));
/// limiter.forget(&"web");
/// assert_eq!(limiter.when(&"web"), Duration::from_millis(5));
/// ```
#[must_use]
pub fn default_controller_rate_limiter<K: Key>() -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Box::new(ItemExponentialFailureRateLimiter::new(
            Duration::from_millis(5),
            Duration::from_secs(1000),
        )),
        Box::new(BucketRateLimiter::new(Duration::from_millis(100), 100)),
    ])
}

/// What client-go gives those who want no bucket beside it (`DefaultTypedItemBasedRateLimiter`): 1
/// ms, doubled with each failure of the key up to 1000 s.
///
/// ```
/// use deltafifo_informer::workqueue::{RateLimiter, default_item_based_rate_limiter};
/// use std::time::Duration;
///
/// let limiter = default_item_based_rate_limiter();
/// assert_eq!(limiter.when(&"web"), Duration::from_millis(1));
/// assert_eq!(limiter.when(&"web"), Duration::from_millis(2));
/// assert_eq!(limiter.when(&"db"), Duration::from_millis(1));
/// ```
#[must_use]
pub fn default_item_based_rate_limiter<K: Key>() -> ItemExponentialFailureRateLimiter<K> {
    ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1000))
}
