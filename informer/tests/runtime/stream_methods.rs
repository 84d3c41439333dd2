//! Tests of the methods of `WatchStreamExt`, imported without kube's trait.

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use deltafifo_informer::runtime::reflector::{Lookup, ObjectRef, ReflectHandle, Store, Writer};
use deltafifo_informer::runtime::watcher::{self, Event};
use deltafifo_informer::runtime::{
    self, Predicate, PredicateConfig, WatchStreamExt, predicates, reflector,
};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use kube::runtime::{Predicate as KubesPredicate, predicates as kubes};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::rig::{map, maps, server, typed, value};

type Watched = watcher::Result<ConfigMap>;

/// Returns the data of the objects that a predicate passes.
fn passed<M: 'static>(
    maps: Vec<ConfigMap>,
    predicate: impl Predicate<ConfigMap, M> + 'static,
) -> String {
    let maps = stream::iter(maps.into_iter().map(Watched::Ok));
    let passed = maps.predicate_filter(predicate, PredicateConfig::default());
    let passed = passed.map(|map| value(&map.unwrap())).collect::<Vec<_>>().now_or_never();
    passed.expect("the stream is ready").join(" ")
}

/// Returns what kube's filter passes.
fn passed_by_kube(
    maps: Vec<ConfigMap>,
    predicate: impl KubesPredicate<ConfigMap> + 'static,
) -> String {
    let maps = stream::iter(maps.into_iter().map(Watched::Ok));
    let passed = kube::runtime::WatchStreamExt::predicate_filter(
        maps,
        predicate,
        PredicateConfig::default(),
    );
    let passed = passed.map(|map| value(&map.unwrap())).collect::<Vec<_>>().now_or_never();
    passed.expect("the stream is ready").join(" ")
}

fn with(version: u32, change: impl FnOnce(&mut ConfigMap)) -> ConfigMap {
    let mut map = typed("a", version);
    change(&mut map);
    map
}

#[test]
fn all_methods_chain() {
    let events = [
        Ok(Event::Init),
        Ok(Event::InitApply(typed("a", 1))),
        Ok(Event::InitDone),
        Ok(Event::Apply(typed("a", 1))),
        Ok(Event::Apply(typed("a", 2))),
        Ok(Event::Delete(typed("a", 3))),
        Ok(Event::Apply(typed("b", 4))),
    ];
    let (store, writer) = reflector::store::<ConfigMap>();
    let (shared, shared_writer) = reflector::store_shared::<ConfigMap>(10);
    let subscriber = writer.subscribe();
    let maps = stream::iter(events)
        .default_backoff()
        .modify(|map| map.immutable = Some(true))
        .reflect(writer)
        .reflect_shared(shared_writer)
        .backoff(watcher::DefaultBackoff::default())
        .touched_objects()
        .predicate_filter(predicates::resource_version, PredicateConfig::default());
    let maps: Vec<_> = maps.map(|map| map.unwrap()).collect().now_or_never().unwrap();
    assert_eq!(maps.iter().map(value).collect::<String>(), "1234");
    assert!(maps.iter().all(|map| map.immutable == Some(true)));
    for store in [store, shared] {
        let stored: Vec<_> = store.state().iter().map(|map| (value(map), map.immutable)).collect();
        assert_eq!(stored, [("4".to_owned(), Some(true))]);
    }
    assert!(subscriber.is_none());
    let applied = stream::iter([Ok(Event::Apply(typed("a", 1))), Ok(Event::Delete(typed("a", 2)))]);
    assert_eq!(applied.applied_objects().count().now_or_never(), Some(1));
}

/// Reflects all objects of a kind, as a library does that knows nothing else of the kind.
fn reflect_all<K>(api: Api<K>) -> (Store<K>, BoxStream<'static, watcher::Result<K>>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store::<K>();
    let events = runtime::watcher(api, watcher::Config::default()).default_backoff();
    let objects = events.reflect(writer).applied_objects();
    (
        store,
        objects.predicate_filter(predicates::resource_version, PredicateConfig::default()).boxed(),
    )
}

/// A store and what fills it, with the bounds that generic programs over kube's types have.
struct Reflected<K: Resource + Lookup + Clone + 'static>
where
    <K as Lookup>::DynamicType: Eq + Hash + Clone,
{
    store: Store<K>,
    writer: Writer<K>,
    subscriber: ReflectHandle<K>,
}

impl<K: Resource + Lookup + Clone + 'static> Reflected<K>
where
    <K as Lookup>::DynamicType: Default + Eq + Hash + Clone,
{
    fn new() -> Self {
        let (store, _) = reflector::store_shared::<K>(1);
        assert!(store.is_empty());
        let writer = Writer::new_shared(1, Default::default());
        let subscriber = writer.subscribe().expect("the store is shared");
        Self { store: writer.as_reader(), writer, subscriber }
    }
}

fn contains<K>(store: &Store<K>, key: &ObjectRef<K>) -> bool
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
{
    store.get(key).is_some() && store.state().iter().any(|object| object.name_any() == key.name)
}

fn tracked<K, W>(writer: Writer<K>, stream: W) -> impl Stream<Item = W::Item>
where
    K: Resource + Clone,
    K::DynamicType: Eq + Hash + Clone,
    W: Stream<Item = watcher::Result<Event<K>>>,
{
    stream.reflect_shared(writer)
}

#[test]
fn generic_code_needs_only_resource_beside_the_bounds_of_kube() {
    let Reflected { store, writer, mut subscriber } = Reflected::<ConfigMap>::new();
    let events = stream::iter([Ok(Event::Apply(typed("a", 1)))]);
    assert_eq!(tracked(writer, events).count().now_or_never(), Some(1));
    assert!(contains(&store, &ObjectRef::new("a").within("shop")));
    assert!(subscriber.next().now_or_never().flatten().is_some());
}

#[tokio::test(start_paused = true)]
async fn methods_chain_for_a_generic_kind() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (store, mut maps) = reflect_all(maps(&server));
    assert_eq!(value(&maps.next().await.unwrap().unwrap()), "1");
    server.apply(map("a", "2")).unwrap();
    assert_eq!(value(&maps.next().await.unwrap().unwrap()), "2");
    store.wait_until_ready().await.unwrap();
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn metadata_of_objects_is_reflected() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let maps: Api<PartialObjectMeta<ConfigMap>> = Api::all(server.client());
    let (store, mut maps) = reflect_all(maps);
    assert_eq!(maps.next().await.unwrap().unwrap().name_any(), "a");
    assert!(store.is_empty(), "the list is not complete");
    tokio::select! {
        next = maps.next() => panic!("nothing changed: {next:?}"),
        ready = store.wait_until_ready() => ready.unwrap(),
    }
    assert_eq!(store.state()[0].name_any(), "a");
}

#[tokio::test(start_paused = true)]
async fn backoff_pauses_after_each_error() {
    let failed = || Err(kube::runtime::watcher::Error::NoResourceVersion);
    let events = stream::iter([failed(), failed(), Ok(Event::Apply(typed("a", 1)))]);
    let begun = Instant::now();
    let results: Vec<_> = events.default_backoff().map(|event| event.is_ok()).collect().await;
    assert_eq!(results, [false, false, true]);
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "{:?}", begun.elapsed());
}

#[test]
fn our_predicates_hide_what_kubes_hide() {
    let maps = || {
        let changed = |version, generation, labels: &[&str]| {
            with(version, |map| {
                map.metadata.generation = generation;
                map.labels_mut()
                    .extend(labels.iter().map(|key| ((*key).to_owned(), String::new())));
                map.annotations_mut().extend(labels.first().map(|_| Default::default()));
            })
        };
        vec![
            changed(1, Some(1), &[]),
            changed(2, Some(1), &["x"]),
            changed(2, Some(1), &["x"]),
            changed(3, Some(2), &["x", "y"]),
            changed(4, None, &["x"]),
            changed(5, None, &["x"]),
        ]
    };
    assert_eq!(passed(maps(), predicates::generation), "1 3 4 5");
    assert_eq!(passed_by_kube(maps(), kubes::generation), "1 3 4 5");
    assert_eq!(passed(maps(), predicates::resource_version), "1 2 3 4 5");
    assert_eq!(passed(maps(), predicates::labels), passed_by_kube(maps(), kubes::labels));
    assert_eq!(passed(maps(), predicates::annotations), passed_by_kube(maps(), kubes::annotations));
    assert_eq!(passed(maps(), predicates::finalizers), passed_by_kube(maps(), kubes::finalizers));
    let both = Predicate::combine(predicates::generation, predicates::labels);
    assert_eq!(
        passed(maps(), both),
        passed_by_kube(maps(), KubesPredicate::combine(kubes::generation, kubes::labels))
    );
    let either = Predicate::fallback(predicates::generation, predicates::labels);
    let kubes_either = KubesPredicate::fallback(kubes::generation, kubes::labels);
    assert_eq!(passed(maps(), either), "1 3 4");
    assert_eq!(passed_by_kube(maps(), kubes_either), "1 3 4");
    // kube's own predicates, and functions of one state.
    assert_eq!(passed(maps(), kubes::labels), passed_by_kube(maps(), kubes::labels));
    let own = |map: &ConfigMap| map.metadata.generation.map(|generation| u64::from(generation > 1));
    assert_eq!(passed(maps(), own), passed_by_kube(maps(), own));
}

#[test]
fn object_made_again_passes() {
    let made = |version, uid: &str| {
        with(version, |map| {
            map.metadata.uid = Some(uid.to_owned());
            map.metadata.generation = Some(1);
        })
    };
    let maps = vec![made(1, "x"), made(2, "x"), made(3, "y"), made(4, "y")];
    assert_eq!(passed(maps, predicates::generation), "1 3");
}

#[test]
fn start_of_a_deletion_and_changed_finalizers_pass_and_kube_hides_them() {
    let maps = || {
        let begun = |map: &mut ConfigMap| {
            map.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        };
        let finalizer = |map: &mut ConfigMap| map.finalizers_mut().push("example.org/x".to_owned());
        let both = |map: &mut ConfigMap| {
            begun(map);
            finalizer(map);
        };
        vec![with(1, |_| ()), with(2, finalizer), with(3, both), with(4, both), with(5, begun)]
    };
    assert_eq!(passed(maps(), predicates::labels), "1 2 3 5");
    assert_eq!(passed_by_kube(maps(), kubes::labels), "1");
}

#[test]
fn property_that_is_removed_and_set_again_passes_and_kube_hides_it() {
    let generation =
        |version, generation| with(version, |map| map.metadata.generation = generation);
    let maps = || vec![generation(1, Some(7)), generation(2, None), generation(3, Some(7))];
    assert_eq!(passed(maps(), predicates::generation), "1 2 3");
    assert_eq!(passed_by_kube(maps(), kubes::generation), "1 2");
}

#[test]
fn unknown_function_of_two_states_hides_nothing() {
    let never = |_: &ConfigMap, _: &ConfigMap| false;
    assert_eq!(passed(vec![typed("a", 1), typed("a", 1)], never), "1 1");
}

/// Converts a predicate that implements kube's trait only.
fn converted(predicate: impl KubesPredicate<ConfigMap>) -> impl Predicate<ConfigMap> {
    move |map: &ConfigMap| predicate.hash_property(map)
}

#[test]
fn predicate_of_kubes_trait_is_converted_by_a_closure() {
    let maps = || vec![typed("a", 1), typed("a", 2), typed("a", 2)];
    let kubes = || KubesPredicate::combine(kubes::labels, kubes::resource_version);
    assert_eq!(passed(maps(), converted(kubes())), passed_by_kube(maps(), kubes()));
    let both = converted(kubes()).combine(predicates::labels);
    assert_eq!(passed(maps(), both), "1 2");
}

#[test]
fn predicate_of_one_state_fits_a_pointer_and_a_signature_of_kube() {
    /// Has a signature that a change of imports leaves as it is.
    fn of_one_state(
        maps: Vec<ConfigMap>,
        predicate: impl Predicate<ConfigMap> + 'static,
    ) -> String {
        passed(maps, predicate)
    }

    let maps = || vec![typed("a", 1), typed("a", 1), typed("a", 2)];
    let pointer: fn(&ConfigMap) -> Option<u64> = kubes::resource_version;
    assert_eq!(of_one_state(maps(), kubes::resource_version), "1 2");
    assert_eq!(of_one_state(maps(), pointer), "1 2");
    let maps = stream::iter(maps().into_iter().map(Watched::Ok));
    let config = PredicateConfig::default();
    let passed = maps.predicate_filter::<ConfigMap, _, _>(predicates::resource_version, config);
    assert_eq!(passed.count().now_or_never(), Some(2));
}

#[test]
fn controller_is_a_field_of_a_type_that_is_generic_in_the_object() {
    /// The bounds of kube's `Controller`, and those that this one adds.
    struct Operator<K>(runtime::Controller<K>)
    where
        K: Clone + Resource + Debug + Send + Sync + 'static,
        K::DynamicType: Eq + Hash;

    let (store, _writer) = reflector::store::<ConfigMap>();
    let Operator(controller) = Operator(runtime::Controller::for_stream(stream::empty(), store));
    drop(controller);
}

struct Immutable;

impl Predicate<ConfigMap> for Immutable {
    fn hash_property(&self, map: &ConfigMap) -> Option<u64> {
        Some(map.immutable.unwrap_or_default().into())
    }
}

/// A predicate of objects of any type.
struct Version;

impl<K: Resource> Predicate<K> for Version {
    fn hash_property(&self, object: &K) -> Option<u64> {
        object.meta().resource_version.as_ref().and_then(|version| version.parse().ok())
    }
}

#[test]
fn predicate_of_a_user_may_be_generic_in_the_object() {
    let maps = || vec![typed("a", 1), typed("a", 1), typed("a", 2)];
    assert_eq!(passed(maps(), Version), "1 2");
    assert_eq!(passed(maps(), predicates::labels.combine(Version)), "1 2");
    assert_eq!(passed(maps(), Version.fallback(Immutable)), "1 2");
    let changed = predicates::changed(Version);
    assert!(changed(&typed("a", 1), &typed("a", 2)));
}

#[test]
fn predicate_of_a_user_combines_with_the_others() {
    let immutable = |version| with(version, |map| map.immutable = Some(true));
    let maps = || vec![typed("a", 1), typed("a", 2), immutable(3), immutable(3), immutable(4)];
    assert_eq!(passed(maps(), Immutable), "1 3");
    assert_eq!(passed(maps(), predicates::resource_version.combine(Immutable)), "1 2 3 4");
    assert_eq!(passed(maps(), Immutable.fallback(predicates::resource_version)), "1 3");
}

#[test]
fn property_is_forgotten_after_its_time() {
    let maps = stream::iter([Watched::Ok(typed("a", 1)), Watched::Ok(typed("a", 1))]);
    let config = PredicateConfig::default().ttl(Duration::ZERO);
    let passed = maps.predicate_filter(predicates::resource_version, config);
    assert_eq!(passed.count().now_or_never(), Some(2));
}

#[test]
fn stream_continues_after_a_panic_of_user_code() {
    let events = (1..=3).map(|version| Ok(Event::Apply(typed("a", version))));
    let (store, writer) = reflector::store::<ConfigMap>();
    let maps = stream::iter(events)
        .modify(|map| assert_ne!(value(map), "1"))
        .reflect(writer)
        .applied_objects()
        .predicate_filter(
            |map: &ConfigMap| {
                assert_ne!(value(map), "2");
                None
            },
            PredicateConfig::default(),
        );
    let mut maps = std::pin::pin!(maps);
    let mut next = || {
        let polled = catch_unwind(AssertUnwindSafe(|| maps.next().now_or_never().flatten()));
        (polled.ok().flatten().map(|map| value(&map.unwrap())), store.len())
    };
    assert_eq!(next(), (None, 0), "modify panicked");
    assert_eq!(next(), (None, 1), "the predicate panicked");
    assert_eq!(next(), (Some("3".to_owned()), 1));
}
