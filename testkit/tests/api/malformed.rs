//! Tests of malformed requests, which no well-behaved client sends.

use http::{Method, StatusCode};
use serde_json::json;

use crate::common::{PODS, call, open, pod, refused, send, server_with};

#[tokio::test]
async fn invalid_parameters_are_a_bad_request() {
    let server = server_with(1);
    for query in [
        "limit=many",
        "resourceVersion=new",
        "resourceVersion=-1",
        "resourceVersion=99999999999999999999",
        "watch=true&timeoutSeconds=x",
        "labelSelector=a%20is%20b",
        "labelSelector=%3D",
        "fieldSelector=metadata.name",
        "fieldSelector=spec.image%3Da",
        "continue=%FF",
    ] {
        let status = refused(&server, &format!("{PODS}?{query}")).await;
        assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"), "{query}");
    }
}

#[tokio::test]
async fn unusual_queries_are_accepted_as_by_the_real_server() {
    let server = server_with(1);
    for query in [
        "",
        "&&&",
        "limit=",
        "limit=0",
        "limit=-1",
        "=",
        "x=y",
        "limit=18446744073709551615",
        "watch=0",
        "labelSelector=",
    ] {
        assert_eq!(open(&server, &format!("{PODS}?{query}")).await.code, StatusCode::OK, "{query}");
    }
    let mut watch = open(&server, &format!("{PODS}?watch&timeoutSeconds=0")).await;
    watch.events(["ADDED a 2"]).await;
    watch.silent();
}

#[tokio::test]
async fn path_without_a_resource_is_not_found() {
    let server = server_with(1);
    for path in [
        "/",
        "//",
        "/api/v2",
        "/api/v2/pods",
        "/api/v1/namespaces/default/pods/a/status/more",
        "/api/v1/namespaces//pods",
        "/apis/example.com/v2/widgets",
        "/apis/example.com/v2",
        "/apis/example.org",
        "/apis//v1/widgets",
        "/openapi/v2",
        "/api/v1/pods/a",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/status",
        "/api/v1/namespaces/default/pods/%20",
    ] {
        assert_eq!(open(&server, path).await.code, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn unsuitable_methods_are_not_allowed() {
    let server = server_with(1);
    for (method, uri) in [
        (Method::PUT, "/api/v1/namespaces/default/pods"),
        (Method::PATCH, "/api/v1/namespaces/default/pods"),
        (Method::POST, "/api/v1/namespaces/default/pods/a"),
        (Method::DELETE, "/api/v1/pods"),
        (Method::OPTIONS, "/api/v1/pods"),
    ] {
        let (code, status) = call(&server, method.clone(), uri, &json!({})).await;
        assert_eq!(
            (code.as_u16(), &status["reason"]),
            (405, &json!("MethodNotAllowed")),
            "{method} {uri}"
        );
    }
}

#[tokio::test]
async fn body_in_another_format_is_refused_with_415() {
    let server = server_with(1);
    for (method, uri) in [
        (Method::POST, "/api/v1/namespaces/default/pods"),
        (Method::PUT, "/api/v1/namespaces/default/pods/a"),
        (Method::DELETE, "/api/v1/namespaces/default/pods/a"),
    ] {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/vnd.kubernetes.protobuf");
        let opened = send(&server, request.body(b"k8s".to_vec()).unwrap()).await.unwrap();
        assert_eq!(opened.code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let message = opened.json().await["message"].as_str().unwrap().to_owned();
        assert!(message.contains("application/json"), "{message}");
        assert!(message.contains("does not read protobuf"), "{message}");
    }
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn body_that_is_not_json_is_a_bad_request() {
    let server = server_with(1);
    let one = "/api/v1/namespaces/default/pods/a";
    for (method, uri, content_type) in [
        (Method::POST, "/api/v1/namespaces/default/pods", "application/json"),
        (Method::PUT, one, "application/json"),
        (Method::PATCH, one, "application/merge-patch+json"),
        (Method::PATCH, one, "application/json-patch+json; charset=utf-8"),
        (Method::DELETE, one, "application/json"),
    ] {
        for body in [&b"{"[..], b"\xff", b"[1,", b"nonsense"] {
            let request = http::Request::builder()
                .method(method.clone())
                .uri(uri)
                .header("content-type", content_type);
            let opened = send(&server, request.body(body.to_vec()).unwrap()).await.unwrap();
            assert_eq!(opened.code, StatusCode::BAD_REQUEST, "{method} {uri} {body:?}");
        }
    }
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn patch_that_results_in_no_object_is_refused() {
    let server = server_with(1);
    for (patch, code) in [
        (json!(1), 400),
        (json!(null), 400),
        (json!({ "metadata": null }), 400),
        (json!({ "metadata": [] }), 422),
        (json!({ "kind": "Node" }), 422),
    ] {
        let request = http::Request::patch("/api/v1/namespaces/default/pods/a")
            .header("content-type", "application/merge-patch+json");
        let opened =
            send(&server, request.body(patch.to_string().into_bytes()).unwrap()).await.unwrap();
        assert_eq!(opened.code, code, "{patch}");
    }
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn json_patch_that_grows_without_end_is_refused() {
    let server = server_with(1);
    let add = |value| json!({ "op": "add", "path": "/metadata/annotations", "value": value });
    let copy = |from: &str, path: &str| json!({ "op": "copy", "from": from, "path": path });
    // Each copy doubles the list, or the depth.
    let doubled = copy("/metadata/annotations", "/metadata/annotations/-");
    let mut deep = vec![add(json!({ "a": { "a": {} } }))];
    let path = |levels| format!("/metadata/annotations{}", "/a".repeat(levels));
    deep.extend((1..20).map(|number| copy("/metadata/annotations", &path(1 << number))));
    let wide = [vec![add(json!(["a long text"]))], vec![doubled; 40]].concat();
    for (patch, code) in [(deep, StatusCode::BAD_REQUEST), (wide, StatusCode::PAYLOAD_TOO_LARGE)] {
        let request = http::Request::patch("/api/v1/namespaces/default/pods/a")
            .header("content-type", "application/json-patch+json");
        let body = json!(patch).to_string().into_bytes();
        let opened = send(&server, request.body(body).unwrap()).await.unwrap();
        assert_eq!(opened.code, code);
    }
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn json_patch_with_too_much_work_is_refused() {
    let server = server_with(1);
    let add = |path: &str, value| json!({ "op": "add", "path": path, "value": value });
    let list = |count: usize| add("/metadata/annotations", json!(vec![0; count]));
    let insert = |count| vec![add("/metadata/annotations/0", json!(0)); count];
    for (patch, message) in [
        (insert(10_001), "The allowed maximum operations in a JSON patch is 10000, got 10001"),
        ([vec![list(10_000)], insert(9_000)].concat(), "divide the patch"),
    ] {
        let request = http::Request::patch("/api/v1/namespaces/default/pods/a")
            .header("content-type", "application/json-patch+json");
        let body = json!(patch).to_string().into_bytes();
        let opened = send(&server, request.body(body).unwrap()).await.unwrap();
        assert_eq!(opened.code, StatusCode::PAYLOAD_TOO_LARGE);
        let status = opened.json().await;
        assert!(status["message"].as_str().unwrap().contains(message), "{status}");
    }
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn configuration_that_is_no_yaml_is_a_bad_request() {
    let server = server_with(1);
    let request = http::Request::patch("/api/v1/namespaces/default/pods/a?fieldManager=a")
        .header("content-type", "application/apply-patch+yaml");
    let opened = send(&server, request.body(b"kind: Pod: v1\n".to_vec()).unwrap()).await.unwrap();
    assert_eq!(opened.code, StatusCode::BAD_REQUEST);
    let status = opened.json().await;
    assert!(status["message"].as_str().unwrap().contains("neither JSON nor YAML"), "{status}");
}

#[tokio::test]
async fn parts_of_a_path_are_decoded_and_a_slash_can_end_it() {
    let server = server_with(1);
    for path in [
        "/api/v1/pods/",
        "/api/v1/namespaces/default/pods/",
        "/api/v1/namespaces/default/pods/%61",
        "/api/v1/namespaces/def%61ult/pods/a",
        "/api/v1/namespaces/default/pods%2Fa/",
    ] {
        assert_eq!(open(&server, path).await.code, StatusCode::OK, "{path}");
    }
    let status = refused(&server, "/api/v1/namespaces/default/pods/a%3Ab").await;
    assert_eq!(status.message, "pods \"a:b\" not found");
}

#[tokio::test]
async fn invalid_options_of_writes_are_refused() {
    let server = server_with(1);
    let all = "/api/v1/namespaces/default/pods";
    let one = format!("{all}/a");
    for (query, field) in [
        (format!("fieldManager={}", "x".repeat(129)), "fieldManager"),
        ("fieldManager=%01".to_owned(), "fieldManager"),
        ("fieldValidation=Other".to_owned(), "fieldValidation"),
    ] {
        for (method, path) in [(Method::POST, all), (Method::PUT, &one)] {
            let uri = format!("{path}?{query}");
            let (code, status) = call(&server, method, &uri, &pod("a")).await;
            assert_eq!(
                (code.as_u16(), &status["details"]["causes"][0]["field"]),
                (422, &json!(field))
            );
        }
    }
    let (code, _) = call(&server, Method::DELETE, &one, &json!({ "kind": "Pod" })).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    let (code, _) = call(&server, Method::PUT, &format!("{all}/b"), &pod("a")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "the name is checked first");
    let watch = format!("{PODS}?watch=true&resourceVersion=x");
    assert_eq!(open(&server, &watch).await.code, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn custom_resource_must_have_its_kind() {
    let server = server_with(0);
    let all = "/apis/example.com/v1/namespaces/default/widgets";
    for body in [
        json!({ "metadata": { "name": "a" } }),
        json!({ "kind": "Widget", "metadata": { "name": "a" } }),
        json!({ "apiVersion": "example.com/v1", "metadata": { "name": "a" } }),
    ] {
        assert_eq!(call(&server, Method::POST, all, &body).await.0, StatusCode::BAD_REQUEST);
    }
    let (code, status) =
        call(&server, Method::DELETE, &format!("{all}/a/status"), &json!({})).await;
    assert_eq!((code.as_u16(), &status["details"]["kind"]), (405, &json!("widgets")));
}
