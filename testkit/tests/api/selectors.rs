//! Tests of field selectors.

use deltafifo_testkit::{ApiServer, Resource};
use serde_json::json;

use crate::common::{PODS, list, listed, open, phase, pod, refused, server, widget_api, widgets};

#[tokio::test]
async fn pods_are_selected_by_node_and_phase() {
    let server = server();
    let mut bound = phase("a", "Running");
    bound["spec"] = json!({ "nodeName": "n1" });
    server.apply(bound).unwrap();
    server.apply(phase("b", "Failed")).unwrap();
    server.apply(pod("c")).unwrap();
    for (selector, expected) in [
        ("spec.nodeName%3Dn1", &["a"][..]),
        ("spec.nodeName%3D", &["b", "c"]),
        ("spec.nodeName!%3Dn1,metadata.name!%3Dc", &["b"]),
        ("status.phase%3DRunning", &["a"]),
        ("status.phase!%3DRunning", &["b", "c"]),
        ("spec.hostNetwork%3Dfalse", &["a", "b", "c"]),
        ("metadata.name%3Db,metadata.namespace%3Ddefault", &["b"]),
    ] {
        let found = list(&server, &format!("{PODS}?fieldSelector={selector}")).await;
        assert_eq!(listed(&found), expected, "{selector}");
    }
}

#[tokio::test]
async fn unsupported_field_is_refused_as_by_the_real_server() {
    let server = ApiServer::builder()
        .resources(Resource::known())
        .resource(widgets().selectable_field("spec.colour"))
        .build();
    for (path, message) in [
        (PODS, "field label not supported: spec.image"),
        (
            "/api/v1/configmaps",
            "\"spec.image\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "\"spec.image\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("/apis/example.com/v1/widgets", "field label not supported: spec.image"),
    ] {
        for watch in ["false", "true"] {
            let uri = format!("{path}?watch={watch}&fieldSelector=spec.image%3Da");
            let status = refused(&server, &uri).await;
            assert_eq!((status.code, status.message.as_str()), (400, message));
        }
    }
    let widget = json!({
        "kind": "Widget", "apiVersion": widget_api().api_version,
        "metadata": { "name": "w" }, "spec": { "colour": "red" },
    });
    server.apply(widget).unwrap();
    let uri = "/apis/example.com/v1/widgets?fieldSelector=spec.colour%3Dred";
    assert_eq!(listed(&list(&server, uri).await), ["w"]);
}

#[tokio::test]
async fn watch_gets_a_deletion_when_the_field_no_longer_matches() {
    let server = server();
    let uri = format!("{PODS}?watch=true&fieldSelector=status.phase%3DRunning");
    let mut watch = open(&server, &uri).await;
    server.apply(phase("a", "Pending")).unwrap();
    server.apply(phase("a", "Running")).unwrap();
    server.apply(phase("a", "Failed")).unwrap();
    server.apply(phase("a", "Running")).unwrap();
    server.delete(&Resource::pods(), "default", "a").unwrap();
    watch.events(["ADDED a 3", "DELETED a 4", "ADDED a 5", "DELETED a 6"]).await;
}
