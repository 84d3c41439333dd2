//! Tests of JSON patches, merge patches and strategic merge patches.

use deltafifo_testkit::Resource;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::common::{ONE, app, code, pod, server, server_with};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[tokio::test]
async fn merge_patch_and_json_patch_are_applied() {
    let server = server();
    server.apply(app("a", "web")).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let merge = json!({ "metadata": { "labels": { "app": null, "tier": "front" } } });
    let merged = pods.patch("a", &PatchParams::default(), &Patch::Merge(merge)).await.unwrap();
    assert_eq!(merged.metadata.labels.unwrap(), [("tier".to_owned(), "front".to_owned())].into());
    assert_eq!(merged.metadata.resource_version.as_deref(), Some("3"));

    let patch = |operations: Value| {
        let server = server.clone();
        async move {
            let request = http::Request::patch(format!("{ONE}/a"))
                .header("content-type", "application/json-patch+json");
            let opened = crate::common::send(
                &server,
                request.body(operations.to_string().into_bytes()).unwrap(),
            )
            .await
            .unwrap();
            (opened.code.as_u16(), opened.json().await)
        }
    };
    let (code, patched) =
        patch(json!([{ "op": "replace", "path": "/metadata/labels/tier", "value": "back" }])).await;
    assert_eq!((code, &patched["metadata"]["labels"]["tier"]), (200, &json!("back")));
    let (code, _) =
        patch(json!([{ "op": "test", "path": "/metadata/labels/tier", "value": "front" }])).await;
    assert_eq!(code, 422);
    let first = |value| {
        json!([
            { "op": "test", "path": "/metadata/finalizers", "value": value },
            { "op": "add", "path": "/metadata/finalizers", "value": ["example.org/wait"] },
        ])
    };
    let (code, _) = patch(first(json!([]))).await;
    assert_eq!(code, 422, "finalizers are missing, not empty");
    let (code, patched) = patch(first(Value::Null)).await;
    assert_eq!((code, &patched["metadata"]["finalizers"]), (200, &json!(["example.org/wait"])));
    let (code, _) = patch(first(Value::Null)).await;
    assert_eq!(code, 422, "finalizers exist");
    let (code, _) = patch(json!({ "op": "nonsense" })).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn patch_with_another_version_conflicts() {
    let server = server_with(1);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let patch = |version: &str| {
        Patch::Merge(
            json!({ "metadata": { "resourceVersion": version, "labels": { "seen": "yes" } } }),
        )
    };
    assert_eq!(code(pods.patch("a", &PatchParams::default(), &patch("1")).await), 409);
    pods.patch("a", &PatchParams::default(), &patch("2")).await.unwrap();
    assert_eq!(
        code(
            pods.patch(
                "a",
                &PatchParams::default(),
                &Patch::Merge(json!({ "metadata": { "name": "b" } }))
            )
            .await
        ),
        400
    );
}

#[tokio::test]
async fn unknown_patch_types_are_refused_with_415() {
    let server = server_with(1);
    for (uri, content_type) in [
        (format!("{ONE}/a"), "application/json"),
        ("/apis/example.com/v1/namespaces/default/widgets/w".to_owned(), STRATEGIC),
    ] {
        let request = http::Request::patch(uri).header("content-type", content_type);
        let sent = crate::common::send(&server, request.body(b"{}".to_vec()).unwrap()).await;
        assert_eq!(sent.unwrap().code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}

#[tokio::test]
async fn strategic_merge_patch_merges_lists_by_keys() {
    let server = server();
    let container = |name: &str, image: &str| json!({ "name": name, "image": image });
    let mut web = pod("a");
    web["spec"] = json!({
        "containers": [container("web", "1"), container("log", "1")],
        "tolerations": [{ "key": "old" }],
        "nodeSelector": { "disk": "ssd", "zone": "a" },
    });
    server.apply(web).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let patch = json!({ "spec": {
        "$setElementOrder/containers": [{ "name": "proxy" }, { "name": "web" }],
        "containers": [
            container("proxy", "1"),
            { "name": "log", "$patch": "delete" },
            { "name": "web", "image": "2" },
        ],
        "tolerations": [{ "key": "new" }],
        "nodeSelector": { "zone": null },
    } });
    pods.patch("a", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    let patched = server.get(&Resource::pods(), "default", "a").unwrap();
    assert_eq!(
        patched["spec"],
        json!({
            "containers": [container("proxy", "1"), container("web", "2")],
            "tolerations": [{ "key": "new" }],
            "nodeSelector": { "disk": "ssd" },
        })
    );
    let patch = json!({ "spec": { "$patch": "replace", "nodeName": "n" } });
    pods.patch("a", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    let patched = server.get(&Resource::pods(), "default", "a").unwrap();
    assert_eq!(patched["spec"], json!({ "nodeName": "n" }));
}

#[tokio::test]
async fn strategic_merge_patch_needs_the_keys_of_list_elements() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let patch = async |containers: Value| {
        let patch = Patch::Strategic(json!({ "spec": { "containers": containers } }));
        pods.patch("a", &PatchParams::default(), &patch).await
    };
    let mut web = pod("a");
    web["spec"] = json!({ "containers": [{ "name": "web", "env": [{ "name": "A" }] }] });
    let mut nameless = pod("a");
    nameless["spec"] = json!({ "containers": [{ "image": "1" }] });
    let env = json!([{ "value": null, "valueFrom": { "a": [1, "b", true], "c": {} } }]);
    for (live, containers, element) in [
        (&web, json!([{ "image": "x" }]), "map[image:x]"),
        (&web, json!([{ "$patch": "delete" }]), "map[$patch:delete]"),
        (
            &web,
            json!([{ "name": "web", "env": env }]),
            "map[value:<nil> valueFrom:map[a:[1 b true] c:map[]]]",
        ),
        (&nameless, json!([{ "name": "web" }]), "map[image:1]"),
    ] {
        server.apply(live.clone()).unwrap();
        let Err(kube::Error::Api(status)) = patch(containers).await else {
            panic!("not refused: {element}")
        };
        let message = format!("map: {element} does not contain declared merge key: name");
        assert_eq!((status.code, status.message), (500, message));
        let stored = server.get(&Resource::pods(), "default", "a").unwrap();
        assert_eq!(stored["spec"], live["spec"]);
    }
    patch(json!([{ "$patch": "replace" }, { "name": "web" }])).await.unwrap();
    let stored = server.get(&Resource::pods(), "default", "a").unwrap();
    assert_eq!(stored["spec"], json!({ "containers": [{ "name": "web" }] }));
}

#[tokio::test]
async fn strategic_merge_patch_refuses_unknown_instructions_and_mixed_lists() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let mut web = app("a", "web");
    web["metadata"]["finalizers"] = json!(["example.com/a"]);
    web["spec"] = json!({ "containers": [{ "name": "web" }, { "name": "log" }] });
    server.apply(&web).unwrap();
    let containers = |list: Value| json!({ "spec": { "containers": list } });
    let ordered = |order: Value, list: Value| json!({ "spec": { "$setElementOrder/containers": order, "containers": list } });
    let (web_only, log_only) = (json!([{ "name": "web" }]), json!([{ "name": "log" }]));
    for (patch, code, message) in [
        (json!({ "$patch": "foo" }), 500, "unknown patch type: foo in map: map[$patch:foo]"),
        (
            json!({ "metadata": { "labels": { "$patch": null, "c": "d" } } }),
            500,
            "unknown patch type: %!s(<nil>) in map: map[$patch:<nil> c:d]",
        ),
        (
            containers(json!([{ "image": "1" }, { "$patch": 1 }])),
            500,
            "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
        ),
        (
            containers(json!([{ "$patch": "merge" }])),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({ "metadata": { "finalizers": [1] } }),
            500,
            "list element types are not identical: [[example.com/a] [1]]",
        ),
        (
            json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [null] } }),
            500,
            "list element types are not identical: [[example.com/a] [<nil>]]",
        ),
        (ordered(json!("a"), Value::Null), 500, "expected a []interface {}, but received a string"),
        (
            ordered(log_only, web_only),
            500,
            "The order in patch list:\n[map[name:web]]\n doesn't match $setElementOrder list:\n[map[name:log]]\n",
        ),
        (json!({ "metadata": { "$retainKeys": "a" } }), 400, "invalid patch format of retainKeys"),
        (
            json!({ "metadata": { "$retainKeys": ["name"], "labels": { "a": "b" } } }),
            400,
            "invalid patch format of retainKeys",
        ),
    ] {
        let sent = pods.patch("a", &PatchParams::default(), &Patch::Strategic(&patch)).await;
        let Err(kube::Error::Api(status)) = sent else { panic!("not refused: {patch}") };
        assert_eq!((status.code, status.message.as_str()), (code, message), "{patch}");
    }
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn strategic_merge_patch_keeps_no_instructions_in_new_values() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let mut web = pod("a");
    web["spec"] = json!({ "containers": [{ "name": "web" }], "nodeSelector": { "a": "b" } });
    server.apply(&web).unwrap();
    let patch = json!({
        "metadata": { "labels": { "$patch": "foo", "a": "b" }, "annotations": { "a": null, "b": "c" } },
        "spec": {
            "containers": [{ "name": null, "image": "1" }],
            "volumes": [{ "$patch": "foo" }, { "emptyDir": { "medium": null } }],
            "nodeSelector": { "$patch": "delete" },
        },
    });
    pods.patch("a", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    let patched = server.get(&Resource::pods(), "default", "a").unwrap();
    let containers = json!([{ "image": "1" }, { "name": "web" }]);
    let volumes = json!([{ "emptyDir": {} }]);
    assert_eq!(patched["spec"], json!({ "containers": containers, "volumes": volumes }));
    assert_eq!(patched["metadata"]["labels"], Value::Null);
    assert_eq!(patched["metadata"]["annotations"], json!({ "b": "c" }));
}
