//! Tests of writes by clients: creations, updates and their conflicts.

use deltafifo_testkit::ApiServer;
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::common::{
    ONE, PODS, call, code, map, open, pod, refused, server, server_with, widget_api, widgets,
};

#[tokio::test]
async fn created_object_has_a_uid_a_version_and_a_timestamp() {
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "shop");
    let mut watch = open(&server, "/api/v1/configmaps?watch=true").await;
    let made = maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    assert_eq!(made.metadata.namespace.as_deref(), Some("shop"));
    assert_eq!(made.metadata.resource_version.as_deref(), Some("2"));
    assert!(made.metadata.creation_timestamp.is_some());
    let other = maps.create(&PostParams::default(), &map("b", "1")).await.unwrap();
    assert_ne!(made.metadata.uid.unwrap(), other.metadata.uid.unwrap());
    watch.events(["ADDED a 2", "ADDED b 3"]).await;
    assert_eq!(maps.get("a").await.unwrap().data, map("a", "1").data);
}

#[tokio::test]
async fn creating_an_existing_object_conflicts() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let Err(kube::Error::Api(status)) = maps.create(&PostParams::default(), &map("a", "2")).await
    else {
        panic!("created a second time")
    };
    assert!(status.is_already_exists());
    assert_eq!((status.code, status.message.as_str()), (409, "configmaps \"a\" already exists"));
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn generate_name_yields_distinct_names() {
    let server = server();
    let body = json!({ "metadata": { "generateName": "web-" } });
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (code, made) = call(&server, Method::POST, ONE, &body).await;
        assert_eq!(code, StatusCode::CREATED);
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("web-") && name.len() == "web-".len() + 5, "{name}");
        assert!(!seen.contains(&name));
        seen.push(name);
    }
}

#[tokio::test]
async fn applied_object_with_a_generated_name_replaces_none() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "generateName": "web-", "namespace": "default" },
    });
    let pods = async |server: &ApiServer| {
        let (_, list) = call(server, Method::GET, ONE, &json!(null)).await;
        list["items"].as_array().unwrap().clone()
    };
    let first = server();
    first.apply(&pod).unwrap();
    let mut stored = pods(&first).await.remove(0);
    stored["apiVersion"] = json!("v1");
    stored["kind"] = json!("Pod");
    // A second server generates the names of the first one.
    let second = server();
    second.apply(&stored).unwrap();
    second.apply(&pod).unwrap();
    let pods = pods(&second).await;
    assert_eq!(pods.len(), 2, "{pods:?}");
}

#[tokio::test]
async fn invalid_objects_are_refused() {
    let server = server();
    for (body, expected) in [
        (json!({}), 422),
        (json!([]), 400),
        (json!("pod"), 400),
        (json!({ "metadata": 1 }), 400),
        (json!({ "kind": "Node", "metadata": { "name": "a" } }), 400),
        (json!({ "apiVersion": "v2", "metadata": { "name": "a" } }), 400),
        (json!({ "metadata": { "name": "a/b" } }), 422),
        (json!({ "metadata": { "name": ".." } }), 422),
        (json!({ "metadata": { "name": "a", "namespace": "shop" } }), 400),
        (json!({ "metadata": { "name": "a", "resourceVersion": "1" } }), 500),
    ] {
        let (code, status) = call(&server, Method::POST, ONE, &body).await;
        assert_eq!((code.as_u16(), &status["kind"]), (expected, &json!("Status")), "{body}");
    }
    assert_eq!(server.version(), 1);
    assert_eq!(
        call(&server, Method::POST, PODS, &pod("a")).await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn missing_object_is_not_found() {
    let server = server_with(1);
    let status = refused(&server, &format!("{ONE}/b")).await;
    assert_eq!((status.code, status.message.as_str()), (404, "pods \"b\" not found"));
    assert!(status.is_not_found());
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    assert!(pods.get_opt("a").await.unwrap().is_none());
    assert_eq!(code(pods.delete("a", &DeleteParams::default()).await), 404);
    assert_eq!(code(pods.patch("a", &PatchParams::default(), &Patch::Merge(json!({}))).await), 404);
}

#[tokio::test]
async fn update_of_another_version_conflicts() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let made = maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let mut newer = made.clone();
    newer.data = map("a", "2").data;
    let newer = maps.replace("a", &PostParams::default(), &newer).await.unwrap();
    assert_eq!(newer.metadata.resource_version.as_deref(), Some("3"));
    assert_eq!(
        (&newer.metadata.uid, &newer.metadata.creation_timestamp),
        (&made.metadata.uid, &made.metadata.creation_timestamp)
    );

    let Err(kube::Error::Api(status)) = maps.replace("a", &PostParams::default(), &made).await
    else {
        panic!("no conflict")
    };
    assert!(status.is_conflict());
    assert!(status.message.contains("the object has been modified"), "{}", status.message);
    let mut other = newer.clone();
    other.metadata.uid = Some("another".to_owned());
    assert_eq!(code(maps.replace("a", &PostParams::default(), &other).await), 409);
    assert_eq!(code(maps.replace("b", &PostParams::default(), &newer).await), 400);
    assert_eq!(code(maps.replace("b", &PostParams::default(), &map("b", "1")).await), 404);
}

#[tokio::test]
async fn update_without_a_version_is_for_built_in_kinds_only() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let updated = maps.replace("a", &PostParams::default(), &map("a", "2")).await.unwrap();
    assert_eq!(updated.data, map("a", "2").data);

    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &widget_api());
    let widget = DynamicObject::new("w", &widget_api()).data(json!({ "spec": { "size": 1 } }));
    let made = all.create(&PostParams::default(), &widget).await.unwrap();
    assert_eq!(code(all.replace("w", &PostParams::default(), &widget).await), 422);
    let larger = DynamicObject { data: json!({ "spec": { "size": 2 } }), ..made };
    all.replace("w", &PostParams::default(), &larger).await.unwrap();
    assert_eq!(server.get(&widgets(), "default", "w").unwrap()["spec"]["size"], 2);
}

#[tokio::test]
async fn write_without_a_change_keeps_the_version() {
    let server = server_with(1);
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    assert_eq!(server.apply(pod("a")).unwrap(), 2);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    pods.patch("a", &PatchParams::default(), &Patch::Merge(json!({ "metadata": { "name": "a" } })))
        .await
        .unwrap();
    let same = pods.get("a").await.unwrap();
    pods.replace("a", &PostParams::default(), &same).await.unwrap();
    assert_eq!(server.version(), 2);
    watch.silent();
}
