//! Tests of lists: their format, their version, and their selection.

use deltafifo_testkit::{ApiServer, Resource};
use http::StatusCode;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta, VersionMatch};
use serde_json::json;

use crate::common::{
    PODS, app, builder, list, listed, open, open_metadata, phase, pod, refused, send, server,
    server_with, widget_api,
};

#[tokio::test]
async fn list_has_the_format_of_the_real_server() {
    let server = server();
    server
        .apply(
            json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "a" }, "spec": {} }),
        )
        .unwrap();
    let opened = open(&server, PODS).await;
    assert_eq!(opened.headers["content-type"], "application/json");
    let text = opened.text().await;
    let head = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"2"},"items":[{"metadata":{"#;
    assert!(text.starts_with(head), "{text}");
    assert!(text.ends_with("\"spec\":{}}]}\n"), "{text}");
    assert!(!text.contains(r#""kind":"Pod""#));
    let item = &list(&server, PODS).await["items"][0];
    assert_eq!(item["metadata"]["namespace"], "default");
    assert_eq!(item["metadata"]["resourceVersion"], "2");
}

#[tokio::test]
async fn empty_list_has_a_version_other_than_zero() {
    let list = list(&server(), PODS).await;
    assert_eq!(list["items"], json!([]));
    assert_eq!(list["metadata"], json!({ "resourceVersion": "1" }));
}

#[tokio::test]
async fn items_of_a_custom_kind_have_kind_and_api_version() {
    let server = server();
    server.apply(json!({ "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "w" } })).unwrap();
    let list = list(&server, "/apis/example.com/v1/widgets").await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("WidgetList"), &json!("example.com/v1"))
    );
    assert_eq!(
        (&list["items"][0]["kind"], &list["items"][0]["apiVersion"]),
        (&json!("Widget"), &json!("example.com/v1"))
    );

    let widgets: Api<DynamicObject> = Api::all_with(server.client(), &widget_api());
    let item = widgets.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(item.types.unwrap().kind, "Widget");
}

#[tokio::test]
async fn typed_client_lists_all_namespaces_or_one() {
    let server = server();
    for namespace in ["shop", "mail"] {
        let metadata = json!({ "name": "a", "namespace": namespace });
        server.apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata })).unwrap();
    }
    let names = |pods: Vec<Pod>| {
        pods.into_iter().map(|pod| pod.metadata.namespace.unwrap()).collect::<Vec<_>>()
    };
    let all: Api<Pod> = Api::all(server.client());
    assert_eq!(names(all.list(&ListParams::default()).await.unwrap().items), ["mail", "shop"]);
    let shop: Api<Pod> = Api::namespaced(server.client(), "shop");
    assert_eq!(names(shop.list(&ListParams::default()).await.unwrap().items), ["shop"]);
}

#[tokio::test]
async fn cluster_scoped_objects_have_no_namespace() {
    let server = server();
    server
        .apply(json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "n" } }))
        .unwrap();
    let nodes: Api<Node> = Api::all(server.client());
    let node = nodes.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(node.metadata.namespace, None);
    assert_eq!(refused(&server, "/api/v1/namespaces/default/nodes").await.code, 404);
}

#[tokio::test]
async fn list_returns_the_objects_that_match_the_label_selector() {
    let server = server();
    server.apply(pod("none")).unwrap();
    server.apply(app("w", "web")).unwrap();
    server.apply(app("m", "mail")).unwrap();
    let pods: Api<Pod> = Api::all(server.client());
    for (selector, expected) in [
        ("app=web", vec!["w"]),
        ("app!=web", vec!["m", "none"]),
        ("app in (web,mail)", vec!["m", "w"]),
        ("app notin (web,mail)", vec!["none"]),
        ("app", vec!["m", "w"]),
        ("!app", vec!["none"]),
        ("app,app!=web", vec!["m"]),
    ] {
        let items = pods.list(&ListParams::default().labels(selector)).await.unwrap().items;
        let names: Vec<String> = items.into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
        assert_eq!(names, expected, "{selector}");
    }
}

#[tokio::test]
async fn field_selector_matches_by_name_and_namespace() {
    let server = server_with(3);
    let pods: Api<Pod> = Api::all(server.client());
    for (selector, expected) in [
        ("metadata.name=b", vec!["b"]),
        ("metadata.name==b", vec!["b"]),
        ("metadata.name!=b", vec!["a", "c"]),
        ("metadata.namespace=default,metadata.name!=a", vec!["b", "c"]),
        ("metadata.namespace!=default", vec![]),
    ] {
        let items = pods.list(&ListParams::default().fields(selector)).await.unwrap().items;
        let names: Vec<String> = items.into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
        assert_eq!(names, expected, "{selector}");
    }
}

#[tokio::test]
async fn list_of_an_exact_version_shows_the_state_of_that_version() {
    let server = server_with(3);
    server.apply(phase("b", "Running")).unwrap();
    server.delete(&Resource::pods(), "default", "a").unwrap();
    server.apply(pod("d")).unwrap();

    let exact = |version: &str| ListParams::default().at(version).matching(VersionMatch::Exact);
    let pods: Api<Pod> = Api::all(server.client());
    for (version, expected) in [
        ("1", ""),
        ("2", "a2"),
        ("4", "a2 b3 c4"),
        ("5", "a2 b5 c4"),
        ("6", "b5 c4"),
        ("7", "b5 c4 d7"),
    ] {
        let list = pods.list(&exact(version)).await.unwrap();
        assert_eq!(list.metadata.resource_version.as_deref(), Some(version));
        let seen = |pod: &Pod| {
            let metadata = &pod.metadata;
            format!(
                "{}{}",
                metadata.name.as_deref().unwrap(),
                metadata.resource_version.as_deref().unwrap()
            )
        };
        assert_eq!(
            list.items.iter().map(seen).collect::<Vec<_>>().join(" "),
            expected,
            "{version}"
        );
    }
}

#[tokio::test]
async fn version_is_exact_with_a_limit_and_not_older_without() {
    let server = server_with(3);
    assert_eq!(listed(&list(&server, &format!("{PODS}?resourceVersion=2")).await), ["a", "b", "c"]);
    let not_older = format!("{PODS}?resourceVersion=2&resourceVersionMatch=NotOlderThan&limit=5");
    let newest = list(&server, &not_older).await;
    assert_eq!(listed(&newest), ["a", "b", "c"]);
    assert_eq!(newest["metadata"]["resourceVersion"], "4");
    let exact = list(&server, &format!("{PODS}?resourceVersion=2&limit=5")).await;
    assert_eq!(listed(&exact), ["a"]);
    assert_eq!(exact["metadata"]["resourceVersion"], "2");
}

#[tokio::test]
async fn list_of_any_version_ignores_the_limit() {
    let server = server_with(3);
    let list = list(&server, &format!("{PODS}?limit=1&resourceVersion=0")).await;
    assert_eq!(listed(&list).len(), 3);
    assert_eq!(list["metadata"], json!({ "resourceVersion": "4" }));
}

#[tokio::test]
async fn compacted_exact_version_has_expired() {
    let exact = |version| format!("{PODS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let server = server_with(3);
    server.compact();
    let status = refused(&server, &exact(4)).await;
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert_eq!(listed(&list(&server, &exact(5)).await).len(), 3);

    let server = builder().log_size(2).build();
    for name in ["a", "b", "c", "d"] {
        server.apply(pod(name)).unwrap();
    }
    assert_eq!(refused(&server, &exact(2)).await.code, 410);
    assert_eq!(listed(&list(&server, &exact(3)).await), ["a", "b"]);
}

#[tokio::test]
async fn list_of_a_future_version_times_out_at_once() {
    let server = server_with(1);
    for matching in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"] {
        let status = refused(&server, &format!("{PODS}?resourceVersion=99{matching}")).await;
        assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
        assert_eq!(status.message, "Timeout: Too large resource version: 99, current: 2");
        assert_eq!(status.details.unwrap().causes[0].reason, "ResourceVersionTooLarge");
    }
}

#[tokio::test]
async fn small_frames_that_split_characters_join_to_the_whole_list() {
    let server = ApiServer::builder().resource(Resource::pods()).frame_size(1).build();
    let annotated = json!({ "name": "a", "annotations": { "greeting": "Grüße, 世界 🦀" } });
    server.apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": annotated })).unwrap();
    let mut opened = open(&server, PODS).await;
    let mut frames = 0;
    while let Some(frame) = opened.frame().await {
        assert_eq!(frame.unwrap().len(), 1);
        frames += 1;
    }
    assert!(frames > 100);
    let pods: Api<Pod> = Api::all(server.client());
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(pod.metadata.annotations.unwrap()["greeting"], "Grüße, 世界 🦀");
}

#[tokio::test]
async fn metadata_only_list_contains_partial_objects() {
    let server = server();
    server.apply(phase("a", "Running")).unwrap();
    let opened = open_metadata(&server, PODS).await;
    assert_eq!(opened.code, StatusCode::OK);
    let list = opened.json().await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0]["status"], json!(null));

    let pods: Api<PartialObjectMeta<Pod>> = Api::all(server.client());
    let items = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(items[0].metadata.name.as_deref(), Some("a"));
    assert!(server.requests().iter().all(deltafifo_testkit::Request::is_metadata_only));
}

#[tokio::test]
async fn table_has_the_name_and_age_of_each_object() {
    let server = server_with(2);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let open = async |uri: &str| {
        let request = http::Request::get(uri).header("accept", table).body(Vec::new()).unwrap();
        send(&server, request).await.unwrap()
    };
    let list = open(PODS).await.json().await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(list["metadata"], json!({ "resourceVersion": "3" }));
    let column = |at: usize| &list["columnDefinitions"][at]["name"];
    assert_eq!((column(0), column(1)), (&json!("Name"), &json!("Age")));
    assert_eq!(list["rows"][1]["cells"][0], "b");
    assert!(list["rows"][1]["cells"][1].as_str().unwrap().ends_with('s'));
    assert_eq!(list["rows"][1]["object"]["kind"], "PartialObjectMetadata");
    let one = open("/api/v1/namespaces/default/pods/a?includeObject=None").await.json().await;
    assert_eq!(one["rows"][0]["object"], json!(null));
    assert_eq!((&one["rows"][0]["cells"][0], &one["rows"][1]), (&json!("a"), &json!(null)));

    let mut watch = open(&format!("{PODS}?watch=true&includeObject=Object")).await;
    let (first, second) = (watch.json_line().await, watch.json_line().await);
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["rows"][0]["object"]["kind"], "Pod");
    assert_eq!(first["object"]["columnDefinitions"], list["columnDefinitions"]);
    assert_eq!(second["object"]["columnDefinitions"], json!(null), "only the first has columns");
}
