//! Tests of requests for objects that are not in the store.

use deltafifo::KeyFunc;
use deltafifo_informer::runtime::controller::Config;
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, SharedInformer};
use deltafifo_testkit::Resource;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::rig::{controller, map, pod, poll_idle, server};

#[tokio::test(start_paused = true)]
async fn deletion_of_an_owner_and_its_objects_is_counted_without_an_error() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = server();
    server.apply(map("a", "1")).unwrap();
    for name in ["p", "q"] {
        server.apply(pod(name, &["a"])).unwrap();
    }
    let pods = Api::<Pod>::all(server.client());
    let controller = controller(&server).owns(pods, watcher::Config::default());
    let mut polled = poll_idle(controller.with_config(Config::default().name("maps")));
    assert_eq!(polled.at_rest().await, ["a"]);
    server.wait_for_watchers(2).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    for name in ["p", "q"] {
        server.delete(&Resource::pods(), "shop", name).unwrap();
        assert!(polled.at_rest().await.is_empty());
    }
    server.apply(pod("r", &["never there"])).unwrap();
    assert!(polled.at_rest().await.is_empty());
    let all = recorder.snapshotter().snapshot().into_vec();
    let count =
        all.into_iter().find(|(key, ..)| key.key().name() == "controller_objects_not_found_total");
    let (key, _, _, count) = count.expect("the deletion is counted");
    assert_eq!(count, DebugValue::Counter(3));
    let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
    assert_eq!(labels, [("name", "maps")]);
}

#[tokio::test(start_paused = true)]
async fn object_of_an_informer_with_other_keys_is_reported() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let keys = KeyFunc::custom(KubeMeta, |map: &ConfigMap| Ok(format!("map {}", map.name_any())));
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None);
    let maps = SharedInformer::<ConfigMap, _>::with_keys(source, keys).build().unwrap();
    let running = maps.clone();
    tokio::spawn(async move { running.run().await });
    let mut polled = poll_idle(Controller::from_informer(&maps));
    let missing =
        "tried to reconcile object ConfigMap.v1./a.shop that was not found in local store";
    assert_eq!(polled.next().await, missing);
}
