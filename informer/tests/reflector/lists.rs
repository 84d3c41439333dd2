//! Which lists are asked for, and what becomes of what they bring.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo_informer::WireError;
use deltafifo_informer::lister_watcher::{EventType, Listed, PageMeta, RequestError, Scripted};
use deltafifo_informer::reflector::Reflector;
use futures_util::stream::{self, StreamExt};

use super::rig::{
    Rig, broken, cut, event, expired, items, list, map, page, queue, shown_asked, status,
};

#[tokio::test(start_paused = true)]
async fn the_first_list_is_at_any_version_and_the_watch_goes_on_from_it() {
    let mut rig = Rig::lists(Scripted::new().list(list(7, [map("a", 5), map("b", 6)])));
    assert_eq!(rig.changes(2).await, ["Added a@5", "Added b@6"]);
    assert_eq!(shown_asked(&rig.asked(2).await), [r#"list "0" limit 500"#, r#"watch "7""#]);
    assert_eq!(rig.reflector.last_sync_resource_version().as_deref(), Some("7"));
}

#[tokio::test(start_paused = true)]
async fn pages_are_followed_to_the_last_and_nothing_is_deleted_before() {
    let script = Scripted::new()
        .list([items([map("a", 5)]), page(7, Some("t1"))])
        .list([page(7, Some("t2")), items([map("b", 6)])])
        .list([page(7, None)]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(2).await, ["Added a@5", "Added b@6"]);
    let asked = shown_asked(&rig.asked(4).await);
    let pages = [
        r#"list "0" limit 500"#,
        r#"list "0" limit 500 token t1"#,
        r#"list "0" limit 500 token t2"#,
    ];
    assert_eq!(asked[..3], pages);
    assert_eq!(asked[3], r#"watch "7""#);
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_pages_came_is_left_to_the_watch() {
    let script = Scripted::new()
        .list([page(7, Some("t1")), items([map("a", 5)])])
        .list([page(9, None), items([map("b", 9)])])
        .watch_on([event(EventType::Modified, map("a", 8))]);
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated a@5>8");
    assert_eq!(shown_asked(&rig.asked(3).await)[2], r#"watch "7""#);
}

#[tokio::test(start_paused = true)]
async fn a_later_list_is_at_the_last_version_and_unpaged() {
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list(list(9, [map("b", 6), map("c", 9)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(4).await, ["Added a@5", "Added b@6", "Added c@9", "Missed a"]);
    let asked = shown_asked(&rig.asked(4).await);
    assert_eq!(
        asked,
        [r#"list "0" limit 500"#, r#"watch "7""#, r#"list "7" limit 0"#, r#"watch "9""#]
    );
    assert!(rig.error().await.contains("410 Expired"));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_cache_is_asked_in_pages_from_then_on() {
    let script = Scripted::new()
        .list([page(7, Some("t1"))])
        .list([page(7, None)])
        .watch([Err(expired())])
        .list(list(9, []));
    let rig = Rig::lists(script);
    assert_eq!(shown_asked(&rig.asked(4).await)[3], r#"list "7" limit 500"#);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_had_is_followed_at_once_by_a_list_of_the_newest() {
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
        let asked = shown_asked(&rig.asked(6).await);
        assert_eq!(asked[2..4], [r#"list "7" limit 0"#, r#"list "" limit 500"#]);
        assert_eq!(
            asked[5], r#"list "8" limit 0"#,
            "a list that succeeded makes its version available"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_token_is_followed_by_a_whole_list_not_older_than_the_first_page() {
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
    let asked = shown_asked(&rig.asked(6).await);
    assert_eq!(asked[4..6], [r#"list "" limit 500 token t1"#, r#"list at least "7" limit 0"#]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_deletes_nothing_and_is_asked_for_again() {
    let cut = || Err(WireError::CutShort { of: "a list" }.into());
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list([page(9, None), items([map("b", 8)]), cut()])
        .list(list(9, [map("a", 5), map("b", 8)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated b@6>8");
    rig.asked(5).await;
    assert_eq!(rig.stored(), ["a@5", "b@8"]);
    rig.error().await;
    assert!(rig.error().await.contains("cut"));
}

#[tokio::test(start_paused = true)]
async fn what_did_not_change_is_not_decoded() {
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list(list(9, [broken("a", 5), map("b", 9)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated b@6>9");
    rig.asked(4).await;
    assert!(rig.error().await.contains("Expired"), "and no error about a");
    assert_eq!(rig.stored(), ["a@5", "b@9"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_told_of_and_neither_deleted_nor_listed_for_ever() {
    let script = Scripted::new()
        .list(list(7, [map("a", 5), map("b", 6)]))
        .watch([Err(expired())])
        .list(list(9, [broken("a", 8), map("b", 9), broken("new", 9)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[2], "Updated b@6>9");
    rig.error().await;
    let error = rig.error().await;
    assert!(error.contains(r#"object "a" of version "8" cannot be read"#), "{error}");
    assert!(rig.error().await.contains(r#"object "new""#));
    assert_eq!(shown_asked(&rig.asked(4).await)[3], r#"watch "9""#, "it goes on to watch");
    assert_eq!(rig.stored(), ["a@5", "b@9"]);
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_of_a_first_list_is_not_said_to_have_a_stored_state() {
    let mut rig = Rig::lists(Scripted::new().list(list(7, [broken("a", 5), map("b", 6)])));
    let error = rig.error().await;
    assert!(
        error.starts_with(r#"object "a" of version "5" cannot be read and is left out"#),
        "{error}"
    );
    assert!(
        error.contains("an earlier state that is stored stays")
            && !error.contains("the last good one"),
        "{error}"
    );
    assert_eq!(rig.changes(1).await, ["Added b@6"]);
}

#[tokio::test(start_paused = true)]
async fn object_whose_name_cannot_be_read_fails_no_list_and_no_watch_and_nothing_is_deleted() {
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
    let asked = shown_asked(&rig.asked(7).await);
    assert_eq!(asked[2], r#"list "8" limit 0"#);
    assert_eq!(rig.stored(), ["a@5", "b@6", "c@9", "d@11"]);
}

/// What stands in a list's items where a name could be read, and is no JSON.
const NO_JSON: [&str; 3] = [
    r#"{"metadata":{"labels":,"name":"a","resourceVersion":"8"}}"#,
    r#"{"metadata":{"labels":x"name":"a","resourceVersion":"8"}}"#,
    r#"{"metadata":{"namespace":"","name":"a","resourceVersion":"8"},"data":{x}}"#,
];

#[tokio::test(start_paused = true)]
async fn a_list_with_what_is_no_json_is_not_believed() {
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
        rig.asked(5).await;
        assert_eq!(rig.stored(), ["a@8", "b@6", "c@9"], "{item}");
        assert!(
            !rig.changes(4).await.iter().any(|change| change.starts_with("Missed")),
            "{item}: nothing is deleted"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_list_that_broke_off_none_is_older_than_it() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3)]))
        .watch([Err(expired())])
        .list_stream(cut([page(100, None), items([map("a", 90), map("n", 95)])]))
        .list(list(101, [map("a", 90), map("n", 95)]));
    let mut rig = Rig::lists(script);
    assert_eq!(rig.changes(3).await[1..], ["Updated a@3>90", "Added n@95"]);
    let asked = shown_asked(&rig.asked(5).await);
    assert_eq!(
        asked[2..],
        [r#"list "4" limit 0"#, r#"list at least "100" limit 0"#, r#"watch "101""#]
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_list_may_be_at_any_version_only_while_nothing_was_told() {
    let script = Scripted::new()
        .list_fails(status(500, "InternalError"))
        .list_stream(cut([page(100, Some("t1")), items([map("a", 90)])]))
        .list_stream(cut([]))
        .list(list(100, [map("a", 90)]))
        .watch([Err(expired())]);
    let rig = Rig::lists(script);
    let asked = shown_asked(&rig.asked(6).await);
    assert_eq!(asked[..2], [r#"list "0" limit 500"#; 2]);
    assert_eq!(
        asked[2..4],
        [r#"list at least "100" limit 500"#; 2],
        "in pages, as the server has no cache"
    );
    assert_eq!(asked[5], r#"list "100" limit 500"#, "one that is complete is where to go on from");
}

#[tokio::test(start_paused = true)]
async fn after_a_list_whose_version_never_came_only_the_newest_will_do() {
    let script = Scripted::new()
        .list_stream(cut([items([map("a", 90)])]))
        .list([items([map("a", 90)]), page(100, None)]);
    let rig = Rig::lists(script);
    let asked = shown_asked(&rig.asked(3).await);
    assert_eq!(asked, [r#"list "0" limit 500"#, r#"list "" limit 500"#, r#"watch "100""#]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_list_after_an_expired_token_that_fails_is_asked_for_from_the_same_version() {
    let script = Scripted::new()
        .list([page(100, Some("t1")), items([map("a", 90)])])
        .list_fails(expired())
        .list_fails(RequestError::Unreachable("connection refused".into()))
        .list(list(100, [map("a", 90)]));
    let rig = Rig::lists(script);
    let asked = shown_asked(&rig.asked(5).await);
    assert_eq!(asked[2..4], [r#"list at least "100" limit 0"#, r#"list at least "100" limit 500"#]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_follows_one_dropped_in_a_list_asks_for_nothing_older() {
    let silent = stream::iter([page(100, None), items([map("a", 90)])]).chain(stream::pending());
    let script = Arc::new(Scripted::new().list_stream(silent.boxed()));
    let reflector = Reflector::builder(script.clone(), queue()).watch_list(false).build();
    for times in [1, 2] {
        let run = tokio::time::timeout(Duration::from_secs(1), reflector.run()).await;
        assert!(run.is_err(), "dropped");
        assert_eq!(script.asked().len(), times);
    }
    assert_eq!(
        shown_asked(&script.asked()),
        [r#"list "0" limit 500"#, r#"list at least "100" limit 0"#]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_say_its_version_is_not_believed() {
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
        assert_eq!(rig.asked(5).await.len(), 5, "asked for again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_say_its_version_is_not_the_last() {
    let script = Scripted::new()
        .list([page(7, Some("t1")), items([map("a", 5)])])
        .list([items([map("b", 6)])])
        .list(list(7, [map("a", 5), map("b", 6), map("c", 7)]));
    let mut rig = Rig::lists(script);
    assert!(rig.error().await.contains("without its version"));
    assert_eq!(
        shown_asked(&rig.asked(4).await)[2..],
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
    // The list says so itself, or the server does not know the version any more.
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
