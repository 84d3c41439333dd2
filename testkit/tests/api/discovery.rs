//! Tests of the answers about the server itself.

use deltafifo_testkit::{ApiServer, Resource};
use http::{Method, StatusCode};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::json;

use crate::common::{call, list, open, refused, server, widgets};

#[tokio::test]
async fn kubes_discovery_finds_every_resource() {
    let server = ApiServer::builder().resources(Resource::known()).resource(widgets()).build();
    let found = Discovery::new(server.client()).run().await.unwrap();
    let group = found.get("example.com").unwrap();
    let (widget, capabilities) = group.recommended_kind("Widget").unwrap();
    assert_eq!(
        (widget.plural.as_str(), widget.api_version.as_str()),
        ("widgets", "example.com/v1")
    );
    assert_eq!(capabilities.scope, Scope::Namespaced);
    assert!(capabilities.supports_operation(verbs::WATCH));
    assert_eq!(capabilities.subresources.len(), 1);
    let core = found.get("").unwrap();
    assert_eq!(core.recommended_kind("Node").unwrap().1.scope, Scope::Cluster);
    assert!(core.recommended_kind("ConfigMap").unwrap().1.subresources.is_empty());
    assert!(server.client().apiserver_version().await.unwrap().git_version.starts_with("v1.36"));
}

#[tokio::test]
async fn paths_of_discovery_are_as_in_the_real_server() {
    let server = server();
    assert_eq!(list(&server, "/api").await["versions"], json!(["v1"]));
    let groups = list(&server, "/apis").await;
    assert_eq!(groups["groups"][0]["preferredVersion"]["groupVersion"], "example.com/v1");
    let group = list(&server, "/apis/example.com").await;
    assert_eq!((&group["kind"], &group["name"]), (&json!("APIGroup"), &json!("example.com")));
    let pods = &list(&server, "/api/v1/").await["resources"][0];
    assert_eq!((&pods["name"], &pods["singularName"]), (&json!("pods"), &json!("pod")));
    assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
    assert_eq!(list(&server, "/api/v1").await["resources"][1]["name"], "pods/status");
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(open(&server, path).await.text().await, "ok");
    }
    let (code, _) = call(&server, Method::POST, "/apis", &json!({})).await;
    assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused(&server, "/apis/example.com/v1/gadgets").await.code, 404);
}
