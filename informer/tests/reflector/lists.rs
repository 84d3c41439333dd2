//! Tests of list requests, and of the effects of the responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo_informer::lister_watcher::{EventType, Listed, PageMeta, RequestError, Scripted};
use deltafifo_informer::reflector::Reflector;
use futures_util::stream::{self, StreamExt};

use super::rig::{
    Rig, broken, cut, event, expired, items, list, map, page, queue, shown_requests, status,
};

#[tokio::test(start_paused = true)]
async fn initial_list_is_at_any_version_and_the_watch_starts_from_it() {
    let mut rig = Rig::lists(Scripted::new().list(list(7, [map("a", 5), map("b", 6)])));
    assert_eq!(rig.changes(2).await, ["Added a@5", "Added b@6"]);
    assert_eq!(shown_requests(&rig.requests(2).await), [r#"list "0" limit 500"#, r#"watch "7""#]);
    assert_eq!(rig.reflector.last_sync_resource_version().as_deref(), Some("7"));
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_before_anything_is_deleted() {
    let script = Scripted::new()
        .list([items([map("a", 5)]), page(7, Some("t1"))])
        .list([page(7, Some("t2")), items([map("b", 6)])])
        .list([page(7, None)]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(2).await, ["Added a@5", "Added b@6"]);
    let requests = shown_requests(&rig.requests(4).await);
    let pages = [
        r#"list "0" limit 500"#,
        r#"list "0" limit 500 token t1"#,
        r#"list "0" limit 500 token t2"#,
    ];
    assert_eq!(requests[..3], pages);
    assert_eq!(requests[3], r#"watch "7""#);
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_paged_list_are_left_to_the_watch() {
    let script = Scripted::new()
        .list([page(7, Some("t1")), items([map("a", 5)])])
        .list([page(9, None), items([map("b", 9)])])
        .watch_on([event(EventType::Modified, map("a", 8))]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated a@5>8");
    assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"watch "7""#);
}

#[tokio::test(start_paused = true)]
async fn later_list_is_at_the_last_version_and_unpaged() {
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list(list(9, [map("b", 6), map("c", 9)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(4).await, ["Added a@5", "Added b@6", "Added c@9", "Missed a"]);
    let requests = shown_requests(&rig.requests(4).await);
    assert_eq!(
        requests,
        [r#"list "0" limit 500"#, r#"watch "7""#, r#"list "7" limit 0"#, r#"watch "9""#]
    );
    assert!(rig.error().await.contains("410 Expired"));
}

#[tokio::test(start_paused = true)]
async fn server_without_a_cache_gets_paged_lists_from_then_on() {
    let script = Scripted::new()
        .list([page(7, Some("t1"))])
        .list([page(7, None)])
        .watch([Err(expired())])
        .list(list(9, []));
    let rig = Rig::lists(script);
    assert_eq!(shown_requests(&rig.requests(4).await)[3], r#"list "7" limit 500"#);
}

#[tokio::test(start_paused = true)]
async fn unavailable_version_is_followed_by_a_list_of_the_newest() {
    let RequestError::Status { mut status, .. } = status(504, "Timeout") else { unreachable!() };
    status.message = "Too large resource version: 9, current: 8".to_owned();
    let too_large = RequestError::Status { status, retry_after: None };
    for unavailable in [expired(), too_large] {
        let script = Scripted::new()
            .list(list(7, []))
            .watch([Err(expired())])
            .list_fails(unavailable)
            .list(list(8, []))
            .watch([Err(expired())])
            .list(list(9, []));
        let rig = Rig::lists(script);
        let requests = shown_requests(&rig.requests(6).await);
        assert_eq!(requests[2..4], [r#"list "7" limit 0"#, r#"list "" limit 500"#]);
        assert_eq!(
            requests[5], r#"list "8" limit 0"#,
            "a list that succeeded makes its version available"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn expired_page_token_is_followed_by_a_full_list_not_older_than_the_first_page() {
    let script = Scripted::new()
        .list(list(5, [map("old", 1), map("a", 2)]))
        .watch([Err(expired())])
        .list_fails(expired())
        .list([page(7, Some("t1")), items([map("a", 6)])])
        .list_fails(expired())
        .list(list(8, [map("a", 6), map("b", 8)]));
    let mut rig = Rig::lists(script);
    let changes = rig.changes(5).await;
    assert_eq!(changes[2..], ["Updated a@2>6", "Added b@8", "Missed old"]);
    let requests = shown_requests(&rig.requests(6).await);
    assert_eq!(requests[4..6], [r#"list "" limit 500 token t1"#, r#"list at least "7" limit 0"#]);
}

#[tokio::test(start_paused = true)]
async fn broken_list_deletes_nothing_and_is_requested_again() {
    let cut = || Err(RequestError::Broken("the connection was cut".into()));
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list([page(9, None), items([map("b", 8)]), cut()])
        .list(list(9, [map("a", 5), map("b", 8)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated b@6>8");
    rig.requests(5).await;
    assert_eq!(rig.stored(), ["a@5", "b@8"]);
    rig.error().await;
    assert!(rig.error().await.contains("cut"));
}

#[tokio::test(start_paused = true)]
async fn unchanged_objects_are_not_decoded() {
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list(list(9, [broken("a", 5), map("b", 9)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated b@6>9");
    rig.requests(4).await;
    assert!(rig.error().await.contains("Expired"), "and no error about a");
    assert_eq!(rig.stored(), ["a@5", "b@9"]);
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_is_reported_kept_and_causes_no_endless_relist() {
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list(list(9, [broken("a", 8), map("b", 9), broken("new", 9)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated b@6>9");
    rig.error().await;
    let error = rig.error().await;
    assert!(error.contains(r#"object "a" of version "8" cannot be decoded"#), "{error}");
    assert!(rig.error().await.contains(r#"object "new""#));
    assert_eq!(shown_requests(&rig.requests(4).await)[3], r#"watch "9""#, "the watch follows");
    assert_eq!(rig.stored(), ["a@5", "b@9"]);
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_of_an_initial_list_is_reported_without_a_stored_state() {
    let mut rig = Rig::lists(Scripted::new().list(list(7, [broken("a", 5), map("b", 6)])));
    let error = rig.error().await;
    assert!(
        error.starts_with(r#"object "a" of version "5" cannot be decoded and is skipped"#),
        "{error}"
    );
    assert!(error.contains("an earlier stored state stays"), "{error}");
    assert_eq!(rig.changes(1).await, ["Added b@6"]);
}

#[tokio::test(start_paused = true)]
async fn object_with_invalid_utf8_is_reported_even_if_its_type_skips_the_member() {
    let json = b"{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"5\"},\"unknown\":\"\xff\"}";
    let mut rig =
        Rig::lists(Scripted::new().list(list(7, [Bytes::from_static(json), map("b", 6)])));
    let error = rig.error().await;
    assert!(error.contains("invalid utf-8"), "{error}");
    assert_eq!(rig.changes(1).await, ["Added b@6"]);
}

#[tokio::test(start_paused = true)]
async fn object_with_an_unreadable_name_fails_no_list_or_watch_and_deletes_nothing() {
    let odd = || Bytes::from(r#"{"metadata":{"name":7,"resourceVersion":"8"}}"#);
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([
            event(EventType::Modified, odd()),
            event(EventType::Deleted, odd()),
            Err(expired()),
        ])
        .list(list(9, [map("b", 6)]))
        .watch([Err(expired())])
        .list(list(10, [odd(), map("c", 9)]))
        .watch([event(EventType::Added, map("d", 11))]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(4).await, ["Added a@5", "Added b@6", "Added c@9", "Added d@11"]);
    let requests = shown_requests(&rig.requests(7).await);
    assert_eq!(requests[2], r#"list "8" limit 0"#);
    assert_eq!(rig.stored(), ["a@5", "b@6", "c@9", "d@11"]);
}

/// Items of a list that are not valid JSON, although their name and version can be read.
const NO_JSON: [&str; 3] = [
    r#"{"metadata":{"labels":,"name":"a","resourceVersion":"8"}}"#,
    r#"{"metadata":{"labels":x"name":"a","resourceVersion":"8"}}"#,
    r#"{"metadata":{"namespace":"","name":"a","resourceVersion":"8"},"data":{x}}"#,
];

#[tokio::test(start_paused = true)]
async fn list_with_invalid_json_is_rejected() {
    for item in NO_JSON {
        let script = Scripted::new()
            .list(list(7, [map("a", 5), map("b", 6)]))
            .watch([Err(expired())])
            .list(list(9, [Bytes::from(item), map("c", 9)]))
            .list(list(10, [map("a", 8), map("b", 6), map("c", 9)]));
        let mut rig = Rig::lists(script);
        rig.error().await;
        let error = rig.error().await;
        assert!(error.contains("a list failed"), "{item}: {error}");
        rig.requests(5).await;
        assert_eq!(rig.stored(), ["a@8", "b@6", "c@9"], "{item}");
        assert!(
            !rig.changes(4).await.iter().any(|change| change.starts_with("Missed")),
            "{item}: nothing is deleted"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn lists_after_a_broken_one_are_not_older_than_it() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3)]))
        .watch([Err(expired())])
        .list_stream(cut([page(100, None), items([map("a", 90), map("n", 95)])]))
        .list(list(101, [map("a", 90), map("n", 95)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[1..], ["Updated a@3>90", "Added n@95"]);
    let requests = shown_requests(&rig.requests(5).await);
    assert_eq!(
        requests[2..],
        [r#"list "4" limit 0"#, r#"list at least "100" limit 0"#, r#"watch "101""#]
    );
}

#[tokio::test(start_paused = true)]
async fn initial_list_is_at_any_version_only_before_anything_was_delivered() {
    let script = Scripted::new()
        .list_fails(status(500, "InternalError"))
        .list_stream(cut([page(100, Some("t1")), items([map("a", 90)])]))
        .list_stream(cut([]))
        .list(list(100, [map("a", 90)]))
        .watch([Err(expired())]);
    let rig = Rig::lists(script);
    let requests = shown_requests(&rig.requests(6).await);
    assert_eq!(requests[..2], [r#"list "0" limit 500"#; 2]);
    assert_eq!(
        requests[2..4],
        [r#"list at least "100" limit 500"#; 2],
        "in pages, as the server has no cache"
    );
    assert_eq!(requests[5], r#"list "100" limit 500"#, "a complete list's version is used");
}

#[tokio::test(start_paused = true)]
async fn list_that_broke_before_its_version_is_followed_by_the_newest() {
    let script = Scripted::new()
        .list_stream(cut([items([map("a", 90)])]))
        .list([items([map("a", 90)]), page(100, None)]);
    let rig = Rig::lists(script);
    let requests = shown_requests(&rig.requests(3).await);
    assert_eq!(requests, [r#"list "0" limit 500"#, r#"list "" limit 500"#, r#"watch "100""#]);
}

#[tokio::test(start_paused = true)]
async fn failed_full_list_after_an_expired_token_is_retried_at_the_same_version() {
    let script = Scripted::new()
        .list([page(100, Some("t1")), items([map("a", 90)])])
        .list_fails(expired())
        .list_fails(RequestError::Unreachable("connection refused".into()))
        .list(list(100, [map("a", 90)]));
    let rig = Rig::lists(script);
    let requests = shown_requests(&rig.requests(5).await);
    assert_eq!(
        requests[2..4],
        [r#"list at least "100" limit 0"#, r#"list at least "100" limit 500"#]
    );
}

#[tokio::test(start_paused = true)]
async fn run_after_one_dropped_within_a_list_requests_nothing_older() {
    let silent = stream::iter([page(100, None), items([map("a", 90)])]).chain(stream::pending());
    let script = Arc::new(Scripted::new().list_stream(silent.boxed()));
    let reflector = Reflector::builder(script.clone(), queue()).watch_list(false).build();
    for times in [1, 2] {
        let run = tokio::time::timeout(Duration::from_secs(1), reflector.run()).await;
        assert!(run.is_err(), "dropped");
        assert_eq!(script.requests().len(), times);
    }
    assert_eq!(
        shown_requests(&script.requests()),
        [r#"list "0" limit 500"#, r#"list at least "100" limit 0"#]
    );
}

#[tokio::test(start_paused = true)]
async fn list_without_a_version_is_rejected() {
    let without = || Ok(Listed::Meta(PageMeta::default()));
    for parts in [vec![], vec![items([])], vec![without(), items([])], vec![items([]), without()]] {
        let script = Scripted::new()
            .list(list(7, [map("a", 5)]))
            .watch([Err(expired())])
            .list(parts)
            .list(list(9, [map("a", 5), map("b", 8)]));
        let mut rig = Rig::lists(script);
        assert_eq!(rig.changes(2).await, ["Added a@5", "Added b@8"]);
        rig.error().await;
        assert!(rig.error().await.contains("without its version"));
        assert_eq!(rig.requests(5).await.len(), 5, "requested again");
    }
}

#[tokio::test(start_paused = true)]
async fn page_without_a_version_is_not_the_last() {
    let script = Scripted::new()
        .list([page(7, Some("t1")), items([map("a", 5)])])
        .list([items([map("b", 6)])])
        .list(list(7, [map("a", 5), map("b", 6), map("c", 7)]));
    let mut rig = Rig::lists(script);
    assert!(rig.error().await.contains("without its version"));
    assert_eq!(
        shown_requests(&rig.requests(4).await)[2..],
        [r#"list at least "7" limit 500"#, r#"watch "7""#]
    );
    assert_eq!(rig.stored(), ["a@5", "b@6", "c@7"]);
}

#[tokio::test(start_paused = true)]
async fn list_after_a_restore_of_etcd_decodes_objects_of_equal_versions_again() {
    let map = |data: &str| {
        let metadata = serde_json::json!({ "name": "a", "resourceVersion": "900" });
        Bytes::from(
            serde_json::json!({ "metadata": metadata, "data": { "data": data } }).to_string(),
        )
    };
    let too_large = || {
        let status = Box::new(deltafifo_testkit::status::too_large(1000, 950));
        RequestError::Status { status, retry_after: None }
    };
    // The list shows the older version, or the server refuses the known one.
    for refuses in [false, true] {
        let script = Scripted::new().list(list(1000, [map("old")])).watch([Err(expired())]);
        let script = if refuses {
            script.list_fails(too_large()).list(list(1000, [map("new")]))
        } else {
            script.list(list(950, [map("new")]))
        };
        let fifo = queue();
        let reflector =
            Reflector::builder(script.watch_on([]), fifo.clone()).watch_list(false).build();
        let seen = async {
            let mut seen = Vec::new();
            while seen.len() < 2 {
                let mut item = fifo.pop_async().await.unwrap();
                item.apply(|_| ()).unwrap();
                seen.extend(
                    fifo.store()
                        .list()
                        .iter()
                        .map(|map| map.data.as_ref().unwrap()["data"].clone()),
                );
            }
            seen
        };
        tokio::select! {
            ended = reflector.run() => panic!("{ended}"),
            seen = seen => assert_eq!(seen, ["old", "new"], "refused: {refuses}"),
        }
    }
}
