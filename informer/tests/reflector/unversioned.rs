//! Tests of lists of version "0", which some aggregated API servers return. A watch from this
//! version sends all objects, and no deletion that happened before.

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::lister_watcher::{
    EventType, ListRequest, ListerWatcher, Merged, RawEvent, RequestError, Scripted, WatchRequest,
};
use deltafifo_informer::reflector::Reflector;
use futures_util::stream::{self, StreamExt};

use super::rig::{Rig, bookmark, event, list, map, queue, refused, shown_requests, status};

type Event = Result<RawEvent, RequestError>;

fn added(name: &str, version: u32) -> Event {
    event(EventType::Added, map(name, version))
}

fn broken_off() -> Event {
    Err(RequestError::Broken("reset by peer".into()))
}

/// Returns the next deletion. Skips the objects that a watch without a version sends first: they
/// are known from the list and delivered again.
async fn deletion(rig: &mut Rig) -> String {
    loop {
        let change = rig.changes(1).await.remove(0);
        if change.starts_with("Deleted") || change.starts_with("Missed") {
            return change;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watch_after_one_from_version_0_starts_at_the_last_object() {
    let script = Scripted::new()
        .list(list(0, [map("a", 5), map("b", 6)]))
        .watch([added("a", 5), added("b", 6)])
        .watch_on([event(EventType::Deleted, map("a", 7))]);
    let mut rig = Rig::lists(script);
    assert_eq!(deletion(&mut rig).await, "Deleted a@7");
    assert_eq!(shown_requests(&rig.requests(3).await)[1..], [r#"watch "0""#, r#"watch "6""#]);
}

#[tokio::test(start_paused = true)]
async fn newest_version_of_unordered_initial_objects_counts() {
    let script =
        Scripted::new().list(list(0, [])).watch([added("a", 9), added("b", 3), added("c", 10)]);
    assert_eq!(shown_requests(&Rig::lists(script).requests(3).await)[2], r#"watch "10""#);
}

#[tokio::test(start_paused = true)]
async fn event_after_the_initial_objects_counts_if_its_version_is_newer() {
    let empty = event(EventType::Modified, r#"{"metadata":{"name":"a"}}"#.into());
    for (last, version) in
        [(event(EventType::Modified, map("a", 12)), "12"), (empty, "9"), (bookmark(0, false), "9")]
    {
        let script = Scripted::new().list(list(0, [])).watch([
            added("a", 9),
            added("b", 3),
            last,
            broken_off(),
        ]);
        assert_eq!(
            shown_requests(&Rig::lists(script).requests(3).await)[2],
            format!("watch {version:?}")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn watch_from_version_0_broken_within_the_initial_objects_is_followed_by_a_list() {
    let script = Scripted::new()
        .list(list(0, [map("a", 5), map("b", 6)]))
        .watch([added("b", 6), broken_off()])
        .list(list(0, [map("b", 6)]));
    let mut rig = Rig::lists(script);
    assert_eq!(deletion(&mut rig).await, "Missed a", "deleted between the two");
    assert_eq!(
        shown_requests(&rig.requests(4).await)[1..],
        [r#"watch "0""#, r#"list "0" limit 500"#, r#"watch "0""#]
    );
}

#[tokio::test(start_paused = true)]
async fn watch_from_version_0_without_events_is_followed_by_a_list() {
    let lasts = || {
        let end = stream::once(async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            bookmark(0, false)
        });
        end.boxed()
    };
    let unversioned = || event(EventType::Added, r#"{"metadata":{"name":"b"}}"#.into());
    for watch in [lasts(), stream::iter([unversioned()]).chain(lasts()).boxed()] {
        let script = Scripted::new()
            .list(list(0, [map("a", 5)]))
            .watch_stream(watch)
            .list(list(0, [map("b", 6)]));
        let mut rig = Rig::lists(script);
        let mut missed = deletion(&mut rig).await;
        if missed == "Missed b" {
            missed = deletion(&mut rig).await;
        }
        assert_eq!(missed, "Missed a");
        assert_eq!(
            shown_requests(&rig.requests(4).await)[1..],
            [r#"watch "0""#, r#"list "0" limit 500"#, r#"watch "0""#]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refused_watch_from_version_0_is_followed_by_a_list() {
    for error in [refused(), status(429, "TooManyRequests")] {
        let script =
            Scripted::new().list(list(0, [map("a", 5)])).watch_fails(error).list(list(0, []));
        let mut rig = Rig::lists(script);
        assert_eq!(deletion(&mut rig).await, "Missed a");
        assert_eq!(shown_requests(&rig.requests(3).await)[2], r#"list "0" limit 500"#);
    }
}

#[tokio::test(start_paused = true)]
async fn object_of_version_0_does_not_lower_the_version() {
    let script =
        Scripted::new().list(list(4, [])).watch([added("a", 5), added("b", 0), bookmark(0, false)]);
    assert_eq!(shown_requests(&Rig::lists(script).requests(3).await)[2], r#"watch "5""#);
}

#[tokio::test(start_paused = true)]
async fn non_numeric_versions_are_continued_from_unchanged() {
    let object = |version: &str| {
        let json = serde_json::json!({ "metadata": { "name": "a", "resourceVersion": version } });
        event(EventType::Added, json.to_string().into())
    };
    let script = Scripted::new()
        .list(list(0, []))
        .watch([object("xyz"), object("abc")])
        .watch([object("def")]);
    assert_eq!(
        shown_requests(&Rig::lists(script).requests(4).await)[2..],
        [r#"watch "abc""#, r#"watch "def""#]
    );
}

#[tokio::test(start_paused = true)]
async fn parts_of_version_0_are_relisted_after_each_watch() {
    let part = |name: &str| {
        let script =
            Scripted::new().list(list(0, [map(name, 5)])).watch([added(name, 9), added(name, 3)]);
        Arc::new(script.list(list(0, [map(name, 9)])))
    };
    let (shop, bank) = (part("a"), part("b"));
    let parts: Vec<Box<dyn ListerWatcher>> = vec![Box::new(shop.clone()), Box::new(bank.clone())];
    let reflector = Reflector::builder(Merged::new(parts), queue()).watch_list(false).build();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = bank.wait_for_requests(4) => {}
    }
    for part in [shop, bank] {
        assert_eq!(
            shown_requests(&part.requests())[2..],
            [r#"list "0" limit 500"#, r#"watch "0""#]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn initial_objects_of_a_part_do_not_advance_its_version() {
    let shop = Scripted::new().list(list(0, [])).watch_on([added("a", 9), added("a", 3)]);
    let bank = Scripted::new().list(list(0, [])).watch_on([bookmark(12, false)]);
    let merged = Merged::new(vec![Box::new(shop), Box::new(bank)]);
    let mut listed = merged.list(ListRequest::default()).await.unwrap();
    while let Some(listed) = listed.next().await {
        listed.unwrap();
    }
    let request = WatchRequest { resource_version: "0".to_owned(), ..WatchRequest::default() };
    let events: Vec<_> = merged.watch(request).await.unwrap().take(3).collect().await;
    let bookmark = events
        .into_iter()
        .map(Result::unwrap)
        .find(|event| event.kind == EventType::Bookmark)
        .unwrap();
    assert!(
        String::from_utf8_lossy(&bookmark.object).contains(r#""resourceVersion":"0""#),
        "{bookmark:?}"
    );
}
