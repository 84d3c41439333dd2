//! Tests of the subscribers of a shared store, beside kube's where they differ.

use deltafifo_informer::runtime::WatchStreamExt;
use deltafifo_informer::runtime::reflector::{ReflectHandle, Writer, store, store_shared};
use deltafifo_informer::runtime::watcher::{self, Event};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector as kubes;

use super::rig::{map, name, typed, value};

type WatcherEvent = Event<ConfigMap>;

/// A polled reflector, or the poll of it that waits.
struct Root<S>(S);

impl<S: Stream<Item = watcher::Result<WatcherEvent>> + Unpin> Root<S> {
    /// Polls until the reflector waits or ends. Returns the number of events that it yielded.
    fn poll(&mut self) -> usize {
        std::iter::from_fn(|| self.0.next().now_or_never().flatten()).count()
    }
}

fn root(
    events: impl IntoIterator<Item = WatcherEvent>,
    buffer: usize,
) -> (Root<impl Stream<Item = watcher::Result<WatcherEvent>> + Unpin>, ReflectHandle<ConfigMap>) {
    let (_, writer) = store_shared(buffer);
    let handle = writer.subscribe().expect("the store is shared");
    let events: Vec<_> = events.into_iter().map(Ok).collect();
    (Root(Box::pin(stream::iter(events).reflect_shared(writer))), handle)
}

fn shown(map: &ConfigMap) -> String {
    format!("{}={}", name(map), value(map))
}

/// Returns what the handle yields without waiting.
fn received(handle: &mut ReflectHandle<ConfigMap>) -> Vec<String> {
    std::iter::from_fn(|| handle.next().now_or_never().flatten()).map(|map| shown(&map)).collect()
}

fn has_ended(handle: &mut ReflectHandle<ConfigMap>) -> bool {
    matches!(handle.next().now_or_never(), Some(None))
}

fn applied(versions: impl IntoIterator<Item = u32>) -> impl Iterator<Item = WatcherEvent> {
    versions.into_iter().map(|version| Event::Apply(typed("a", version)))
}

#[test]
fn slow_subscriber_holds_the_reflector_up_and_loses_nothing() {
    let (mut root, mut slow) = root(applied(1..=10), 2);
    let mut fast = slow.clone();
    let (mut by_fast, mut by_slow) = (Vec::new(), Vec::new());
    assert_eq!(root.poll(), 2);
    for _ in 1..=10 {
        by_fast.extend(received(&mut fast));
        by_slow.extend(slow.next().now_or_never().flatten().map(|map| shown(&map)));
        root.poll();
    }
    by_fast.extend(received(&mut fast));
    let all: Vec<_> = (1..=10).map(|version| format!("a={version}")).collect();
    assert_eq!((by_fast, by_slow), (all.clone(), all));
    assert!(has_ended(&mut fast) && has_ended(&mut slow));
}

#[test]
fn list_longer_than_the_buffer_waits_for_the_subscriber() {
    let list = (0..5).map(|number| Event::InitApply(typed(&number.to_string(), number)));
    let list = [Event::Init].into_iter().chain(list).chain([Event::InitDone]);
    let (mut root, mut handle) = root(list, 2);
    assert_eq!(root.poll(), 6, "all but the end");
    assert_eq!(handle.reader().len(), 5, "the store has the list before it is delivered");
    let mut all = Vec::new();
    while all.len() < 5 {
        let received = received(&mut handle);
        assert!((1..=2).contains(&received.len()), "{received:?}");
        all.extend(received);
        root.poll();
    }
    all.sort();
    assert_eq!(all, ["0=0", "1=1", "2=2", "3=3", "4=4"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_reflector_is_woken_by_a_poll_and_by_the_drop_of_a_subscriber() {
    let (root, mut handle) = root(applied(1..=4), 1);
    let lagging = handle.clone();
    let root = tokio::spawn(root.0.count());
    assert_eq!(handle.next().await.map(|map| shown(&map)).as_deref(), Some("a=1"));
    drop(lagging);
    for version in 2..=4 {
        let next = handle.next().await.map(|map| shown(&map));
        assert_eq!(next, Some(format!("a={version}")));
    }
    assert!(handle.next().await.is_none());
    assert_eq!(root.await.unwrap(), 4);
}

#[test]
fn clone_receives_what_the_original_has_not_received() {
    let (mut root, mut handle) = root(applied(1..=3), 10);
    root.poll();
    assert_eq!(handle.next().now_or_never().flatten().map(|map| shown(&map)).unwrap(), "a=1");
    let mut clone = handle.clone();
    assert_eq!(received(&mut handle), ["a=2", "a=3"]);
    assert_eq!(received(&mut clone), ["a=2", "a=3"]);
}

#[test]
fn late_subscriber_receives_later_events_and_whole_lists() {
    let (_, writer) = store_shared(10);
    let mut early = writer.subscribe().unwrap();
    let (send, events) = channel();
    let mut root = Root(Box::pin(events.reflect_shared(writer)));
    send(Event::Apply(typed("a", 1)));
    root.poll();
    assert_eq!(received(&mut early), ["a=1"]);
    let mut late = early.clone();
    send(Event::Delete(typed("a", 2)));
    [Event::Init, Event::InitApply(typed("b", 3)), Event::InitDone].into_iter().for_each(send);
    root.poll();
    assert_eq!(received(&mut late), ["b=3"]);
}

/// Returns a stream, and a function that sends an event to it.
fn channel() -> (impl Fn(WatcherEvent), impl Stream<Item = watcher::Result<WatcherEvent>> + Unpin) {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let events = stream::poll_fn(move |context| events.poll_recv(context)).map(Ok);
    (move |event| sender.send(event).expect("the stream is open"), events)
}

#[test]
fn subscriber_receives_everything_after_the_reflector_is_dropped() {
    let (mut root, mut handle) = root(applied(1..=3), 2);
    root.poll();
    drop(root);
    assert_eq!(received(&mut handle), ["a=1", "a=2"]);
    assert!(has_ended(&mut handle));
    assert_eq!(shown(&handle.reader().state()[0]), "a=3", "it was stored, and not delivered");
}

#[test]
fn deletion_of_a_pending_object_stops_kubes_subscriber_only() {
    let events = || {
        let events = [Event::Apply(typed("a", 1)), Event::Delete(typed("a", 2))];
        stream::iter(events.into_iter().chain([Event::Apply(typed("b", 3))]).map(Ok))
    };
    let (_, writer) = store_shared(10);
    let mut handle = writer.subscribe().unwrap();
    assert_eq!(events().reflect_shared(writer).count().now_or_never(), Some(3));
    assert_eq!(received(&mut handle), ["a=1", "b=3"]);

    let (_, writer) = kubes::store_shared(10);
    let mut handle = writer.subscribe().unwrap();
    assert_eq!(kubes::reflector(writer, events()).count().now_or_never(), Some(3));
    assert!(handle.next().now_or_never().is_none(), "kube's is pending although b is there");
}

#[test]
fn only_a_shared_store_has_subscribers() {
    let (_, writer) = store::<ConfigMap>();
    assert!(writer.subscribe().is_none());
}

#[test]
fn buffer_of_zero_has_room_for_one() {
    let (mut root, mut handle) = root(applied(1..=2), 0);
    assert_eq!(root.poll(), 1);
    assert_eq!(received(&mut handle), ["a=1"]);
    assert_eq!(root.poll(), 1);
    assert_eq!(received(&mut handle), ["a=2"]);
}

#[test]
fn handle_of_dynamic_objects_is_a_stream() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let writer = Writer::new_shared(10, resource);
    let mut handle = writer.subscribe().unwrap();
    let object: DynamicObject = serde_json::from_value(map("a", "1")).unwrap();
    let events = stream::iter([Ok(Event::Apply(object))]);
    assert_eq!(events.reflect_shared(writer).count().now_or_never(), Some(1));
    let next = handle.next().now_or_never().flatten().unwrap();
    assert_eq!(next.metadata.name.as_deref(), Some("a"));
}
