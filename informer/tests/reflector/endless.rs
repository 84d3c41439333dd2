//! Tests of lists and streamed lists that never end: the reflector ends each of them, and then
//! uses another kind of list.

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::lister_watcher::{
    EventType, ListRequest, ListerWatcher, Merged, RawEvent, Request, RequestError, Scripted,
    WatchStream,
};
use deltafifo_informer::reflector::Reflector;
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, sleep};

use super::rig::{
    Rig, bookmark, cut, event, expired, items, list, map, page, queue, shown_requests, status,
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

type Event = Result<RawEvent, RequestError>;

/// Returns a stream of `times` ADDED events, one every `every`.
fn added(every: Duration, times: u32) -> impl futures_util::Stream<Item = Event> + Send + Unpin {
    stream::iter(0..times)
        .then(move |number| async move {
            sleep(every).await;
            event(EventType::Added, map("a", 1 + number))
        })
        .boxed()
}

fn then(
    events: impl futures_util::Stream<Item = Event> + Send + 'static,
    end: impl IntoIterator<Item = Event>,
) -> WatchStream {
    events.chain(stream::iter(end.into_iter().collect::<Vec<_>>())).boxed()
}

fn rig(script: Scripted) -> Rig {
    Rig::start(script, |builder| builder)
}

/// Returns, for each watch request, whether it asks for initial events.
fn initial(requests: &[Request]) -> Vec<bool> {
    let watches = requests.iter().filter_map(|request| match request {
        Request::Watch(watch) => Some(watch.send_initial_events),
        Request::List(_) => None,
    });
    watches.collect()
}

#[tokio::test(start_paused = true)]
async fn streamed_list_without_an_end_is_replaced_by_a_list_after_ten_minutes() {
    let script = Scripted::new()
        .watch_stream(added(Duration::from_secs(5), u32::MAX).boxed())
        .list(list(900, [map("a", 900)]));
    let (began, mut rig) = (Instant::now(), rig(script));
    let error = rig.error().await;
    assert_eq!(began.elapsed().as_secs(), 600);
    assert!(error.contains("did not end") && error.contains("600"), "{error}");
    let requests = shown_requests(&rig.requests(3).await);
    assert_eq!(requests, [r#"watch initial """#, r#"list "" limit 500"#, r#"watch "900""#]);
    assert_eq!(began.elapsed().as_secs(), 600, "at once");
    rig.fifo.store().wait_for_resource_version_async("900").await.unwrap();
}

#[tokio::test]
async fn streamed_list_with_continuous_events_ends_as_well() {
    let flood = stream::repeat_with(|| event(EventType::Added, map("a", 1))).boxed();
    let script = Scripted::new().watch_stream(flood).list(list(7, [map("a", 1)]));
    let mut rig =
        Rig::start(script, |builder| builder.watch_list_timeout(Duration::from_millis(50)));
    assert!(rig.error().await.contains("did not end"));
    assert_eq!(rig.requests(3).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn slow_streamed_list_that_ends_in_time_is_used() {
    let script = Scripted::new().watch_stream(then(added(MINUTE, 9), [bookmark(20, true)]));
    let rig = rig(script);
    rig.fifo.store().wait_for_resource_version_async("20").await.unwrap();
    let requests = rig.requests(1).await;
    let Request::Watch(watch) = &requests[0] else { panic!("{requests:?}") };
    assert_eq!(watch.timeout_seconds, 600, "the server must not end it earlier");
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_slow_streamed_list_does_not_last_longer_than_others() {
    let silent = stream::iter([bookmark(7, true)]).chain(stream::pending());
    let (began, rig) = (Instant::now(), rig(Scripted::new().watch_stream(silent.boxed())));
    assert_eq!(shown_requests(&rig.requests(2).await)[1], r#"watch "7""#);
    assert!((300..=600).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn streamed_list_that_the_server_ends_after_minutes_is_replaced_by_a_list_at_once() {
    for last in [None, Some(RequestError::Broken("reset by peer".into()))] {
        let events = added(Duration::from_secs(5), 7 * 12);
        let script = Scripted::new()
            .watch_stream(then(events, last.map(Err)))
            .list(list(900, [map("a", 900)]));
        let (began, rig) = (Instant::now(), rig(script));
        assert_eq!(initial(&rig.requests(3).await), [true, false]);
        assert_eq!(began.elapsed().as_secs(), 420);
    }
}

#[tokio::test(start_paused = true)]
async fn streamed_lists_that_break_and_stall_share_one_time_limit() {
    let stalls = || {
        added(Duration::from_secs(70), 1)
            .chain(stream::iter([Err(RequestError::Broken("reset".into()))]))
    };
    let script = Scripted::new()
        .watch_stream(stalls().boxed())
        .watch_stream(added(Duration::from_secs(5), u32::MAX).boxed())
        .list(list(900, [map("a", 900)]));
    let (began, rig) = (Instant::now(), rig(script));
    assert_eq!(initial(&rig.requests(4).await), [true, true, false]);
    assert_eq!(began.elapsed().as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn after_an_endless_streamed_list_plain_lists_are_used_for_an_hour() {
    let lasts = |time: Duration| {
        stream::once(async move {
            sleep(time).await;
            Err(expired())
        })
    };
    let script = Scripted::new()
        .watch_stream(added(Duration::from_secs(5), u32::MAX).boxed())
        .list(list(900, [map("a", 900)]))
        .watch_stream(lasts(MINUTE).boxed())
        .list(list(901, [map("a", 900)]))
        .watch_stream(lasts(HOUR).boxed())
        .watch_on([event(EventType::Added, map("a", 900)), bookmark(902, true)]);
    let rig = Rig::start(script, |builder| builder.least_watch(2 * HOUR));
    rig.fifo.store().wait_for_resource_version_async("902").await.unwrap();
    assert_eq!(initial(&rig.requests(6).await), [true, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn refused_streamed_list_is_requested_again_at_the_next_relist() {
    for refused in [status(422, "Invalid"), status(500, "InternalError")] {
        let script = Scripted::new()
            .watch_fails(refused)
            .list(list(7, []))
            .watch([bookmark(8, false), Err(expired())])
            .watch_on([bookmark(9, true)]);
        assert_eq!(initial(&rig(script).requests(4).await), [true, false, true], "one request");
    }
}

#[tokio::test(start_paused = true)]
async fn streamed_lists_are_suspended_after_three_broken_ones() {
    let script = (0..3).fold(Scripted::new(), |script, _| {
        script.watch_stream(cut([event(EventType::Added, map("a", 5))]))
    });
    let script =
        script.list(list(7, [])).watch([bookmark(8, false), Err(expired())]).list(list(9, []));
    assert_eq!(initial(&rig(script).requests(7).await), [true, true, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_without_objects_are_not_reported_as_silence() {
    let bookmarks = stream::iter(0..u32::MAX).then(|number| async move {
        sleep(Duration::from_secs(20)).await;
        bookmark(100 + number, false)
    });
    let mut rig = rig(Scripted::new().watch_stream(bookmarks.boxed()).list(list(200, [])));
    let error = rig.error().await;
    assert!(!error.contains("sent nothing") && error.contains("did not end"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn list_whose_page_token_points_to_itself_is_abandoned() {
    let script = Scripted::new()
        .list([page(7, Some("t1")), items([map("a", 5)])])
        .list([page(7, Some("t1")), items([map("b", 6)])])
        .list(list(8, [map("a", 5), map("b", 6)]));
    let mut rig = Rig::lists(script);
    let error = rig.error().await;
    assert!(error.contains("continue token"), "{error}");
    assert_eq!(rig.requests(4).await.len(), 4, "requested again, then watched");
}

#[tokio::test(start_paused = true)]
async fn list_whose_page_tokens_form_a_cycle_is_abandoned() {
    let tokens = ["t1", "t2", "t3", "t2"];
    let script =
        tokens.iter().fold(Scripted::new(), |script, token| script.list([page(7, Some(token))]));
    let mut rig = Rig::lists(script.list(list(8, [])));
    let error = rig.error().await;
    assert!(error.contains("continue token"), "{error}");
    assert_eq!(rig.requests(6).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn list_is_abandoned_after_an_hour() {
    let pages = (0..u32::MAX).map(|number| {
        stream::once(async move {
            sleep(MINUTE).await;
            page(7, Some(&number.to_string()))
        })
    });
    let script =
        pages.take(100).fold(Scripted::new(), |script, page| script.list_stream(page.boxed()));
    let (began, mut rig) = (Instant::now(), Rig::lists(script));
    let error = rig.error().await;
    assert!(error.contains("did not end"), "{error}");
    assert_eq!(began.elapsed().as_secs(), 3_600);
}

#[tokio::test(start_paused = true)]
async fn list_with_endless_items_is_abandoned() {
    let endless = stream::iter([page(7, None)]).chain(stream::iter(0..u32::MAX).then(|_| async {
        sleep(MINUTE).await;
        items([map("a", 5)])
    }));
    let (began, mut rig) = (
        Instant::now(),
        Rig::lists(Scripted::new().list_stream(endless.boxed()).list(list(8, []))),
    );
    assert!(rig.error().await.contains("did not end"));
    assert_eq!(began.elapsed().as_secs(), 3_600);
}

#[tokio::test(start_paused = true)]
async fn empty_parts_are_not_reported_as_silent() {
    let slow = || {
        let page = stream::once(async {
            sleep(MINUTE).await;
            page(7, None)
        });
        Arc::new(Scripted::new().list_stream(page.boxed()))
    };
    let last = slow();
    let parts: Vec<Box<dyn ListerWatcher>> =
        vec![Box::new(slow()), Box::new(slow()), Box::new(last.clone())];
    let reflector = Reflector::builder(Merged::new(parts), queue())
        .watch_list(false)
        .on_error(|error| panic!("{error}"))
        .build();
    let began = Instant::now();
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = last.wait_for_requests(2) => assert_eq!(began.elapsed(), 3 * MINUTE),
    }
}

#[tokio::test(start_paused = true)]
async fn part_whose_page_tokens_form_a_cycle_is_abandoned() {
    let part = Scripted::new().list([page(7, Some("t1"))]).list([page(7, Some("t1"))]);
    let merged = Merged::new(vec![Box::new(part)]);
    let listed: Vec<_> = merged.list(ListRequest::default()).await.unwrap().collect().await;
    let error = listed.into_iter().find_map(Result::err).expect("the list ends with an error");
    assert!(error.to_string().contains("continue token"), "{error}");
}
