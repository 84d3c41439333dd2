//! Tests of bodies that are complete, cut, corrupted, or that never end.

use std::time::Duration;

use deltafifo_testkit::{After, ApiServer, Fault, Request, Resource, Verb, WatchLists, status};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::rig::{applied, map, maps, run, server, stored, up_to_date};

#[tokio::test(start_paused = true)]
async fn streamed_list_is_followed_by_changes_in_the_same_watch() {
    let (server, resource) = (server(), Resource::config_maps());
    server.apply(map("shop", "a", "1")).unwrap();
    server.apply(map("shop", "b", "2")).unwrap();
    let fifo = applied();
    let _errors = run(maps(&server), &fifo, |builder| builder);
    fifo.wait_for_sync_async().await.unwrap();
    server.apply(map("shop", "a", "3")).unwrap();
    server.delete(&resource, "shop", "b").unwrap();
    server.apply(map("bank", "c", "ä")).unwrap();
    up_to_date(&server, &fifo, &resource).await;
    assert_eq!(stored(&fifo), ["bank/c=ä", "shop/a=3"]);
    assert_eq!(server.requests().len(), 1, "a single watch");
    assert!(server.requests()[0].sends_initial_events());
}

#[tokio::test(start_paused = true)]
async fn refused_streamed_list_is_replaced_by_list_and_watch() {
    for refused in [WatchLists::Forbidden, WatchLists::Failing] {
        let server = ApiServer::builder()
            .resource(Resource::config_maps())
            .watch_lists(refused)
            .frame_size(7)
            .build();
        server.apply(map("shop", "a", "1")).unwrap();
        let fifo = applied();
        let mut errors = run(maps(&server), &fifo, |builder| builder);
        fifo.wait_for_sync_async().await.unwrap();
        assert!(errors.recv().await.unwrap().contains("a watch failed"));
        server.apply(map("shop", "a", "2")).unwrap();
        up_to_date(&server, &fifo, &Resource::config_maps()).await;
        assert_eq!(stored(&fifo), ["shop/a=2"]);
        let verbs: Vec<_> = server.requests().iter().map(Request::verb).collect();
        assert_eq!(verbs, [Verb::Watch, Verb::List, Verb::Watch]);
    }
}

#[tokio::test(start_paused = true)]
async fn three_cut_streamed_lists_are_followed_by_a_list() {
    let faults =
        [Fault::refused, || Fault::broken(After::Bytes(0)), || Fault::cut(After::Bytes(0))];
    for fault in faults {
        let server = server();
        server.apply(map("shop", "a", "1")).unwrap();
        server.fault(fault().when(Request::sends_initial_events).times(usize::MAX));
        let fifo = applied();
        let _errors = run(maps(&server), &fifo, |builder| builder);
        let synced =
            tokio::time::timeout(Duration::from_secs(60), fifo.wait_for_sync_async()).await;
        synced.expect("lists work").unwrap();
        server.apply(map("shop", "a", "2")).unwrap();
        up_to_date(&server, &fifo, &Resource::config_maps()).await;
        assert_eq!(stored(&fifo), ["shop/a=2"]);
        let streamed =
            server.requests().iter().filter(|request| request.sends_initial_events()).count();
        assert!((1..=3).contains(&streamed), "{streamed}");
    }
}

/// Returns the text of the server's response to a list or watch of its one small object.
async fn answer(query: &str) -> String {
    let request =
        http::Request::get(format!("/api/v1/configmaps?{query}")).body(Vec::new()).unwrap();
    let answer = with_one().client().request_text(request).await.unwrap();
    assert!(answer.contains("shop"), "{answer}");
    answer
}

fn with_one() -> ApiServer {
    let server = ApiServer::builder().resource(Resource::config_maps()).frame_size(64).build();
    let metadata = json!({ "namespace": "shop", "name": "a" });
    server.apply(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata })).unwrap();
    server
}

/// Runs a reflector once for each byte of a body of `bytes` bytes and each of three faults: before
/// that byte the body breaks, is cut, or gets garbage. Checks that the error is reported and that
/// everything is read again.
async fn spoiled_at_any_place(bytes: usize, is_streamed: bool) {
    // The garbage is a quote, because other bytes would be valid inside a string.
    let faults: [fn(After) -> Fault; 3] =
        [Fault::broken, Fault::cut, |after| Fault::garbage(after, "\"<html>")];
    for (number, fault) in faults.into_iter().enumerate() {
        for place in 0..bytes {
            let server = with_one();
            server.fault(fault(After::Bytes(place)));
            let fifo = applied::<ConfigMap>();
            let mut errors = run(maps(&server), &fifo, |builder| builder.watch_list(is_streamed));
            fifo.wait_for_sync_async().await.unwrap();
            assert_eq!(fifo.store().list_keys(), ["shop/a"], "fault {number} at {place}");
            let error = errors.try_recv().unwrap_or_default();
            let expected = if is_streamed { "a watch failed" } else { "a list failed" };
            assert!(error.contains(expected), "fault {number} at {place}: {error}");
            // Ends this reflector.
            fifo.close();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn list_cut_or_broken_at_any_byte_is_read_again() {
    let body = answer("limit=500&resourceVersion=0").await;
    spoiled_at_any_place(body.trim_end().len(), false).await;
}

#[tokio::test(start_paused = true)]
async fn streamed_list_cut_or_broken_at_any_byte_is_read_again() {
    let initial = "watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    spoiled_at_any_place(answer(initial).await.len(), true).await;
}

#[tokio::test(start_paused = true)]
async fn watch_cut_within_a_line_resumes_after_the_last_complete_one() {
    for fault in [
        Fault::cut(After::Bytes(400)),
        Fault::broken(After::Bytes(400)),
        Fault::hang(After::Bytes(400)),
    ] {
        let server = server();
        let first = server.apply(map("shop", "a", "1")).unwrap().to_string();
        server.fault(fault.on(Verb::Watch));
        let fifo = applied();
        let mut errors = run(maps(&server), &fifo, |builder| builder.watch_list(false));
        fifo.wait_for_sync_async().await.unwrap();
        for data in 2..9 {
            server.apply(map("shop", "a", &data.to_string())).unwrap();
        }
        errors.recv().await.unwrap();
        server
            .wait_for_request(|request| {
                request.verb() == Verb::Watch && request.resource_version() != first
            })
            .await;
        up_to_date(&server, &fifo, &Resource::config_maps()).await;
        assert_eq!(stored(&fifo), ["shop/a=8"]);
        let lists = server.requests().iter().filter(|request| request.verb() == Verb::List).count();
        assert_eq!(lists, 1, "no further list");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_events_of_an_unknown_type_are_skipped_without_a_relist() {
    for unknown in
        [r#"{"type":"CHECKPOINT","object":{"metadata":{"resourceVersion":"1"}}}"#, r#"{"type":7}"#]
    {
        let (server, resource) = (server(), Resource::config_maps());
        server.apply(map("shop", "a", "1")).unwrap();
        server.fault(
            Fault::garbage(After::Bytes(0), format!("{unknown}\n{unknown}\n")).on(Verb::Watch),
        );
        let fifo = applied();
        let mut errors = run(maps(&server), &fifo, |builder| builder.watch_list(false));
        fifo.wait_for_sync_async().await.unwrap();
        server.wait_for_watchers(1).await;
        server.apply(map("shop", "a", "2")).unwrap();
        up_to_date(&server, &fifo, &resource).await;
        assert_eq!(stored(&fifo), ["shop/a=2"]);
        assert!(errors.try_recv().is_err(), "{unknown}: not an error");
        let verbs: Vec<_> = server.requests().iter().map(Request::verb).collect();
        assert_eq!(verbs, [Verb::List, Verb::Watch], "{unknown}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_or_silent_connection_is_retried() {
    for fault in [Fault::refused(), Fault::silence()] {
        let server = server();
        server.apply(map("shop", "a", "1")).unwrap();
        server.fault(fault.times(3));
        let fifo = applied();
        let mut errors =
            run(maps(&server), &fifo, |builder| builder.silence(Duration::from_secs(20)));
        fifo.wait_for_sync_async().await.unwrap();
        for _ in 0..3 {
            errors.recv().await.unwrap();
        }
        assert_eq!(stored(&fifo), ["shop/a=1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_version_leads_to_a_list_that_delivers_missed_deletions() {
    let (server, resource) = (server(), Resource::config_maps());
    server.apply(map("shop", "a", "1")).unwrap();
    server.apply(map("shop", "b", "2")).unwrap();
    let fifo = applied();
    let mut errors = run(maps(&server), &fifo, |builder| builder.watch_list(false));
    fifo.wait_for_sync_async().await.unwrap();
    server.wait_for_watchers(1).await;
    // First as an event, then as an HTTP status.
    server.fault(Fault::status(status::expired("too old")).on(Verb::Watch));
    server.error_watches(status::expired("too old"));
    server.delete(&resource, "shop", "b").unwrap();
    server.apply(map("shop", "a", "3")).unwrap();
    for _ in 0..2 {
        assert!(errors.recv().await.unwrap().contains("410"));
    }
    up_to_date(&server, &fifo, &resource).await;
    assert_eq!(stored(&fifo), ["shop/a=3"]);
}

#[tokio::test(start_paused = true)]
async fn events_repeated_after_a_reconnect_are_harmless() {
    let (server, resource) = (server(), Resource::config_maps());
    let fifo = applied();
    let _errors = run(maps(&server), &fifo, |builder| builder.watch_list(false));
    server.wait_for_watchers(1).await;
    for data in 1..6 {
        server.apply(map("shop", "a", &data.to_string())).unwrap();
    }
    up_to_date(&server, &fifo, &resource).await;
    server.fault(Fault::repeat(3));
    let reached = server.version().to_string();
    server.end_watches();
    server
        .wait_for_request(|request| {
            request.verb() == Verb::Watch && request.resource_version() == reached
        })
        .await;
    server.apply(map("shop", "b", "6")).unwrap();
    up_to_date(&server, &fifo, &resource).await;
    assert_eq!(stored(&fifo), ["shop/a=5", "shop/b=6"]);
}
