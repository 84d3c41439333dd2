//! Tests of refused requests, which leave no trace in the server.

use deltafifo_testkit::ApiServer;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::common::{builder, call, pod, send};

const ALL: &str = "/api/v1/namespaces/default/pods";

fn server() -> ApiServer {
    let server = builder().managed_fields(true).build();
    server.apply(pod("a")).unwrap();
    server
}

/// Creates an object with a generated name. Returns its name, uid and version, and the object `a`.
async fn next(server: &ApiServer) -> Value {
    let body = json!({ "metadata": { "generateName": "web-" } });
    let (code, made) = call(server, Method::POST, ALL, &body).await;
    assert_eq!(code, 201, "{made}");
    let field = |name: &str| made["metadata"][name].clone();
    let known = call(server, Method::GET, &format!("{ALL}/a"), &Value::Null).await.1;
    let mut known = known["metadata"].clone();
    known["creationTimestamp"] = Value::Null;
    json!([field("name"), field("uid"), field("resourceVersion"), known])
}

#[tokio::test]
async fn refused_requests_leave_no_trace() {
    let untouched = next(&server()).await;
    let generated = |field: &str, value: Value| {
        let mut body = json!({ "metadata": { "generateName": "web-" } });
        body["metadata"][field] = value;
        body
    };
    let one = format!("{ALL}/a");
    let (json_type, merge) = ("application/json", "application/merge-patch+json");
    let apply = "application/apply-patch+yaml";
    let labels = json!({ "metadata": { "labels": { "a b": "c" } } });
    let mut applied = pod("new");
    applied["metadata"]["labels"] = json!({ "a b": "c" });
    for (method, path, content_type, body) in [
        (Method::POST, ALL.to_owned(), json_type, generated("labels", json!({ "a b": "c" }))),
        (Method::POST, ALL.to_owned(), json_type, generated("resourceVersion", "1".into())),
        (Method::POST, ALL.to_owned(), json_type, generated("namespace", "other".into())),
        (Method::POST, ALL.to_owned(), json_type, generated("generateName", "Web-".into())),
        (Method::POST, format!("{ALL}?dryRun=x"), json_type, generated("name", Value::Null)),
        (Method::POST, ALL.to_owned(), json_type, pod("a")),
        (Method::PUT, one.clone(), json_type, pod("b")),
        (Method::PUT, one.clone(), json_type, labels.clone()),
        (Method::PATCH, one.clone(), merge, labels),
        (Method::PATCH, format!("{ALL}/new?fieldManager=x"), apply, applied),
        (Method::PATCH, one.clone(), merge, json!({ "metadata": { "resourceVersion": "1" } })),
        (Method::DELETE, one.clone(), json_type, json!({ "preconditions": { "uid": "x" } })),
        (Method::DELETE, one.clone(), json_type, json!({ "propagationPolicy": "Never" })),
        (Method::DELETE, ALL.to_owned(), json_type, json!({ "preconditions": { "uid": "x" } })),
        (Method::DELETE, format!("{ALL}/b"), json_type, Value::Null),
    ] {
        let server = server();
        let request = Request::builder().method(method.clone()).uri(&path);
        let sent = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.header("content-type", content_type).body(sent.into_bytes());
        let refused = send(&server, request.unwrap()).await.unwrap();
        assert!(!refused.code.is_success(), "{method} {path} {body}");
        assert_eq!(server.version(), 2, "{method} {path} {body}");
        assert_eq!(next(&server).await, untouched, "{method} {path} {body}");
    }
}

#[tokio::test]
async fn generated_name_that_an_object_has_is_not_used_again() {
    let (first, other) = (next(&server()).await, server());
    let name = first[0].as_str().unwrap();
    other.apply(pod(name)).unwrap();
    let second = next(&other).await;
    assert_ne!(first[0], second[0]);
    assert_ne!(next(&other).await[0], second[0]);
}
