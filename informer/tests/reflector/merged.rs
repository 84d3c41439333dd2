//! Tests of several sources that are merged into one.

use std::sync::Arc;

use deltafifo_informer::error_chain;
use deltafifo_informer::lister_watcher::{
    EventType, ListRequest, Listed, ListerWatcher, Merged, PageMeta, Scripted, WatchRequest,
};
use deltafifo_informer::reflector::Reflector;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::rig::{bookmark, event, expired, items, list, map, page, queue, shown_requests};

#[tokio::test(start_paused = true)]
async fn each_source_continues_from_its_own_version() {
    let shop = Arc::new(
        Scripted::new().list(list(4, [map("a", 1)])).watch([event(EventType::Added, map("b", 9))]),
    );
    let bank = Arc::new(Scripted::new().list(list(6, [map("c", 2)])));
    let sources: Vec<Box<dyn ListerWatcher>> = vec![Box::new(shop.clone()), Box::new(bank.clone())];
    let fifo = queue();
    let reflector =
        Reflector::builder(Merged::new(sources), fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = shop.wait_for_requests(3) => {}
    }
    bank.wait_for_requests(3).await;
    assert_eq!(
        shown_requests(&shop.requests()),
        [r#"list "0" limit 500"#, r#"watch "4""#, r#"watch "9""#]
    );
    assert_eq!(
        shown_requests(&bank.requests()),
        [r#"list "0" limit 500"#, r#"watch "6""#, r#"watch "6""#]
    );
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_once_all_sources_have_ended_theirs() {
    let shop = Scripted::new().watch_on([event(EventType::Added, map("a", 1)), bookmark(4, true)]);
    let bank = Scripted::new().watch_on([
        event(EventType::Added, map("c", 2)),
        bookmark(6, true),
        bookmark(8, false),
    ]);
    let fifo = queue();
    let reflector =
        Reflector::builder(Merged::new(vec![Box::new(shop), Box::new(bank)]), fifo.clone()).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        reached = fifo.wait_for_sync_async() => panic!("{reached:?}: no queued item is handled"),
        () = async { while reflector.last_sync_resource_version().is_none() { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(
        reflector.last_sync_resource_version().as_deref(),
        Some("4"),
        "the least version of all sources"
    );
    assert_eq!(fifo.pending_deltas(), 2);
}

#[tokio::test(start_paused = true)]
async fn relist_goes_back_in_time_for_no_source() {
    let shop = Arc::new(
        Scripted::new()
            .list(list(4, []))
            .watch([event(EventType::Added, map("a", 9)), Err(expired())])
            .list(list(9, [map("a", 9)])),
    );
    let bank = Arc::new(
        Scripted::new().list(list(6, [])).watch_on([bookmark(7, false)]).list(list(7, [])),
    );
    let sources: Vec<Box<dyn ListerWatcher>> = vec![Box::new(shop.clone()), Box::new(bank.clone())];
    let reflector = Reflector::builder(Merged::new(sources), queue()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = shop.wait_for_requests(4) => {}
    }
    assert_eq!(shown_requests(&shop.requests())[2], r#"list "9" limit 0"#);
    assert_eq!(shown_requests(&bank.requests())[2], r#"list "7" limit 0"#);
}

#[tokio::test(start_paused = true)]
async fn event_of_one_source_does_not_advance_the_others() {
    let shop = Scripted::new().list(list(4, [])).watch_on([event(EventType::Added, map("a", 9))]);
    let bank = Arc::new(Scripted::new().list(list(6, [])).watch_on([]));
    let fifo = queue();
    let source = Merged::new(vec![Box::new(shop), Box::new(bank)]);
    let reflector = Reflector::builder(source, fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        popped = fifo.pop_async() => assert_eq!(popped.unwrap().key(), "a"),
    }
    assert_eq!(reflector.last_sync_resource_version().as_deref(), Some("4"));
}

#[tokio::test(start_paused = true)]
async fn source_with_an_expired_page_token_is_listed_in_one_page_not_older() {
    let shop = Arc::new(
        Scripted::new()
            .list([page(7, Some("t1")), items([map("a", 5), map("gone", 6)])])
            .list_fails(expired())
            .list(list(8, [map("a", 5), map("b", 8)])),
    );
    let bank = Arc::new(
        Scripted::new()
            .list(list(6, [map("c", 2)]))
            .list([page(9, Some("t1")), items([map("c", 2)])])
            .list_fails(expired())
            .list(list(9, [map("c", 2)])),
    );
    let sources: Vec<Box<dyn ListerWatcher>> = vec![Box::new(bank.clone()), Box::new(shop.clone())];
    let fifo = queue();
    let reflector =
        Reflector::builder(Merged::new(sources), fifo.clone()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = bank.wait_for_requests(5) => {}
        () = shop.wait_for_requests(9) => {}
    }
    shop.wait_for_requests(4).await;
    let paged = [r#"list "0" limit 500"#, r#"list "0" limit 500 token t1"#];
    assert_eq!(shown_requests(&shop.requests())[..2], paged);
    assert_eq!(
        shown_requests(&shop.requests())[2..],
        [r#"list at least "7" limit 0"#, r#"watch "8""#]
    );
    let requests = shown_requests(&bank.requests());
    assert_eq!(
        requests[1..4],
        [r#"list "" limit 500"#, r#"list "" limit 500 token t1"#, r#"list at least "9" limit 0"#]
    );
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    let mut stored = fifo.store().list_keys();
    stored.sort();
    assert_eq!(stored, ["a", "b", "c"], "an object of the first page that is gone is not kept");
}

#[tokio::test(start_paused = true)]
async fn source_without_a_version_is_rejected() {
    let without = || Ok(Listed::Meta(PageMeta::default()));
    let second_page = |parts| vec![vec![page(7, Some("t1")), items([map("a", 5)])], parts];
    let lists = [
        vec![vec![]],
        vec![vec![items([])]],
        vec![vec![without(), items([])]],
        second_page(vec![items([])]),
    ];
    for parts in lists {
        let mut shop =
            Scripted::new().list(list(4, [map("a", 1), map("b", 2)])).watch([Err(expired())]);
        for parts in parts {
            shop = shop.list(parts);
        }
        let shop = shop.list(list(9, [map("a", 5), map("b", 2)]));
        let bank =
            Scripted::new().list(list(6, [map("c", 3)])).watch_on([]).list(list(9, [map("c", 3)]));
        let merged: Vec<Box<dyn ListerWatcher>> = vec![Box::new(bank), Box::new(shop)];
        let (fifo, (errors, mut failed)) = (queue(), mpsc::unbounded_channel());
        let reflector = Reflector::builder(Merged::new(merged), fifo.clone())
            .watch_list(false)
            .on_error(move |error| drop(errors.send(error_chain(error))));
        let stored = async {
            failed.recv().await.filter(|error| error.contains("410")).expect("the watch has ended");
            failed
                .recv()
                .await
                .filter(|error| error.contains("without its version"))
                .expect("a list is not believed");
            while let Some(mut item) = fifo.try_pop() {
                item.apply(|_| ()).unwrap();
            }
            let mut stored = fifo.store().list_keys();
            stored.sort();
            stored
        };
        let reflector = reflector.build();
        tokio::select! {
            ended = reflector.run() => panic!("{ended}"),
            stored = stored => assert_eq!(stored, ["a", "b", "c"], "nothing is deleted"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sources_are_requested_at_no_older_version_than_their_own_or_the_requested() {
    let source = Arc::new(Scripted::new().list(list(40, [])));
    let merged = Merged::new(vec![Box::new(source.clone())]);
    let at_least = |version: &str| ListRequest {
        resource_version: version.to_owned(),
        not_older_than: true,
        ..ListRequest::default()
    };
    let mut whole = merged.list(ListRequest::default()).await.unwrap();
    while let Some(listed) = whole.next().await {
        listed.unwrap();
    }
    for version in ["30", "100", "0", ""] {
        // The script has no more responses.
        assert!(merged.list(at_least(version)).await.unwrap().next().now_or_never().is_none());
        let initial = WatchRequest {
            resource_version: version.to_owned(),
            send_initial_events: true,
            timeout_seconds: 300,
        };
        let changes = WatchRequest { send_initial_events: false, ..initial.clone() };
        drop((merged.watch(initial).now_or_never(), merged.watch(changes).now_or_never()));
    }
    let at_least = |version| format!("list at least {version:?} limit 0");
    let expected = [
        [at_least("40"), r#"watch initial "40""#.to_owned(), r#"watch "40""#.to_owned()],
        [at_least("100"), r#"watch initial "100""#.to_owned(), r#"watch "40""#.to_owned()],
        [at_least("0"), r#"watch initial "0""#.to_owned(), r#"watch "0""#.to_owned()],
        [at_least(""), r#"watch initial """#.to_owned(), r#"watch """#.to_owned()],
    ];
    assert_eq!(shown_requests(&source.requests())[1..], expected.concat());
}

#[tokio::test(start_paused = true)]
async fn event_returned_last_is_returned_again_by_the_next_watch() {
    let source = Arc::new(
        Scripted::new().list(list(4, [])).watch_on([event(EventType::Added, map("a", 9))]),
    );
    let merged = Merged::new(vec![Box::new(source.clone())]);
    let mut listed = merged.list(ListRequest::default()).await.unwrap();
    while let Some(listed) = listed.next().await {
        listed.unwrap();
    }
    let changes = WatchRequest {
        resource_version: "4".to_owned(),
        send_initial_events: false,
        timeout_seconds: 300,
    };
    let mut events = merged.watch(changes.clone()).await.unwrap();
    events.next().await.unwrap().unwrap();
    // The receiver of the event may not have used it.
    drop(events);
    drop(merged.watch(changes).await.unwrap());
    assert_eq!(shown_requests(&source.requests())[2], r#"watch "4""#);
}

#[tokio::test(start_paused = true)]
async fn end_of_a_sources_initial_events_without_a_version_is_rejected() {
    let ends = r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    let source =
        Scripted::new().list(list(4, [])).watch_on([event(EventType::Bookmark, ends.into())]);
    let merged = Merged::new(vec![Box::new(source)]);
    let mut listed = merged.list(ListRequest::default()).await.unwrap();
    while let Some(listed) = listed.next().await {
        listed.unwrap();
    }
    let initial = WatchRequest {
        resource_version: "4".to_owned(),
        send_initial_events: true,
        timeout_seconds: 300,
    };
    let mut events = merged.watch(initial).await.unwrap();
    let error = events.next().await.unwrap().expect_err("the version of its list would be too old");
    assert!(error.to_string().contains("without its version"), "{error}");
}
