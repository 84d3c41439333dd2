//! Tests of deletions: finalizers, grace periods and namespaces, without the controllers of a real
//! cluster.

use deltafifo_testkit::{ApiServer, Resource};
use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::common::{PODS, app, call, code, list, listed, open, pod, refused, server, server_with};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map_with_finalizers(name: &str, finalizers: &[&str]) -> Value {
    let metadata = json!({ "name": name, "finalizers": finalizers });
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata })
}

#[tokio::test]
async fn object_that_is_being_deleted_gets_no_new_finalizers() {
    let server = server();
    server.apply(map_with_finalizers("a", &["example.com/one", "example.com/two"])).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let (code, status) = call(&server, Method::POST, MAPS, &map_with_finalizers("a", &[])).await;
    let message = "object is being deleted: configmaps \"a\" already exists";
    assert_eq!((code.as_u16(), &status["message"]), (409, &json!(message)));
    let patch =
        |finalizers: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let new = patch(&["example.com/one", "example.com/three"]);
    let Err(kube::Error::Api(status)) = maps.patch("a", &PatchParams::default(), &new).await else {
        panic!("not refused")
    };
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/three\"}"
    );
    maps.patch("a", &PatchParams::default(), &patch(&["example.com/two"])).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_some());
    maps.patch("a", &PatchParams::default(), &patch(&[])).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn null_options_count_as_left_out() {
    let server = server();
    for options in [
        json!({ "preconditions": null, "dryRun": null }),
        json!({ "preconditions": { "uid": null, "resourceVersion": null }, "dryRun": [] }),
        json!({ "gracePeriodSeconds": null, "propagationPolicy": null, "orphanDependents": null }),
    ] {
        server.apply(map_with_finalizers("a", &[])).unwrap();
        let (code, answer) = call(&server, Method::DELETE, &format!("{MAPS}/a"), &options).await;
        assert_eq!(code, 200, "{answer}");
    }
}

#[tokio::test]
async fn propagation_policy_becomes_a_finalizer() {
    let server = server();
    let finalizers = |name: &str| {
        server
            .get(&Resource::config_maps(), "default", name)
            .map(|map| map["metadata"]["finalizers"].clone())
    };
    for (name, query, body, expected) in [
        (
            "a",
            "",
            json!({ "propagationPolicy": "Foreground" }),
            Some(json!(["foregroundDeletion"])),
        ),
        ("b", "?propagationPolicy=Orphan", Value::Null, Some(json!(["orphan"]))),
        ("c", "", json!({ "orphanDependents": true }), Some(json!(["orphan"]))),
        ("d", "", json!({ "propagationPolicy": "Background" }), None),
        ("e", "", json!({ "orphanDependents": false }), None),
    ] {
        server.apply(map_with_finalizers(name, &[])).unwrap();
        call(&server, Method::DELETE, &format!("{MAPS}/{name}{query}"), &body).await;
        assert_eq!(finalizers(name), expected, "{name}");
    }
    // A later request may choose anew.
    let foreground = json!({ "propagationPolicy": "Foreground" });
    call(&server, Method::DELETE, &format!("{MAPS}/b"), &foreground).await;
    assert_eq!(finalizers("b"), Some(json!(["foregroundDeletion"])));
    call(&server, Method::DELETE, &format!("{MAPS}/b"), &Value::Null).await;
    assert_eq!(finalizers("b"), Some(json!(["foregroundDeletion"])));
    let background = json!({ "propagationPolicy": "Background" });
    call(&server, Method::DELETE, &format!("{MAPS}/b"), &background).await;
    assert_eq!(finalizers("b"), None);

    server.apply(map_with_finalizers("f", &[])).unwrap();
    for body in [
        json!({ "propagationPolicy": "Never" }),
        json!({ "propagationPolicy": "Orphan", "orphanDependents": true }),
    ] {
        let (code, _) = call(&server, Method::DELETE, &format!("{MAPS}/f"), &body).await;
        assert_eq!(code, 422);
    }
}

#[tokio::test]
async fn dependents_of_a_job_become_orphans_by_default() {
    let server = ApiServer::builder().resources(Resource::known()).build();
    let job = json!({ "kind": "Job", "apiVersion": "batch/v1", "metadata": { "name": "j" } });
    server.apply(job).unwrap();
    let jobs: Api<Job> = Api::default_namespaced(server.client());
    let left = jobs.delete("j", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(left.metadata.finalizers.unwrap(), ["orphan"]);
}

#[tokio::test]
async fn pod_on_a_node_ends_after_its_grace_period() {
    let server = server();
    let mut web = pod("a");
    web["spec"] = json!({ "nodeName": "n", "terminationGracePeriodSeconds": 20 });
    server.apply(&web).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let seconds = |pod: Pod| pod.metadata.deletion_grace_period_seconds;
    let marked = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(seconds(marked.clone()), Some(20));
    // A later request can only shorten it, and finalizers do not matter until it is over.
    let params =
        |grace| DeleteParams { grace_period_seconds: Some(grace), ..DeleteParams::default() };
    let same = pods.delete("a", &params(50)).await.unwrap().left().unwrap();
    assert_eq!(same.metadata.resource_version, marked.metadata.resource_version);
    assert_eq!(seconds(pods.delete("a", &params(5)).await.unwrap().left().unwrap()), Some(5));
    let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    pods.patch("a", &PatchParams::default(), &label).await.unwrap();
    // The kubelet confirms the end.
    pods.delete("a", &params(0)).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());

    web["status"] = json!({ "phase": "Succeeded" });
    server.apply(&web).unwrap();
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn grace_period_beyond_the_largest_timestamp_ends_with_it() {
    let server = server();
    for (name, own, requested) in [
        ("a", None, Some(1_000_000_000_000_i64)),
        ("b", None, Some(i64::MAX)),
        ("c", Some(i64::MAX), None),
    ] {
        let mut web = pod(name);
        web["spec"] = json!({ "nodeName": "n", "terminationGracePeriodSeconds": own });
        server.apply(&web).unwrap();
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let options = json!({ "gracePeriodSeconds": requested });
        let (code, marked) = call(&server, Method::DELETE, &path, &options).await;
        assert_eq!(code.as_u16(), 200);
        let metadata = &marked["metadata"];
        assert_eq!(metadata["deletionGracePeriodSeconds"], json!(own.or(requested)));
        assert_eq!(metadata["deletionTimestamp"], "9999-12-30T22:00:00Z");
    }
}

#[tokio::test]
async fn namespace_of_a_client_terminates_until_it_is_finalized() {
    let server = ApiServer::builder().resources(Resource::known()).build();
    let namespaces: Api<Namespace> = Api::all(server.client());
    let metadata = json!({ "metadata": { "name": "shop" } });
    let new: Namespace = serde_json::from_value(metadata).unwrap();
    let made = namespaces.create(&PostParams::default(), &new).await.unwrap();
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Active"));
    assert_eq!(made.metadata.labels.unwrap()["kubernetes.io/metadata.name"], "shop");
    let left = namespaces.delete("shop", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(left.status.unwrap().phase.as_deref(), Some("Terminating"));

    let maps = "/api/v1/namespaces/shop/configmaps";
    let (code, status) = call(&server, Method::POST, maps, &map_with_finalizers("a", &[])).await;
    assert_eq!((code.as_u16(), &status["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        status["message"],
        "configmaps \"a\" is forbidden: unable to create new content in namespace shop because it is being terminated"
    );
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let path = "/api/v1/namespaces/shop/finalize";
    let finalized = json!({ "metadata": { "name": "shop" }, "spec": { "finalizers": [] } });
    assert_eq!(call(&server, Method::PUT, path, &finalized).await.0, 200);
    assert_eq!(refused(&server, "/api/v1/namespaces/shop").await.code, 404);
    let (code, _) = call(&server, Method::POST, maps, &map_with_finalizers("a", &[])).await;
    assert_eq!(code, 201);
}

#[tokio::test]
async fn delete_with_a_failed_precondition_names_both_values() {
    let server = server();
    server.apply(map_with_finalizers("a", &[])).unwrap();
    let uid =
        server.get(&Resource::config_maps(), "default", "a").unwrap()["metadata"]["uid"].clone();
    let path = format!("{MAPS}/a");
    let mut watch = open(&server, "/api/v1/configmaps?watch=true&resourceVersion=2").await;
    let other = json!({ "preconditions": { "uid": "other" } });
    let (code, status) = call(&server, Method::DELETE, &path, &other).await;
    assert_eq!(code, 409);
    let expected = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match the UID in record ({}). The object might have been deleted and then recreated",
        uid.as_str().unwrap()
    );
    assert_eq!(status["message"], expected);
    let old = json!({ "preconditions": { "resourceVersion": "1" } });
    assert_eq!(call(&server, Method::DELETE, &path, &old).await.0, 409);
    watch.silent();
    let both = json!({ "preconditions": { "uid": uid, "resourceVersion": "2" } });
    assert_eq!(call(&server, Method::DELETE, &path, &both).await.0, 200);
}

#[tokio::test]
async fn options_in_the_body_replace_those_of_the_query() {
    let server = server();
    server.apply(map_with_finalizers("a", &[])).unwrap();
    let path = format!("{MAPS}/a?propagationPolicy=Foreground&dryRun=x&gracePeriodSeconds=x");
    let options = json!({ "gracePeriodSeconds": 0 });
    assert_eq!(call(&server, Method::DELETE, &path, &options).await.0, 200);
    assert!(server.get(&Resource::config_maps(), "default", "a").is_none());

    server.apply(map_with_finalizers("a", &[])).unwrap();
    for (query, body) in [("?gracePeriodSeconds=x", Value::Null), ("", json!([]))] {
        let path = format!("{MAPS}/a{query}");
        assert_eq!(call(&server, Method::DELETE, &path, &body).await.0, 400, "{query} {body}");
    }
}

#[tokio::test]
async fn preconditions_hold_for_each_object_of_a_deleted_collection() {
    let server = server();
    server.apply(map_with_finalizers("a", &[])).unwrap();
    server.apply(map_with_finalizers("b", &[])).unwrap();
    let map = server.get(&Resource::config_maps(), "default", "a").unwrap();
    let options = json!({ "preconditions": { "uid": map["metadata"]["uid"] } });
    assert_eq!(call(&server, Method::DELETE, MAPS, &options).await.0, 409);
    assert!(server.get(&Resource::config_maps(), "default", "a").is_none());
    assert!(server.get(&Resource::config_maps(), "default", "b").is_some());
}

#[tokio::test]
async fn collection_is_deleted_in_pages() {
    let server = server();
    for name in ["a", "b", "c"] {
        server.apply(map_with_finalizers(name, &[])).unwrap();
    }
    let (code, page) =
        call(&server, Method::DELETE, &format!("{MAPS}?limit=2"), &Value::Null).await;
    assert_eq!((code.as_u16(), page["items"].as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(page["metadata"]["resourceVersion"], "4");
    assert!(server.get(&Resource::config_maps(), "default", "b").is_none());
    assert!(server.get(&Resource::config_maps(), "default", "c").is_some());
    let rest = page["metadata"]["continue"].as_str().unwrap();
    let rest = rest.replace('&', "%26").replace('=', "%3D");
    let (code, page) =
        call(&server, Method::DELETE, &format!("{MAPS}?continue={rest}"), &Value::Null).await;
    assert_eq!((code.as_u16(), page["items"].as_array().map(Vec::len)), (200, Some(1)));
    assert!(server.get(&Resource::config_maps(), "default", "c").is_none());
}

#[tokio::test]
async fn namespaces_are_deleted_one_by_one() {
    let server = ApiServer::builder().resource(Resource::namespaces()).build();
    let path = "/api/v1/namespaces";
    assert_eq!(call(&server, Method::DELETE, path, &Value::Null).await.0, 405);
}

#[tokio::test]
async fn deleted_object_is_gone_and_can_be_created_again() {
    let server = server_with(1);
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let last = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(last.metadata.deletion_timestamp.is_some());
    watch.events(["DELETED a 3"]).await;
    assert!(pods.get_opt("a").await.unwrap().is_none());
    server.apply(pod("a")).unwrap();
    watch.events(["ADDED a 4"]).await;
}

#[tokio::test]
async fn delete_with_a_failed_precondition_conflicts() {
    let server = server_with(1);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let uid = pods.get("a").await.unwrap().metadata.uid;
    let only = |uid: Option<&str>, version: Option<&str>| {
        let preconditions = Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version.map(str::to_owned),
        };
        DeleteParams::default().preconditions(preconditions)
    };
    assert_eq!(code(pods.delete("a", &only(Some("another"), None)).await), 409);
    assert_eq!(code(pods.delete("a", &only(None, Some("1"))).await), 409);
    pods.delete("a", &only(uid.as_deref(), Some("2"))).await.unwrap();
}

#[tokio::test]
async fn finalizers_delay_the_deletion() {
    let server = server();
    let held = json!({ "name": "a", "finalizers": ["example.com/mine"] });
    server.apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": held })).unwrap();
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let waiting = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(waiting.metadata.deletion_timestamp.is_some());
    watch.events(["MODIFIED a 3"]).await;
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    watch.silent();

    // An update cannot revoke a deletion.
    let mut kept = waiting.clone();
    kept.metadata.deletion_timestamp = None;
    kept.metadata.labels = Some([("seen".to_owned(), "yes".to_owned())].into());
    let kept = pods.replace("a", &PostParams::default(), &kept).await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, waiting.metadata.deletion_timestamp);
    watch.events(["MODIFIED a 4"]).await;
    let free = json!({ "metadata": { "finalizers": null } });
    pods.patch("a", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    watch.events(["DELETED a 5"]).await;
    assert!(pods.get_opt("a").await.unwrap().is_none());

    // Created again from its last state, it is a new object without a deletion timestamp.
    let mut again = waiting.clone();
    again.metadata.resource_version = None;
    let again = pods.create(&PostParams::default(), &again).await.unwrap();
    assert_eq!(
        (again.metadata.deletion_timestamp, again.metadata.deletion_grace_period_seconds),
        (None, None)
    );
    assert_ne!(again.metadata.uid, waiting.metadata.uid);
}

#[tokio::test]
async fn collection_is_deleted_by_selector() {
    let server = server();
    for (name, of) in [("a", "web"), ("b", "mail"), ("c", "web")] {
        server.apply(app(name, of)).unwrap();
    }
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let gone = pods
        .delete_collection(&DeleteParams::default(), &ListParams::default().labels("app=web"))
        .await
        .unwrap();
    let names = gone
        .left()
        .unwrap()
        .items
        .into_iter()
        .map(|pod| pod.metadata.name.unwrap())
        .collect::<Vec<_>>();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(listed(&list(&server, PODS).await), ["b"]);
}
