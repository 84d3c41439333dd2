//! A few fast retries, then slow ones.

use std::time::Duration;

use super::super::Key;
use super::RateLimiter;
use super::failures::Failures;

/// A limiter with a short delay for the first failures of a key, and a long one for later failures
/// (client-go `TypedItemFastSlowRateLimiter`).
///
/// A key that failed takes O(1) memory until it is forgotten.
#[doc(alias = "TypedItemFastSlowRateLimiter")]
pub struct ItemFastSlowRateLimiter<K> {
    failures: Failures<K>,
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
}

impl<K: Key> ItemFastSlowRateLimiter<K> {
    /// Creates a limiter with the delay `fast` for the first `fast_attempts` failures, then
    /// `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self { failures: Failures::new(), fast, slow, fast_attempts }
    }
}

impl<K: Key> RateLimiter<K> for ItemFastSlowRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        if self.failures.count(key) < self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.of(key)
    }
}
