//! Tests of the generation of objects.

use deltafifo_testkit::Resource;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::{Value, json};

use crate::common::{map, pod, server, widget_api};

#[tokio::test]
async fn generation_of_a_kind_without_one_is_kept() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let patch = Patch::Merge(json!({ "metadata": { "generation": 9 } }));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.metadata.generation, None);
}

#[tokio::test]
async fn generation_rises_with_changes_of_anything_but_metadata_and_status() {
    let server = server();
    server.register(Resource::built_in(ApiResource::erase::<Deployment>(&()), Scope::Namespaced));
    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &widget_api());
    let widget = DynamicObject::new("w", &widget_api()).data(json!({ "spec": { "size": 1 } }));
    let made = all.create(&PostParams::default(), &widget).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let patch = |patch: Value| {
        let all = all.clone();
        async move {
            let patched = all.patch("w", &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.unwrap().metadata.generation.unwrap()
        }
    };
    assert_eq!(patch(json!({ "metadata": { "labels": { "a": "b" } } })).await, 1);
    assert_eq!(patch(json!({ "spec": { "size": 2 } })).await, 2);
    assert_eq!(patch(json!({ "metadata": { "generation": 9 } })).await, 2);
    assert_eq!(patch(json!({ "data": 1 })).await, 3);
    let status = Patch::Merge(json!({ "status": { "ready": true } }));
    let status = all.patch_status("w", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(status.metadata.generation, Some(3));
    assert_eq!(patch(json!({ "metadata": { "finalizers": ["example.com/a"] } })).await, 3);
    all.delete("w", &DeleteParams::default()).await.unwrap();
    assert_eq!(all.get("w").await.unwrap().metadata.generation, Some(4));

    // A config map has no generation. An annotation counts for a deployment.
    server.apply(map("m", "1")).unwrap();
    let found = server.get(&Resource::config_maps(), "default", "m").unwrap();
    assert!(found["metadata"].get("generation").is_none());
    let web = json!({ "kind": "Deployment", "apiVersion": "apps/v1", "metadata": { "name": "d" } });
    server.apply(web).unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(server.client());
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "a": "b" } } }));
    let noted = deployments.patch("d", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(noted.metadata.generation, Some(2));
}

#[tokio::test]
async fn largest_generation_does_not_overflow() {
    let server = server();
    let metadata = json!({ "name": "a", "generation": i64::MAX });
    server.apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata })).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let patch = Patch::Merge(json!({ "spec": { "nodeName": "n" } }));
    let patched = pods.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.metadata.generation, Some(i64::MAX));
}

#[tokio::test]
async fn test_can_set_a_generation() {
    let server = server();
    let mut one = pod("a");
    one["metadata"]["generation"] = 7.into();
    server.apply(&one).unwrap();
    let read = || server.get(&Resource::pods(), "default", "a").unwrap();
    assert_eq!(read()["metadata"]["generation"], 7);
    let mut next = read();
    next["spec"] = json!({ "nodeName": "n" });
    server.apply(next).unwrap();
    assert_eq!(read()["metadata"]["generation"], 8);
}
