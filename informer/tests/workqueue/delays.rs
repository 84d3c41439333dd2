//! Keys that wait for a time (client-go `delaying_queue_test.go`, `rate_limiting_queue_test.go`).

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::workqueue::{AddOptions, ItemExponentialFailureRateLimiter, WorkQueue};
use tokio::time::Instant;

use crate::common::{Queue, idle, ms, next, pass, queue, rest, spawn};

/// Asserts that `key` comes, and when.
async fn comes(queue: &Queue, key: &'static str, after: Duration) {
    let from = Instant::now();
    assert_eq!(next(queue).await, Some(key));
    assert_eq!(from.elapsed(), after);
}

#[tokio::test(start_paused = true)]
async fn a_key_comes_once_after_its_time_and_not_before() {
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
async fn a_getter_that_sleeps_is_woken_when_the_time_has_come() {
    let queue = queue();
    let getter = spawn(&queue, async |queue: Queue| comes(&queue, "foo", ms(1001)).await);
    idle().await;
    queue.add_after("foo", ms(1000));
    getter.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_once_for_the_earliest_of_its_times() {
    let queue = queue();
    queue.add_after("foo", ms(50));
    queue.add_after("foo", ms(70));
    comes(&queue, "foo", ms(50)).await;
    pass(ms(1000)).await;
    assert_eq!(queue.len(), 0);

    queue.add_after("foo", ms(50));
    queue.add_after("foo", ms(30));
    comes(&queue, "foo", ms(30)).await;
    pass(ms(1000)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_time_is_kept_though_a_later_one_was_asked_for_first() {
    let queue = queue();
    queue.add_after("first", ms(1000));
    queue.add_after("second", ms(50));
    comes(&queue, "second", ms(50)).await;
    queue.add_after("third", ms(2000));
    comes(&queue, "first", ms(950)).await;
    comes(&queue, "third", ms(1050)).await;
}

#[tokio::test(start_paused = true)]
async fn keys_whose_times_came_together_come_in_the_order_of_their_times() {
    let queue = queue();
    queue.add_after("first", ms(1000));
    queue.add_after("second", ms(500));
    queue.add_after("third", ms(250));
    queue.add_after("fourth", ms(500));
    pass(ms(2000)).await;
    assert_eq!(rest(&queue), ["third", "second", "fourth", "first"]);
}

#[tokio::test(start_paused = true)]
async fn an_add_makes_an_end_of_the_waiting() {
    let queue = queue();
    let getter = spawn(&queue, async |queue: Queue| comes(&queue, "foo", ms(1)).await);
    queue.add_after("foo", ms(60_000));
    idle().await;
    queue.add("foo");
    getter.await.unwrap();
    pass(ms(100_000)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_dirty_does_not_wait_too() {
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
async fn no_delay_is_an_add() {
    let queue = queue();
    queue.add_after("foo", Duration::ZERO);
    assert_eq!(rest(&queue), ["foo"]);
}

#[tokio::test(start_paused = true)]
async fn a_time_that_comes_during_the_processing_makes_it_one_more() {
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
async fn a_time_outlives_the_processing_during_which_it_was_asked_for() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add_after("foo", ms(50));
    item.done();
    comes(&queue, "foo", ms(50)).await;
    // An add during the processing is sooner than any time.
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add_after("foo", ms(50));
    queue.add("foo");
    item.done();
    comes(&queue, "foo", ms(0)).await;
    pass(ms(100)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_delay_may_be_longer_than_all_time() {
    let queue = queue();
    queue.add_after("for ever", Duration::MAX);
    queue.add_after("foo", ms(1));
    comes(&queue, "foo", ms(1)).await;
    pass(Duration::from_secs(29 * 365 * 24 * 60 * 60)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_keys_may_come_at_once_and_leave_others_their_turn() {
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
async fn a_rate_limited_key_waits_as_long_as_the_limiter_says() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(1), ms(1000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    queue.add_rate_limited("one");
    comes(&queue, "one", ms(1)).await;
    queue.add_rate_limited("one");
    comes(&queue, "one", ms(2)).await;
    assert_eq!(queue.num_requeues(&"one"), 2);
    queue.add_rate_limited("two");
    comes(&queue, "two", ms(1)).await;
    queue.add_rate_limited("two");
    comes(&queue, "two", ms(2)).await;
    queue.forget(&"one");
    assert_eq!((queue.num_requeues(&"one"), queue.num_requeues(&"two")), (0, 2));
    queue.add_rate_limited("one");
    comes(&queue, "one", ms(1)).await;
}

#[tokio::test(start_paused = true)]
async fn rate_limited_keys_do_not_affect_each_other() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(5), ms(1_000_000));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    for _ in 0..7 {
        queue.add_rate_limited("bar");
    }
    assert_eq!(next(&queue).await, Some("bar"), "the earliest");
    queue.add_rate_limited("foo");
    queue.add_rate_limited("bar");
    comes(&queue, "foo", ms(5)).await;
    comes(&queue, "bar", ms(635)).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_delay_and_a_rate_limit_the_shorter_counts() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(100), ms(100));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    let options = AddOptions::new().rate_limited();
    queue.add_with("foo", options.after(ms(50)));
    comes(&queue, "foo", ms(50)).await;
    queue.add_with("foo", options.after(ms(150)));
    comes(&queue, "foo", ms(100)).await;
    assert_eq!(queue.num_requeues(&"foo"), 2);
}

/// controller-runtime's `After: 0` is one that nobody set.
#[tokio::test(start_paused = true)]
async fn no_delay_leaves_a_rate_limit_as_it_is() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(100), ms(100));
    let queue = Arc::new(WorkQueue::builder().rate_limiter(limiter).build().unwrap());
    queue.add_with("foo", AddOptions::new().after(Duration::ZERO).rate_limited());
    comes(&queue, "foo", ms(100)).await;
    assert_eq!(queue.num_requeues(&"foo"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_default_limiter_is_the_controllers() {
    let queue = queue();
    for delay in [5, 10, 20, 40] {
        queue.add_rate_limited("foo");
        comes(&queue, "foo", ms(delay)).await;
    }
}
