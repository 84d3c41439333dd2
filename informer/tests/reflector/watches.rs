//! Tests of the events of a watch, and of the requests after its end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo_informer::lister_watcher::{EventType, RequestError, Scripted};
use deltafifo_informer::reflector::{Backoff, Reflector, RunError};
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, timeout};

use super::rig::{
    Rig, bookmark, broken, busy, closed, event, list, map, queue, refused, shown_requests, status,
};

#[tokio::test(start_paused = true)]
async fn events_are_delivered_in_order_and_advance_the_version() {
    let script = Scripted::new().list(list(4, [])).watch([
        event(EventType::Added, map("a", 5)),
        event(EventType::Modified, map("a", 6)),
        event(EventType::Added, map("b", 7)),
        event(EventType::Deleted, map("a", 8)),
    ]);
    let mut rig = Rig::lists(script);
    let mut changes = rig.changes(4).await;
    changes.sort();
    assert_eq!(changes, ["Added a@5", "Added b@7", "Deleted a@8", "Updated a@5>6"]);
    assert_eq!(
        shown_requests(&rig.requests(3).await)[2],
        r#"watch "8""#,
        "an ended watch is reopened without a list"
    );
    assert_eq!(rig.stored(), ["b@7"]);
}

#[tokio::test(start_paused = true)]
async fn bookmark_advances_and_applies_the_version() {
    let script = Scripted::new().list(list(4, [map("a", 3)])).watch([bookmark(60, false)]);
    let rig = Rig::lists(script);
    rig.fifo.store().wait_for_resource_version_async("60").await.unwrap();
    assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"watch "60""#);
}

#[tokio::test(start_paused = true)]
async fn event_applies_its_version_without_a_bookmark() {
    let events = [event(EventType::Modified, map("a", 5)), event(EventType::Modified, map("a", 6))];
    let rig = Rig::lists(Scripted::new().list(list(4, [map("a", 3)])).watch_on(events));
    rig.fifo.store().wait_for_resource_version_async("6").await.unwrap();
    assert_eq!(rig.stored(), ["a@6"]);
}

#[tokio::test(start_paused = true)]
async fn last_event_of_a_watch_is_applied_although_no_other_watch_opens() {
    let script = Scripted::new().list(list(4, [])).watch([event(EventType::Added, map("a", 5))]);
    let rig = Rig::lists((0..100).fold(script, |script, _| script.watch_fails(refused())));
    let store = rig.fifo.store();
    timeout(Duration::from_secs(60), store.wait_for_resource_version_async("5"))
        .await
        .expect("applied at the end of the watch")
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn temporarily_refused_watch_is_reopened_without_a_list() {
    let script = Scripted::new()
        .list(list(4, []))
        .watch_fails(status(429, "TooManyRequests"))
        .watch_fails(refused())
        .watch([Err(status(429, "TooManyRequests"))])
        .watch_on([event(EventType::Added, map("a", 5))]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(1).await, ["Added a@5"]);
    assert_eq!(shown_requests(&rig.requests(5).await)[1..], [r#"watch "4""#; 4]);
    for expected in ["429", "refused", "429"] {
        let error = rig.error().await;
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_the_server_is_respected() {
    let rig =
        Rig::lists(Scripted::new().list(list(4, [])).watch_fails(busy(429, "TooManyRequests", 40)));
    rig.requests(2).await;
    let refused = Instant::now();
    rig.requests(3).await;
    assert_eq!(refused.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn three_lost_watches_without_events_lead_to_a_list() {
    let cut = || stream::iter([Err(RequestError::Broken("reset by peer".into()))]).boxed();
    let received =
        stream::iter([bookmark(5, false), Err(RequestError::Broken("reset by peer".into()))])
            .boxed();
    let script = Scripted::new()
        .list(list(4, []))
        .watch_fails(closed())
        .watch_stream(cut())
        .watch_stream(received)
        .watch_stream(cut())
        .watch_fails(closed())
        .watch_fails(closed())
        .list(list(9, []));
    let rig = Rig::lists(script);
    let requests = shown_requests(&rig.requests(9).await);
    assert_eq!(requests[1..4], [r#"watch "4""#; 3]);
    assert_eq!(requests[4..7], [r#"watch "5""#; 3], "a watch with events is not counted as lost");
    assert_eq!(requests[7..], [r#"list "5" limit 0"#, r#"watch "9""#]);
}

#[tokio::test(start_paused = true)]
async fn refused_connections_and_busy_servers_retry_the_watch_without_a_list() {
    for failed in [refused, || status(429, "TooManyRequests")] {
        let script = (0..20)
            .fold(Scripted::new().list(list(4, [])), |script, _| script.watch_fails(failed()));
        let rig = Rig::lists(script);
        assert_eq!(shown_requests(&rig.requests(22).await)[1..], [r#"watch "4""#; 21]);
    }
}

#[tokio::test(start_paused = true)]
async fn broken_watch_is_resumed_from_its_version() {
    let script = Scripted::new()
        .list(list(4, []))
        .watch([
            event(EventType::Added, map("a", 5)),
            Err(RequestError::Broken("reset by peer".into())),
        ])
        .watch([event(EventType::Modified, map("a", 6))]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(2).await, ["Added a@5", "Updated a@5>6"]);
    assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"watch "5""#);
}

#[tokio::test(start_paused = true)]
async fn internal_error_in_a_watch_leads_to_a_list() {
    let script = Scripted::new()
        .list(list(4, []))
        .watch([Err(status(500, "InternalError"))])
        .list(list(5, []));
    let rig = Rig::lists(script);
    assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"list "4" limit 0"#);
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_at_once_without_an_event_is_an_error() {
    let mut rig = Rig::lists(Scripted::new().list(list(4, [])).watch([]).list(list(4, [])));
    assert!(rig.error().await.contains("ended the watch at once"));
    rig.requests(4).await;
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_within_a_second_is_reopened_after_a_back_off() {
    let mut script = Scripted::new().list(list(4, []));
    for version in 5..9 {
        script = script.watch([bookmark(version, false)]);
    }
    let (began, mut rig) = (Instant::now(), Rig::lists(script));
    assert_eq!(shown_requests(&rig.requests(6).await)[5], r#"watch "8""#);
    // The waits are at least 0.8, 1.6, 3.2 and 6.4 seconds.
    assert!(began.elapsed() >= Duration::from_secs(12), "{:?}", began.elapsed());
    assert!(rig.error().await.contains("ended the watch at once"));
}

#[tokio::test(start_paused = true)]
async fn long_watch_is_reopened_at_once() {
    let lasts = stream::once(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bookmark(5, false)
    });
    let rig = Rig::lists(Scripted::new().list(list(4, [])).watch_stream(lasts.boxed()));
    let began = Instant::now();
    assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"watch "5""#);
    assert_eq!(began.elapsed().as_millis() / 100, 10, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn silent_watch_is_abandoned_after_its_timeout() {
    let rig = Rig::lists(
        Scripted::new().list(list(4, [])).watch_on([event(EventType::Added, map("a", 5))]),
    );
    let began = Instant::now();
    assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"watch "5""#);
    assert!((330..=631).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn watch_with_events_past_its_timeout_is_reopened_without_an_error() {
    let busy = |from: u32| {
        stream::iter(from..).then(|version| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            event(EventType::Modified, map("a", version))
        })
    };
    let script = (0..20).fold(Scripted::new().list(list(4, [])), |script, number| {
        script.watch_stream(busy(1_000 * (number + 1)).boxed())
    });
    let mut rig = Rig::lists(script);
    let error = timeout(Duration::from_secs(3_600), rig.error()).await;
    assert!(error.is_err(), "{error:?}");
    assert!((6..=12).contains(&rig.source.requests().len()), "{:?}", rig.source.requests());
}

#[tokio::test(start_paused = true)]
async fn silence_is_measured_from_the_last_event() {
    let event = stream::once(async {
        tokio::time::sleep(Duration::from_secs(200)).await;
        event(EventType::Added, map("a", 5))
    });
    let script =
        Scripted::new().list(list(4, [])).watch_stream(event.chain(stream::pending()).boxed());
    let (began, mut rig) = (Instant::now(), Rig::lists(script));
    let error = rig.error().await;
    let silent = began.elapsed().as_secs() - 200;
    assert!(error.contains(&format!("for {silent}")), "{error} after {silent} s");
}

#[tokio::test(start_paused = true)]
async fn event_with_an_undecodable_object_is_reported_and_skipped() {
    let script = Scripted::new().list(list(4, [map("a", 3)])).watch([
        event(EventType::Modified, broken("a", 5)),
        event(EventType::Added, map("b", 6)),
        event(EventType::Deleted, broken("a", 7)),
    ]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await, ["Added a@3", "Added b@6", "Missed a"], "the deletion counts");
    assert!(rig.error().await.contains(r#"object "a" of version "5""#));
    assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"watch "7""#);
}

#[tokio::test(start_paused = true)]
async fn event_with_invalid_json_ends_the_watch_and_leads_to_a_list() {
    for kind in [EventType::Added, EventType::Modified, EventType::Deleted] {
        let no_json = Bytes::from(r#"{"metadata":{"name":"a","resourceVersion":"5"},"data":{x}}"#);
        let script = Scripted::new()
            .list(list(4, [map("a", 3)]))
            .watch([event(kind, no_json), event(EventType::Added, map("b", 6))])
            .list(list(7, [map("a", 5)]));
        let mut rig = Rig::lists(script);
        assert_eq!(rig.changes(2).await, ["Added a@3", "Updated a@3>5"]);
        assert!(rig.error().await.contains("a watch failed"));
    }
}

#[tokio::test(start_paused = true)]
async fn every_resync_delivers_all_known_objects() {
    let script = Scripted::new().list(list(4, [map("a", 3)])).watch_on([]);
    let mut rig = Rig::start(script, |builder| {
        let mut due = [true, false, true].into_iter();
        let due = parking_lot::Mutex::new(move || due.next().unwrap_or(false));
        builder.watch_list(false).resync(Duration::from_secs(60), move || due.lock()())
    });
    let began = Instant::now();
    assert_eq!(rig.changes(3).await, ["Added a@3", "Updated a@3>3", "Updated a@3>3"]);
    assert_eq!(began.elapsed().as_secs(), 180, "only when it is due");
}

#[tokio::test(start_paused = true)]
async fn resync_period_of_zero_or_max_means_never() {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    for (resync, long) in [(Duration::ZERO, Duration::from_secs(60)), (Duration::MAX, 20 * YEAR)] {
        let mut rig = Rig::start(Scripted::new().list(list(4, [])).watch_on([]), |builder| {
            let builder =
                builder.watch_list(false).silence(Duration::MAX).least_watch(Duration::MAX);
            builder
                .backoff(Backoff::new(Duration::MAX, Duration::MAX, Duration::MAX))
                .resync(resync, || panic!("now"))
        });
        assert_eq!(rig.requests(2).await.len(), 2);
        let received = timeout(long, rig.error()).await;
        assert!(received.is_err(), "{resync:?}: {received:?}");
        assert_eq!(rig.source.requests().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_should_resync_is_reported_and_called_again() {
    let mut rig =
        Rig::start(Scripted::new().list(list(4, [map("a", 3)])).watch_on([]), |builder| {
            let called = std::sync::atomic::AtomicBool::new(false);
            builder.watch_list(false).resync(Duration::from_secs(60), move || {
                assert!(called.swap(true, std::sync::atomic::Ordering::Relaxed), "not at once");
                true
            })
        });
    assert_eq!(rig.changes(2).await, ["Added a@3", "Updated a@3>3"]);
    assert!(rig.error().await.contains("not at once"));
}

#[tokio::test(start_paused = true)]
async fn run_ends_when_the_queue_is_closed() {
    let scripts = [
        Scripted::new(),
        Scripted::new().list(list(4, [])).watch_on([]),
        Scripted::new().list(list(4, [])).watch_fails(status(429, "TooManyRequests")),
    ];
    for script in scripts {
        let rig = Rig::lists(script);
        rig.requests(1).await;
        let began = Instant::now();
        rig.fifo.close();
        assert!(matches!(rig.ended().await, RunError::Closed(_)));
        assert_eq!(began.elapsed(), Duration::ZERO, "ends any wait");
    }
}

#[tokio::test(start_paused = true)]
async fn reflector_does_not_run_twice_at_a_time() {
    let rig = Rig::lists(Scripted::new());
    rig.requests(1).await;
    assert_eq!(rig.reflector.run().await, RunError::Running);
}

#[test]
fn run_that_is_polled_outside_of_a_runtime_panics() {
    let reflector = Reflector::<ConfigMap>::builder(Arc::new(Scripted::new()), queue()).build();
    let run = AssertUnwindSafe(|| reflector.run().now_or_never());
    assert!(std::panic::catch_unwind(run).is_err());
}
