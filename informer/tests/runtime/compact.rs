//! Tests of the decoding in controllers of compact objects. Many other tests of `runtime` run
//! with compact maps as well (`rig::Stored`).

use std::time::Duration;

use deltafifo_informer::compact::{Compact, CompactStats, Compactor};
use deltafifo_informer::runtime::controller::{Config, Source};
use deltafifo_informer::runtime::reflector::{ObjectRef, store::WriterDropped};
use deltafifo_informer::runtime::{Controller, predicates, watcher};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::rig::{controller, map, maps, missing, pod, poll_idle, server, value};

/// Returns a running informer of compact objects.
fn informer<K>(server: &ApiServer) -> SharedInformer<Compact<K>>
where
    K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let source = KubeListerWatcher::new::<K>(server.client(), &(), None);
    let informer = SharedInformer::<Compact<K>>::builder(source).build().unwrap();
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
        assert!(error.starts_with("ConfigMap.v1./a.shop was not reconciled"), "{error}");
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
