//! Tests of the formats of bodies: JSON and YAML.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::common::{send, server};

const ALL: &str = "/api/v1/namespaces/default/configmaps";
const YAML: &str = "application/yaml";

async fn send_as(
    server: &deltafifo_testkit::ApiServer,
    method: Method,
    uri: &str,
    content_type: &str,
    body: &str,
) -> (StatusCode, Value) {
    let request = http::Request::builder().method(method).uri(uri);
    let request = request.header("content-type", content_type);
    let opened = send(server, request.body(body.as_bytes().to_vec()).unwrap()).await.unwrap();
    (opened.code, opened.json().await)
}

fn map(name: &str, value: &str) -> String {
    format!(
        "# a map\nkind: ConfigMap\napiVersion: v1\nmetadata: {{name: {name}}}\ndata:\n  k: {value}\n"
    )
}

#[tokio::test]
async fn objects_configurations_and_options_can_be_yaml() {
    let server = server();
    let one = format!("{ALL}/a");
    let charset = format!("{YAML}; charset=utf-8");
    for (method, uri, content_type, body, expected) in [
        (Method::POST, ALL, YAML, map("a", "one"), StatusCode::CREATED),
        (Method::PUT, &one, &charset, map("a", "two"), StatusCode::OK),
        (
            Method::PATCH,
            &format!("{one}?fieldManager=x&force=true"),
            "application/apply-patch+yaml",
            map("a", "three"),
            StatusCode::OK,
        ),
        (Method::DELETE, &one, YAML, "dryRun: [All]\n".to_owned(), StatusCode::OK),
    ] {
        let (code, answer) = send_as(&server, method, uri, content_type, &body).await;
        assert_eq!(code, expected, "{answer}");
    }
    let stored = server.get(&deltafifo_testkit::Resource::config_maps(), "default", "a").unwrap();
    assert_eq!(stored["data"], json!({ "k": "three" }));
}

#[tokio::test]
async fn other_formats_are_refused_with_415_and_bad_yaml_with_400() {
    let server = server();
    let (unsupported, bad) = (StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::BAD_REQUEST);
    let one = format!("{ALL}/a");
    for (method, uri, content_type, body, expected) in [
        (Method::POST, ALL, "application/x-yaml", "{}", unsupported),
        (Method::POST, ALL, "text/yaml", "{}", unsupported),
        (Method::PATCH, &one, YAML, "{}", unsupported),
        (Method::PATCH, &one, "application/merge-patch+yaml", "{}", unsupported),
        (Method::POST, ALL, YAML, "a: b: c", bad),
        (Method::POST, ALL, YAML, "- a", bad),
        (Method::PATCH, &one, "application/merge-patch+json", "a: b", bad),
        (Method::PATCH, &format!("{one}?fieldManager=x"), "application/apply-patch+yaml", "", bad),
        (Method::DELETE, &one, YAML, "- a", bad),
    ] {
        let (code, answer) = send_as(&server, method, uri, content_type, body).await;
        assert_eq!(code, expected, "{uri} {content_type} {body}: {answer}");
    }
}
