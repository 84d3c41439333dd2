//! Tests of large objects, and of objects that are too large.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_informer::lister_watcher::{
    ListRequest, ListStream, Listed, ListerWatcher, RequestError, WatchRequest, WatchStream,
};
use deltafifo_informer::reflector::{ReflectorBuilder, set_large_object_budget};
use deltafifo_informer::{KubeListerWatcher, KubeMeta};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::RwLock;
use tokio::time::{Instant, sleep, timeout};
use tower::service_fn;

use super::rig::{Queue, applied, run};

const MIB: usize = 1 << 20;
const HOUR: Duration = Duration::from_secs(3_600);

/// A lock for the budget of large objects, which is global to the process. A test that sets the
/// budget holds the lock for writing, so that it runs alone.
static BUDGET: RwLock<()> = RwLock::const_new(());

type Frames = BoxStream<'static, Bytes>;

/// Returns a source that answers each list with the next body of `lists`, and each watch with the
/// next of `watches`. It sends nothing to requests after the last body.
fn source<K: kube::Resource<DynamicType = ()>>(
    lists: impl IntoIterator<Item = Frames>,
    watches: impl IntoIterator<Item = Frames>,
) -> KubeListerWatcher {
    let bodies = Mutex::new((
        lists.into_iter().collect::<VecDeque<_>>(),
        watches.into_iter().collect::<VecDeque<_>>(),
    ));
    let answer = move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let mut bodies = bodies.lock();
        let body = if is_watch { bodies.1.pop_front() } else { bodies.0.pop_front() };
        let frames = body.unwrap_or_else(|| stream::pending().boxed());
        async {
            Ok::<_, Infallible>(Response::new(StreamBody::new(
                frames.map(|frame| Ok::<_, Infallible>(Frame::data(frame))),
            )))
        }
    };
    KubeListerWatcher::new::<K>(Client::new(service_fn(answer), "default"), &(), None)
}

/// Returns a body in frames of this many bytes.
fn framed(body: String, frame: usize) -> Frames {
    let body = Bytes::from(body);
    let frames: Vec<_> = body.chunks(frame).map(|frame| body.slice_ref(frame)).collect();
    stream::iter(frames).boxed()
}

/// Returns a body in frames that stays open.
fn open(body: String, frame: usize) -> Frames {
    framed(body, frame).chain(stream::pending()).boxed()
}

/// Returns a `ConfigMap` of `bytes` bytes of JSON, or the smallest possible one if that is more.
fn map(name: &str, version: u32, bytes: usize) -> String {
    let map = |data: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}},"data":{{"x":"{data}"}}}}"#
        )
    };
    let small = map("");
    map(&"x".repeat(bytes.saturating_sub(small.len())))
}

fn list(version: u32, items: &[String]) -> String {
    let items = items.join(",");
    format!(
        r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"{version}"}},"items":[{items}]}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(version: u32, ends: bool) -> String {
    let annotations = json!({ "k8s.io/initial-events-end": ends.to_string() });
    let metadata = json!({ "resourceVersion": version.to_string(), "annotations": annotations });
    event("BOOKMARK", &json!({ "metadata": metadata }).to_string())
}

const EXPIRED: &str =
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n";

#[derive(Clone, Copy, Debug)]
enum Way {
    List,
    Stream,
    Watch,
}

/// Returns a source that delivers these objects in the given way, and then the object `c` of
/// version 100 by a watch. With `Watch` the objects are events of a watch after an empty list.
fn by(way: Way, objects: &[String], frame: usize) -> KubeListerWatcher {
    let added = objects.iter().map(|object| event("ADDED", object)).collect::<String>();
    let later = event("ADDED", &map("c", 100, 0)) + &bookmark(100, false);
    match way {
        Way::List => source::<ConfigMap>([framed(list(50, objects), frame)], [open(later, frame)]),
        Way::Stream => source::<ConfigMap>([], [open(added + &bookmark(50, true) + &later, frame)]),
        Way::Watch => {
            source::<ConfigMap>([framed(list(1, &[]), frame)], [open(added + &later, frame)])
        }
    }
}

/// Returns names and versions of the stored objects, once everything up to `version` is stored.
async fn stored_at(fifo: &Queue<ConfigMap>, version: &str) -> Vec<String> {
    let applied = timeout(HOUR, fifo.store().wait_for_resource_version_async(version)).await;
    applied.expect("later events arrive").expect("the queue is open");
    let shown = |map: &Arc<ConfigMap>| {
        let metadata = &map.metadata;
        format!(
            "{}@{}",
            metadata.name.as_deref().unwrap_or(""),
            metadata.resource_version.as_deref().unwrap_or("")
        )
    };
    let mut stored: Vec<_> = fifo.store().list().iter().map(shown).collect();
    stored.sort();
    stored
}

fn streaming(way: Way) -> impl FnOnce(ReflectorBuilder<ConfigMap>) -> ReflectorBuilder<ConfigMap> {
    move |builder| builder.watch_list(matches!(way, Way::Stream))
}

#[tokio::test(start_paused = true)]
async fn object_of_nine_mib_blocks_nothing_in_list_stream_or_watch() {
    let _shared = BUDGET.read().await;
    for way in [Way::List, Way::Stream, Way::Watch] {
        for frame in [16 << 10, MIB, usize::MAX] {
            let objects = [map("a", 5, 7 * MIB), map("b", 6, 9 * MIB)];
            let fifo = applied();
            let mut errors = run(by(way, &objects, frame), &fifo, streaming(way));
            assert_eq!(
                stored_at(&fifo, "100").await,
                ["a@5", "b@6", "c@100"],
                "{way:?} by {frame}"
            );
            assert!(errors.try_recv().is_err(), "{way:?} by {frame}");
            fifo.close();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn size_limit_is_equal_for_list_stream_and_watch() {
    let _shared = BUDGET.read().await;
    for limit in [1000, 2 * MIB] {
        for way in [Way::List, Way::Stream, Way::Watch] {
            for frame in [16 << 10, 700_000, usize::MAX] {
                let objects = [map("a", 5, limit), map("b", 6, limit + 1), map("d", 7, limit - 1)];
                let fifo = applied();
                let mut errors = run(by(way, &objects, frame), &fifo, |builder| {
                    streaming(way)(builder.max_object_size(limit))
                });
                assert_eq!(
                    stored_at(&fifo, "100").await,
                    ["a@5", "c@100", "d@7"],
                    "{way:?} by {frame}, limit {limit}"
                );
                let error = errors.recv().await.unwrap();
                let parts = [
                    r#"object "n/b""#,
                    &format!("{} bytes", limit + 1),
                    &format!("max_object_size ({limit})"),
                ];
                assert!(
                    parts.iter().all(|part| error.contains(part)),
                    "{way:?} by {frame}, limit {limit}: {error}"
                );
                assert!(errors.try_recv().is_err(), "{way:?} by {frame}, limit {limit}");
                fifo.close();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pod_whose_arguments_grow_sixfold_as_json_is_read() {
    let _shared = BUDGET.read().await;
    let arguments = "\\u003c".repeat(1_468_006);
    let pod = format!(
        r#"{{"metadata":{{"name":"a","resourceVersion":"5"}},"spec":{{"containers":[{{"name":"c","args":["{arguments}"]}}]}}}}"#
    );
    assert!(pod.len() > 8_800_000);
    let body = list(5, std::slice::from_ref(&pod));
    let watch = open(event("MODIFIED", &pod.replace(r#""5""#, r#""6""#)), 64 << 10);
    let fifo = applied::<Pod>();
    let source = source::<Pod>([framed(body, 64 << 10)], [watch]);
    let mut errors = run(source, &fifo, |builder| builder.watch_list(false));
    timeout(HOUR, fifo.store().wait_for_resource_version_async("6"))
        .await
        .expect("the version arrives")
        .unwrap();
    let pod = fifo.store().get_by_key("a").expect("the object is stored");
    let arguments = pod.spec.as_ref().unwrap().containers[0].args.as_ref().unwrap();
    assert_eq!(arguments[0].len(), 1_468_006);
    assert!(errors.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn oversized_object_keeps_its_last_state_and_its_deletion_counts() {
    let _shared = BUDGET.read().await;
    for frame in [16 << 10, usize::MAX] {
        let big = |name, version| map(name, version, 2 * MIB + 1);
        let small = |name, version| map(name, version, 0);
        let first = [small("a", 1), small("b", 2), small("d", 3)];
        let changes = event("MODIFIED", &big("a", 11))
            + &event("DELETED", &big("d", 12))
            + &bookmark(13, false)
            + EXPIRED;
        let second = [big("a", 11), small("e", 14)];
        let later = open(event("ADDED", &small("c", 21)), frame);
        let lists = [framed(list(10, &first), frame), framed(list(20, &second), frame)];
        let source = source::<ConfigMap>(lists, [framed(changes, frame), later]);
        let fifo = applied();
        let mut errors =
            run(source, &fifo, |builder| builder.watch_list(false).max_object_size(2 * MIB));
        assert_eq!(stored_at(&fifo, "13").await, ["a@1", "b@2"], "by {frame}: d is deleted");
        assert_eq!(
            stored_at(&fifo, "21").await,
            ["a@1", "c@21", "e@14"],
            "by {frame}: a is kept, b is deleted"
        );
        for key in ["n/a", "n/d", "410", "n/a"] {
            let error = errors.recv().await.unwrap();
            assert!(error.contains(key), "by {frame}: {error}");
        }
        assert!(errors.try_recv().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn name_of_an_oversized_object_is_found_behind_the_limit() {
    let _shared = BUDGET.read().await;
    let late = |version| {
        let data = "x".repeat(3 * MIB);
        format!(
            r#"{{"data":{{"x":"{data}"}},"metadata":{{"name":"a","namespace":"n","resourceVersion":"{version}"}}}}"#
        )
    };
    let first = [map("a", 1, 0), map("b", 2, 0)];
    let lists = [framed(list(10, &first), 64 << 10), framed(list(20, &[late(15)]), 64 << 10)];
    let watches = [
        framed(event("MODIFIED", &late(11)) + EXPIRED, 64 << 10),
        open(bookmark(21, false), 64 << 10),
    ];
    let fifo = applied();
    let choose = |builder: ReflectorBuilder<_>| builder.watch_list(false).max_object_size(2 * MIB);
    let mut errors = run(source::<ConfigMap>(lists, watches), &fifo, choose);
    assert_eq!(stored_at(&fifo, "21").await, ["a@1"]);
    for key in [r#"object "n/a""#, "410", r#"object "n/a""#] {
        let error = errors.recv().await.unwrap();
        assert!(error.contains(key), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_object_without_a_name_prevents_deletions_by_its_list_and_the_next() {
    let _shared = BUDGET.read().await;
    let nameless = format!(
        r#"{{"metadata":{{"resourceVersion":"11"}},"data":{{"x":"{}"}}}}"#,
        "x".repeat(3 * MIB)
    );
    let small = |name| map(name, 1, 0);
    for frame in [64 << 10, usize::MAX] {
        // First in a watch, then in a list, then no longer.
        let lists = [
            list(10, &[small("a"), small("b"), small("d")]),
            list(20, &[small("b")]),
            list(30, &[small("d"), nameless.clone()]),
            list(40, &[small("d")]),
        ];
        let watches = [
            event("MODIFIED", &nameless) + EXPIRED,
            bookmark(21, false) + EXPIRED,
            bookmark(31, false) + EXPIRED,
        ];
        let lists = lists.map(|list| framed(list, frame));
        let watches = watches
            .map(|watch| framed(watch, frame))
            .into_iter()
            .chain([open(bookmark(41, false), frame)]);
        let fifo = applied();
        let choose =
            |builder: ReflectorBuilder<_>| builder.watch_list(false).max_object_size(2 * MIB);
        let mut errors = run(source::<ConfigMap>(lists, watches), &fifo, choose);
        assert!(errors.recv().await.unwrap().contains("without a name"));
        assert_eq!(stored_at(&fifo, "21").await, ["a@1", "b@1", "d@1"], "by {frame}");
        assert_eq!(stored_at(&fifo, "31").await, ["a@1", "b@1", "d@1"], "by {frame}");
        assert_eq!(stored_at(&fifo, "41").await, ["d@1"], "by {frame}");
    }
}

/// Returns a source of a list with one object of 3 MiB, and a counter of the bytes that are read
/// from it. The frames have 64 KiB each. The list pauses for `stops` after 2 MiB.
fn counted(stops: Duration) -> (KubeListerWatcher, Arc<AtomicUsize>) {
    let (read, counts) = (Arc::new(AtomicUsize::new(0)), Arc::<AtomicUsize>::default());
    let counter = counts.clone();
    let frames = framed(list(5, &[map("a", 5, 3 * MIB)]), 64 << 10).then(move |frame| {
        let (before, counter) = (read.fetch_add(1, Ordering::SeqCst), counter.clone());
        async move {
            if before == 32 {
                sleep(stops).await;
            }
            counter.fetch_add(frame.len(), Ordering::SeqCst);
            frame
        }
    });
    (source::<ConfigMap>([frames.boxed()], []), counts)
}

/// Waits until no byte is read for a second. Returns the number of bytes read.
async fn at_rest(counts: &AtomicUsize) -> usize {
    loop {
        let before = counts.load(Ordering::SeqCst);
        sleep(Duration::from_secs(1)).await;
        if counts.load(Ordering::SeqCst) == before {
            return before;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reflectors_read_large_objects_in_turn_if_the_budget_has_room_for_one() {
    let _alone = BUDGET.write().await;
    set_large_object_budget(4 * MIB);
    let lists =
        |builder: ReflectorBuilder<ConfigMap>| builder.watch_list(false).max_object_size(4 * MIB);
    let ((first, first_read), (second, second_read)) =
        (counted(Duration::from_secs(5)), counted(Duration::ZERO));
    let (one, other) = (applied(), applied());
    let (_errors, _) = (run(first, &one, lists), at_rest(&first_read).await);
    let mut errors = run(second, &other, |builder| lists(builder).silence(Duration::from_secs(2)));
    let read = at_rest(&second_read).await;
    assert!((MIB..MIB + (128 << 10)).contains(&read), "a large read waits: {read}");
    assert!(!one.has_synced());
    timeout(Duration::from_secs(9), other.wait_for_sync_async())
        .await
        .expect("it continues after the first")
        .unwrap();
    assert!(one.has_synced());
    assert!(errors.try_recv().is_err(), "waiting for room is not silence");
    set_large_object_budget(128 * MIB);
}

#[tokio::test(start_paused = true)]
async fn large_objects_of_one_reflector_do_not_wait_for_each_other() {
    let _alone = BUDGET.write().await;
    set_large_object_budget(4 * MIB);
    for way in [Way::List, Way::Stream, Way::Watch] {
        for frame in [64 << 10, usize::MAX] {
            let objects = ["a", "b", "d", "e"].map(|name| map(name, 5, 3 * MIB));
            let (began, fifo) = (Instant::now(), applied());
            let choose =
                |builder: ReflectorBuilder<_>| streaming(way)(builder.max_object_size(4 * MIB));
            let _errors = run(by(way, &objects, frame), &fifo, choose);
            assert_eq!(
                stored_at(&fifo, "100").await,
                ["a@5", "b@5", "c@100", "d@5", "e@5"],
                "{way:?} by {frame}"
            );
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "{way:?} by {frame}: {:?}",
                began.elapsed()
            );
            fifo.close();
        }
    }
    set_large_object_budget(128 * MIB);
}

#[tokio::test(start_paused = true)]
async fn reflector_continues_although_stuck_ones_hold_the_budget() {
    let _alone = BUDGET.write().await;
    set_large_object_budget(4 * MIB);
    let lists =
        |builder: ReflectorBuilder<ConfigMap>| builder.watch_list(false).max_object_size(4 * MIB);
    // One server that stops sending, and one queue that is never emptied.
    let store = || Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
    let full = Arc::new(DeltaFifo::over(store()).high_water(1).build());
    let many = [map("x", 1, 0), map("a", 5, 3 * MIB), map("b", 6, 3 * MIB), map("d", 7, 3 * MIB)];
    let stuck = [
        (counted(HOUR).0, applied()),
        (source::<ConfigMap>([framed(list(9, &many), 64 << 10)], []), full),
    ];
    for (stuck, queue) in stuck {
        let stuck = tokio::spawn({
            let reflector = lists(deltafifo_informer::Reflector::builder(stuck, queue)).build();
            async move { reflector.run().await }
        });
        sleep(Duration::from_secs(1)).await;
        let (source, _) = counted(Duration::ZERO);
        let (began, fifo) = (Instant::now(), applied());
        let mut errors =
            run(source, &fifo, |builder| lists(builder).silence(Duration::from_secs(2)));
        timeout(HOUR, fifo.wait_for_sync_async()).await.expect("not blocked").unwrap();
        assert!((10..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert!(errors.try_recv().is_err());
        stuck.abort();
        let _ = stuck.await;
    }
    set_large_object_budget(128 * MIB);
}

/// Returns a body that sends one frame every `every`.
fn slow(body: String, frame: usize, every: Duration) -> Frames {
    let each = move |frame| async move {
        sleep(every).await;
        frame
    };
    framed(body, frame).then(each).boxed()
}

/// A source whose lists end after their first error, even if the error concerns one object only.
struct EndsWithErrors(KubeListerWatcher);

impl ListerWatcher for EndsWithErrors {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream, RequestError>> {
        Box::pin(async move {
            let list = self.0.list(request).await?;
            let mut is_over = false;
            let whole = move |part: &Result<Listed, RequestError>| {
                let goes_on = !is_over;
                is_over |= part.is_err();
                std::future::ready(goes_on)
            };
            Ok(list.take_while(whole).boxed())
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, RequestError>> {
        self.0.watch(request)
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_ends_at_an_oversized_object_deletes_nothing() {
    let _shared = BUDGET.read().await;
    let all = |version, bytes| {
        list(version, &[map("a", version, 0), map("b", version, bytes), map("c", version, 0)])
    };
    let lists = [framed(all(5, 0), MIB), framed(all(9, 65 * MIB), MIB)];
    let watches = [framed(EXPIRED.to_owned(), MIB)];
    let (fifo, wrapper) = (applied(), EndsWithErrors(source::<ConfigMap>(lists, watches)));
    let mut errors = run(wrapper, &fifo, |builder| builder.watch_list(false));
    assert_eq!(stored_at(&fifo, "5").await, ["a@5", "b@5", "c@5"]);
    let cut = loop {
        let error = errors.recv().await.unwrap();
        if !error.contains("410") {
            break error;
        }
    };
    assert!(cut.contains("object that is too large"), "{cut}");
    assert_eq!(fifo.store().list().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn slowly_received_object_is_not_reported_as_silence() {
    let _shared = BUDGET.read().await;
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    // The item of a list has less than one MiB and takes two minutes. The watch event has 12 MiB
    // and takes longer than the watch may last.
    let item = slow(list(5, &[map("a", 5, MIB - 100)]), 8 << 10, second);
    let event = slow(event("MODIFIED", &map("a", 6, 12 * MIB)), 16 << 10, second);
    let (fifo, watch) = (applied(), event.chain(open(bookmark(7, false), MIB)).boxed());
    let choose = |builder: ReflectorBuilder<_>| builder.watch_list(false).least_watch(minute);
    let mut errors = run(source::<ConfigMap>([item], [watch]), &fifo, choose);
    assert_eq!(stored_at(&fifo, "7").await, ["a@6"]);
    assert!(errors.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn watch_with_only_unknown_events_is_neither_silent_nor_empty() {
    let unknown = || {
        let each = |()| async {
            sleep(Duration::from_secs(10)).await;
            Bytes::from_static(b"{\"type\":\"PROGRESS\"}\n")
        };
        stream::repeat(()).then(each).boxed()
    };
    let (fifo, first) = (applied::<ConfigMap>(), framed(list(5, &[]), MIB));
    let watches = std::iter::repeat_with(unknown).take(20);
    let mut errors =
        run(source::<ConfigMap>([first], watches), &fifo, |builder| builder.watch_list(false));
    sleep(HOUR).await;
    assert!(errors.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn list_of_many_large_objects_completes_although_the_budget_is_stuck() {
    let _alone = BUDGET.write().await;
    set_large_object_budget(2 * MIB);
    let (stuck, _) = counted(2 * HOUR);
    let choose =
        |builder: ReflectorBuilder<ConfigMap>| builder.watch_list(false).max_object_size(4 * MIB);
    let _stuck = run(stuck, &applied(), choose);
    sleep(Duration::from_secs(1)).await;
    // Two reflectors, to show that a reflector without a share does not block the other.
    let many: Vec<_> = (0..30).map(|number| map(&number.to_string(), 1, MIB + 1)).collect();
    let (began, queues) = (Instant::now(), [applied(), applied()]);
    let mut errors = Vec::new();
    for queue in &queues {
        errors.push(run(
            source::<ConfigMap>([framed(list(9, &many), 64 << 10)], []),
            queue,
            choose,
        ));
        sleep(Duration::from_secs(5)).await;
    }
    for (queue, errors) in queues.iter().zip(&mut errors) {
        timeout(HOUR, queue.wait_for_sync_async()).await.expect("not blocked").unwrap();
        assert!(errors.try_recv().is_err(), "waiting for room does not count as server time");
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    set_large_object_budget(128 * MIB);
}
