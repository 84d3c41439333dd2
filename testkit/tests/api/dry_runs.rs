//! Tests of dry runs, which answer as a write and store nothing.

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::common::{PODS, app, call, open, pod, server, server_with};

const ALL: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn dry_runs_return_the_result_and_store_nothing() {
    let server = server_with(1);
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let post = PostParams { dry_run: true, ..PostParams::default() };
    let patch = PatchParams { dry_run: true, ..PatchParams::apply("test") };

    let made: Pod = serde_json::from_value(pod("b")).unwrap();
    let made = pods.create(&post, &made).await.unwrap().metadata;
    assert!(made.uid.is_some() && made.creation_timestamp.is_some());
    assert_eq!(made.resource_version, None);
    let labelled: Pod = serde_json::from_value(app("a", "web")).unwrap();
    let labels = labelled.metadata.labels.clone();
    let replaced = pods.replace("a", &post, &labelled).await.unwrap();
    let merged = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    let merged = pods.patch("a", &PatchParams { force: false, ..patch.clone() }, &merged).await;
    let mut applied = app("a", "web");
    applied["apiVersion"] = "v1".into();
    let applied = pods.patch("a", &patch, &Patch::Apply(&applied)).await;
    for changed in [replaced, merged.unwrap(), applied.unwrap()] {
        assert_eq!(changed.metadata.labels, labels);
        assert_eq!(changed.metadata.resource_version.as_deref(), Some("2"));
    }
    let new = pods.patch("c", &patch, &Patch::Apply(pod("c"))).await.unwrap();
    assert_eq!(new.metadata.resource_version, None);
    let deletion = DeleteParams::default().dry_run();
    assert_eq!(
        pods.delete("a", &deletion).await.unwrap().left().unwrap().metadata.name.unwrap(),
        "a"
    );
    let all = pods.delete_collection(&deletion, &ListParams::default()).await.unwrap();
    assert_eq!(all.left().unwrap().items.len(), 1);

    assert_eq!(server.version(), 2);
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert_eq!(pods.get("a").await.unwrap().metadata.labels, None);
    watch.silent();
    // The next writes are real.
    assert_eq!(server.apply(pod("b")).unwrap(), 3);
    watch.events(["ADDED b 3"]).await;
}

#[tokio::test]
async fn dry_create_takes_no_uid_and_no_name_of_a_later_object() {
    let server = server();
    let body = json!({ "metadata": { "generateName": "web-" } });
    let dry_path = format!("{ALL}?dryRun=All");
    let dry = call(&server, Method::POST, &dry_path, &body).await.1;
    let again = call(&server, Method::POST, &dry_path, &body).await.1;
    assert_eq!(dry["metadata"]["name"], again["metadata"]["name"]);
    let made = call(&server, Method::POST, ALL, &body).await.1;
    assert!(dry["metadata"]["uid"].is_string());
    assert_ne!(dry["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(dry["metadata"]["name"], made["metadata"]["name"]);
}

#[tokio::test]
async fn dry_run_is_refused_as_the_write_would_be() {
    let server = server_with(1);
    for (method, path, body, code) in [
        (Method::POST, ALL.to_owned(), pod("a"), StatusCode::CONFLICT),
        (Method::PUT, format!("{ALL}/b"), pod("b"), StatusCode::NOT_FOUND),
        (Method::DELETE, format!("{ALL}/b"), Value::Null, StatusCode::NOT_FOUND),
    ] {
        let (refused, status) = call(&server, method, &format!("{path}?dryRun=All"), &body).await;
        assert_eq!(refused, code, "{status}");
    }
}

#[tokio::test]
async fn unknown_dry_run_is_refused_before_the_body_is_read() {
    let server = server();
    for (method, path, kind) in [
        (Method::POST, ALL.to_owned(), "CreateOptions"),
        (Method::PUT, format!("{ALL}/a"), "UpdateOptions"),
        (Method::DELETE, format!("{ALL}/a"), "DeleteOptions"),
        (Method::DELETE, ALL.to_owned(), "DeleteOptions"),
    ] {
        for query in ["dryRun=x", "dryRun", "dryRun=All&dryRun=x"] {
            let uri = format!("{path}?{query}");
            let body = if method == Method::DELETE { Value::Null } else { json!("no object") };
            let (code, status) = call(&server, method.clone(), &uri, &body).await;
            assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{method} {uri}");
            assert_eq!(status["details"]["kind"], kind);
        }
    }
}
