//! Tests of the status of a reflector's watch.

use std::time::Duration;

use deltafifo_informer::lister_watcher::{EventType, Scripted};
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, advance, sleep, timeout};

use super::rig::{Rig, bookmark, event, list, map, status};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn status_is_empty_before_the_first_answer() {
    let rig = Rig::lists(Scripted::new());
    rig.requests(1).await;
    let status = rig.reflector.watch_status();
    assert!(
        !status.is_open && status.last_event.is_none() && status.last_error.is_none(),
        "{status:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn end_of_a_list_counts_as_an_event() {
    let rig = Rig::lists(
        Scripted::new().list(list(4, [map("a", 3)])).watch_fails(status(500, "InternalError")),
    );
    let began = Instant::now();
    rig.fifo.store().wait_for_resource_version_async("4").await.unwrap();
    rig.requests(2).await;
    let status = rig.reflector.watch_status();
    assert!(!status.is_open && status.last_event.is_some_and(|last| last >= began), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn watch_is_open_until_it_ends_and_its_last_event_and_error_are_known() {
    let ends = stream::once(async {
        sleep(60 * SECOND).await;
        Err(status(500, "InternalError"))
    });
    let events = stream::iter([event(EventType::Added, map("a", 5))]).chain(ends);
    let mut rig = Rig::lists(Scripted::new().list(list(4, [])).watch_stream(events.boxed()));
    rig.changes(1).await;
    let last = Instant::now();
    advance(30 * SECOND).await;
    let open = rig.reflector.watch_status();
    assert!(open.is_open && open.last_error.is_none(), "{open:?}");
    assert_eq!(open.last_event, Some(last));
    let error = rig.error().await;
    let ended = rig.reflector.watch_status();
    assert!(!ended.is_open, "{ended:?}");
    assert_eq!(ended.last_event, Some(last), "an error is not an event");
    let last_error = ended.last_error.expect("the watch failed");
    assert_eq!((last_error.message, last_error.at.duration_since(last)), (error, 60 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn watch_that_sends_a_list_first_is_open_and_its_objects_count() {
    let objects = stream::iter([event(EventType::Added, map("a", 5))]).chain(stream::once(async {
        sleep(10 * SECOND).await;
        bookmark(6, true)
    }));
    let script = Scripted::new().watch_stream(objects.chain(stream::pending()).boxed());
    let (began, rig) = (Instant::now(), Rig::start(script, |builder| builder));
    sleep(SECOND).await;
    let listing = rig.reflector.watch_status();
    assert!(listing.is_open && listing.last_event.is_some_and(|last| last == began), "{listing:?}");
    rig.fifo.store().wait_for_resource_version_async("6").await.unwrap();
    let watching = rig.reflector.watch_status();
    assert!(
        watching.is_open && watching.last_event.is_some_and(|last| last >= began + 10 * SECOND),
        "{watching:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_watch_is_open_after_a_run() {
    let rig = Rig::lists(Scripted::new().list(list(4, [])).watch_on([bookmark(5, false)]));
    rig.fifo.store().wait_for_resource_version_async("5").await.unwrap();
    assert!(rig.reflector.watch_status().is_open);
    rig.fifo.close();
    let reflector = rig.reflector.clone();
    timeout(SECOND, rig.ended()).await.expect("the queue is closed");
    assert!(!reflector.watch_status().is_open);
}
