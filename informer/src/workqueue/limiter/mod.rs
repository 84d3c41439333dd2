//! Rate limiters, which decide how long a key backs off: the trait, and client-go's limiters under
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

/// A policy that decides how long a key backs off (client-go `TypedRateLimiter`). A work queue
/// calls it with no lock held, and only for [failures](super::WorkQueue::add_rate_limited).
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key, and returns its delay.
    fn when(&self, key: &K) -> Duration;

    /// Forgets the failures of the key.
    fn forget(&self, key: &K);

    /// Returns how often the key failed since it was last forgotten.
    fn num_requeues(&self, key: &K) -> u32;
}

/// Returns client-go's default limiter of controllers (`DefaultTypedControllerRateLimiter`). Its
/// delay is the longer one of the delays of two limiters. One starts at 5 ms and doubles with each
/// failure of the key, up to 1000 s. The other is a bucket of 100 tokens for all keys, which gets
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
#[doc(alias = "DefaultTypedControllerRateLimiter")]
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
