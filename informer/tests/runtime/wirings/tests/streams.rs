//! Tests of controllers whose triggers are streams, and of generic code around their stores.

use std::time::Duration;

use deltafifo_testkit::{ApiServer, Request, Resource};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde_json::{Value, json};

use super::runtime::{reflector, watcher};
use super::{OURS, context, filtered, subscribed, warmed};
use crate::stage::{Stage, built_in, object, speech};
use crate::wirings::kinds::{of_site, page, server, site};

fn with(mut fields: Value, name: &str, value: Value) -> Value {
    fields[name] = value;
    fields
}

/// Returns a service of site `a`.
fn service(port: u16, status: Value) -> Value {
    let fields = with(of_site("a"), "spec", json!({ "ports": [{ "port": port }] }));
    object("v1", "Service", "web", with(fields, "status", status))
}

fn set(replicas: u32, ready: u32) -> Value {
    let spec =
        json!({ "replicas": replicas, "selector": {}, "serviceName": "web", "template": {} });
    let status = json!({ "replicas": replicas, "readyReplicas": ready });
    let mut set = object("apps/v1", "StatefulSet", "a", with(of_site("a"), "spec", spec));
    set["status"] = status;
    set["metadata"]["generation"] = replicas.into();
    set
}

#[tokio::test(start_paused = true)]
async fn predicates_of_owned_streams_hide_updates_and_not_deletions() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    let mut stage = Stage::open(filtered::run(server.client(), false, say), lines);
    assert_eq!(stage.lines().await, ["a: 0 replicas, 0 claims"]);
    server.apply(service(80, json!({}))).unwrap();
    assert_eq!(stage.lines().await, ["a: 0 replicas, 0 claims"]);
    server.apply(service(80, json!({ "loadBalancer": {} }))).unwrap();
    assert!(stage.lines().await.is_empty(), "only the status");
    server.apply(service(81, json!({}))).unwrap();
    assert_eq!(stage.lines().await, ["a: 0 replicas, 0 claims"]);
    server.delete(&built_in::<Service>(), "default", "web").unwrap();
    assert_eq!(stage.lines().await, ["a: 0 replicas, 0 claims"]);
}

#[tokio::test(start_paused = true)]
async fn reconciler_reads_the_stores_of_its_triggers() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    let mut stage = Stage::open(filtered::run(server.client(), true, say), lines);
    stage.lines().await;
    server.apply(set(2, 0)).unwrap();
    assert_eq!(stage.lines().await, ["a: 2 replicas, 0 claims"]);
    server.apply(set(2, 1)).unwrap();
    assert_eq!(stage.lines().await, ["a: 2 replicas, 0 claims"]);
    let labels = json!({ "labels": { "part-of": "sites", "site": "a" } });
    let claim = object("v1", "PersistentVolumeClaim", "c", json!({ "metadata": labels }));
    server.apply(claim).unwrap();
    assert_eq!(stage.lines().await, ["a: 2 replicas, 1 claims"]);
    server.delete(&built_in::<StatefulSet>(), "default", "a").unwrap();
    assert_eq!(stage.lines().await, ["a: 0 replicas, 1 claims"]);
    let spec = json!({ "template": {} });
    let job = object("batch/v1", "Job", "j", with(of_site("a"), "spec", spec));
    server.apply(job).unwrap();
    assert_eq!(stage.lines().await, ["a: 0 replicas, 1 claims"]);
}

#[tokio::test(start_paused = true)]
async fn controller_over_a_stream_starts_once_the_warmed_store_is_complete() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    let labels = json!({ "labels": { "part-of": "sites" } });
    server.apply(object("v1", "ConfigMap", "m", json!({ "metadata": labels }))).unwrap();
    let mut stage = Stage::open(warmed::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a: 0 sets, 1 maps"]);
    let set =
        object("apps/v1", "ReplicaSet", "r", with(of_site("a"), "spec", json!({ "selector": {} })));
    server.apply(set).unwrap();
    assert_eq!(stage.lines().await, ["a: 1 sets, 1 maps"]);
    let mut annotated = json!({ "metadata": labels });
    annotated["metadata"]["annotations"] = json!({ "sites.example/site": "a" });
    server.apply(object("v1", "ConfigMap", "n", annotated)).unwrap();
    assert_eq!(stage.lines().await, ["a: 1 sets, 2 maps"]);
    server.apply(service(80, json!({}))).unwrap();
    assert_eq!(stage.lines().await, ["a: 1 sets, 2 maps"]);
}

#[tokio::test(start_paused = true)]
async fn predicates_of_the_main_stream_hide_updates_of_the_status() {
    let (server, (say, lines)) = (server(), speech());
    let with_status = |title: &str, generation: u32, status: &str| {
        let mut site = site("a", json!({ "title": title }));
        site["metadata"]["generation"] = generation.into();
        site["status"] = json!({ "published": status });
        site
    };
    server.apply(with_status("A", 1, "")).unwrap();
    let mut stage = Stage::open(warmed::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a: 0 sets, 0 maps"]);
    server.apply(with_status("A", 1, "A")).unwrap();
    assert!(stage.lines().await.is_empty());
    server.apply(with_status("B", 2, "A")).unwrap();
    assert_eq!(stage.lines().await, ["a: 0 sets, 0 maps"]);
}

#[tokio::test(start_paused = true)]
async fn object_that_failed_reads_what_a_polled_stream_has_stored() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A", "certificate": "tls" }))).unwrap();
    let mut stage = Stage::open(warmed::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a: site has no certificate yet"]);
    server.apply(object("v1", "Secret", "tls", json!({}))).unwrap();
    assert!(stage.lines().await.is_empty(), "the secret triggers nothing");
    assert_eq!(stage.run_for(Duration::from_secs(30)).await, ["a: 0 sets, 0 maps"]);
}

#[tokio::test(start_paused = true)]
async fn shared_streams_of_seven_kinds_trigger_the_owner() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    server.apply(site("b", json!({ "title": "B" }))).unwrap();
    let mut stage = Stage::open(subscribed::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a: 0 maps", "b: 0 maps"]);
    let spec = json!({ "selector": {}, "template": {}, "serviceName": "web" });
    for (api_version, kind) in [
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "DaemonSet"),
        ("v1", "Service"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
    ] {
        let mut child = object(api_version, kind, "child", of_site("a"));
        if api_version == "apps/v1" {
            child["spec"] = spec.clone();
        }
        server.apply(child).unwrap();
        assert_eq!(stage.lines().await, ["a: 0 maps"], "{kind}");
    }
    server.apply(object("v1", "ConfigMap", "child", of_site("b"))).unwrap();
    assert_eq!(stage.lines().await, ["b: 1 maps"]);
    server.delete(&Resource::config_maps(), "default", "child").unwrap();
    assert_eq!(stage.lines().await, ["a: 0 maps", "b: 0 maps"]);
}

#[tokio::test(start_paused = true)]
async fn mapper_of_a_stream_reads_the_store_of_the_main_stream() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A", "certificate": "tls" }))).unwrap();
    server.apply(site("b", json!({ "title": "B" }))).unwrap();
    let mut stage = Stage::open(subscribed::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a: 0 maps", "b: 0 maps"]);
    let labels = json!({ "metadata": { "labels": { "tls": "yes" } } });
    server.apply(object("v1", "Secret", "tls", labels)).unwrap();
    assert_eq!(stage.lines().await, ["a: 0 maps"]);
}

#[tokio::test(start_paused = true)]
async fn object_that_fails_is_retried_after_a_delay_of_its_own() {
    let (server, (say, lines)) = (server(), speech());
    let mut stage = Stage::open(context::run(server.client(), say), lines);
    stage.lines().await;
    server.apply(page("p", "a")).unwrap();
    let failed = |delay: u32| format!("p: there is no site a, again in {delay}s");
    assert_eq!(stage.lines().await, [failed(1), failed(2), failed(4), failed(8)]);
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    assert_eq!(stage.lines().await, ["p of A (default)"]);
}

#[tokio::test(start_paused = true)]
async fn shared_stream_of_metadata_triggers_the_owner() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    let mut stage = Stage::open(context::run(server.client(), say), lines);
    stage.lines().await;
    server.apply(page("p", "a")).unwrap();
    assert_eq!(stage.lines().await, ["p of A (default)"]);
    let owner =
        json!({ "apiVersion": "sites.example/v1", "kind": "Page", "name": "p", "uid": "1" });
    let of_page = json!({ "metadata": { "ownerReferences": [owner] } });
    server.apply(object("v1", "Secret", "s", of_page)).unwrap();
    assert_eq!(stage.lines().await, ["p of A (default)"]);
    assert!(metadata_is_requested(&server));
    server.delete(&built_in::<Secret>(), "default", "s").unwrap();
    // kube's shared streams carry no deletion.
    assert_eq!(stage.lines().await, if OURS { &["p of A (default)"][..] } else { &[] });
}

fn metadata_is_requested(server: &ApiServer) -> bool {
    let requests = server.requests();
    let mut of_secrets = requests.iter().filter(|request| request.plural() == Some("secrets"));
    of_secrets.all(Request::is_metadata_only)
}

#[test]
fn generic_functions_read_a_store_that_a_test_fills() {
    let map = |namespace: &str, name: &str| {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some(namespace.to_owned());
        map.metadata.name = Some(name.to_owned());
        map
    };
    let (store, mut writer) = reflector::store::<ConfigMap>();
    for name in ["b", "a"] {
        writer.apply_watcher_event(&watcher::Event::Apply(map("blue", name)));
    }
    assert_eq!(context::names(&store), ["a", "b"]);
    assert!(context::is_taken(&map("green", "a"), &store));
    assert!(!context::is_taken(&map("blue", "a"), &store), "the object itself");
    writer.apply_watcher_event(&watcher::Event::Delete(map("blue", "a")));
    assert_eq!(context::names(&store), ["b"]);
}
