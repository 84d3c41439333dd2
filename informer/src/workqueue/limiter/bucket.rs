//! So many at once, then one each so often, for all keys together.

use std::time::Duration;

use deltafifo::locks::Mutex;
use tokio::time::Instant;

use super::RateLimiter;

/// A token bucket for all keys (client-go `TypedBucketRateLimiter`): who finds it empty has a
/// token reserved, and waits for it. Failures are not counted.
pub struct BucketRateLimiter {
    /// What is missing in the bucket, as the time when it is full again.
    full_at: Mutex<Instant>,
    every: Duration,
    burst: Duration,
}

impl BucketRateLimiter {
    /// A bucket of `burst` tokens, full, that gets one `every` so often: ten a second are one
    /// every 100 ms. One of 0 tokens makes each wait its turn.
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
        // Past the end of all time nothing can be reserved.
        *full_at = now.checked_add(missing).unwrap_or(*full_at);
        missing.saturating_sub(self.burst)
    }

    fn forget(&self, _key: &K) {}

    fn num_requeues(&self, _key: &K) -> u32 {
        0
    }
}
