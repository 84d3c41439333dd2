//! Tests of watches: where they start, which events they send, and how they end.

use std::pin::pin;
use std::time::Duration;

use deltafifo_testkit::{Resource, status};
use futures_util::{StreamExt, TryStreamExt};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PartialObjectMeta, WatchEvent, WatchParams};
use tokio::time::Instant;

use crate::common::{PODS, app, builder, open, open_metadata, phase, pod, server, server_with};

#[tokio::test]
async fn watch_from_a_version_sends_later_changes() {
    let server = server_with(2);
    server.apply(phase("a", "Running")).unwrap();
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    assert_eq!(watch.code, StatusCode::OK);
    watch.events(["ADDED b 3", "MODIFIED a 4"]).await;
    watch.silent();
    server.delete(&Resource::pods(), "default", "b").unwrap();
    server.apply(pod("c")).unwrap();
    watch.events(["DELETED b 5", "ADDED c 6"]).await;
    watch.silent();
}

#[tokio::test]
async fn typed_client_receives_events() {
    let server = server_with(1);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let mut watch = pin!(pods.watch(&WatchParams::default(), "1").await.unwrap());
    let Some(Ok(WatchEvent::Added(pod))) = watch.next().await else { panic!("unexpected event") };
    assert_eq!(pod.metadata.resource_version.as_deref(), Some("2"));
    server.apply(phase("a", "Running")).unwrap();
    let Some(WatchEvent::Modified(pod)) = watch.try_next().await.unwrap() else {
        panic!("unexpected event")
    };
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    server.delete(&Resource::pods(), "default", "a").unwrap();
    let Some(WatchEvent::Deleted(pod)) = watch.try_next().await.unwrap() else {
        panic!("unexpected event")
    };
    assert_eq!(pod.metadata.resource_version.as_deref(), Some("4"));
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test]
async fn watch_without_a_version_or_from_zero_starts_with_existing_objects() {
    let server = server_with(2);
    for version in ["", "&resourceVersion=", "&resourceVersion=0"] {
        let mut watch = open(&server, &format!("{PODS}?watch=1{version}")).await;
        watch.events(["ADDED a 2", "ADDED b 3"]).await;
        watch.silent();
    }
    let mut watch = open(&server, &format!("{PODS}?watch=1")).await;
    server.apply(phase("a", "Running")).unwrap();
    watch.events(["ADDED a 2", "ADDED b 3", "MODIFIED a 4"]).await;
}

#[tokio::test]
async fn event_has_the_format_of_the_real_server() {
    let server = server_with(1);
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=1")).await;
    let line = watch.line().await.unwrap().unwrap();
    assert!(
        line.starts_with(
            r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"#
        ),
        "{line}"
    );
}

#[tokio::test]
async fn watch_from_a_compacted_version_gets_one_error_event() {
    let server = server_with(2);
    server.compact();
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=3")).await;
    assert_eq!(watch.code, StatusCode::OK);
    let event = watch.json_line().await;
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["kind"], "Status");
    assert_eq!(event["object"]["message"], "too old resource version: 3 (4)");
    assert_eq!(event["object"]["code"], 410);
    assert_eq!(event["object"]["reason"], "Expired");
    watch.over().await;
    assert_eq!(server.watchers(), 0);

    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=4")).await;
    watch.silent();
}

#[tokio::test]
async fn watch_from_a_version_older_than_the_log_gets_410() {
    let server = builder().log_size(2).build();
    for name in ["a", "b", "c"] {
        server.apply(pod(name)).unwrap();
    }
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=1")).await;
    watch.events(["ERROR 410 Expired"]).await;
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    watch.events(["ADDED b 3", "ADDED c 4"]).await;
}

#[tokio::test]
async fn watch_from_a_future_version_waits_for_that_version() {
    let server = server();
    let mut watch =
        open(&server, &format!("{PODS}?watch=true&resourceVersion=3&allowWatchBookmarks=true"))
            .await;
    for name in ["a", "b", "c"] {
        server.bookmark(&Resource::pods());
        server.apply(pod(name)).unwrap();
    }
    watch.events(["BOOKMARK 3", "ADDED c 4"]).await;
}

#[tokio::test]
async fn watch_with_a_full_buffer_ends_after_the_buffered_events() {
    let server = builder().watch_buffer(2).build();
    server.apply(pod("a")).unwrap();
    server.apply(pod("b")).unwrap();
    server.apply(pod("c")).unwrap();
    // Changes from before the opening do not count, nor do events that were read.
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=1")).await;
    watch.events(["ADDED a 2", "ADDED b 3", "ADDED c 4"]).await;
    server.apply(pod("d")).unwrap();
    watch.events(["ADDED d 5"]).await;
    let waiter = tokio::spawn({
        let server = server.clone();
        async move { server.wait_for_watchers(0).await }
    });
    tokio::task::yield_now().await;
    server.apply(pod("e")).unwrap();
    server.apply(pod("f")).unwrap();
    assert_eq!(server.watchers(), 1);
    server.apply(pod("g")).unwrap();
    waiter.await.unwrap();
    watch.events(["ADDED e 6", "ADDED f 7"]).await;
    watch.over().await;
}

#[tokio::test]
async fn watch_with_a_full_buffer_gets_its_error_but_no_bookmark() {
    let server = builder().watch_buffer(2).build();
    let mut watch =
        open(&server, &format!("{PODS}?watch=true&resourceVersion=1&allowWatchBookmarks=true"))
            .await;
    server.apply(pod("a")).unwrap();
    server.apply(pod("b")).unwrap();
    assert_eq!(server.bookmark(&Resource::pods()), 0);
    assert_eq!(server.error_watches(status::expired("too old")), 1);
    watch.events(["ADDED a 2", "ADDED b 3", "ERROR 410 Expired"]).await;
    watch.over().await;
}

#[tokio::test]
async fn largest_watch_buffer_is_accepted() {
    let server = builder().watch_buffer(usize::MAX).build();
    let mut watch = open(&server, &format!("{PODS}?watch=true")).await;
    server.apply(pod("a")).unwrap();
    watch.events(["ADDED a 2"]).await;
    let server = builder().watch_buffer(0).build();
    let watch = open(&server, &format!("{PODS}?watch=true")).await;
    server.apply(pod("a")).unwrap();
    watch.over().await;
}

#[tokio::test]
async fn compaction_does_not_affect_an_open_watch() {
    let server = server_with(1);
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=1")).await;
    server.apply(pod("b")).unwrap();
    server.compact();
    server.apply(pod("c")).unwrap();
    watch.events(["ADDED a 2", "ADDED b 3", "ADDED c 5"]).await;
}

#[tokio::test]
async fn object_that_stops_matching_is_deleted_and_one_that_starts_is_added() {
    let server = server();
    server.apply(app("a", "web")).unwrap();
    let mut watch =
        open(&server, &format!("{PODS}?watch=true&resourceVersion=2&labelSelector=app%3Dweb"))
            .await;
    server.apply(app("b", "mail")).unwrap();
    server.apply(app("a", "mail")).unwrap();
    server.apply(app("a", "web")).unwrap();
    let mut labelled = app("a", "web");
    labelled["metadata"]["labels"]["tier"] = "front".into();
    server.apply(labelled).unwrap();
    server.delete(&Resource::pods(), "default", "b").unwrap();
    server.delete(&Resource::pods(), "default", "a").unwrap();

    // The deletion event has the object as it was when it last matched, with the version at which
    // it stopped matching.
    let left = watch.json_line().await;
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["app"], "web");
    assert_eq!(left["object"]["metadata"]["resourceVersion"], "4");
    watch.events(["ADDED a 5", "MODIFIED a 6", "DELETED a 8"]).await;
}

#[tokio::test]
async fn watch_sends_only_objects_of_its_namespace_and_field_selector() {
    let server = server_with(2);
    let mut other = pod("a");
    other["metadata"]["namespace"] = "shop".into();
    server.apply(other).unwrap();
    let mut watch =
        open(&server, "/api/v1/namespaces/shop/pods?watch=true&resourceVersion=1").await;
    watch.events(["ADDED a 4"]).await;
    let mut watch = open(
        &server,
        &format!("{PODS}?watch=true&resourceVersion=1&fieldSelector=metadata.name%3Db"),
    )
    .await;
    watch.events(["ADDED b 3"]).await;
}

#[tokio::test(start_paused = true)]
async fn periodic_bookmarks_go_to_watches_that_asked_for_them() {
    let server = builder().bookmarks(Duration::from_secs(60)).build();
    server.apply(pod("a")).unwrap();
    let began = Instant::now();
    let mut without = open(&server, &format!("{PODS}?watch=1&resourceVersion=1")).await;
    let mut with =
        open(&server, &format!("{PODS}?watch=1&resourceVersion=1&allowWatchBookmarks=1")).await;
    with.events(["ADDED a 2", "BOOKMARK 2"]).await;
    assert_eq!(began.elapsed().as_secs(), 60);
    server.apply(pod("b")).unwrap();
    with.events(["ADDED b 3", "BOOKMARK 3", "BOOKMARK 3"]).await;
    assert_eq!(began.elapsed().as_secs(), 180);
    // The watch is not read for ten periods. Only one of the missed bookmarks is sent, after the
    // last change.
    tokio::time::advance(Duration::from_secs(600)).await;
    server.apply(pod("c")).unwrap();
    with.events(["ADDED c 4", "BOOKMARK 4"]).await;
    with.silent();
    assert_eq!(began.elapsed().as_secs(), 780);
    without.events(["ADDED a 2", "ADDED b 3", "ADDED c 4"]).await;
    without.silent();
}

#[tokio::test(start_paused = true)]
async fn bookmark_period_of_duration_max_means_never() {
    let server = builder().bookmarks(Duration::MAX).build();
    let mut watch = open(&server, &format!("{PODS}?watch=1&allowWatchBookmarks=1")).await;
    let century =
        tokio::time::timeout(Duration::from_secs(100 * 365 * 86_400), watch.events(["any"])).await;
    assert!(century.is_err());
}

#[tokio::test(start_paused = true)]
async fn periodic_bookmark_follows_the_initial_events() {
    let server = builder().bookmarks(Duration::from_secs(60)).frame_size(1).build();
    server.apply(pod("a")).unwrap();
    let initial =
        "watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan";
    let mut watch = open(&server, &format!("{PODS}?{initial}&timeoutSeconds=61")).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    server.apply(pod("b")).unwrap();
    watch.events(["ADDED a 2", "BOOKMARK 2 end", "ADDED b 3", "BOOKMARK 3"]).await;
    watch.over().await;
}

#[tokio::test]
async fn bookmark_goes_to_watches_that_asked_for_bookmarks() {
    let server = server_with(1);
    let mut with =
        open(&server, &format!("{PODS}?watch=true&resourceVersion=2&allowWatchBookmarks=true"))
            .await;
    let mut without = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    let mut maps = open(&server, "/api/v1/configmaps?watch=true&allowWatchBookmarks=true").await;
    server.apply(pod("b")).unwrap();
    assert_eq!(server.bookmark(&Resource::pods()), 1);
    with.events(["ADDED b 3", "BOOKMARK 3"]).await;
    without.events(["ADDED b 3"]).await;
    without.silent();
    maps.silent();

    let pods: Api<Pod> = Api::all(server.client());
    let mut watch = pin!(pods.watch(&WatchParams::default(), "3").await.unwrap());
    server.bookmark(&Resource::pods());
    let Some(Ok(WatchEvent::Bookmark(bookmark))) = watch.next().await else {
        panic!("unexpected event")
    };
    assert_eq!(
        (bookmark.types.kind.as_str(), bookmark.metadata.resource_version.as_str()),
        ("Pod", "3")
    );
}

#[tokio::test(start_paused = true)]
async fn watch_ends_without_an_error_after_its_timeout() {
    let server = server();
    let start = Instant::now();
    let watch = open(&server, &format!("{PODS}?watch=true&timeoutSeconds=290")).await;
    watch.over().await;
    assert_eq!(start.elapsed(), Duration::from_secs(290));
    assert_eq!(server.watchers(), 0);
}

#[tokio::test]
async fn watch_counts_as_open_until_its_client_drops_it() {
    let server = server();
    let watch = open(&server, &format!("{PODS}?watch=true")).await;
    let other = open(&server, "/api/v1/configmaps?watch=true").await;
    assert_eq!(server.watchers(), 2);
    drop(watch);
    assert_eq!(server.watchers(), 1);
    drop(other);
    assert_eq!(server.watchers(), 0);
    server.apply(pod("a")).unwrap();
}

#[tokio::test]
async fn metadata_only_watch_sends_partial_objects() {
    let server = server();
    server.apply(phase("a", "Running")).unwrap();
    let uri = format!("{PODS}?watch=true&resourceVersion=1&allowWatchBookmarks=true");
    let mut watch = open_metadata(&server, &uri).await;
    server.bookmark(&Resource::pods());
    for kind in ["ADDED", "BOOKMARK"] {
        let event = watch.json_line().await;
        assert_eq!(event["type"], kind);
        assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
        assert!(event["object"].get("status").is_none());
    }
    let pods: Api<PartialObjectMeta<Pod>> = Api::all(server.client());
    let mut watch = pin!(pods.watch(&WatchParams::default(), "1").await.unwrap());
    let Some(Ok(WatchEvent::Added(pod))) = watch.next().await else { panic!("unexpected event") };
    assert_eq!(pod.metadata.name.as_deref(), Some("a"));
}
