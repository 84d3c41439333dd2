//! A delay that doubles with each failure.

use std::time::Duration;

use super::super::Key;
use super::RateLimiter;
use super::failures::Failures;

/// The largest number of doublings. A nanosecond that is doubled this often exceeds any
/// `Duration`.
const DOUBLINGS: u32 = 94;

/// A limiter whose delay doubles with each failure of a key (client-go
/// `TypedItemExponentialFailureRateLimiter`).
///
/// A key that failed takes O(1) memory until it is forgotten.
#[doc(alias = "TypedItemExponentialFailureRateLimiter")]
#[doc(alias = "DefaultTypedItemBasedRateLimiter")]
pub struct ItemExponentialFailureRateLimiter<K> {
    failures: Failures<K>,
    base: Duration,
    max: Duration,
}

impl<K: Key> ItemExponentialFailureRateLimiter<K> {
    /// Creates a limiter with the delay `base` after the first failure, and at most `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { failures: Failures::new(), base, max }
    }
}

impl<K: Key> RateLimiter<K> for ItemExponentialFailureRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        let doublings = self.failures.count(key).min(DOUBLINGS);
        (0..doublings).fold(self.base, |delay, _| delay.saturating_mul(2)).min(self.max)
    }

    fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.of(key)
    }
}
