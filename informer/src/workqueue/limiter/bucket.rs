//! A limit for all keys together: a burst, then one key per interval.

use std::time::Duration;

use deltafifo::locks::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// A token bucket for all keys (client-go `TypedBucketRateLimiter`). A key that finds it empty
/// reserves the next token and waits for it. Failures are not counted.
#[doc(alias = "TypedBucketRateLimiter")]
pub struct BucketRateLimiter {
    /// The time at which the bucket will be full again. It determines how many tokens are missing.
    full_at: Mutex<Instant>,
    every: Duration,
    burst: Duration,
}

impl BucketRateLimiter {
    /// Creates a full bucket of `burst` tokens that gets a token in each interval `every`: 100 ms
    /// for ten tokens a second. With a burst of 0 every key waits.
    #[must_use]
    pub fn new(every: Duration, burst: u32) -> Self {
        Self { full_at: Mutex::new(Instant::now()), every, burst: every.saturating_mul(burst) }
    }
}

impl<K> RateLimiter<K> for BucketRateLimiter {
    fn when(&self, _key: &K) -> Duration {
        let now = Instant::now();
        let mut full_at = self.full_at.lock();
        let missing = full_at.saturating_duration_since(now).saturating_add(self.every);
        // A time that the clock cannot represent is not reserved.
        *full_at = now.checked_add(missing).unwrap_or(*full_at);
        missing.saturating_sub(self.burst)
    }

    fn forget(&self, _key: &K) {}

    fn num_requeues(&self, _key: &K) -> u32 {
        0
    }
}
