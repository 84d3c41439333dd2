//! Tests of the programs that a server without a cluster can satisfy. They are compiled twice, like
//! the programs.

use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Node, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams};
use kube::discovery::Scope;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::programs::bed::Bed;
use super::programs::{
    any_kind, beds_controller, beds_mirror, errand, guarded_maps, incidents, kind_applied,
    maps_copied, nodes_cordoned, nodes_mirror, pod_once, pods_trimmed, pods_unready,
    secrets_mirror, three_kinds, two_controllers,
};
use crate::stage::{Stage, built_in, node, object, speech};

pub fn beds() -> Resource {
    Resource::custom(ApiResource::erase::<Bed>(&()), Scope::Namespaced)
}

pub fn server() -> ApiServer {
    let mut server = ApiServer::builder().resource(beds());
    for resource in [
        Resource::config_maps(),
        Resource::pods(),
        Resource::nodes(),
        built_in::<Secret>(),
        built_in::<Deployment>(),
        built_in::<Job>(),
        built_in::<Event>(),
        built_in::<CoreEvent>(),
    ] {
        server = server.resource(resource);
    }
    server.build()
}

fn map(name: &str, data: Value) -> Value {
    object("v1", "ConfigMap", name, json!({ "data": data }))
}

pub fn pod(name: &str, fields: Value) -> Value {
    object("v1", "Pod", name, fields)
}

pub fn bed(name: &str, crop: &str) -> Value {
    object("garden.example/v1", "Bed", name, json!({ "spec": { "crop": crop } }))
}

#[tokio::test(start_paused = true)]
async fn watch_of_any_kind_yields_what_is_listed_and_applied() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(map("a", json!({}))).unwrap();
    let types = ApiResource::erase::<ConfigMap>(&());
    let mut stage = Stage::open(any_kind::run(server.client(), types, say), lines);
    assert_eq!(stage.lines().await, ["ConfigMap a in default"]);
    server.apply(map("b", json!({}))).unwrap();
    server.delete(&Resource::config_maps(), "default", "a").unwrap();
    assert_eq!(stage.lines().await, ["ConfigMap b in default"]);

    let (say, lines) = speech();
    server.apply(node("n", json!({}))).unwrap();
    let types = ApiResource::erase::<Node>(&());
    let mut stage = Stage::open(any_kind::run(server.client(), types, say), lines);
    assert_eq!(stage.lines().await, ["Node n in the cluster"]);
}

#[tokio::test(start_paused = true)]
async fn guarded_watch_goes_on_after_an_object_that_does_not_decode() {
    for streaming in [false, true] {
        let (server, (say, lines)) = (server(), speech());
        server.apply(map("a", json!({ "season": "spring" }))).unwrap();
        server.apply(map("b", json!({ "month": "May" }))).unwrap();
        let mut stage = Stage::open(guarded_maps::run(server.client(), streaming, say), lines);
        let lines = stage.lines().await;
        assert_eq!(lines[0], "a: spring");
        assert!(lines[1].starts_with("b: ") && lines[1].contains("season"), "{}", lines[1]);
        server.apply(map("b", json!({ "season": "May" }))).unwrap();
        assert_eq!(stage.lines().await, ["b: May"]);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_of_events_yields_them() {
    let (server, (say, lines)) = (server(), speech());
    let mut stage = Stage::open(incidents::run(server.client(), None, say), lines);
    assert!(stage.lines().await.is_empty());
    let regarding = json!({ "kind": "Pod", "name": "p" });
    let fields = json!({ "regarding": regarding, "reason": "Pulled", "note": "an image" });
    server.apply(object("events.k8s.io/v1", "Event", "p.1", fields)).unwrap();
    assert_eq!(stage.lines().await, ["Pulled     Pod p                an image"]);
}

#[tokio::test(start_paused = true)]
async fn streams_of_three_kinds_are_merged() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(map("a", json!({}))).unwrap();
    let mut stage = Stage::open(three_kinds::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["map a"]);
    server.apply(object("v1", "Secret", "b", json!({}))).unwrap();
    let spec = json!({ "selector": {}, "template": {} });
    server.apply(object("apps/v1", "Deployment", "c", json!({ "spec": spec }))).unwrap();
    assert_eq!(stage.lines().await, ["deployment c", "secret b"]);
}

#[tokio::test(start_paused = true)]
async fn mirror_has_all_beds_once_it_is_ready() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(bed("north", "kale")).unwrap();
    server.apply(bed("south", "beans")).unwrap();
    let mut stage = Stage::open(beds_mirror::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["all: north south", "north grows kale", "south grows beans"]);
    server.delete(&beds(), "default", "south").unwrap();
    assert_eq!(stage.lines().await, ["all: north"]);
}

#[tokio::test(start_paused = true)]
async fn predicates_hide_nodes_whose_labels_and_annotations_are_unchanged() {
    let (server, (say, lines)) = (server(), speech());
    let labels = |zone: &str| json!({ "metadata": { "labels": { "zone": zone } } });
    server.apply(node("a", labels("south"))).unwrap();
    server.apply(node("b", labels("north"))).unwrap();
    let mut stage = Stage::open(nodes_mirror::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["1 nodes", "a has changed"]);
    let mut cordoned = node("a", labels("south"));
    cordoned["spec"] = json!({ "unschedulable": true });
    server.apply(cordoned.clone()).unwrap();
    assert_eq!(stage.lines().await, ["1 nodes"]);
    cordoned["metadata"]["annotations"] = json!({ "why": "repair" });
    server.apply(cordoned).unwrap();
    assert_eq!(stage.lines().await, ["1 nodes", "a has changed"]);
}

#[tokio::test(start_paused = true)]
async fn cordoned_nodes_are_named_with_their_failed_conditions() {
    let (server, (say, lines)) = (server(), speech());
    let conditions = json!([
        { "type": "Ready", "status": "False" },
        { "type": "DiskPressure", "status": "True" },
        { "type": "PIDPressure", "status": "False" },
    ]);
    let fields =
        json!({ "spec": { "unschedulable": true }, "status": { "conditions": conditions } });
    let mut stage = Stage::open(nodes_cordoned::run(server.client(), true, say), lines);
    server.apply(node("b", json!({}))).unwrap();
    assert_eq!(stage.lines().await, ["b accepts pods"]);
    server.apply(node("a", fields)).unwrap();
    assert_eq!(stage.lines().await, ["a is cordoned: Ready, DiskPressure"]);
}

#[tokio::test(start_paused = true)]
async fn mirrored_pods_are_modified_before_they_are_stored() {
    let (server, (say, lines)) = (server(), speech());
    server.apply(pod("p", json!({ "status": { "phase": "Running" } }))).unwrap();
    let mut stage = Stage::open(pods_trimmed::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["applied: p", "stored: p, status: false"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_ready_are_named_with_the_reason() {
    for streaming in [false, true] {
        let (server, (say, lines)) = (server(), speech());
        let ready = |status: &str| {
            let condition = json!({ "type": "Ready", "status": status, "message": "no port" });
            json!({ "status": { "conditions": [condition] } })
        };
        server.apply(pod("p", ready("True"))).unwrap();
        let mut stage = Stage::open(pods_unready::run(server.client(), streaming, say), lines);
        assert_eq!(stage.lines().await, ["p: ready"]);
        server.apply(pod("p", ready("False"))).unwrap();
        assert_eq!(stage.lines().await, ["p: no port"]);
    }
}

#[tokio::test(start_paused = true)]
async fn mirrored_secrets_are_read_by_another_task() {
    let (server, (say, lines)) = (server(), speech());
    let data = json!({ "data": { "user": "YW5u", "key": "/wA=" } });
    server.apply(object("v1", "Secret", "s", data)).unwrap();
    let mut stage = Stage::open(secrets_mirror::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["applied s", "stored s: key (bytes), user (text)"]);
}

#[tokio::test(start_paused = true)]
async fn errand_is_removed_once_it_is_complete() {
    let (server, (say, lines)) = (server(), speech());
    let mut stage = Stage::open(errand::run(server.client(), say), lines);
    assert!(stage.lines().await.is_empty());
    let job = || server.get(&built_in::<Job>(), "default", "compost");
    let mut done = job().expect("a job");
    done["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    server.apply(done).unwrap();
    assert_eq!(stage.lines().await, ["done: true"]);
    assert!(job().is_none());
}

#[tokio::test(start_paused = true)]
async fn two_controllers_share_the_watch_of_pods() {
    let (server, (say, lines)) = (server(), speech());
    let spec = json!({ "selector": {}, "template": {} });
    server.apply(object("apps/v1", "Deployment", "d", json!({ "spec": spec }))).unwrap();
    let owner = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1" });
    let mut child = pod("p", json!({ "metadata": { "ownerReferences": [owner] } }));
    server.apply(child.clone()).unwrap();
    let mut stage = Stage::open(two_controllers::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["Deployment d", "Pod p"]);
    child["metadata"]["labels"] = json!({ "changed": "yes" });
    server.apply(child).unwrap();
    assert_eq!(stage.lines().await, ["Deployment d", "Pod p"]);
    assert_eq!(server.watchers(), 2, "of pods and deployments");
}

#[tokio::test(start_paused = true)]
async fn label_of_a_bed_is_restored_after_its_deletion() {
    let (server, (say, lines)) = (server(), speech());
    let (reload, reloaded) = mpsc::channel(1);
    server.apply(bed("north", "kale")).unwrap();
    let mut stage = Stage::open(beds_controller::run(server.client(), reloaded, say), lines);
    assert_eq!(stage.lines().await, ["north"]);
    let label = || server.get(&Resource::config_maps(), "default", "north");
    assert_eq!(label().expect("a map")["data"]["crop"], "kale");
    server.delete(&Resource::config_maps(), "default", "north").unwrap();
    assert_eq!(stage.lines().await, ["north"]);
    assert!(label().is_some());
    reload.try_send(()).unwrap();
    assert_eq!(stage.lines().await, ["north"]);
}

#[tokio::test(start_paused = true)]
async fn copy_of_a_map_is_removed_before_the_map_is_deleted() {
    let (server, (say, lines)) = (server(), speech());
    let labels = json!({ "labels": { "garden.example/copy": "yes" } });
    server.apply(object("v1", "ConfigMap", "a", json!({ "metadata": labels }))).unwrap();
    server.apply(map("b", json!({}))).unwrap();
    let mut stage = Stage::open(maps_copied::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["a"]);
    let copy = || server.get(&built_in::<Secret>(), "default", "copy-a");
    assert!(copy().is_some());
    let maps = Api::<ConfigMap>::namespaced(server.client(), "default");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(stage.lines().await, ["a"]);
    assert!(copy().is_none());
    assert!(server.get(&Resource::config_maps(), "default", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn object_of_a_new_kind_is_applied_once_the_kind_is_served() {
    let (server, (say, lines)) = (server(), speech());
    let definitions = ApiResource::erase::<CustomResourceDefinition>(&());
    let definitions = Resource::built_in(definitions, Scope::Cluster);
    server.register(definitions);
    // The server serves the kind, and says so in the definition's status.
    let mut stage = Stage::open(kind_applied::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["clay: 12", "pots.garden.example"]);
}

#[tokio::test(start_paused = true)]
async fn pod_is_limited_once_it_runs() {
    let (server, (say, lines)) = (server(), speech());
    let mut stage = Stage::open(pod_once::run(server.client(), say), lines);
    assert_eq!(stage.lines().await, ["created greenhouse"]);
    let mut pod = server.get(&Resource::pods(), "default", "greenhouse").expect("a pod");
    pod["status"] = json!({ "phase": "Running" });
    server.apply(pod).unwrap();
    assert_eq!(stage.lines().await, ["deletes greenhouse", "greenhouse lives for Some(90)"]);
}
