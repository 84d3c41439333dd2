//! Rate limiters that combine or wrap others.

use std::time::Duration;

use super::RateLimiter;

/// A limiter that asks several limiters and returns the longest delay (client-go
/// `TypedMaxOfRateLimiter`).
#[doc(alias = "TypedMaxOfRateLimiter")]
pub struct MaxOfRateLimiter<K>(Vec<Box<dyn RateLimiter<K>>>);

impl<K> MaxOfRateLimiter<K> {
    /// Creates the limiter. Without limiters there is no delay.
    #[must_use]
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self(limiters)
    }
}

impl<K> RateLimiter<K> for MaxOfRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        self.0.iter().map(|limiter| limiter.when(key)).max().unwrap_or_default()
    }

    fn forget(&self, key: &K) {
        self.0.iter().for_each(|limiter| limiter.forget(key));
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.0.iter().map(|limiter| limiter.num_requeues(key)).max().unwrap_or_default()
    }
}

/// A limiter that caps the delay of another (client-go `TypedWithMaxWaitRateLimiter`).
#[doc(alias = "TypedWithMaxWaitRateLimiter")]
pub struct WithMaxWaitRateLimiter<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWaitRateLimiter<L> {
    /// Creates a limiter with the delays of `limiter`, but at most `max`.
    #[must_use]
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWaitRateLimiter<L> {
    fn when(&self, key: &K) -> Duration {
        self.limiter.when(key).min(self.max)
    }

    fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiter.num_requeues(key)
    }
}

/// A limiter that lengthens the delay of another by a random part, so that keys that failed
/// together are not retried together (as client-go's `wait.Jitter`).
pub struct JitteredRateLimiter<L> {
    limiter: L,
    percent: u32,
}

impl<L> JitteredRateLimiter<L> {
    /// Creates a limiter with the delays of `limiter`, lengthened by up to `percent` percent,
    /// uniformly distributed.
    #[must_use]
    pub fn new(limiter: L, percent: u32) -> Self {
        Self { limiter, percent }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for JitteredRateLimiter<L> {
    fn when(&self, key: &K) -> Duration {
        let delay = self.limiter.when(key);
        let most = (delay / 100).saturating_mul(self.percent);
        // At 584 years precision does not matter.
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        delay.saturating_add(Duration::from_nanos(fastrand::u64(0..=most)))
    }

    fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiter.num_requeues(key)
    }
}
