//! Tests of watches that start with the existing objects.

use std::pin::pin;

use deltafifo_testkit::WatchLists;
use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, WatchEvent, WatchParams};

use crate::common::{PODS, app, builder, open, phase, pod, refused, server, server_with};

const INITIAL: &str =
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[tokio::test]
async fn initial_events_are_followed_by_a_bookmark_and_then_changes() {
    let server = server_with(2);
    for version in ["", "&resourceVersion=0", "&resourceVersion=2"] {
        let mut watch = open(&server, &format!("{PODS}?{INITIAL}{version}")).await;
        watch.events(["ADDED a 2", "ADDED b 3", "BOOKMARK 3 end"]).await;
        watch.silent();
    }
    let mut watch = open(&server, &format!("{PODS}?{INITIAL}")).await;
    server.apply(phase("a", "Running")).unwrap();
    watch.events(["ADDED a 2", "ADDED b 3", "BOOKMARK 3 end", "MODIFIED a 4"]).await;
}

#[tokio::test]
async fn typed_client_reads_initial_events() {
    let server = server_with(1);
    let pods: Api<Pod> = Api::all(server.client());
    let mut watch = pin!(pods.watch(&WatchParams::streaming_lists(), "0").await.unwrap());
    assert!(matches!(watch.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
    let Some(WatchEvent::Bookmark(end)) = watch.try_next().await.unwrap() else {
        panic!("unexpected event")
    };
    assert_eq!(end.metadata.annotations["k8s.io/initial-events-end"], "true");
    assert_eq!(end.metadata.resource_version, "2");
}

#[tokio::test]
async fn empty_server_sends_only_the_end_bookmark() {
    let mut watch = open(&server(), &format!("{PODS}?{INITIAL}")).await;
    watch.events(["BOOKMARK 1 end"]).await;
}

#[tokio::test]
async fn initial_events_match_the_selector() {
    let server = server();
    server.apply(app("a", "web")).unwrap();
    server.apply(app("b", "mail")).unwrap();
    let mut watch = open(&server, &format!("{PODS}?{INITIAL}&labelSelector=app%3Dmail")).await;
    watch.events(["ADDED b 3", "BOOKMARK 3 end"]).await;
}

#[tokio::test]
async fn small_frames_that_split_events_join_to_whole_events() {
    let server = builder().frame_size(7).build();
    for name in ["a", "b"] {
        server.apply(pod(name)).unwrap();
    }
    let mut watch = open(&server, &format!("{PODS}?{INITIAL}")).await;
    watch.events(["ADDED a 2", "ADDED b 3", "BOOKMARK 3 end"]).await;
    server.apply(pod("c")).unwrap();
    watch.events(["ADDED c 4"]).await;
}

#[tokio::test]
async fn send_initial_events_false_omits_the_initial_events() {
    let server = server_with(1);
    let mut watch = open(
        &server,
        &format!("{PODS}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"),
    )
    .await;
    watch.silent();
    server.apply(pod("b")).unwrap();
    watch.events(["ADDED b 3"]).await;
}

#[tokio::test]
async fn initial_events_of_a_future_version_time_out() {
    let status = refused(&server(), &format!("{PODS}?{INITIAL}&resourceVersion=9")).await;
    assert_eq!(status.code, 504);
    assert_eq!(status.details.unwrap().causes[0].reason, "ResourceVersionTooLarge");
}

#[tokio::test]
async fn initial_events_from_a_compacted_version_are_served() {
    let server = server_with(1);
    server.compact();
    let mut watch = open(&server, &format!("{PODS}?{INITIAL}&resourceVersion=1")).await;
    watch.events(["ADDED a 2", "BOOKMARK 3 end"]).await;
}

#[tokio::test]
async fn forbidden_watch_lists_are_refused_with_422() {
    let server = builder().watch_lists(WatchLists::Forbidden).build();
    let status = refused(&server, &format!("{PODS}?{INITIAL}")).await;
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        status.message,
        "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for \
         watch unless the WatchList feature gate is enabled"
    );
    assert!(open(&server, &format!("{PODS}?watch=true")).await.code.is_success());
}

#[tokio::test]
async fn failing_watch_lists_are_refused_with_500() {
    let server = builder().watch_lists(WatchLists::Failing).build();
    let status = refused(&server, &format!("{PODS}?{INITIAL}")).await;
    assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"));
}

#[tokio::test]
async fn conflicting_parameters_are_invalid() {
    let server = server();
    for query in [
        "watch=true&sendInitialEvents=true",
        "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=true&resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=Newest&resourceVersion=1",
    ] {
        assert_eq!(refused(&server, &format!("{PODS}?{query}")).await.code, 422, "{query}");
    }
}
