//! Tests of metadata that is invalid, or that the server changes before it stores it. The codes of
//! refusals are those of a real server.

use deltafifo_testkit::{ApiServer, Resource};
use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Event;
use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::{Value, json};

use crate::common::{ONE, builder, call, pod, send, server, server_with};

const ALL: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Returns a pod with one more field in its metadata.
fn pod_with(name: &str, field: &str, value: &Value) -> Value {
    let mut made = pod(name);
    made["metadata"][field] = value.clone();
    made
}

async fn post(server: &ApiServer, body: &Value) -> (u16, Value) {
    let (code, answer) = call(server, Method::POST, ALL, body).await;
    (code.as_u16(), answer)
}

async fn put(server: &ApiServer, body: &Value) -> (u16, Value) {
    let path = format!("{ALL}/{}", body["metadata"]["name"].as_str().unwrap());
    let (code, answer) = call(server, Method::PUT, &path, body).await;
    (code.as_u16(), answer)
}

async fn patch(server: &ApiServer, name: &str, content_type: &str, body: &Value) -> (u16, Value) {
    let request = Request::patch(format!("{ALL}/{name}?fieldManager=test"))
        .header("content-type", content_type)
        .body(body.to_string().into_bytes());
    let opened = send(server, request.unwrap()).await.unwrap();
    (opened.code.as_u16(), opened.json().await)
}

/// Returns a JSON patch that sets a field of the metadata.
fn operations(field: &str, value: &Value) -> Value {
    json!([{ "op": "add", "path": format!("/metadata/{field}"), "value": value }])
}

#[tokio::test]
async fn other_deletion_timestamp_is_ignored_while_the_object_is_being_deleted() {
    let server = server();
    server.apply(pod_with("a", "finalizers", &json!(["example.com/a"]))).unwrap();
    let (code, marked) = call(&server, Method::DELETE, &format!("{ALL}/a"), &Value::Null).await;
    assert_eq!(code, 200);
    let marked_at = marked["metadata"]["deletionTimestamp"].as_str().unwrap();
    for given in [marked_at.replace('Z', "+00:00"), "2020-01-01T00:00:00Z".to_owned()] {
        let mut sent = marked.clone();
        sent["metadata"]["deletionTimestamp"] = given.as_str().into();
        let (code, kept) = put(&server, &sent).await;
        assert_eq!((code, &kept["metadata"]["deletionTimestamp"]), (200, &json!(marked_at)));
        let patched = json!({ "metadata": { "deletionTimestamp": given } });
        assert_eq!(patch(&server, "a", MERGE, &patched).await.0, 200);
    }
    let mut sent = marked.clone();
    sent["metadata"]["deletionGracePeriodSeconds"] = 9.into();
    let (code, status) = put(&server, &sent).await;
    assert_eq!(code, 422);
    let field = &status["details"]["causes"][0]["field"];
    assert_eq!(field, "metadata.deletionGracePeriodSeconds");
}

#[tokio::test]
async fn null_in_a_map_of_strings_is_stored_as_an_empty_string() {
    let server = server_with(1);
    for field in ["labels", "annotations"] {
        let null = json!({ "a": null });
        let (code, made) = post(&server, &pod_with("new", field, &null)).await;
        assert_eq!((code, &made["metadata"][field]), (201, &json!({ "a": "" })), "{field}");
        call(&server, Method::DELETE, &format!("{ALL}/new"), &Value::Null).await;
        let (code, made) = put(&server, &pod_with("a", field, &null)).await;
        assert_eq!((code, &made["metadata"][field]), (200, &json!({ "a": "" })), "{field}");
        let (code, made) =
            patch(&server, "a", OPERATIONS, &operations(field, &json!({ "b": null }))).await;
        assert_eq!((code, &made["metadata"][field]), (200, &json!({ "b": "" })), "{field}");
        let mut applied = pod_with("a", field, &json!({ "c": null }));
        applied["apiVersion"] = "v1".into();
        let (code, made) = patch(&server, "a", APPLY, &applied).await;
        assert_eq!((code, &made["metadata"][field]["c"]), (200, &json!("")), "{field}");
        // The keys are checked, too.
        let invalid = json!({ "a b": null });
        assert_eq!(post(&server, &pod_with("new", field, &invalid)).await.0, 422, "{field}");
    }
    for (field, value) in [("finalizers", json!([null])), ("ownerReferences", json!([null]))] {
        assert_eq!(post(&server, &pod_with("new", field, &value)).await.0, 422, "{field}");
    }
}

#[tokio::test]
async fn metadata_of_another_type_is_refused() {
    let server = server_with(1);
    let owner = |field: &str, value: Value| {
        let mut owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u" });
        owner[field] = value;
        json!([owner])
    };
    let before = server.version();
    for (field, value) in [
        ("labels", json!("x")),
        ("labels", json!([])),
        ("labels", json!({ "a": 1 })),
        ("labels", json!({ "a b": {} })),
        ("annotations", json!([])),
        ("annotations", json!({ "a": true })),
        ("ownerReferences", json!({})),
        ("ownerReferences", json!(["x"])),
        ("ownerReferences", owner("name", json!(1))),
        ("ownerReferences", owner("controller", json!("x"))),
        ("finalizers", json!("x")),
        ("finalizers", json!({})),
        ("finalizers", json!([1])),
        ("managedFields", json!("x")),
        ("generation", json!("x")),
        ("deletionGracePeriodSeconds", json!("x")),
        ("generateName", json!(1)),
        ("deletionTimestamp", json!("today")),
    ] {
        let (code, status) = post(&server, &pod_with("new", field, &value)).await;
        assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")), "{field}: {value}");
        assert_eq!(put(&server, &pod_with("a", field, &value)).await.0, 400, "{field}: {value}");
        let merged = json!({ "metadata": { field: value } });
        for (content_type, body) in
            [(MERGE, &merged), (OPERATIONS, &operations(field, &value)), (STRATEGIC, &merged)]
        {
            let (code, status) = patch(&server, "a", content_type, body).await;
            let why = format!("{content_type}: {field}: {value}");
            assert_eq!((code, &status["reason"]), (422, &json!("Invalid")), "{why}");
            assert_eq!(status["details"]["causes"][0]["field"], "patch", "{why}");
        }
        let mut applied = pod_with("b", field, &value);
        applied["apiVersion"] = "v1".into();
        assert!(patch(&server, "b", APPLY, &applied).await.0 >= 400, "{field}: {value}");
    }
    let (code, _) = post(&server, &json!({ "metadata": { "name": 1 } })).await;
    assert_eq!(code, 400);
    assert_eq!(server.version(), before);
}

#[tokio::test]
async fn invalid_metadata_of_a_test_can_be_kept() {
    let server = server();
    server.apply(pod_with("a", "labels", &json!({ "a b": 1 }))).unwrap();
    let noted = json!({ "metadata": { "annotations": { "seen": "yes" } } });
    let (code, kept) = patch(&server, "a", MERGE, &noted).await;
    assert_eq!((code, &kept["metadata"]["labels"]), (200, &json!({ "a b": 1 })));
}

#[tokio::test]
async fn core_events_can_have_any_name_that_fits_into_a_path() {
    let server = server();
    server.register(Resource::built_in(ApiResource::erase::<Event>(&()), Scope::Namespaced));
    let path = "/api/v1/namespaces/default/events";
    let long = "a".repeat(300);
    for (name, expected) in
        [("system:node.17ab", 201), ("A_b", 201), (&long, 201), ("a%b", 422), ("..", 422)]
    {
        let event = json!({ "metadata": { "name": name } });
        let (code, status) = call(&server, Method::POST, path, &event).await;
        assert_eq!(code, expected, "{name}: {status}");
    }
}

#[tokio::test]
async fn invalid_object_is_refused_before_an_existing_one_conflicts() {
    let server = server_with(1);
    let invalid = |name| pod_with(name, "labels", &json!({ "a b": "c" }));
    assert_eq!(post(&server, &invalid("a")).await.0, 422);
    server.apply(pod_with("held", "finalizers", &json!(["example.com/a"]))).unwrap();
    call(&server, Method::DELETE, &format!("{ALL}/held"), &Value::Null).await;
    assert_eq!(post(&server, &invalid("held")).await.0, 422);
    assert_eq!(post(&server, &pod("held")).await.0, 409);
}

#[tokio::test]
async fn configuration_with_unknown_metadata_or_managers_is_refused() {
    let server = server_with(1);
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "x": 1 }]);
    for (field, value, code) in [
        ("other", json!(1), 500),
        ("ownerReferences", owner, 500),
        ("managedFields", json!("x"), 500),
        ("managedFields", json!([{ "manager": 1 }]), 500),
        ("managedFields", json!([]), 400),
        ("managedFields", json!([{}]), 400),
        ("managedFields", json!([null]), 200),
        ("managedFields", json!(null), 200),
        ("deletionTimestamp", json!("2020-01-01T00:00:00Z"), 422),
        ("deletionGracePeriodSeconds", json!(5), 422),
        ("uid", json!("other"), 422),
    ] {
        let mut applied = pod_with("a", field, &value);
        applied["apiVersion"] = "v1".into();
        let (found, answer) = patch(&server, "a", APPLY, &applied).await;
        assert_eq!(found, code, "{field} {value}: {answer}");
    }
}

#[tokio::test]
async fn unknown_metadata_and_managers_of_a_new_object_are_not_stored() {
    let server = builder().managed_fields(true).build();
    let one = json!({ "manager": "other", "operation": "Update", "apiVersion": "v1" });
    for (field, value) in
        [("other", json!(1)), ("selfLink", json!("/x")), ("managedFields", json!([one]))]
    {
        let (code, made) = post(&server, &pod_with(&field.to_lowercase(), field, &value)).await;
        assert_eq!(code, 201, "{made}");
        assert!(made["metadata"].get(field).is_none(), "{made}");
    }
    // An update with invalid managers keeps the known ones.
    let path = format!("{ALL}?fieldManager=test");
    let (_, made) =
        call(&server, Method::POST, &path, &pod_with("b", "labels", &json!({ "a": "b" }))).await;
    let mut sent = made.clone();
    sent["metadata"]["managedFields"] = json!([one]);
    let (code, kept) = put(&server, &sent).await;
    assert_eq!(
        (code, &kept["metadata"]["managedFields"]),
        (200, &made["metadata"]["managedFields"])
    );
}

#[tokio::test]
async fn generated_name_has_the_start_of_a_valid_prefix() {
    let server = server();
    let made = async |prefix: &str| {
        post(&server, &json!({ "metadata": { "generateName": prefix } })).await
    };
    let (code, long) = made(&"a".repeat(100)).await;
    assert_eq!((code, long["metadata"]["name"].as_str().unwrap().len()), (201, 63));
    for (prefix, expected) in
        [("web-", 201), ("web", 201), ("web.", 422), ("Web-", 422), ("-", 422)]
    {
        assert_eq!(made(prefix).await.0, expected, "{prefix}");
    }
}

#[tokio::test]
async fn metadata_that_the_server_sets_cannot_be_changed() {
    let server = server_with(1);
    let one = format!("{ONE}/a");
    let patch = async |field: &str, value: Value| {
        let request = http::Request::patch(&one)
            .header("content-type", "application/merge-patch+json")
            .body(json!({ "metadata": { field: value } }).to_string().into_bytes());
        crate::common::send(&server, request.unwrap()).await.unwrap().code.as_u16()
    };
    assert_eq!(patch("uid", "other".into()).await, 422);
    assert_eq!(patch("deletionTimestamp", "2020-01-01T00:00:00Z".into()).await, 422);
    assert_eq!(patch("deletionGracePeriodSeconds", 5.into()).await, 422);
    assert_eq!(patch("deletionTimestamp", Value::Null).await, 200);
    assert_eq!(patch("creationTimestamp", "2020-01-01T00:00:00Z".into()).await, 200);
    assert_eq!(patch("resourceVersion", "abc".into()).await, 500);
    assert_eq!(patch("resourceVersion", "0".into()).await, 200);
    assert_eq!(server.version(), 2);
    let mut other = pod("a");
    other["metadata"]["uid"] = "other".into();
    assert_eq!(call(&server, Method::PUT, &one, &other).await.0, StatusCode::CONFLICT);
}
