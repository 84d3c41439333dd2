//! Tests of the wirings with a finalizer, with a mapper over a store, and without a controller.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use deltafifo_testkit::Resource;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, ListParams};
use kube::discovery::Scope;
use serde_json::json;
use tokio::time::sleep;

use super::runtime::{reflector, watcher};
use super::{cached, finalized, mapped, readers};
use crate::stage::{Stage, node, object, speech};
use crate::wirings::kinds::{Site, custom, page, server, site};

#[tokio::test(start_paused = true)]
async fn pages_are_mapped_from_their_site_and_reported_by_the_library() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    server.apply(page("p", "a")).unwrap();
    server.apply(page("q", "b")).unwrap();
    let mut stage = Stage::open(mapped::run(server.client(), pending(), say), lines);
    let all = ["pages: p is done for now", "pages: q is done for now", "sites: a is done"];
    assert_eq!(stage.lines().await, all);
    server.apply(site("a", json!({ "title": "B" }))).unwrap();
    assert_eq!(stage.lines().await, ["pages: p is done for now", "sites: a is done"]);
}

#[tokio::test(start_paused = true)]
async fn failure_is_published_by_the_library() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "subtitle": "A" }))).unwrap();
    let mut stage = Stage::open(mapped::run(server.client(), pending(), say), lines);
    assert_eq!(stage.lines().await, ["sites: a failed: object is invalid, published: true"]);
    let events = Api::<Event>::all(server.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].note.as_deref(), Some("object is invalid"));
    assert_eq!(events[0].regarding.as_ref().and_then(|site| site.kind.as_deref()), Some("Site"));
}

#[tokio::test(start_paused = true)]
async fn two_reflectors_fill_the_stores_of_a_loop() {
    let (server, (say, lines)) = (server(), speech());
    let mut stage = Stage::open(readers::run(server.client(), "n", say), lines);
    assert_eq!(stage.lines().await, ["no node"]);
    server.apply(node("n", json!({}))).unwrap();
    server.apply(node("m", json!({}))).unwrap();
    for (name, node) in [("p", "n"), ("q", "m")] {
        let spec = json!({ "containers": [], "nodeName": node });
        server.apply(object("v1", "Pod", name, json!({ "spec": spec }))).unwrap();
    }
    assert_eq!(stage.lines().await, ["n runs 1 of 2 pods"]);
    server.delete(&Resource::pods(), "default", "p").unwrap();
    assert_eq!(stage.lines().await, ["n runs 0 of 1 pods"]);
}

#[test]
fn stores_of_the_loop_are_filled_by_hand() {
    let (nodes, mut writer) = reflector::store::<Node>();
    let pods = reflector::store::<Pod>().0;
    let agent = readers::Agent::new(nodes, pods, "n");
    assert_eq!(agent.state(), None);
    let mut node = Node::default();
    node.metadata.name = Some("n".to_owned());
    writer.apply_watcher_event(&watcher::Event::Init);
    writer.apply_watcher_event(&watcher::Event::InitApply(node));
    writer.apply_watcher_event(&watcher::Event::InitDone);
    assert_eq!(agent.state().as_deref(), Some("n runs 0 of 0 pods"));
}

#[tokio::test(start_paused = true)]
async fn cache_of_a_dynamic_kind_is_trimmed_and_complete() {
    let server = server();
    let map = |name: &str| {
        let annotations = json!({ "last-applied": "long", "other": "kept" });
        let mut map = object("v1", "ConfigMap", name, json!({ "data": { "key": "value" } }));
        map["metadata"]["annotations"] = annotations;
        map["spec"] = json!("dropped");
        map
    };
    server.apply(map("a")).unwrap();
    let types = ApiResource::erase::<ConfigMap>(&());
    let cache = cached::Cache::create(server.client(), types, Some("default"), None).await.unwrap();
    assert_eq!(cache.reader.len(), 1);
    let stored = cache.reader.state().remove(0);
    assert_eq!(stored.metadata.annotations.as_ref().map(BTreeMap::len), Some(1));
    assert_eq!(stored.data["data"]["key"], "value");
    let complete = cache.last_change();
    sleep(Duration::from_secs(60)).await;
    server.apply(map("b")).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cache.reader.len(), 2);
    assert!(cache.last_change() >= complete + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn finalized_object_has_a_status_and_is_cleaned_up_before_its_deletion() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    let mut stage = Stage::open(finalized::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a is published"]);
    let stored = || server.get(&custom::<Site>(Scope::Namespaced), "default", "a");
    let published = stored().expect("the site exists");
    assert_eq!(published["metadata"]["finalizers"], json!(["sites.example/cleanup"]));
    assert_eq!(published["status"], json!({ "published": "A" }));
    let sites = Api::<Site>::namespaced(server.client(), "default");
    sites.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(stage.lines().await, ["a is withdrawn"]);
    assert!(stored().is_none());
    let events = Api::<Event>::all(server.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events[0].reason.as_deref(), Some("Withdrawn"));
}

#[tokio::test(start_paused = true)]
async fn error_of_a_finalizer_reaches_the_error_policy() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "untitled" }))).unwrap();
    let mut stage = Stage::open(finalized::run(server.client(), say), lines);
    let lines = stage.run_for(Duration::from_secs(310)).await;
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.ends_with("untitled is no title")), "{lines:?}");
}
