//! Tests of keys with a delay (client-go `delaying_queue_test.go`, `rate_limiting_queue_test.go`).

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::workqueue::{
    AddOptions, BucketRateLimiter, ItemExponentialFailureRateLimiter, WorkQueue,
};
use tokio::time::Instant;

use crate::common::{Queue, idle, ms, next, pass, queue, rest, spawn};

/// Asserts that `key` is returned after exactly this time.
async fn assert_returned_after(queue: &Queue, key: &'static str, after: Duration) {
    let from = Instant::now();
    assert_eq!(next(queue).await, Some(key));
    assert_eq!(from.elapsed(), after);
}

#[tokio::test(start_paused = true)]
async fn delayed_key_is_returned_once_after_its_delay() {
    let queue = queue();
    queue.add_after("foo", ms(50));
    pass(ms(40)).await;
    assert_eq!(queue.len(), 0);
    pass(ms(20)).await;
    assert_eq!(queue.len(), 1);
    assert_eq!(rest(&queue), ["foo"]);
    pass(ms(10_000)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn sleeping_getter_is_woken_when_the_delay_ends() {
    let queue = queue();
    let getter =
        spawn(&queue, async |queue: Queue| assert_returned_after(&queue, "foo", ms(1001)).await);
    idle().await;
    queue.add_after("foo", ms(1000));
    getter.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn key_with_several_delays_waits_for_the_earliest() {
    let queue = queue();
    queue.add_after("foo", ms(50));
    queue.add_after("foo", ms(70));
    assert_returned_after(&queue, "foo", ms(50)).await;
    pass(ms(1000)).await;
    assert_eq!(queue.len(), 0);

    queue.add_after("foo", ms(50));
    queue.add_after("foo", ms(30));
    assert_returned_after(&queue, "foo", ms(30)).await;
    pass(ms(1000)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn earlier_delay_replaces_a_later_one() {
    let queue = queue();
    queue.add_after("first", ms(1000));
    queue.add_after("second", ms(50));
    assert_returned_after(&queue, "second", ms(50)).await;
    queue.add_after("third", ms(2000));
    assert_returned_after(&queue, "first", ms(950)).await;
    assert_returned_after(&queue, "third", ms(1050)).await;
}

#[tokio::test(start_paused = true)]
async fn keys_that_became_due_together_are_returned_in_order_of_their_times() {
    let queue = queue();
    queue.add_after("first", ms(1000));
    queue.add_after("second", ms(500));
    queue.add_after("third", ms(250));
    queue.add_after("fourth", ms(500));
    pass(ms(2000)).await;
    assert_eq!(rest(&queue), ["third", "second", "fourth", "first"]);
}

#[tokio::test(start_paused = true)]
async fn add_ends_the_delay_of_its_key() {
    let queue = queue();
    let getter =
        spawn(&queue, async |queue: Queue| assert_returned_after(&queue, "foo", ms(1)).await);
    queue.add_after("foo", ms(60_000));
    idle().await;
    queue.add("foo");
    getter.await.unwrap();
    pass(ms(100_000)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dirty_key_has_no_delay_besides() {
    let queue = queue();
    queue.add("foo");
    queue.add_after("foo", ms(50));
    let item = queue.try_get().unwrap();
    queue.add("foo");
    queue.add_after("foo", ms(50));
    item.done();
    assert_eq!(rest(&queue), ["foo"]);
    pass(ms(100)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn delay_of_zero_is_an_add() {
    let queue = queue();
    queue.add_after("foo", Duration::ZERO);
    assert_eq!(rest(&queue), ["foo"]);
}

#[tokio::test(start_paused = true)]
async fn delay_that_ends_during_processing_queues_the_key_once_more() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add_after("foo", ms(50));
    pass(ms(60)).await;
    assert_eq!(queue.len(), 0);
    item.done();
    assert_eq!(rest(&queue), ["foo"]);
}

#[tokio::test(start_paused = true)]
async fn delay_set_during_processing_outlives_it() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add_after("foo", ms(50));
    item.done();
    assert_returned_after(&queue, "foo", ms(50)).await;
    // An add during the processing is due before any delay.
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add_after("foo", ms(50));
    queue.add("foo");
    item.done();
    assert_returned_after(&queue, "foo", ms(0)).await;
    pass(ms(100)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn largest_delay_is_accepted() {
    let queue = queue();
    queue.add_after("for ever", Duration::MAX);
    queue.add_after("foo", ms(1));
    assert_returned_after(&queue, "foo", ms(1)).await;
    pass(Duration::from_secs(29 * 365 * 24 * 60 * 60)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_due_keys_yield_to_other_tasks() {
    let queue = queue::<u32>();
    let worker = spawn(&queue, async |queue: Arc<WorkQueue<_>>| {
        let item = queue.get().await;
        (item.map(|item| *item.key()), queue.len())
    });
    idle().await;
    (0..3000).for_each(|key| queue.add_after(key, ms(10)));
    pass(ms(10)).await;
    let (first, queued) = worker.await.unwrap();
    assert_eq!(first, Some(0));
    assert!(queued < 1000, "{queued} before the worker had its turn");
    assert!(rest(&queue).into_iter().eq(1..3000));
}

#[tokio::test(start_paused = true)]
async fn rate_limited_key_waits_for_the_limiters_delay() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(1), ms(1000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    queue.add_rate_limited("one");
    assert_returned_after(&queue, "one", ms(1)).await;
    queue.add_rate_limited("one");
    assert_returned_after(&queue, "one", ms(2)).await;
    assert_eq!(queue.num_requeues(&"one"), 2);
    queue.add_rate_limited("two");
    assert_returned_after(&queue, "two", ms(1)).await;
    queue.add_rate_limited("two");
    assert_returned_after(&queue, "two", ms(2)).await;
    queue.forget(&"one");
    assert_eq!((queue.num_requeues(&"one"), queue.num_requeues(&"two")), (0, 2));
    queue.add_rate_limited("one");
    assert_returned_after(&queue, "one", ms(1)).await;
}

#[tokio::test(start_paused = true)]
async fn rate_limited_keys_do_not_affect_each_other() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(5), ms(1_000_000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    for _ in 0..7 {
        queue.add_rate_limited("bar");
        assert_eq!(next(&queue).await, Some("bar"));
    }
    queue.add_rate_limited("foo");
    queue.add_rate_limited("bar");
    assert_returned_after(&queue, "foo", ms(5)).await;
    assert_returned_after(&queue, "bar", ms(635)).await;
}

/// Checks that the waits of a key that is added often to a rate-limited queue do not become longer.
/// In controller-runtime#1594, each addition reserved a token, so that each wait was longer than
/// the one before.
#[tokio::test(start_paused = true)]
async fn bucket_wait_of_a_key_added_often_does_not_grow() {
    let queue = Arc::new(
        WorkQueue::builder().rate_limiter(BucketRateLimiter::new(ms(100), 1)).build().unwrap(),
    );
    queue.add_rate_limited("foo");
    assert_returned_after(&queue, "foo", ms(0)).await;
    for _ in 0..10 {
        let added = Instant::now();
        // Twenty additions a second, with a bucket of ten a second.
        while queue.is_empty() {
            queue.add_rate_limited("foo");
            pass(ms(50)).await;
        }
        assert!(added.elapsed() < ms(160), "{:?}", added.elapsed());
        assert_eq!(rest(&queue), ["foo"]);
    }
}

/// Checks that a key that is added often during its backoff has one failure for each time that it
/// was taken. In kubernetes#132805, 605 failures were counted in a minute for a key that had failed
/// ten times.
#[tokio::test(start_paused = true)]
async fn additions_during_back_off_are_not_failures() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(5), ms(1_000_000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    queue.add("foo");
    for failures in 1..=10 {
        let item = queue.get().await.unwrap();
        (0..60).for_each(|_| queue.add_rate_limited("foo"));
        item.done();
        (0..60).for_each(|_| queue.add_rate_limited("foo"));
        assert_eq!(queue.num_requeues(&"foo"), failures);
    }
    assert_returned_after(&queue, "foo", ms(2560)).await;
}

#[tokio::test(start_paused = true)]
async fn rate_limited_addition_of_a_queued_key_is_not_a_failure() {
    let queue = queue();
    queue.add("foo");
    queue.add_rate_limited("foo");
    assert_eq!(queue.num_requeues(&"foo"), 0);
    assert_eq!(rest(&queue), ["foo"]);
    pass(ms(100)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn failure_of_a_key_added_again_during_processing_counts_once() {
    let queue = queue();
    queue.add("foo");
    for failures in 1..=3 {
        let item = queue.get().await.unwrap();
        queue.add("foo");
        queue.add_rate_limited("foo");
        queue.add_rate_limited("foo");
        assert_eq!(queue.num_requeues(&"foo"), failures);
        item.done();
    }
}

/// Checks that a rate-limited add of a key that waits because of `add_after` counts as a failure,
/// and that the earlier of the two times applies. The wait of an `add_after` is not a backoff.
#[tokio::test(start_paused = true)]
async fn failure_of_a_key_with_a_longer_delay_counts_and_ends_that_delay() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(100), ms(1000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add_after("foo", ms(60_000));
    queue.add_rate_limited("foo");
    item.done();
    assert_eq!(queue.num_requeues(&"foo"), 1);
    assert_returned_after(&queue, "foo", ms(100)).await;
    pass(ms(100_000)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn shorter_delay_of_a_backed_off_key_ends_the_back_off() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(100), ms(1000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    queue.add_rate_limited("foo");
    queue.add_with("foo", AddOptions::new().after(ms(30)).rate_limited());
    queue.add_with("foo", AddOptions::new().after(ms(200)).rate_limited());
    queue.add_with("foo", AddOptions::new().after(Duration::ZERO).rate_limited());
    assert_eq!(queue.num_requeues(&"foo"), 1);
    assert_returned_after(&queue, "foo", ms(30)).await;
    queue.add_rate_limited("foo");
    assert_eq!(queue.num_requeues(&"foo"), 2, "taken since");
}

#[tokio::test(start_paused = true)]
async fn rate_limited_addition_raises_the_priority_of_a_backed_off_key() {
    let queue = queue();
    queue.add_rate_limited("foo");
    queue.add_with("foo", AddOptions::new().priority(7).rate_limited());
    assert_eq!(queue.get().await.map(|item| item.priority()), Some(7));
    assert_eq!(queue.num_requeues(&"foo"), 1);
}

#[tokio::test(start_paused = true)]
async fn forgotten_key_that_waits_is_backed_off_anew() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(100), ms(100_000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    for _ in 0..8 {
        queue.add_rate_limited("foo");
        assert_eq!(next(&queue).await, Some("foo"));
    }
    queue.add_rate_limited("foo"); // 25.6 s
    queue.forget(&"foo");
    queue.add_rate_limited("foo");
    assert_eq!(queue.num_requeues(&"foo"), 1);
    assert_returned_after(&queue, "foo", ms(100)).await;
}

#[tokio::test(start_paused = true)]
async fn queue_that_is_shut_down_does_not_count_failures() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.shut_down();
    queue.add_rate_limited("foo");
    queue.add_rate_limited("bar");
    item.done();
    assert_eq!((queue.num_requeues(&"foo"), queue.num_requeues(&"bar")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn shorter_of_delay_and_rate_limit_counts() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(100), ms(100));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    let options = AddOptions::new().rate_limited();
    queue.add_with("foo", options.after(ms(50)));
    assert_returned_after(&queue, "foo", ms(50)).await;
    queue.add_with("foo", options.after(ms(150)));
    assert_returned_after(&queue, "foo", ms(100)).await;
    assert_eq!(queue.num_requeues(&"foo"), 2);
}

/// Checks that a rate-limited add with a delay of zero waits for the rate limiter's delay. As in
/// controller-runtime (`After: 0`), zero means that no delay was set.
#[tokio::test(start_paused = true)]
async fn missing_delay_does_not_change_the_rate_limit() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(100), ms(100));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    queue.add_with("foo", AddOptions::new().after(Duration::ZERO).rate_limited());
    assert_returned_after(&queue, "foo", ms(100)).await;
    assert_eq!(queue.num_requeues(&"foo"), 1);
}

#[tokio::test(start_paused = true)]
async fn default_limiter_is_the_controllers() {
    let queue = queue();
    for delay in [5, 10, 20, 40] {
        queue.add_rate_limited("foo");
        assert_returned_after(&queue, "foo", ms(delay)).await;
    }
}
