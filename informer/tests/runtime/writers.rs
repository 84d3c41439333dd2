//! Tests of stores that the events of a kube watcher fill, beside kube's on the same events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo::Indexers;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::runtime::reflector::store::WriterDropped;
use deltafifo_informer::runtime::reflector::{
    ObjectRef, Store, Writer, reflector, store, store_shared,
};
use deltafifo_informer::runtime::watcher::{self, Event};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector as kubes;
use proptest::prelude::*;

use super::kind_config_map::kind_config_map;
use super::rig::{idle, map, name, typed, value};

type WatcherEvent = Event<ConfigMap>;

/// A part of what a watcher yields.
#[derive(Clone, Debug)]
enum Part {
    Apply(u8),
    Delete(u8),
    /// A list of these objects, with an error after some of them.
    List(Vec<u8>, usize),
    /// A list that ends with an error.
    Incomplete(Vec<u8>),
}

fn part() -> impl Strategy<Value = Part> {
    let names = || prop::collection::btree_set(0..6_u8, 0..6);
    let vec = |names: BTreeSet<u8>| names.into_iter().collect::<Vec<_>>();
    prop_oneof![
        4 => (0..6_u8).prop_map(Part::Apply),
        2 => (0..6_u8).prop_map(Part::Delete),
        1 => (names(), 0..8_usize).prop_map(move |(names, error)| Part::List(vec(names), error)),
        1 => names().prop_map(move |names| Part::Incomplete(vec(names))),
    ]
}

/// Returns the events and errors of these parts. Before each list there is an error, without which
/// a watcher does not list again. Each object has a version of its own.
fn watched(parts: &[Part]) -> Vec<watcher::Result<WatcherEvent>> {
    let mut version = 0;
    let mut object = |name: &u8| {
        version += 1;
        typed(&name.to_string(), version)
    };
    let mut watched = Vec::new();
    for part in parts {
        match part {
            Part::Apply(name) => watched.push(Ok(Event::Apply(object(name)))),
            Part::Delete(name) => watched.push(Ok(Event::Delete(object(name)))),
            Part::List(names, error) => {
                watched.push(failed());
                let mut list = vec![Ok(Event::Init)];
                list.extend(names.iter().map(|name| Ok(Event::InitApply(object(name)))));
                list.push(Ok(Event::InitDone));
                // kube's watcher continues a streamed list after an error (`WatchFailed`).
                list.insert((*error).min(list.len() - 1), failed());
                watched.extend(list);
            }
            Part::Incomplete(names) => {
                watched.extend([failed(), Ok(Event::Init)]);
                watched.extend(names.iter().map(|name| Ok(Event::InitApply(object(name)))));
                watched.push(failed());
            }
        }
    }
    watched
}

fn failed() -> watcher::Result<WatcherEvent> {
    Err(kube::runtime::watcher::Error::NoResourceVersion)
}

fn contents(objects: &[Arc<ConfigMap>]) -> Vec<String> {
    let mut shown: Vec<_> =
        objects.iter().map(|map| format!("{}={}", name(map), value(map))).collect();
    shown.sort();
    shown
}

/// Returns what the stream yields without waiting.
fn ready<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Vec<T> {
    std::iter::from_fn(|| stream.next().now_or_never().flatten()).collect()
}

proptest! {
    #[test]
    fn store_and_subscriber_match_kubes_after_each_event(
        parts in prop::collection::vec(part(), 0..24),
    ) {
        let (store, writer) = store_shared::<ConfigMap>(100);
        let (kubes_store, kubes_writer) = kubes::store_shared::<ConfigMap>(100);
        let mut subscriber = writer.subscribe().unwrap();
        let mut kubes_subscriber = kubes_writer.subscribe().unwrap();
        // A list opens with `Init`, so no event is in an incomplete list: see the tests below.
        let parts: Vec<_> = parts.into_iter().flat_map(|part| match part {
            Part::Incomplete(_) => vec![part, Part::List(Vec::new(), 0)],
            part => vec![part],
        }).collect();
        let mut events = Box::pin(reflector(writer, stream::iter(watched(&parts))));
        let mut kubes_events =
            Box::pin(kubes::reflector(kubes_writer, stream::iter(watched(&parts))));
        loop {
            let next = events.next().now_or_never().expect("nothing lags behind");
            let kubes_next = kubes_events.next().now_or_never().expect("nothing lags behind");
            prop_assert_eq!(format!("{next:?}"), format!("{kubes_next:?}"));
            prop_assert_eq!(contents(&store.state()), contents(&kubes_store.state()));
            prop_assert_eq!(store.len(), kubes_store.len());
            let (is_ready, is_kubes) =
                (store.wait_until_ready().now_or_never(), kubes_store.wait_until_ready());
            prop_assert_eq!(
                is_ready.map(|ready| ready.is_ok()),
                is_kubes.now_or_never().map(|ready| ready.is_ok())
            );
            let yielded = contents(&ready(&mut subscriber));
            prop_assert_eq!(yielded, contents(&ready(&mut kubes_subscriber)));
            if next.is_none() {
                break;
            }
        }
    }
}

fn apply(writer: &mut Writer<ConfigMap>, events: impl IntoIterator<Item = WatcherEvent>) {
    for event in events {
        writer.apply_watcher_event(&event);
    }
}

#[test]
fn writer_applies_events_without_a_runtime() {
    let mut writer = Writer::default();
    let store = writer.as_reader();
    apply(&mut writer, [Event::Init, Event::InitApply(typed("a", 1))]);
    assert!(store.is_empty(), "the list is not complete");
    assert!(store.wait_until_ready().now_or_never().is_none());
    apply(&mut writer, [Event::InitDone, Event::Apply(typed("b", 2))]);
    assert_eq!(store.wait_until_ready().now_or_never(), Some(Ok(())));
    assert_eq!(contents(&store.state()), ["a=1", "b=2"]);
    apply(&mut writer, [Event::Delete(typed("a", 3))]);
    assert!(store.get(&ObjectRef::new("a").within("shop")).is_none());
    apply(&mut writer, [Event::Init, Event::InitApply(typed("c", 4)), Event::InitDone]);
    assert_eq!(contents(&store.state()), ["c=4"]);
}

#[test]
fn list_without_its_end_deletes_nothing() {
    let mut writer = Writer::default();
    let list = |name, version| [Event::Init, Event::InitApply(typed(name, version))];
    apply(&mut writer, list("a", 1).into_iter().chain([Event::InitDone]));
    apply(&mut writer, list("lost", 2));
    assert_eq!(contents(&writer.as_reader().state()), ["a=1"]);
    apply(&mut writer, list("b", 3).into_iter().chain([Event::InitDone]));
    assert_eq!(contents(&writer.as_reader().state()), ["b=3"]);
}

#[test]
fn events_within_a_list_are_kept_and_kube_loses_them() {
    let events = || {
        [
            Event::Init,
            Event::InitApply(typed("deleted", 1)),
            Event::Apply(typed("applied", 2)),
            Event::Delete(typed("deleted", 3)),
            Event::InitDone,
        ]
    };
    let mut writer = Writer::default();
    apply(&mut writer, events());
    assert_eq!(contents(&writer.as_reader().state()), ["applied=2"]);

    let mut writer = kubes::store::Writer::<ConfigMap>::default();
    for event in events() {
        writer.apply_watcher_event(&event);
    }
    assert_eq!(contents(&writer.as_reader().state()), ["deleted=1"]);
}

#[test]
fn lists_of_two_watchers_that_overlap_are_kept_and_kube_loses_them() {
    let events = || {
        [
            Event::Init,
            Event::Init,
            Event::InitApply(typed("a", 1)),
            Event::InitApply(typed("b", 2)),
            Event::InitDone,
            Event::InitApply(typed("c", 3)),
            Event::InitDone,
        ]
    };
    let mut writer = Writer::default();
    apply(&mut writer, events());
    assert_eq!(contents(&writer.as_reader().state()), ["a=1", "b=2", "c=3"]);

    let mut writer = kubes::store::Writer::<ConfigMap>::default();
    for event in events() {
        writer.apply_watcher_event(&event);
    }
    assert_eq!(contents(&writer.as_reader().state()), ["c=3"]);
}

#[test]
fn list_does_not_undo_a_newer_event_of_another_watcher() {
    let mut writer = Writer::default();
    let events = [Event::Init, Event::Apply(typed("a", 10)), Event::InitApply(typed("a", 9))];
    apply(&mut writer, events.into_iter().chain([Event::InitDone]));
    assert_eq!(contents(&writer.as_reader().state()), ["a=10"]);
}

/// A map that counts the reads of its metadata. The count is shared by its clones, so that it also
/// shows how many there are.
#[derive(Clone)]
struct Counted(ConfigMap, Arc<AtomicUsize>);

kind_config_map!(
    Counted,
    |Counted(map, reads)| {
        reads.fetch_add(1, Ordering::Relaxed);
        &map.metadata
    },
    |Counted(map, _)| &mut map.metadata
);

#[test]
fn events_within_a_long_list_cost_as_much_as_outside_of_it() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = |name: &str, version| Counted(typed(name, version), Arc::clone(&reads));
    let mut writer = Writer::<Counted>::default();
    let mut costs = Vec::new();
    for listed in [0, 1_000] {
        writer.apply_watcher_event(&Event::Init);
        for number in 0..listed {
            writer.apply_watcher_event(&Event::InitApply(counted(&number.to_string(), 1)));
        }
        let (before, states) = (reads.load(Ordering::Relaxed), Arc::strong_count(&reads));
        for version in 2..102 {
            writer.apply_watcher_event(&Event::Apply(counted("a", version)));
        }
        assert!(Arc::strong_count(&reads) <= states + 2, "former states are kept");
        writer.apply_watcher_event(&Event::Delete(counted("a", 102)));
        costs.push(reads.load(Ordering::Relaxed) - before);
    }
    assert_eq!(costs[0], costs[1], "reads of metadata");
}

#[test]
fn end_of_a_list_that_did_not_begin_makes_the_store_ready_and_keeps_it() {
    let mut writer = Writer::default();
    let store = writer.as_reader();
    apply(&mut writer, [Event::Apply(typed("a", 1)), Event::InitDone]);
    assert_eq!(store.wait_until_ready().now_or_never(), Some(Ok(())));
    assert_eq!(contents(&store.state()), ["a=1"]);
    // A list whose `Init` a unit test leaves out.
    apply(&mut writer, [Event::InitApply(typed("b", 2)), Event::InitDone]);
    assert_eq!(contents(&store.state()), ["b=2"]);
}

#[test]
fn object_without_a_name_is_not_stored() {
    let mut writer = Writer::default();
    let store = writer.as_reader();
    let nameless = || ConfigMap::default();
    apply(&mut writer, [Event::Apply(nameless()), Event::Delete(nameless()), Event::Init]);
    apply(&mut writer, [Event::InitApply(nameless()), Event::InitApply(typed("a", 1))]);
    apply(&mut writer, [Event::Delete(nameless()), Event::InitDone]);
    assert_eq!(contents(&store.state()), ["a=1"]);
    assert_eq!(Store::from_objects([nameless(), typed("a", 2)]).len(), 1);
}

#[test]
fn object_that_an_index_function_refuses_is_not_stored() {
    let (store, writer) = store_shared(10);
    let refuses = |map: &ConfigMap| match value(map).as_str() {
        "2" => panic!("as the test wants"),
        "3" => Err("as the test wants".into()),
        value => Ok(vec![value.to_owned()]),
    };
    store.reader().add_indexers(Indexers::new().index("data", refuses)).unwrap();
    let mut subscriber = writer.subscribe().unwrap();
    let list = [Event::Init, Event::InitApply(typed("a", 3)), Event::InitApply(typed("b", 4))];
    let events = (1..=4).map(|version| Event::Apply(typed("a", version))).chain(list);
    let events = events.chain([Event::InitDone]).map(Ok);
    let count = reflector(writer, stream::iter(events)).count().now_or_never();
    assert_eq!(count, Some(8), "the stream goes on");
    assert_eq!(contents(&store.state()), ["a=4", "b=4"]);
    assert_eq!(contents(&ready(&mut subscriber)), ["a=1", "a=4", "a=4", "b=4"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_store_fails_for_all_if_its_writer_is_dropped_before() {
    let (store, mut writer) = store::<ConfigMap>();
    let waits = [(); 3].map(|()| {
        let store = store.clone();
        tokio::spawn(async move { store.wait_until_ready().await })
    });
    idle().await;
    apply(&mut writer, [Event::Init, Event::Apply(typed("a", 1))]);
    drop(writer);
    for wait in waits {
        assert_eq!(wait.await.unwrap(), Err(WriterDropped));
    }
    assert_eq!(store.wait_until_ready().await, Err(WriterDropped));
    assert_eq!(contents(&store.state()), ["a=1"], "the store keeps its objects");
}

#[test]
fn store_stays_ready_after_its_writer() {
    let (store, mut writer) = store::<ConfigMap>();
    apply(&mut writer, [Event::Init, Event::InitDone]);
    drop(writer);
    assert_eq!(store.wait_until_ready().now_or_never(), Some(Ok(())));
}

#[test]
fn store_of_objects_is_ready_at_once() {
    let store = Store::from_objects([typed("a", 1), typed("b", 2), typed("a", 3)]);
    assert_eq!(store.wait_until_ready().now_or_never(), Some(Ok(())));
    assert_eq!(contents(&store.state()), ["a=3", "b=2"]);
    assert_eq!(store.reader().by_index("namespace", "shop").unwrap().len(), 2);
}

#[test]
fn writer_of_dynamic_objects_takes_their_type() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let mut writer = Writer::<DynamicObject>::new_shared(1, resource.clone());
    let object: DynamicObject = serde_json::from_value(map("a", "1")).unwrap();
    writer.apply_watcher_event(&Event::Apply(object));
    let key = ObjectRef::new_with("a", resource).within("shop");
    assert!(writer.as_reader().get(&key).is_some());
    assert!(writer.subscribe().is_some_and(|mut handle| ready(&mut handle).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn store_of_an_informer_is_ready_when_the_informer_is_synced() {
    let list = [Event::Init, Event::InitApply(typed("a", 1)), Event::InitDone];
    let events = stream::iter(list.map(Ok)).chain(stream::pending());
    let informer = SharedInformer::for_stream(events).build().unwrap();
    let store = Store::from(&informer);
    assert!(store.wait_until_ready().now_or_never().is_none());
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    store.wait_until_ready().await.unwrap();
    assert_eq!(contents(&store.state()), ["a=1"]);

    let never_run = SharedInformer::<ConfigMap>::for_stream(stream::empty()).build().unwrap();
    let store = Store::from(&never_run);
    never_run.stop().await;
    assert_eq!(store.wait_until_ready().await, Err(WriterDropped));
}
