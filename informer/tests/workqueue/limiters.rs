//! Tests of rate limiters (client-go `default_rate_limiters_test.go`).

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use deltafifo_informer::workqueue::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter,
    JitteredRateLimiter, MaxOfRateLimiter, RateLimiter, WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
};

use crate::common::{ms, pass};

type Exponential = ItemExponentialFailureRateLimiter<&'static str>;

/// Asserts the delays that the limiter returns for consecutive failures of a key.
fn assert_delays(limiter: &impl RateLimiter<&'static str>, key: &'static str, delays: &[u64]) {
    for (failure, &delay) in (1..).zip(delays) {
        assert_eq!(limiter.when(&key), ms(delay), "{key}'s failure {failure}");
    }
}

/// Checks the properties of every limiter that counts failures by key; `delays` are its first
/// delays.
fn counts_by_key(limiter: &impl RateLimiter<&'static str>, delays: &[u64; 5]) {
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_delays(limiter, "one", delays);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_delays(limiter, "two", &delays[..2]);
    assert_eq!(limiter.num_requeues(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!((limiter.num_requeues(&"one"), limiter.num_requeues(&"two")), (0, 2));
    assert_delays(limiter, "one", &delays[..1]);
    limiter.forget(&"never seen");
}

#[test]
fn exponential_limiter_doubles_per_key() {
    counts_by_key(&Exponential::new(ms(1), ms(1000)), &[1, 2, 4, 8, 16]);
}

#[test]
fn exponential_limiter_stops_at_its_maximum_without_overflow() {
    for (base, max, last) in [
        (ms(1), Duration::from_secs(1000), Duration::from_secs(1000)),
        (Duration::from_secs(60), Duration::from_secs(3_600_000), Duration::from_secs(3_600_000)),
        (Duration::from_nanos(1), Duration::MAX, Duration::MAX),
        (Duration::ZERO, ms(1), Duration::ZERO),
        (ms(2), ms(1), ms(1)),
    ] {
        let limiter = Exponential::new(base, max);
        let delays: Vec<_> = (0..1000).map(|_| limiter.when(&"key")).collect();
        assert!(delays.is_sorted());
        assert_eq!(delays[5], (base * 32).min(max));
        assert_eq!(delays[999], last);
        assert_eq!(limiter.num_requeues(&"key"), 1000);
    }
}

#[test]
fn fast_slow_limiter_is_fast_for_the_first_failures() {
    counts_by_key(&ItemFastSlowRateLimiter::new(ms(5), ms(10_000), 3), &[5, 5, 5, 10_000, 10_000]);
}

#[test]
fn max_of_returns_the_longest_delay() {
    let limiter = MaxOfRateLimiter::new(vec![
        Box::new(ItemFastSlowRateLimiter::new(ms(5), ms(3000), 3)),
        Box::new(Exponential::new(ms(1), ms(1000))),
    ]);
    counts_by_key(&limiter, &[5, 5, 5, 3000, 3000]);
    assert_delays(&MaxOfRateLimiter::new(Vec::new()), "one", &[0, 0]);
}

/// A limiter whose first delays, counted over all keys, are short, and whose later ones are long.
struct Step {
    short: Mutex<u32>,
}

impl RateLimiter<u32> for Step {
    fn when(&self, _key: &u32) -> Duration {
        let mut short = self.short.lock().unwrap();
        *short = short.saturating_sub(1);
        if *short > 0 { ms(5) } else { ms(1_000_000) }
    }

    fn forget(&self, _key: &u32) {}

    fn num_requeues(&self, _key: &u32) -> u32 {
        0
    }
}

#[test]
fn with_max_wait_caps_longer_delays() {
    let limiter = WithMaxWaitRateLimiter::new(Step { short: Mutex::new(101) }, ms(500_000));
    assert!((0..100).all(|key| limiter.when(&key) == ms(5)));
    assert!((100..200).all(|key| limiter.when(&key) == ms(500_000)));
    counts_by_key(
        &WithMaxWaitRateLimiter::new(Exponential::new(ms(1), ms(1000)), ms(3)),
        &[1, 2, 3, 3, 3],
    );
}

#[test]
fn jitter_adds_at_most_its_fraction() {
    let limiter = JitteredRateLimiter::new(ItemFastSlowRateLimiter::new(ms(100), ms(100), 0), 50);
    let delays: Vec<_> = (0..1000).map(|_| limiter.when(&"key")).collect();
    assert!(delays.iter().all(|delay| (ms(100)..=ms(150)).contains(delay)));
    assert!(
        delays.iter().any(|&delay| delay < ms(110)) && delays.iter().any(|&delay| delay > ms(140))
    );
    assert_eq!(limiter.num_requeues(&"key"), 1000);
    limiter.forget(&"key");
    counts_by_key(
        &JitteredRateLimiter::new(Exponential::new(ms(1), ms(1000)), 0),
        &[1, 2, 4, 8, 16],
    );
    let longest =
        JitteredRateLimiter::new(Exponential::new(Duration::MAX, Duration::MAX), u32::MAX);
    assert_eq!(longest.when(&"key"), Duration::MAX);
}

#[tokio::test(start_paused = true)]
async fn bucket_serves_its_burst_and_then_one_per_interval() {
    let limiter = BucketRateLimiter::new(ms(100), 3);
    assert_delays(&limiter, "any", &[0, 0, 0, 100, 200]);
    // A reservation is served first. Then the bucket fills, up to its size.
    tokio::time::advance(ms(250)).await;
    assert_delays(&limiter, "other", &[50]);
    pass(ms(1_000_000)).await;
    assert_delays(&limiter, "any", &[0, 0, 0, 100]);
    limiter.forget(&"any");
    assert_eq!(limiter.num_requeues(&"any"), 0);
}

#[tokio::test(start_paused = true)]
async fn bucket_with_extreme_settings_follows_them() {
    assert_delays(&BucketRateLimiter::new(ms(100), 0), "any", &[100, 200, 300]);
    assert_delays(&BucketRateLimiter::new(Duration::ZERO, 0), "any", &[0, 0]);
    let never = BucketRateLimiter::new(Duration::MAX, u32::MAX);
    assert!((0..10).all(|_| never.when(&"any") == Duration::ZERO));
    let far = BucketRateLimiter::new(Duration::from_secs(u64::MAX / 8), 0);
    let delays: Vec<_> = (0..10).map(|_| far.when(&"any")).collect();
    assert!(delays.is_sorted(), "{delays:?}");
    let never = BucketRateLimiter::new(Duration::MAX, 0);
    assert!((0..10).all(|_| never.when(&"any") == Duration::MAX));
}

#[tokio::test(start_paused = true)]
async fn controller_limiter_is_the_longer_of_key_and_bucket() {
    let limiter = default_controller_rate_limiter::<u32>();
    for key in 0..100 {
        assert_eq!(limiter.when(&key), ms(5));
    }
    assert_eq!(limiter.when(&100), ms(100));
    assert_eq!(limiter.when(&101), ms(200));
    assert_eq!(limiter.num_requeues(&101), 1);
    tokio::time::advance(Duration::from_secs(1000)).await;
    let delays: Vec<_> = (0..40).map(|_| limiter.when(&0)).collect();
    assert_eq!(delays[39], Duration::from_secs(1000));
}

/// A key that counts how often keys are hashed.
#[derive(Clone, PartialEq, Eq)]
struct Counted(u32);

static HASHED: AtomicU32 = AtomicU32::new(0);

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        HASHED.fetch_add(1, Ordering::SeqCst);
        self.0.hash(state);
    }
}

#[test]
fn failing_key_is_hashed_once_regardless_of_other_failures() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(1), ms(1000));
    (0..10_000).for_each(|key| assert_eq!(limiter.when(&Counted(key)), ms(1)));
    assert_eq!(HASHED.load(Ordering::SeqCst), 10_000);
}

/// A key that calls its limiter in its drop.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Asks;

static ASKED: LazyLock<ItemExponentialFailureRateLimiter<Asks>> =
    LazyLock::new(|| ItemExponentialFailureRateLimiter::new(ms(1), ms(1000)));

impl Drop for Asks {
    fn drop(&mut self) {
        let _ = ASKED.num_requeues(self);
    }
}

/// Checks that a limiter drops a forgotten key with no lock held: the key calls its limiter in its
/// drop. The calls run on a separate thread, so that a deadlock fails the test and does not hang
/// it.
#[test]
fn forgotten_key_may_use_the_limiter_in_its_drop() {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        ASKED.when(&Asks);
        ASKED.forget(&Asks);
        done.send(())
    });
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(()));
}
