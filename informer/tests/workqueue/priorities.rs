//! Tests of priorities (controller-runtime `priorityqueue_test.go`), and of the share of the
//! oldest keys.

use deltafifo_informer::workqueue::{AddOptions, Key, WorkQueue};

use crate::common::{idle, ms, pass, queue};

fn prio(priority: i32) -> AddOptions {
    AddOptions::new().priority(priority)
}

/// Takes all available keys with their priorities, and ends the processing of each at once.
fn rest<K: Key>(queue: &WorkQueue<K>) -> Vec<(K, i32)> {
    std::iter::from_fn(|| queue.try_get())
        .map(|item| (item.key().clone(), item.priority()))
        .collect()
}

#[tokio::test]
async fn highest_priority_is_first_and_equal_ones_in_order() {
    let queue = queue();
    for (key, priority) in
        [("a", 0), ("b", -10), ("c", 10), ("d", 0), ("e", 10), ("f", i32::MIN), ("g", i32::MAX)]
    {
        queue.add_with(key, prio(priority));
    }
    let expected =
        [("g", i32::MAX), ("c", 10), ("e", 10), ("a", 0), ("d", 0), ("b", -10), ("f", i32::MIN)];
    assert_eq!(rest(&queue), expected);
}

#[tokio::test]
async fn highest_priority_of_a_key_is_kept() {
    let queue = queue();
    queue.add_with("up", prio(1));
    queue.add_with("up", prio(2));
    queue.add_with("down", prio(3));
    queue.add_with("down", prio(1));
    queue.add("down");
    assert_eq!(rest(&queue), [("down", 3), ("up", 2)]);
}

#[tokio::test]
async fn raised_key_passes_lower_ones_and_joins_its_equals_at_the_tail() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    queue.add("baz");
    queue.add_with("equal", prio(1));
    queue.add_with("baz", prio(1));
    assert_eq!(queue.len(), 4);
    assert_eq!(rest(&queue), [("equal", 1), ("baz", 1), ("foo", 0), ("bar", 0)]);
}

#[tokio::test]
async fn key_added_during_processing_returns_with_its_new_priority() {
    let queue = queue();
    queue.add_with("foo", prio(5));
    let item = queue.try_get().unwrap();
    assert_eq!(item.priority(), 5);
    queue.add_with("foo", prio(1));
    queue.add_with("foo", prio(2));
    queue.add_with("foo", prio(1));
    queue.add("bar");
    assert_eq!(rest(&queue), [("bar", 0)]);
    queue.add("bar");
    item.done();
    assert_eq!(rest(&queue), [("foo", 2), ("bar", 0)]);
}

#[tokio::test(start_paused = true)]
async fn repeated_adds_keep_the_highest_priority_and_the_earliest_time() {
    let queue = queue();
    queue.add_with("foo", prio(1).after(ms(100)));
    queue.add_with("foo", prio(-1).after(ms(50)));
    queue.add_with("foo", prio(2).after(ms(70)));
    pass(ms(50)).await;
    assert_eq!(rest(&queue), [("foo", 2)]);
    pass(ms(1000)).await;
    assert!(queue.is_empty());
    // A queued key stays queued, and the priority of a delayed add raises it.
    queue.add("low");
    queue.add("foo");
    queue.add_with("foo", prio(2).after(ms(100)));
    assert_eq!(rest(&queue), [("foo", 2), ("low", 0)]);
    // A waiting add does not keep its priority once the key was taken.
    queue.add_with("foo", prio(7).after(ms(100)));
    queue.add("foo");
    assert_eq!(rest(&queue), [("foo", 7)]);
    queue.add("foo");
    assert_eq!(rest(&queue), [("foo", 0)]);
}

#[tokio::test(start_paused = true)]
async fn due_key_of_high_priority_precedes_a_low_one() {
    let queue = queue();
    queue.add_with("foo", prio(-100));
    queue.add_with("prio", prio(0).after(ms(1000)));
    pass(ms(1000)).await;
    assert_eq!(rest(&queue), [("prio", 0), ("foo", -100)]);
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_are_not_counted_until_they_are_due() {
    let queue = queue();
    for _ in 0..2 {
        queue.add_with("foo", AddOptions::new().after(ms(500)));
        queue.add("baz");
        queue.add_with("bar", AddOptions::new().after(ms(500)));
        queue.add("bal");
        idle().await;
        assert_eq!(queue.len(), 2);
        pass(ms(1000)).await;
        assert_eq!(queue.len(), 4);
        assert_eq!(rest(&queue).len(), 4);
    }
}

/// Takes a thousand keys in each of five priorities. Checks that keys of the same priority come in
/// the order of their adds, and that at least seven eighths of the first thousand keys have the
/// highest priority: one get in eight takes the oldest key, whatever its priority.
#[tokio::test(start_paused = true)]
async fn many_keys_of_several_priorities_keep_the_order_of_their_level() {
    for after in [ms(0), ms(1000)] {
        let queue = queue();
        for key in 0..1000 {
            for priority in [10, 5, 0, -5, -10] {
                queue.add_with((priority, key), prio(priority).after(after));
            }
        }
        pass(after).await;
        let taken = rest(&queue);
        assert_eq!(taken.len(), 5000);
        for level in [10, 5, 0, -5, -10] {
            assert!(
                taken
                    .iter()
                    .filter(|(_, priority)| *priority == level)
                    .map(|((_, key), _)| *key)
                    .eq(0..1000)
            );
        }
        let highest = taken.iter().take(1000).filter(|(_, priority)| *priority == 10).count();
        assert!(highest >= 875, "{highest}");
    }
}

#[tokio::test]
async fn one_of_eight_pops_is_the_oldest_key() {
    let queue = queue();
    queue.add_with(0, prio(-1));
    queue.add_with(1, prio(-2));
    let mut taken = Vec::new();
    for key in 100..116 {
        queue.add_with(key, prio(key));
        taken.push(queue.try_get().map(|item| *item.key()).unwrap());
    }
    // Seven keys pass, the eighth pop is the oldest key. The remaining keys follow, highest first.
    let expected = [100, 101, 102, 103, 104, 105, 106, 0, 108, 109, 110, 111, 112, 113, 114, 1];
    assert_eq!(taken, expected);
}

/// Checks that a key of the lowest priority behind `n` other keys is the last of `8 (n + 1)` keys
/// that are taken, although a key of a higher priority than all before is added before each get.
#[tokio::test]
async fn low_key_behind_n_others_is_popped_within_eight_times_n_plus_one() {
    for n in [0, 1, 10] {
        let queue = queue();
        (0..n).for_each(|key| queue.add_with(key, prio(-1)));
        queue.add_with(-1, prio(i32::MIN));
        let mut takes = 0;
        loop {
            queue.add_with(1000 + takes, prio(takes));
            takes += 1;
            if queue.try_get().is_some_and(|item| *item.key() == -1) {
                break;
            }
        }
        assert_eq!(takes, 8 * (n + 1));
    }
}

#[tokio::test]
async fn raised_key_keeps_its_age() {
    let queue = queue();
    queue.add_with(0, prio(-2));
    queue.add_with(1, prio(-1));
    queue.add_with(0, prio(-1));
    for key in 100..108 {
        queue.add_with(key, prio(key));
    }
    let taken: Vec<_> = rest(&queue).into_iter().map(|(key, _)| key).collect();
    assert_eq!(taken, [107, 106, 105, 104, 103, 102, 101, 0, 100, 1]);
}
