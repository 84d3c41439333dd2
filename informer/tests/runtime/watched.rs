//! Tests of watched objects, and of streams of requests.

use deltafifo_informer::runtime::reflector::ObjectRef;
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::rig::{Stored, controller, map, missing, poll_idle, server, value};

/// Returns a pod that names the maps to which it belongs.
fn of(maps: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": "shop", "name": "p", "annotations": { "maps": maps } },
    })
}

fn maps_of(pod: &Pod) -> Vec<ObjectRef<ConfigMap>> {
    let maps = pod.annotations().get("maps").map(String::as_str).unwrap_or_default();
    maps.split_whitespace().map(|map| ObjectRef::new(map).within("shop")).collect()
}

type Watches = fn(Controller<Stored>, Api<Pod>) -> Controller<Stored>;

/// The methods that add watched objects to a controller: `watches`, whose mapper gets a clone of an
/// object, and `watches_ref`, whose mapper borrows it.
const WATCHES: [Watches; 2] = [
    |controller, pods| controller.watches(pods, watcher::Config::default(), |pod| maps_of(&pod)),
    |controller, pods| controller.watches_ref(pods, &(), watcher::Config::default(), maps_of),
];

fn with_maps(names: &[&str]) -> ApiServer {
    let server = server();
    for name in names {
        server.apply(map(name, "1")).unwrap();
    }
    server
}

#[tokio::test(start_paused = true)]
async fn old_and_new_state_of_a_watched_object_are_mapped() {
    for watches in WATCHES {
        let server = with_maps(&["a", "b", "c"]);
        let mut polled = poll_idle(watches(controller(&server), Api::all(server.client())));
        assert_eq!(polled.at_rest().await, ["a", "b", "c"]);
        server.wait_for_watchers(2).await;
        for (maps, reconciled) in
            [("a", &["a"][..]), ("b", &["a", "b"]), ("b c", &["b", "c"]), ("", &["b", "c"])]
        {
            server.apply(of(maps)).unwrap();
            assert_eq!(polled.at_rest().await, reconciled, "{maps}");
        }
        server.apply(of("a")).unwrap();
        polled.at_rest().await;
        server.delete(&Resource::pods(), "shop", "p").unwrap();
        assert_eq!(polled.at_rest().await, ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn unobserved_deletion_of_a_watched_object_is_mapped() {
    for watches in WATCHES {
        let server = with_maps(&["a", "b"]);
        server.apply(of("a")).unwrap();
        let mut polled = poll_idle(watches(controller(&server), Api::all(server.client())));
        assert_eq!(polled.at_rest().await, ["a", "b"]);
        server.wait_for_watchers(2).await;
        missing(&server, || server.delete(&Resource::pods(), "shop", "p").unwrap());
        while polled.next().await != "a" {}
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_mapper_is_reported_and_other_mappers_run() {
    let server = with_maps(&["a"]);
    let mapper = |pod: Pod| {
        assert_ne!(pod.annotations()["maps"], "bad", "a bug");
        maps_of(&pod)
    };
    let pods = Api::all(server.client());
    let mut polled =
        poll_idle(controller(&server).watches(pods, watcher::Config::default(), mapper));
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(2).await;
    server.apply(of("bad")).unwrap();
    assert!(polled.next().await.contains("a bug"));
    server.delete(&Resource::pods(), "shop", "p").unwrap();
    assert!(polled.next().await.contains("a bug"));
    server.apply(of("a")).unwrap();
    assert_eq!(polled.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn mapper_that_panics_for_one_state_still_maps_the_other() {
    let server = with_maps(&["a", "b"]);
    let mapper = |pod: Pod| {
        assert_ne!(pod.annotations()["maps"], "bad", "a bug");
        maps_of(&pod)
    };
    let pods = Api::all(server.client());
    let mut polled =
        poll_idle(controller(&server).watches(pods, watcher::Config::default(), mapper));
    assert_eq!(polled.at_rest().await, ["a", "b"]);
    server.wait_for_watchers(2).await;
    server.apply(of("a")).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
    for (maps, mapped) in [("bad", "a"), ("b", "b")] {
        server.apply(of(maps)).unwrap();
        let received = polled.at_rest().await;
        assert!(
            received.len() == 2
                && received.contains(&mapped.to_owned())
                && received.iter().any(|received| received.contains("a bug")),
            "{received:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_predicate_hides_no_update() {
    let server = with_maps(&["a"]);
    let asks = |old: &ConfigMap, _: &ConfigMap| {
        assert_ne!(value(old), "bad", "a bug");
        true
    };
    let mut polled = poll_idle(controller(&server).when(asks));
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    server.apply(map("a", "bad")).unwrap();
    assert_eq!(polled.next().await, "a");
    server.apply(map("a", "3")).unwrap();
    let received = polled.at_rest().await;
    assert!(
        received.contains(&"a".to_owned())
            && received.iter().any(|received| received.contains("a bug")),
        "{received:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn trigger_streams_reconcile_one_object_or_all() {
    let server = with_maps(&["a", "b"]);
    let (one, mut ones) = mpsc::unbounded_channel::<&str>();
    let (all, mut alls) = mpsc::unbounded_channel();
    let ones = stream::poll_fn(move |context| ones.poll_recv(context));
    let controller = controller(&server)
        .reconcile_on(futures_util::StreamExt::map(ones, |name| {
            ObjectRef::new(name).within("shop")
        }))
        .reconcile_all_on(stream::poll_fn(move |context| alls.poll_recv(context)));
    let mut polled = poll_idle(controller);
    assert_eq!(polled.sorted(2).await, ["a", "b"]);
    one.send("b").unwrap();
    assert_eq!(polled.next().await, "b");
    all.send(()).unwrap();
    assert_eq!(polled.sorted(2).await, ["a", "b"]);
    drop((one, all));
    server.wait_for_watchers(1).await;
    server.apply(map("a", "2")).unwrap();
    assert_eq!(polled.next().await, "a", "the controller continues without the streams");
}
