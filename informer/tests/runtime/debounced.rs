//! Tests of debounce: a controller reconciles an object only once the object has had no trigger
//! for a certain time.

use std::time::Duration;

use deltafifo_informer::runtime::controller::{Action, Config};
use deltafifo_testkit::Resource;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::rig::{controller, idle, map, poll, poll_idle, server};

const QUIET: Duration = Duration::from_secs(10);

fn is_about(waited: Duration, seconds: u64) -> bool {
    (Duration::from_secs(seconds)..Duration::from_millis(seconds * 1000 + 50)).contains(&waited)
}

#[tokio::test(start_paused = true)]
async fn object_is_reconciled_after_the_debounce() {
    let server = server();
    server.apply(map("a", "0")).unwrap();
    let began = Instant::now();
    let mut polled =
        poll(controller(&server).with_config(Config::default().debounce(QUIET)), |_, _| async {
            Ok(Action::requeue(Duration::from_secs(60)))
        });
    assert_eq!(polled.next().await, "a");
    assert!(is_about(began.elapsed(), 10));
    server.wait_for_watchers(1).await;
    let mut last = Instant::now();
    for data in 1..=5 {
        server.apply(map("a", &data.to_string())).unwrap();
        last = Instant::now();
        sleep(Duration::from_secs(4)).await;
    }
    server.apply(map("b", "1")).unwrap();
    assert_eq!(polled.next().await, "a", "one reconcile for all changes");
    assert!(is_about(last.elapsed(), 10));
    assert_eq!(polled.next().await, "b");
    assert_eq!(polled.next().await, "a");
    assert!(
        is_about(last.elapsed(), 10 + 60 + 10),
        "the debounce is added to the requested delay, as in kube"
    );
}

#[tokio::test(start_paused = true)]
async fn deletion_is_not_debounced() {
    let server = server();
    server.apply(map("a", "0")).unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let controller =
        controller(&server).with_config(Config::default().debounce(QUIET)).on_deleted(move |_| {
            sender.send(()).unwrap();
            async {}
        });
    let mut polled = poll_idle(controller);
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    server.apply(map("a", "1")).unwrap();
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    idle().await;
    assert_eq!(received.try_recv(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn request_in_the_far_future_waits_for_a_change() {
    let server = server();
    server.apply(map("a", "0")).unwrap();
    let controller = controller(&server).with_config(Config::default().debounce(QUIET));
    let mut polled = poll(controller, |_, _| async { Ok(Action::requeue(Duration::MAX)) });
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    sleep(Duration::from_secs(24 * 60 * 60)).await;
    assert!(polled.at_rest().await.is_empty());
    server.apply(map("a", "1")).unwrap();
    let changed = Instant::now();
    assert_eq!(polled.next().await, "a");
    assert!(is_about(changed.elapsed(), 10));
}

/// Changes a map every four seconds until it is reconciled, and returns how long that took.
async fn reconciled_under_steady_changes(config: Config) -> Duration {
    let server = server();
    let mut polled = poll_idle(controller(&server).with_config(config));
    server.wait_for_watchers(1).await;
    let began = Instant::now();
    let changing = tokio::spawn(async move {
        for data in 0.. {
            server.apply(map("a", &data.to_string())).unwrap();
            sleep(Duration::from_secs(4)).await;
        }
    });
    assert_eq!(polled.next().await, "a");
    changing.abort();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn steadily_changing_object_is_reconciled_after_ten_times_the_debounce() {
    let waited = reconciled_under_steady_changes(Config::default().debounce(QUIET)).await;
    assert!(is_about(waited, 100), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn longest_delay_of_a_debounce_can_be_set() {
    let debounce = |longest| Config::default().debounce(QUIET).debounce_at_most(longest);
    for seconds in [35, 7] {
        let waited = reconciled_under_steady_changes(debounce(Duration::from_secs(seconds))).await;
        assert!(is_about(waited, seconds), "{seconds}: {waited:?}");
    }
    let for_ever = reconciled_under_steady_changes(debounce(Duration::MAX));
    assert!(timeout(Duration::from_secs(3_000), for_ever).await.is_err(), "as in kube");
}
