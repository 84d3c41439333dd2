//! Tests of the decoding in controllers of compact objects. Many other tests of `runtime` run
//! with compact maps as well (`rig::Stored`).

use deltafifo_informer::compact::{Compact, CompactStats};
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

use super::rig::{controller, map, maps, pod, poll_idle, server, value};

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

#[tokio::test(start_paused = true)]
async fn watched_compact_objects_are_mapped_and_undecodable_ones_trigger_nothing() {
    let of_label = |pod: &Pod| {
        let name = pod.metadata.labels.as_ref().and_then(|labels| labels.get("map"));
        name.map(|name| ObjectRef::<ConfigMap>::new(name).within("shop"))
    };
    let labelled = |name: &str| {
        let mut pod = pod("p", &[]);
        pod["metadata"]["labels"] = json!({ "map": name });
        pod
    };
    for shares in [true, false] {
        let server = server();
        for name in ["a", "b"] {
            server.apply(map(name, "1")).unwrap();
        }
        let controller = controller(&server);
        let mut polled = poll_idle(if shares {
            controller.watches_informer(&informer::<Pod>(&server), of_label)
        } else {
            let pods = Api::<Pod>::all(server.client());
            controller.watches_compact(pods, &(), watcher::Config::default(), of_label)
        });
        assert_eq!(polled.at_rest().await, ["a", "b"]);
        server.wait_for_watchers(2).await;
        server.apply(labelled("a")).unwrap();
        assert_eq!(polled.at_rest().await, ["a"]);
        let mut broken = labelled("b");
        broken["spec"] = json!(7);
        server.apply(broken).unwrap();
        assert_eq!(polled.at_rest().await, ["a"], "the old state decodes");
        server.apply(labelled("b")).unwrap();
        assert_eq!(polled.at_rest().await, ["b"]);
    }
}
