//! Tests of streamed lists: all objects come as the initial events of a watch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::lister_watcher::{EventType, Scripted};
use deltafifo_informer::reflector::{Plain, Reflector};
use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{Instant, timeout};

use super::rig::{
    Rig, bookmark, broken, busy, closed, cut, event, expired, list, map, refused, shown,
    shown_requests, status,
};

fn rig(script: Scripted) -> Rig {
    Rig::start(script, |builder| builder)
}

#[tokio::test(start_paused = true)]
async fn initial_events_act_as_a_list_and_the_watch_continues() {
    let script = Scripted::new().watch_on([
        event(EventType::Added, map("b", 6)),
        event(EventType::Added, map("a", 5)),
        bookmark(7, true),
        event(EventType::Modified, map("a", 8)),
    ]);
    let mut rig = rig(script);
    assert_eq!(rig.changes(3).await, ["Added b@6", "Added a@5", "Updated a@5>8"]);
    assert_eq!(shown_requests(&rig.requests(1).await), [r#"watch initial """#]);
    assert!(rig.fifo.has_synced());
}

#[tokio::test(start_paused = true)]
async fn version_counts_from_the_end_bookmark_on() {
    let script = Scripted::new().watch([
        event(EventType::Added, map("a", 5)),
        bookmark(6, false),
        event(EventType::Added, map("b", 2)),
        bookmark(7, true),
    ]);
    let rig = rig(script);
    assert_eq!(shown_requests(&rig.requests(2).await)[1], r#"watch "7""#);
}

#[tokio::test(start_paused = true)]
async fn object_missing_from_the_initial_events_is_deleted() {
    let script = Scripted::new()
        .watch([
            event(EventType::Added, map("a", 1)),
            event(EventType::Added, map("b", 2)),
            bookmark(3, true),
            Err(expired()),
        ])
        .watch_on([
            event(EventType::Added, map("b", 2)),
            event(EventType::Added, map("c", 4)),
            bookmark(5, true),
        ]);
    let mut rig = rig(script);
    assert_eq!(rig.changes(4).await[2..], ["Added c@4", "Missed a"]);
    assert_eq!(shown_requests(&rig.requests(2).await)[1], r#"watch initial "3""#);
}

#[tokio::test(start_paused = true)]
async fn object_may_be_deleted_within_the_initial_events() {
    let script = Scripted::new().watch_on([
        event(EventType::Added, map("a", 1)),
        event(EventType::Modified, map("b", 2)),
        event(EventType::Deleted, map("a", 3)),
        bookmark(4, true),
    ]);
    let rig = rig(script);
    rig.fifo.store().wait_for_resource_version_async("4").await.unwrap();
    assert_eq!(rig.stored(), ["b@2"]);
}

#[tokio::test(start_paused = true)]
async fn server_without_streamed_lists_gets_a_list_request() {
    for refusal in [status(422, "Invalid"), status(500, "InternalError"), status(400, "BadRequest")]
    {
        let script = Scripted::new().watch_fails(refusal).list(list(7, [map("a", 5)])).watch_on([]);
        let mut rig = rig(script);
        assert_eq!(rig.changes(1).await, ["Added a@5"]);
        let requests = shown_requests(&rig.requests(3).await);
        assert_eq!(requests, [r#"watch initial """#, r#"list "0" limit 500"#, r#"watch "7""#]);
    }
}

#[tokio::test(start_paused = true)]
async fn busy_or_unreachable_server_gets_the_request_again() {
    let failed = [
        [Err(status(429, "TooManyRequests")), Err(refused())],
        [Err(closed()), Ok([event(EventType::Added, map("a", 1))])],
        [Err(busy(503, "ServiceUnavailable", 1)), Ok([Err(expired())])],
    ];
    for failed in failed {
        let script = failed.into_iter().fold(Scripted::new(), |script, failed| match failed {
            Ok(events) => script.watch(events),
            Err(error) => script.watch_fails(error),
        });
        let rig = rig(script.watch_on([event(EventType::Added, map("a", 1)), bookmark(2, true)]));
        rig.fifo.store().wait_for_resource_version_async("2").await.unwrap();
        assert_eq!(shown_requests(&rig.requests(3).await), [r#"watch initial """#; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn three_failed_streamed_lists_are_followed_by_a_list() {
    let failures = [
        closed,
        refused,
        || status(429, "TooManyRequests"),
        || busy(503, "ServiceUnavailable", 1),
        expired,
    ];
    for failed in failures {
        let script = (0..3).fold(Scripted::new(), |script, _| script.watch_fails(failed()));
        let mut rig = rig(script.list(list(7, [map("a", 5)])).watch_on([]));
        let synced = timeout(Duration::from_secs(60), rig.changes(1)).await;
        assert_eq!(synced.expect("a list follows"), ["Added a@5"]);
        let requests = shown_requests(&rig.requests(5).await);
        assert_eq!(requests[..3], [r#"watch initial """#; 3]);
        assert!(requests[3].starts_with("list"), "{requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_streamed_list_is_respected() {
    for (code, reason) in [(429, "TooManyRequests"), (503, "ServiceUnavailable")] {
        let script =
            (0..3).fold(Scripted::new(), |script, _| script.watch_fails(busy(code, reason, 40)));
        let (began, rig) = (Instant::now(), rig(script));
        for times in 1..=4 {
            rig.requests(times).await;
            assert_eq!(
                began.elapsed().as_secs(),
                40 * (times as u64 - 1),
                "{code}, request {times}"
            );
        }
        assert_eq!(shown_requests(&rig.requests(4).await)[3], r#"list "0" limit 500"#);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_version_is_replaced_by_the_newest() {
    let script = Scripted::new()
        .watch([bookmark(3, true), Err(expired())])
        .watch_fails(expired())
        .watch_on([bookmark(9, true)]);
    let rig = rig(script);
    rig.fifo.store().wait_for_resource_version_async("9").await.unwrap();
    let requests = shown_requests(&rig.requests(3).await);
    assert_eq!(requests[1..], [r#"watch initial "3""#, r#"watch initial """#]);
}

#[tokio::test(start_paused = true)]
async fn initial_events_do_not_restore_an_object_deleted_within_them() {
    let store = Arc::new(
        Indexer::<ConfigMap, _>::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap(),
    );
    let script = Arc::new(Scripted::new().watch([
        event(EventType::Added, map("a", 1)),
        event(EventType::Added, map("b", 2)),
        event(EventType::Deleted, broken("a", 3)),
        event(EventType::Modified, map("b", 4)),
        bookmark(5, true),
    ]));
    let reflector = Reflector::builder(script.clone(), Arc::new(Plain(store.clone()))).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = script.wait_for_requests(2) => {}
    }
    assert_eq!(store.reader().list().iter().map(|map| shown(map)).collect::<Vec<_>>(), ["b@4"]);
}

#[tokio::test(start_paused = true)]
async fn server_without_an_end_bookmark_gets_a_list_request() {
    let script = Scripted::new()
        .watch_on([event(EventType::Added, map("a", 1))])
        .list(list(7, [map("a", 1)]));
    let mut rig = rig(script);
    assert!(rig.error().await.contains("sent nothing"));
    assert_eq!(
        shown_requests(&rig.requests(3).await)[1..],
        [r#"list "" limit 500"#, r#"watch "7""#]
    );
}

#[tokio::test(start_paused = true)]
async fn broken_initial_events_are_followed_by_the_newest_version() {
    let script = Scripted::new()
        .watch([event(EventType::Added, map("a", 3)), bookmark(4, true), Err(expired())])
        .watch_stream(cut([]))
        .watch_stream(cut([event(EventType::Added, map("a", 90))]))
        .watch([event(EventType::Added, map("a", 91)), bookmark(96, true), Err(expired())]);
    let mut rig = rig(script);
    assert_eq!(rig.changes(3).await, ["Added a@3", "Updated a@3>90", "Updated a@90>91"]);
    let requests = shown_requests(&rig.requests(5).await);
    assert_eq!(requests[1..3], [r#"watch initial "4""#; 2], "the first watch delivered nothing");
    assert_eq!(requests[3..], [r#"watch initial """#, r#"watch initial "96""#]);
}

#[tokio::test(start_paused = true)]
async fn streamed_list_that_ends_at_once_is_followed_by_a_list() {
    let mut rig = rig(Scripted::new().watch([]).list(list(7, [map("a", 5)])));
    assert_eq!(rig.changes(1).await, ["Added a@5"]);
    assert!(rig.error().await.contains("ended the watch at once"));
    assert_eq!(
        shown_requests(&rig.requests(3).await)[1..],
        [r#"list "0" limit 500"#, r#"watch "7""#]
    );
}

#[tokio::test(start_paused = true)]
async fn repeatedly_broken_initial_events_are_followed_by_a_list() {
    let script = Scripted::new()
        .watch_stream(cut([event(EventType::Added, map("a", 5))]))
        .watch([event(EventType::Added, map("a", 5))])
        .watch_fails(expired())
        .list(list(7, [map("a", 5)]));
    let rig = rig(script);
    let requests = shown_requests(&rig.requests(5).await);
    assert_eq!(requests[..3], [r#"watch initial """#; 3]);
    assert_eq!(requests[3..], [r#"list "" limit 500"#, r#"watch "7""#]);
}

#[tokio::test(start_paused = true)]
async fn other_events_do_not_extend_the_wait_for_the_end_bookmark() {
    let others = stream::iter(0..u32::MAX).then(|number| async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        if number % 2 == 0 {
            bookmark(100 + number, false)
        } else {
            event(EventType::Modified, map("a", 100 + number))
        }
    });
    let initial = stream::iter([event(EventType::Added, map("a", 1))]);
    let script = Scripted::new()
        .watch_stream(initial.chain(others).boxed())
        .list(list(200, [map("a", 200)]));
    let (began, mut rig) = (Instant::now(), rig(script));
    assert!(rig.error().await.contains("90s"));
    assert_eq!(began.elapsed().as_secs(), 90);
    assert_eq!(
        shown_requests(&rig.requests(3).await)[1..],
        [r#"list "" limit 500"#, r#"watch "200""#]
    );
}

#[tokio::test(start_paused = true)]
async fn end_bookmark_without_a_version_is_rejected() {
    let ends = r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    let script = Scripted::new()
        .watch([event(EventType::Added, map("a", 3)), bookmark(4, true), Err(expired())])
        .watch_on([event(EventType::Bookmark, ends.into())])
        .list(list(7, [map("a", 3)]));
    let mut rig = rig(script);
    rig.error().await;
    assert!(rig.error().await.contains("without its version"));
    assert_eq!(
        shown_requests(&rig.requests(4).await)[2..],
        [r#"list "4" limit 0"#, r#"watch "7""#]
    );
    assert_eq!(rig.stored(), ["a@3"]);
}

#[tokio::test(start_paused = true)]
async fn run_waits_for_the_decoding_thread_of_the_previous_run() {
    let (gate, is_shut) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
    let (here, stops) = (gate.clone(), is_shut.clone());
    let keys = KeyFunc::custom(KubeMeta, move |map: &ConfigMap| {
        if stops.load(Ordering::SeqCst) && map.metadata.resource_version.as_deref() == Some("3") {
            here.wait();
            here.wait();
        }
        Ok(map.metadata.name.clone().unwrap_or_default())
    });
    let pass = || {
        let gate = gate.clone();
        async move { tokio::task::spawn_blocking(move || gate.wait()).await.unwrap() }
    };
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build());
    let source = Arc::new(
        Scripted::new()
            .watch_on([event(EventType::Added, map("a", 1)), bookmark(2, true)])
            .watch_on([
                event(EventType::Added, map("a", 1)),
                event(EventType::Deleted, map("a", 3)),
            ])
            .watch_on([event(EventType::Added, map("a", 9)), bookmark(10, true)]),
    );
    let reflector = Arc::new(Reflector::builder(source.clone(), fifo.clone()).build());
    let reached = |version: &'static str| {
        let reflector = reflector.clone();
        async move {
            while reflector.last_sync_resource_version().as_deref() != Some(version) {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = reached("2") => {}
    }
    is_shut.store(true, Ordering::SeqCst);
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        _ = pass() => {}
    }
    // The deletion of a@3 is being decoded.
    let count_requests = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let requests = source.requests().len();
        pass().await;
        reached("10").await;
        requests
    };
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        requests = count_requests => assert_eq!(requests, 2),
    }
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    let stored: Vec<_> = fifo.store().list().iter().map(|map| shown(map)).collect();
    assert_eq!(stored, ["a@9"]);
}
