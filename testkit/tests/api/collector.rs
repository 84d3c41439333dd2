//! Tests of the garbage collector and of the deletion of namespaces.

use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::common::{builder, open, pod};

const MAPS: &str = "/api/v1/configmaps";

fn collecting() -> ApiServer {
    builder().resource(Resource::namespaces()).controllers(true).build()
}

/// Adds a config map with these owners, and returns a reference to it.
fn map(server: &ApiServer, name: &str, owners: &[&Value]) -> Value {
    add(server, "default", name, owners, &[])
}

fn add(
    server: &ApiServer,
    namespace: &str,
    name: &str,
    owners: &[&Value],
    finalizers: &[&str],
) -> Value {
    let metadata = json!({
        "namespace": namespace, "name": name, "ownerReferences": owners, "finalizers": finalizers,
    });
    server.apply(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata })).unwrap();
    let made = server.get(&Resource::config_maps(), namespace, name);
    let uid = made.map_or(Value::Null, |made| made["metadata"]["uid"].clone());
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "name": name, "uid": uid })
}

fn blocking(owner: &Value) -> Value {
    let mut owner = owner.clone();
    owner["blockOwnerDeletion"] = true.into();
    owner
}

fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(server.client())
}

fn exists(server: &ApiServer, name: &str) -> bool {
    server.get(&Resource::config_maps(), "default", name).is_some()
}

fn owners(server: &ApiServer, name: &str) -> Vec<String> {
    let map = server.get(&Resource::config_maps(), "default", name).unwrap();
    let owners = map["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn dependents_follow_a_deleted_owner_in_order() {
    let server = collecting();
    let a = map(&server, "a", &[]);
    let b = map(&server, "b", &[&a]);
    map(&server, "c", &[&a]);
    map(&server, "d", &[&b]);
    let mut watch = open(&server, &format!("{MAPS}?watch=true&resourceVersion=5")).await;
    maps(&server).delete("a", &DeleteParams::default()).await.unwrap();
    watch.events(["DELETED a 6", "DELETED b 7", "DELETED c 8", "DELETED d 9"]).await;
    watch.silent();
}

#[tokio::test]
async fn object_with_another_owner_stays_and_loses_the_reference() {
    let server = collecting();
    let a = map(&server, "a", &[]);
    let b = map(&server, "b", &[]);
    map(&server, "c", &[&a, &b]);
    maps(&server).delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(owners(&server, "c"), ["b"]);
    server.delete(&Resource::config_maps(), "default", "b").unwrap();
    assert!(!exists(&server, "c"));
}

#[tokio::test]
async fn object_of_an_owner_that_is_gone_does_not_stay() {
    let server = collecting();
    let a = map(&server, "a", &[]);
    maps(&server).delete("a", &DeleteParams::default()).await.unwrap();
    let mut watch = open(&server, &format!("{MAPS}?watch=true&resourceVersion=3")).await;
    map(&server, "late", &[&a]);
    watch.events(["ADDED late 4", "DELETED late 5"]).await;
    // An owner of another namespace is none, and a uid of a test is unknown.
    let b = map(&server, "b", &[]);
    add(&server, "other", "far", &[&b], &[]);
    watch.events(["ADDED b 6", "ADDED far 7", "DELETED far 8"]).await;
    map(
        &server,
        "odd",
        &[&json!({ "kind": "ConfigMap", "apiVersion": "v1", "name": "x", "uid": "x" })],
    );
    map(
        &server,
        "alien",
        &[&json!({ "kind": "Alien", "apiVersion": "v9", "name": "x", "uid": "x" })],
    );
    assert!(exists(&server, "odd") && exists(&server, "alien"));
    // An owner that was created again is another one.
    let again = map(&server, "a", &[]);
    assert_ne!(again, a);
    map(&server, "later", &[&a]);
    assert!(!exists(&server, "later") && exists(&server, "a"));
}

#[tokio::test]
async fn foreground_deletion_waits_for_dependents_that_block() {
    let server = collecting();
    let a = map(&server, "a", &[]);
    add(&server, "default", "held", &[&blocking(&a)], &["example.com/held"]);
    add(&server, "default", "free", &[&a], &["example.com/held"]);
    let mut watch = open(&server, &format!("{MAPS}?watch=true&resourceVersion=4")).await;
    maps(&server).delete("a", &DeleteParams::foreground()).await.unwrap();
    watch.events(["MODIFIED a 5", "MODIFIED free 6", "MODIFIED held 7"]).await;
    watch.silent();
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps(&server).patch("held", &PatchParams::default(), &free).await.unwrap();
    watch.events(["DELETED held 8", "DELETED a 9"]).await;
    watch.silent();
    assert!(exists(&server, "free"));
}

#[tokio::test]
async fn foreground_deletion_goes_down_the_tree() {
    let server = collecting();
    let a = map(&server, "a", &[]);
    let b = map(&server, "b", &[&blocking(&a)]);
    map(&server, "c", &[&blocking(&b)]);
    let mut watch = open(&server, &format!("{MAPS}?watch=true&resourceVersion=4")).await;
    maps(&server).delete("a", &DeleteParams::foreground()).await.unwrap();
    watch
        .events(["MODIFIED a 5", "MODIFIED b 6", "DELETED c 7", "DELETED b 8", "DELETED a 9"])
        .await;
}

#[tokio::test]
async fn circle_of_owners_ends() {
    let server = collecting();
    let a = map(&server, "a", &[]);
    let b = map(&server, "b", &[&blocking(&a)]);
    map(&server, "a", &[&blocking(&b)]);
    maps(&server).delete("a", &DeleteParams::foreground()).await.unwrap();
    assert!(!exists(&server, "a") && !exists(&server, "b"));
}

#[tokio::test]
async fn orphans_stay_without_the_reference() {
    let server = collecting();
    let a = map(&server, "a", &[]);
    map(&server, "b", &[&a]);
    let mut watch = open(&server, &format!("{MAPS}?watch=true&resourceVersion=3")).await;
    maps(&server).delete("a", &DeleteParams::orphan()).await.unwrap();
    watch.events(["MODIFIED a 4", "MODIFIED b 5", "DELETED a 6"]).await;
    assert!(owners(&server, "b").is_empty());
}

#[tokio::test]
async fn namespace_is_emptied_and_goes_when_its_last_object_does() {
    let server = collecting();
    let namespaces: Api<Namespace> = Api::all(server.client());
    let new = serde_json::from_value(json!({ "metadata": { "name": "shop" } })).unwrap();
    namespaces.create(&PostParams::default(), &new).await.unwrap();
    add(&server, "shop", "a", &[], &[]);
    add(&server, "shop", "held", &[], &["example.com/held"]);
    add(&server, "shopping", "b", &[], &[]);
    let mut web = pod("web");
    web["metadata"]["namespace"] = "shop".into();
    server.apply(web).unwrap();
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    let left = |name| server.get(&Resource::config_maps(), "shop", name);
    assert!(left("a").is_none() && server.get(&Resource::pods(), "shop", "web").is_none());
    assert!(left("held").unwrap()["metadata"]["deletionTimestamp"].is_string());
    assert!(namespaces.get_opt("shop").await.unwrap().is_some());

    let held: Api<ConfigMap> = Api::namespaced(server.client(), "shop");
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    held.patch("held", &PatchParams::default(), &free).await.unwrap();
    assert!(namespaces.get_opt("shop").await.unwrap().is_none());
    assert!(server.get(&Resource::config_maps(), "shopping", "b").is_some());
}

#[tokio::test]
async fn server_without_controllers_deletes_the_owner_only() {
    let server = builder().build();
    let a = map(&server, "a", &[]);
    map(&server, "b", &[&a]);
    maps(&server).delete("a", &DeleteParams::default()).await.unwrap();
    assert!(exists(&server, "b"));
}
