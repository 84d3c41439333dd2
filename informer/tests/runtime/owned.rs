//! Tests of owned objects: which owners are reconciled, and when.

use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Fault, Resource, status};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use serde_json::json;

use super::rig::{
    Polled, Stored, controller, gated, idle, map, missing, owned, pod, poll, poll_idle, server,
};

/// Creates the maps `a` and `b`, and a pod `p` that `a` owns. Waits until both maps are reconciled.
async fn of_a_and_b() -> (ApiServer, Polled) {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    server.apply(pod("p", &["a"])).unwrap();
    let pods = Api::<Pod>::all(server.client());
    let mut polled = poll_idle(controller(&server).owns(pods, watcher::Config::default()));
    assert_eq!(polled.at_rest().await, ["a", "b"]);
    server.wait_for_watchers(2).await;
    (server, polled)
}

#[tokio::test(start_paused = true)]
async fn owner_is_reconciled_when_an_owned_object_changes_or_is_deleted() {
    let (server, mut polled) = of_a_and_b().await;
    server.apply(pod("q", &["b"])).unwrap();
    assert_eq!(polled.at_rest().await, ["b"]);
    let mut changed = pod("p", &["a"]);
    changed["spec"] = json!({ "nodeName": "n" });
    server.apply(changed).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
    server.delete(&Resource::pods(), "shop", "p").unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
    let pods = server.requests().into_iter().filter(|request| request.plural() == Some("pods"));
    assert!(pods.inspect(|request| assert!(request.is_metadata_only())).count() > 1);
}

#[tokio::test(start_paused = true)]
async fn reconciles_wait_for_the_list_of_owned_objects() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    server.fault(
        Fault::status(status::internal_error("not now"))
            .when(|request| request.plural() == Some("pods")),
    );
    let controller =
        controller(&server).owns(Api::<Pod>::all(server.client()), watcher::Config::default());
    let store = controller.store();
    let mut polled = poll_idle(controller);
    store.wait_until_ready().await.unwrap();
    let received = polled.at_rest().await;
    assert!(received.len() == 1 && received[0].contains("not now"), "{received:?}");
    assert_eq!(polled.next().await, "a");
}

#[tokio::test(start_paused = true)]
async fn missing_kind_is_reported_with_its_consequence() {
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    server.apply(map("a", "1")).unwrap();
    let pods = Api::<Pod>::all(server.client());
    let mut polled = poll_idle(controller(&server).owns(pods, watcher::Config::default()));
    for _ in 0..3 {
        let received = polled.next().await;
        assert!(
            received.contains("pods.v1: ") && received.contains("is its CRD installed?"),
            "{received}"
        );
        assert!(received.contains("nothing is reconciled until"), "{received}");
    }
    server.register(Resource::pods());
    while polled.next().await != "a" {}
    server.wait_for_watchers(2).await;
    missing(&server, || ());
    let received = polled.next().await;
    assert!(received.contains("410") && !received.contains("nothing is reconciled"), "{received}");
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_of_an_initial_list_is_not_reported_as_blocking() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let mut broken = map("b", "1");
    broken["data"] = json!(7);
    server.apply(broken).unwrap();
    let mut polled = poll_idle(controller(&server));
    let mut received = [polled.next().await, polled.next().await];
    received.sort_by_key(|received| received != "a");
    assert_eq!(received[0], "a", "the object is reconciled");
    assert!(received[1].contains("shop/b"), "{received:?}");
    assert!(
        !received[1].contains("nothing is reconciled")
            && !received[1].contains("the last good one"),
        "{received:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn former_and_new_owner_are_reconciled() {
    let (server, mut polled) = of_a_and_b().await;
    server.apply(pod("p", &["b"])).unwrap();
    assert_eq!(polled.at_rest().await, ["a", "b"], "the former and the new owner");
    server.apply(pod("p", &[])).unwrap();
    assert_eq!(polled.at_rest().await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn unobserved_deletion_reconciles_the_owner() {
    let (server, mut polled) = of_a_and_b().await;
    missing(&server, || server.delete(&Resource::pods(), "shop", "p").unwrap());
    loop {
        match polled.next().await.as_str() {
            "a" => return,
            error => assert!(error.contains("410"), "{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn owner_is_matched_by_group_and_kind_not_by_version() {
    let (server, mut polled) = of_a_and_b().await;
    server.apply(owned("v1beta1", "ConfigMap", "old", &["a"])).unwrap();
    assert_eq!(polled.at_rest().await, ["a"], "the core group in another version");
    server.apply(owned("example.org/v1", "ConfigMap", "other group", &["a"])).unwrap();
    server.apply(owned("v1", "Secret", "other kind", &["a"])).unwrap();
    assert!(polled.at_rest().await.is_empty());
}

/// Checks that an owner reference without `apiVersion`, kind or name triggers nothing, and that
/// the other references of the same pod trigger their owners. kube-apiserver refuses an incomplete
/// reference, but an aggregated API server may store it, and kube decodes it.
#[tokio::test(start_paused = true)]
async fn incomplete_owner_reference_is_ignored_and_others_count() {
    let (server, mut metadata) = of_a_and_b().await;
    // Repeated with an informer of whole pods.
    let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    let pods = SharedInformer::<Stored<Pod>>::builder(source).build().unwrap();
    let running = pods.clone();
    tokio::spawn(async move { running.run().await });
    let mut whole = poll_idle(controller(&server).owns_informer(&pods));
    assert_eq!(whole.at_rest().await, ["a", "b"]);
    let complete = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1", "controller": null });
    for field in ["apiVersion", "kind", "name", "uid"] {
        for is_null in [false, true] {
            let mut incomplete = complete.clone();
            incomplete["name"] = "b".into();
            let fields = incomplete.as_object_mut().unwrap();
            if is_null {
                fields.insert(field.to_owned(), json!(null))
            } else {
                fields.remove(field)
            };
            let mut pod = pod("q", &[]);
            pod["metadata"]["ownerReferences"] = json!([incomplete, complete]);
            server.apply(pod).unwrap();
            let owners: &[_] = if field == "uid" { &["a", "b"] } else { &["a"] };
            for polled in [&mut metadata, &mut whole] {
                assert_eq!(polled.at_rest().await, owners, "{field}, null: {is_null}");
            }
            server.delete(&Resource::pods(), "shop", "q").unwrap();
            for polled in [&mut metadata, &mut whole] {
                polled.at_rest().await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_owner_is_one_object_for_all_namespaces() {
    let server = server();
    server
        .apply(json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "n" } }))
        .unwrap();
    let (reconcile, mut begun) = gated();
    let pods = Api::<Pod>::all(server.client());
    let nodes = Controller::new(Api::<Node>::all(server.client()), watcher::Config::default());
    let polled = poll(nodes.owns(pods, watcher::Config::default()), reconcile);
    let first = begun.recv().await.unwrap();
    server.wait_for_watchers(2).await;
    for namespace in ["shop", "bar"] {
        let mut pod = owned("v1", "Node", "p", &["n"]);
        pod["metadata"]["namespace"] = namespace.into();
        server.apply(pod).unwrap();
    }
    idle().await;
    assert!(begun.is_empty(), "already being reconciled");
    first.end.send(()).unwrap();
    let second = begun.recv().await.unwrap();
    assert_eq!(second.name, "n");
    second.end.send(()).unwrap();
    idle().await;
    assert!(begun.is_empty(), "once for both");
    drop(polled);
}
