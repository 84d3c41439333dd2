//! Tests of the decoding in controllers of compact objects. Many other tests of `runtime` run
//! with compact maps as well (`rig::Stored`).

use std::cell::RefCell;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use deltafifo_informer::compact::{Compact, CompactStats, Compactor, DecodeError};
use deltafifo_informer::leader_election::{ElectionError, LeaderElector, LeaseLock};
use deltafifo_informer::runtime::controller::{Action, Config, Source};
use deltafifo_informer::runtime::reflector::{ObjectRef, store::WriterDropped};
use deltafifo_informer::runtime::{Controller, predicates, watcher};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::discovery;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::kind_config_map::kind_config_map;
use super::rig::{controller, gated, map, maps, missing, pod, poll, poll_idle, server, value};

/// Returns a running informer of compact objects.
fn informer<K>(server: &ApiServer) -> SharedInformer<Compact<K>>
where
    K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let source = KubeListerWatcher::new::<K>(server.client(), &(), None);
    run(SharedInformer::<Compact<K>>::builder(source).build().unwrap())
}

/// Runs the informer in a task.
fn run<K: Send + Sync + 'static>(
    informer: SharedInformer<Compact<K>>,
) -> SharedInformer<Compact<K>> {
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    informer
}

/// Returns a map that a compact informer stores, although it does not decode.
fn broken(name: &str) -> Value {
    let mut map = map(name, "1");
    map["data"] = json!(["no data"]);
    map
}

#[tokio::test(start_paused = true)]
async fn object_is_decoded_once_per_reconcile() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    let informer = informer::<ConfigMap>(&server);
    let mut polled = poll_idle(Controller::from_informer(&informer));
    assert_eq!(polled.sorted(2).await, ["a", "b"]);
    assert_eq!(informer.compact_stats().decodes, 2);
    server.wait_for_watchers(1).await;
    server.apply(map("a", "2")).unwrap();
    assert_eq!(polled.next().await, "a");
    let CompactStats { decodes, failed_decodes, .. } = informer.compact_stats();
    assert_eq!((decodes, failed_decodes), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn store_of_a_compact_controller_counts_objects_and_decodes() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    let maps = Controller::new(maps(&server), watcher::Config::default());
    let controller = maps.when(predicates::labels).compact();
    let store = controller.store();
    assert_eq!(store.compact_stats(), CompactStats::default());
    let mut polled = poll_idle(controller);
    assert_eq!(polled.sorted(2).await, ["a", "b"]);
    let CompactStats { objects, bytes, decodes, .. } = store.compact_stats();
    assert_eq!((objects, decodes), (2, 2));
    assert!(bytes > 0);
    server.wait_for_watchers(1).await;
    server.apply(map("a", "2")).unwrap();
    assert!(polled.at_rest().await.is_empty(), "the labels are equal");
    server.apply(broken("b")).unwrap();
    polled.at_rest().await;
    assert!(store.get(&ObjectRef::new("b").within("shop")).is_none());
    let CompactStats { decodes, failed_decodes, .. } = store.compact_stats();
    assert_eq!((decodes, failed_decodes), (3, 1), "only the read of the store decodes");
}

#[tokio::test(start_paused = true)]
async fn store_and_reconciles_share_decoded_objects() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let maps = SharedInformer::<Compact<ConfigMap>>::builder(source)
        .reflector(|maps| maps.compactor(Compactor::builder().decoded_cache(1 << 20)));
    let informer = run(maps.build().unwrap());
    let controller = Controller::from_informer(&informer);
    let store = controller.store();
    let stored = || store.get(&ObjectRef::new("a").within("shop")).unwrap();
    let (sender, mut reconciled) = mpsc::unbounded_channel();
    let _polled = poll(controller, move |map, _| {
        sender.send(map).unwrap();
        async { Ok(Action::await_change()) }
    });
    let first = reconciled.recv().await.unwrap();
    assert!(Arc::ptr_eq(&first, &stored()) && Arc::ptr_eq(&first, &store.state()[0]));
    server.wait_for_watchers(1).await;
    server.apply(map("a", "2")).unwrap();
    let second = reconciled.recv().await.unwrap();
    assert!(Arc::ptr_eq(&second, &stored()));
    assert_eq!((&*value(&first), &*value(&second)), ("1", "2"));
    assert_eq!(informer.compact_stats().decodes, 2);
}

#[tokio::test(start_paused = true)]
async fn controller_that_has_a_store_or_a_shared_informer_cannot_become_compact() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let controller = Controller::new(maps(&server), watcher::Config::default());
    let typed = controller.store();
    let compact = controller.compact();
    assert_eq!(typed.wait_until_ready().await, Err(WriterDropped));
    let store = compact.store();
    assert_eq!(store.wait_until_ready().await, Err(WriterDropped));
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let shared = SharedInformer::<ConfigMap>::builder(source).build().unwrap();
    for compact in [compact, Controller::from_informer(&shared).compact()] {
        let received = poll_idle(compact).rest().await;
        let [error] = &*received else { panic!("{received:?}") };
        assert!(error.contains("call `compact` before `store`"), "{error}");
    }
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn object_that_does_not_decode_is_yielded_counted_and_retried_until_it_decodes() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = server();
    server.apply(broken("a")).unwrap();
    let controller = controller(&server).with_config(Config::default().name("maps"));
    let store = controller.store();
    let mut polled = poll_idle(controller);
    for _ in 0..3 {
        let error = polled.next().await;
        assert!(
            error.starts_with("runner error: ConfigMap.v1./a.shop was not reconciled"),
            "{error}"
        );
        assert!(error.contains("does not decode into its type"), "{error}");
    }
    assert_eq!((store.len(), store.state().len()), (1, 0));
    assert!(store.get(&ObjectRef::new("a").within("shop")).is_none());
    assert!(store.reader().get_by_key("shop/a").unwrap().raw_json().unwrap().contains("no data"));
    server.wait_for_watchers(1).await;
    server.apply(map("a", "1")).unwrap();
    let mut errors = 3;
    while polled.next().await != "a" {
        errors += 1;
    }
    let all = recorder.snapshotter().snapshot().into_vec().into_iter();
    let name = "controller_objects_not_decoded_total";
    let mut counts = all.filter(|(key, ..)| key.key().name() == name).map(|(.., count)| count);
    assert_eq!(counts.next(), Some(DebugValue::Counter(errors)));
    assert_eq!(store.find(|_| true).map(|map| value(&map)).as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn policy_decides_when_an_object_that_does_not_decode_is_retried() {
    let server = server();
    server.apply(broken("a")).unwrap();
    let (sender, mut asked) = mpsc::unbounded_channel();
    let asks = AtomicUsize::new(0);
    let policy = move |object, error: &(dyn Error + 'static)| {
        let error = error.downcast_ref::<DecodeError>().unwrap();
        sender.send((object, error.key().to_owned())).unwrap();
        match asks.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Action::requeue(Duration::from_secs(60)),
            _ => Action::await_change(),
        }
    };
    let mut polled = poll_idle(controller(&server).decode_error_policy(policy));
    let began = Instant::now();
    for _ in 0..3 {
        assert!(
            polled
                .next()
                .await
                .starts_with("runner error: ConfigMap.v1./a.shop was not reconciled")
        );
        let (object, key) = asked.recv().await.unwrap();
        assert_eq!((object, &*key), (ObjectRef::new("a").within("shop"), "shop/a"));
    }
    let waited = began.elapsed().as_secs();
    assert!((120..121).contains(&waited), "{waited}");
    sleep(Duration::from_secs(3_600)).await;
    assert!(polled.at_rest().await.is_empty(), "it is given up");
    server.wait_for_watchers(1).await;
    server.apply(map("a", "1")).unwrap();
    assert_eq!(polled.next().await, "a");
    assert!(asked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn predicate_and_deletion_handler_may_be_set_before_compact() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (sender, mut deleted) = mpsc::unbounded_channel();
    let controller = Controller::new(maps(&server), watcher::Config::default())
        .when(|old, new| value(old) != value(new))
        .on_deleted(move |last| {
            sender.send(last.object().map(|map| value(map))).unwrap();
            async {}
        })
        .compact();
    let mut polled = poll_idle(controller);
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    let mut labelled = map("a", "1");
    labelled["metadata"]["labels"] = json!({ "app": "web" });
    server.apply(labelled).unwrap();
    assert!(polled.at_rest().await.is_empty(), "the data is equal");
    server.apply(map("a", "2")).unwrap();
    assert_eq!(polled.next().await, "a");
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    assert_eq!(deleted.recv().await.unwrap().as_deref(), Some("2"));
}

thread_local! {
    /// A function that the next decoding of a [`Hooked`] on this thread calls.
    static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
}

/// A map whose decoding calls [`HOOK`].
#[derive(Clone, Debug)]
struct Hooked(ConfigMap);

impl<'de> Deserialize<'de> for Hooked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if let Some(hook) = HOOK.take() {
            hook();
        }
        ConfigMap::deserialize(deserializer).map(Self)
    }
}

kind_config_map!(Hooked, |Hooked(map)| &map.metadata, |Hooked(map)| &mut map.metadata);

#[tokio::test(start_paused = true)]
async fn no_reconcile_begins_if_the_controller_shuts_down_during_the_decoding() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    HOOK.set(Some(Box::new(move || stop.send(()).unwrap())));
    let (reconcile, mut begun) = gated();
    let controller =
        Controller::new(Api::<Hooked>::all(server.client()), watcher::Config::default())
            .compact()
            .graceful_shutdown_on(stopped.map(drop));
    assert!(poll(controller, reconcile).rest().await.is_empty());
    assert!(begun.recv().await.is_none());
    assert!(HOOK.take().is_none(), "the object was decoded");
}

/// The clock is not paused, because the decoding blocks the only thread of the runtime.
#[tokio::test]
async fn no_reconcile_begins_if_the_term_ends_during_the_decoding() {
    let leases = ApiResource::erase::<Lease>(&());
    let leases = Resource::built_in(leases, discovery::Scope::Namespaced);
    let server = ApiServer::builder().resource(Resource::config_maps()).resource(leases).build();
    server.apply(map("a", "1")).unwrap();
    let lease = LeaseLock::new("shop", "counter").identity("a");
    let elector = LeaderElector::builder(server.client(), lease)
        .lease_duration(Duration::from_secs(2))
        .renew_deadline(Duration::from_secs(1))
        .retry_period(Duration::from_millis(200))
        .build()
        .unwrap();
    let (reconcile, mut begun) = gated();
    let led = elector.run(|term| {
        let decoding = term.clone();
        HOOK.set(Some(Box::new(move || {
            while decoding.is_held() {
                thread::sleep(Duration::from_millis(1));
            }
        })));
        let maps = Api::<Hooked>::all(server.client());
        let controller = Controller::new(maps, watcher::Config::default()).compact();
        let polled = poll(controller.while_leading(&term), reconcile);
        async move {
            let yielded = polled.rest_within(Duration::from_secs(60)).await;
            assert!(yielded.is_empty(), "{yielded:?}");
        }
    });
    let lost = led.await.unwrap_err();
    assert!(matches!(lost, ElectionError::Expired { .. }), "{lost}");
    assert!(HOOK.take().is_none(), "the object was decoded");
    assert!(begun.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn deletion_of_an_object_that_does_not_decode_is_handled_without_its_state() {
    let server = server();
    server.apply(broken("a")).unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let controller = controller(&server).on_deleted(move |last| {
        sender.send((last.is_tombstone(), last.object().is_none())).unwrap();
        async {}
    });
    let mut polled = poll_idle(controller);
    assert!(polled.next().await.contains("was not reconciled"));
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    assert_eq!(received.recv().await, Some((true, true)));
}

#[tokio::test(start_paused = true)]
async fn predicate_over_metadata_decodes_nothing() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let informer = informer::<ConfigMap>(&server);
    let by_header = Source::from(&informer).when_compact(predicates::labels);
    let by_header = Controller::from_informer(by_header);
    let by_data = Controller::from_informer(&informer).when(|old, new| value(old) != value(new));
    let mut polled = poll_idle(by_header);
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    server.apply(map("a", "2")).unwrap();
    assert!(polled.at_rest().await.is_empty(), "the labels are equal");
    assert_eq!(informer.compact_stats().decodes, 1);
    let mut labelled = map("a", "2");
    labelled["metadata"]["labels"] = json!({ "app": "web" });
    server.apply(labelled.clone()).unwrap();
    assert_eq!(polled.next().await, "a");
    assert_eq!(informer.compact_stats().decodes, 2);
    labelled["metadata"]["finalizers"] = json!(["example.org/counted"]);
    server.apply(labelled.clone()).unwrap();
    assert_eq!(polled.next().await, "a", "the finalizers have changed");
    drop(polled);

    let mut polled = poll_idle(by_data);
    assert_eq!(polled.next().await, "a");
    let before = informer.compact_stats().decodes;
    labelled["metadata"]["labels"] = json!({});
    server.apply(labelled.clone()).unwrap();
    assert!(polled.at_rest().await.is_empty(), "the data is equal");
    assert_eq!(informer.compact_stats().decodes, before + 2);
    labelled["data"]["data"] = json!("3");
    server.apply(labelled).unwrap();
    assert_eq!(polled.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn ready_predicate_over_decoded_objects_decodes_nothing() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let informer = informer::<ConfigMap>(&server);
    let by_labels = Source::from(&informer).when(predicates::labels);
    for controller in [
        Controller::from_informer(by_labels),
        Controller::from_informer(&informer).when(predicates::labels),
    ] {
        let mut polled = poll_idle(controller);
        assert_eq!(polled.next().await, "a");
        server.wait_for_watchers(1).await;
        let before = informer.compact_stats().decodes;
        server.apply(map("a", "2")).unwrap();
        assert!(polled.at_rest().await.is_empty(), "the labels are equal");
        assert_eq!(informer.compact_stats().decodes, before);
        let mut labelled = map("a", "2");
        labelled["metadata"]["labels"] = json!({ "app": "web" });
        server.apply(labelled).unwrap();
        assert_eq!(polled.next().await, "a");
        assert_eq!(informer.compact_stats().decodes, before + 1);
        server.apply(map("a", "1")).unwrap();
    }
}

/// Compares each ready predicate over compact objects with the same one over typed objects, for
/// each pair of states in which one field of the metadata is missing, null or has one of two
/// values.
#[test]
fn ready_predicates_over_compact_objects_agree_with_those_over_typed_ones() {
    type Over<K> = fn(&K, &K) -> bool;
    type Predicate = (&'static str, Over<ConfigMap>, Over<Compact<ConfigMap>>);
    let all: [Predicate; 5] = [
        ("generation", predicates::generation, predicates::generation),
        ("resourceVersion", predicates::resource_version, predicates::resource_version),
        ("labels", predicates::labels, predicates::labels),
        ("annotations", predicates::annotations, predicates::annotations),
        ("finalizers", predicates::finalizers, predicates::finalizers),
    ];
    let compactor = Compactor::<ConfigMap>::builder().build();
    for (field, values) in [
        ("generation", [json!(1), json!(2)]),
        ("resourceVersion", [json!("1"), json!("2")]),
        ("labels", [json!({ "a": "1" }), json!({ "a": "2" })]),
        ("annotations", [json!({ "a": "1" }), json!({ "a": "2" })]),
        ("finalizers", [json!(["a"]), json!(["b"])]),
    ] {
        let states = [None, Some(json!(null))].into_iter().chain(values.map(Some)).map(|value| {
            let mut map = map("a", "1");
            let metadata = map["metadata"].as_object_mut().unwrap();
            metadata.extend(value.map(|value| (field.to_owned(), value)));
            let compact = compactor.pack(map.to_string().as_bytes()).unwrap();
            (serde_json::from_value(map).unwrap(), compact)
        });
        let states: Vec<(ConfigMap, _)> = states.collect();
        for (at, (old, compact_old)) in states.iter().enumerate() {
            for (to, (new, compact_new)) in states.iter().enumerate() {
                for (name, typed, compact) in all {
                    let changed = typed(old, new);
                    let found = compact(compact_old, compact_new);
                    assert_eq!(found, changed, "{name}, {field} from {at} to {to}");
                }
            }
        }
    }
    assert_eq!(compactor.stats().decodes, 0);
}

#[tokio::test(start_paused = true)]
async fn owners_of_compact_objects_are_reconciled_without_decoding() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    server.apply(pod("p", &["a"])).unwrap();
    let pods = informer::<Pod>(&server);
    let mut polled = poll_idle(controller(&server).owns_informer(&pods));
    assert_eq!(polled.at_rest().await, ["a", "b"]);
    server.wait_for_watchers(2).await;
    server.apply(pod("p", &["b"])).unwrap();
    assert_eq!(polled.at_rest().await, ["a", "b"]);
    server.delete(&Resource::pods(), "shop", "p").unwrap();
    assert_eq!(polled.at_rest().await, ["b"]);
    assert_eq!(pods.compact_stats().decodes, 0);
}

/// Returns the map that the label `map` of a pod names.
fn labelled_map(pod: &Pod) -> Option<ObjectRef<ConfigMap>> {
    let name = pod.metadata.labels.as_ref().and_then(|labels| labels.get("map"));
    name.map(|name| ObjectRef::new(name).within("shop"))
}

/// Returns a pod whose label names a map.
fn labelled_pod(map: &str) -> Value {
    let mut pod = pod("p", &[]);
    pod["metadata"]["labels"] = json!({ "map": map });
    pod
}

/// Returns a pod whose label names a map, and that does not decode.
fn broken_pod(map: &str) -> Value {
    let mut pod = labelled_pod(map);
    pod["spec"] = json!(7);
    pod
}

#[tokio::test(start_paused = true)]
async fn watched_compact_objects_are_mapped_and_undecodable_ones_trigger_nothing() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    let pods = informer::<Pod>(&server);
    let mut polled = poll_idle(controller(&server).watches_informer(&pods, labelled_map));
    assert_eq!(polled.at_rest().await, ["a", "b"]);
    server.wait_for_watchers(2).await;
    server.apply(labelled_pod("a")).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
    server.apply(broken_pod("b")).unwrap();
    assert_eq!(polled.at_rest().await, ["a"], "the old state decodes");
    server.apply(labelled_pod("b")).unwrap();
    assert_eq!(polled.at_rest().await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn deletion_of_a_watched_object_is_mapped_although_its_last_state_does_not_decode() {
    enum Watches {
        Typed,
        Compact,
        Informer,
    }

    for watches in [Watches::Typed, Watches::Compact, Watches::Informer] {
        for is_listed in [false, true] {
            let server = server();
            for name in ["a", "b"] {
                server.apply(map(name, "1")).unwrap();
            }
            let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
            let validated = SharedInformer::<Compact<Pod>>::builder(source)
                .reflector(|pods| pods.compactor(Compactor::builder().validate(true)))
                .build()
                .unwrap();
            let (controller, config) = (controller(&server), watcher::Config::default());
            let pods = Api::<Pod>::all(server.client());
            let controller = match watches {
                Watches::Typed => controller.watches_ref(pods, &(), config, labelled_map),
                Watches::Compact => controller.watches_compact(pods, &(), config, labelled_map),
                Watches::Informer => controller.watches_informer(&validated, labelled_map),
            };
            let is_shared = matches!(watches, Watches::Informer);
            if is_shared {
                let running = validated.clone();
                tokio::spawn(async move { running.run().await });
            }
            let mut polled = poll_idle(controller);
            assert_eq!(polled.sorted(2).await, ["a", "b"]);
            server.wait_for_watchers(2).await;
            server.apply(labelled_pod("a")).unwrap();
            assert_eq!(polled.next().await, "a");
            let breaks = || {
                server.apply(broken_pod("b")).unwrap();
            };
            if is_listed {
                missing(&server, breaks);
            } else {
                breaks();
            }
            sleep(Duration::from_secs(60)).await;
            let errors = polled.at_rest().await;
            server.wait_for_watchers(2).await;
            server.delete(&Resource::pods(), "shop", "p").unwrap();
            let triggered = polled.at_rest().await;
            assert!(triggered.contains(&"a".to_owned()), "{triggered:?}");
            assert!(!triggered.contains(&"b".to_owned()), "{triggered:?}");
            let is_refusal = |error: &String| error.contains("cannot be decoded and is skipped");
            assert_ne!(errors.iter().any(is_refusal), is_shared, "{errors:?}");
        }
    }
}
