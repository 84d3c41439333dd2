//! Tests of controllers of several namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo_informer::SharedInformer;
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_informer::shared_informer::{
    HandlerOptions, Namespaces, Notification, Scope, SharedInformerFactory,
};
use deltafifo_testkit::{ApiServer, Fault, Resource, status};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::DeleteParams;
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::sync::mpsc;

use super::rig::{Polled, Stored, in_form, map, maps, name, owned, poll_idle, server};

fn apply(server: &ApiServer, namespace: &str, name: &str, data: &str) {
    let mut map = map(name, data);
    map["metadata"]["namespace"] = namespace.into();
    server.apply(map).unwrap();
}

fn forbid_green(server: &ApiServer) {
    let forbidden = Fault::status(status::forbidden(&Resource::config_maps()));
    server.fault(forbidden.when(|request| request.namespace() == Some("green")).times(usize::MAX));
}

fn controller(server: &ApiServer, namespaces: &Namespaces) -> Controller<Stored> {
    in_form(Controller::in_namespaces(maps(server), namespaces, watcher::Config::default()))
}

/// Waits for the reconcile of an object. Accepts any number of errors before it; each must name
/// the namespace.
async fn reconciled(polled: &mut Polled, object: &str) {
    loop {
        let next = polled.next().await;
        if next == object {
            return;
        }
        assert!(next.contains(r#"namespace "green""#) && next.contains("403"), "{next}");
    }
}

#[tokio::test(start_paused = true)]
async fn optional_namespace_that_is_forbidden_does_not_delay_reconciles() {
    let server = server();
    apply(&server, "blue", "a", "1");
    apply(&server, "green", "b", "1");
    forbid_green(&server);
    let namespaces = Namespaces::new(["blue", "green"]).unwrap().optional();
    let mut polled = poll_idle(controller(&server, &namespaces));
    reconciled(&mut polled, "a").await;
    server.clear_faults();
    reconciled(&mut polled, "b").await;
}

#[tokio::test(start_paused = true)]
async fn required_namespace_that_is_forbidden_delays_reconciles_and_says_so() {
    let server = server();
    apply(&server, "blue", "a", "1");
    forbid_green(&server);
    let namespaces = Namespaces::new(["blue", "green"]).unwrap();
    let mut polled = poll_idle(controller(&server, &namespaces));
    for _ in 0..20 {
        let next = polled.next().await;
        assert!(next.contains(r#"namespace "green""#), "{next}");
    }
    server.clear_faults();
    reconciled(&mut polled, "a").await;
}

#[tokio::test(start_paused = true)]
async fn removal_of_a_namespace_does_not_delete_its_objects() {
    let server = server();
    apply(&server, "blue", "a", "1");
    apply(&server, "green", "b", "1");
    let namespaces = Namespaces::new(["blue", "green"]).unwrap();
    let (send, mut deleted) = mpsc::unbounded_channel();
    let controller = controller(&server, &namespaces).on_deleted(move |last| {
        send.send(last.object().map(|last| name(last))).unwrap();
        async {}
    });
    let mut polled = poll_idle(controller);
    assert_eq!(polled.sorted(2).await, ["a", "b"]);

    namespaces.remove("green");
    polled.at_rest().await;
    server.delete(&Resource::config_maps(), "blue", "a").unwrap();
    assert_eq!(deleted.recv().await.unwrap().as_deref(), Some("a"), "the first deletion");

    namespaces.add("green").unwrap();
    assert_eq!(polled.next().await, "b", "reconciled again");
}

#[tokio::test(start_paused = true)]
async fn related_objects_come_from_an_informer_of_the_same_set() {
    let server = server();
    apply(&server, "blue", "a", "1");
    let namespaces = Namespaces::new(["blue"]).unwrap();
    let factory = SharedInformerFactory::new(server.client());
    let pods: SharedInformer<Stored<Pod>> =
        factory.informer(&Scope::namespaces(&namespaces)).unwrap();
    factory.start();
    let mut polled = poll_idle(controller(&server, &namespaces).owns_informer(&pods));
    assert_eq!(polled.next().await, "a");

    let mut pod = owned("v1", "ConfigMap", "of-a", &["a"]);
    pod["metadata"]["namespace"] = "blue".into();
    server.apply(pod).unwrap();
    assert_eq!(polled.next().await, "a");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn removal_of_a_namespace_reconciles_no_owner_of_its_objects() {
    let server = server();
    apply(&server, "blue", "a", "1");
    let mut pod = owned("v1", "ConfigMap", "of-a", &["a"]);
    pod["metadata"]["namespace"] = "blue".into();
    server.apply(pod).unwrap();
    let namespaces = Namespaces::new(["blue"]).unwrap();
    let factory = SharedInformerFactory::new(server.client());
    let pods: SharedInformer<Stored<Pod>> =
        factory.informer(&Scope::namespaces(&namespaces)).unwrap();
    factory.start();
    // The main objects are from all namespaces.
    let all = in_form(Controller::new(maps(&server), watcher::Config::default()));
    let mut polled = poll_idle(all.owns_informer(&pods));
    assert_eq!(polled.next().await, "a");
    polled.at_rest().await;

    namespaces.remove("blue");
    while !pods.store().is_empty() {
        super::rig::idle().await;
    }
    assert_eq!(polled.at_rest().await, [""; 0], "the pod still exists");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn on_deleted_is_not_called_if_a_removed_namespace_is_added_again_during_the_delivery() {
    let server = server();
    for n in 0..500 {
        apply(&server, "green", &format!("m{n}"), "1");
    }
    let namespaces = Namespaces::new(["green"]).unwrap();
    let factory = SharedInformerFactory::new(server.client());
    let maps: SharedInformer<Stored> = factory.informer(&Scope::namespaces(&namespaces)).unwrap();
    let mut changes = maps.subscribe(HandlerOptions::new()).unwrap();
    factory.start();
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let controller = Controller::from_informer(&maps).on_deleted(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    let mut polled = poll_idle(controller);
    polled.sorted(500).await;
    namespaces.remove("green");
    while !matches!(changes.next().await.unwrap(), Notification::Deleted { .. }) {}
    namespaces.add("green").unwrap();
    polled.at_rest().await;
    assert_eq!(called.load(Ordering::Relaxed), 0, "the server deleted nothing");
    drop(changes);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn on_deleted_is_not_called_for_living_objects_of_a_terminating_namespace_without_its_label()
{
    let server = ApiServer::builder()
        .resource(Resource::config_maps())
        .resource(Resource::namespaces())
        .build();
    let namespace = json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {
            "name": "green", "labels": { "team": "shop" }, "finalizers": ["example.com/content"],
        },
    });
    server.apply(namespace).unwrap();
    apply(&server, "green", "living", "1");
    apply(&server, "green", "deleted", "1");
    let factory = SharedInformerFactory::new(server.client());
    let ours = Scope::all().labels("team=shop");
    let all = factory.informer::<PartialObjectMeta<Namespace>>(&ours).unwrap();
    let (namespaces, following) = Namespaces::of_informer(&all).unwrap();
    tokio::spawn(following);
    factory.start();
    let (send, mut deleted) = mpsc::unbounded_channel();
    let controller = controller(&server, &namespaces).on_deleted(move |last| {
        send.send(last.object().map(|last| name(last))).unwrap();
        async {}
    });
    let mut polled = poll_idle(controller);
    assert_eq!(polled.sorted(2).await, ["deleted", "living"]);

    let client = kube::Api::<Namespace>::all(server.client());
    client.delete("green", &DeleteParams::default()).await.unwrap();
    let mut green = server.get(&Resource::namespaces(), "", "green").unwrap();
    green["metadata"]["labels"]["team"] = "bank".into();
    server.delete(&Resource::config_maps(), "green", "deleted").unwrap();
    server.apply(green).unwrap();
    assert_eq!(deleted.recv().await.unwrap().as_deref(), Some("deleted"));
    polled.at_rest().await;
    assert!(namespaces.names().is_empty());
    assert!(deleted.try_recv().is_err(), "the other object lives");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn optional_relation_is_waited_for_once_none_of_its_namespaces_is_refused() {
    let server = server();
    apply(&server, "blue", "a", "1");
    let forbidden = Fault::status(status::forbidden(&Resource::pods()));
    server.fault(forbidden.when(|request| request.namespace() == Some("green")).times(2));
    let silent = Fault::silence().when(|request| request.namespace() == Some("blue"));
    server.fault(silent.times(usize::MAX));
    let namespaces = Namespaces::new(["blue", "green"]).unwrap();
    let factory = SharedInformerFactory::new(server.client());
    let pods: SharedInformer<Stored<Pod>> =
        factory.informer(&Scope::namespaces(&namespaces)).unwrap();
    factory.start();
    while !pods.namespace_status().iter().any(|status| status.has_listed) {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    let all = in_form(Controller::new(maps(&server), watcher::Config::default()));
    let mut polled = poll_idle(all.owns_informer(&pods).optional());
    assert_eq!(polled.at_rest().await, [""; 0], "green was refused, and is not any more");
    server.clear_faults();
    loop {
        let next = polled.next().await;
        if next == "a" {
            break;
        }
        assert!(next.starts_with("runner error: nothing is reconciled until"), "{next}");
    }
    factory.shutdown().await;
}
