//! Tests of writes by clients and by the test itself.

use deltafifo_testkit::{ApiServer, Error, Resource};
use http::{Method, StatusCode};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::core::discovery::Scope;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::common::{
    PODS, app, call, list, listed, open, phase, pod, refused, server, server_with, widget_api,
    widgets,
};

const ONE: &str = "/api/v1/namespaces/default/pods";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

fn code<T>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[tokio::test]
async fn created_object_has_a_uid_a_version_and_a_timestamp() {
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "shop");
    let mut watch = open(&server, "/api/v1/configmaps?watch=true").await;
    let made = maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    assert_eq!(made.metadata.namespace.as_deref(), Some("shop"));
    assert_eq!(made.metadata.resource_version.as_deref(), Some("2"));
    assert!(made.metadata.creation_timestamp.is_some());
    let other = maps.create(&PostParams::default(), &map("b", "1")).await.unwrap();
    assert_ne!(made.metadata.uid.unwrap(), other.metadata.uid.unwrap());
    watch.events(["ADDED a 2", "ADDED b 3"]).await;
    assert_eq!(maps.get("a").await.unwrap().data, map("a", "1").data);
}

#[tokio::test]
async fn creating_an_existing_object_conflicts() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let Err(kube::Error::Api(status)) = maps.create(&PostParams::default(), &map("a", "2")).await
    else {
        panic!("created a second time")
    };
    assert!(status.is_already_exists());
    assert_eq!((status.code, status.message.as_str()), (409, "configmaps \"a\" already exists"));
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn generate_name_yields_distinct_names() {
    let server = server();
    let body = json!({ "metadata": { "generateName": "web-" } });
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (code, made) = call(&server, Method::POST, ONE, &body).await;
        assert_eq!(code, StatusCode::CREATED);
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("web-") && name.len() == "web-".len() + 5, "{name}");
        assert!(!seen.contains(&name));
        seen.push(name);
    }
}

#[tokio::test]
async fn applied_object_with_a_generated_name_replaces_none() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "generateName": "web-", "namespace": "default" },
    });
    let pods = async |server: &ApiServer| {
        let (_, list) = call(server, Method::GET, ONE, &json!(null)).await;
        list["items"].as_array().unwrap().clone()
    };
    let first = server();
    first.apply(&pod).unwrap();
    let mut stored = pods(&first).await.remove(0);
    stored["apiVersion"] = json!("v1");
    stored["kind"] = json!("Pod");
    // A second server generates the names of the first one.
    let second = server();
    second.apply(&stored).unwrap();
    second.apply(&pod).unwrap();
    let pods = pods(&second).await;
    assert_eq!(pods.len(), 2, "{pods:?}");
}

#[tokio::test]
async fn invalid_objects_are_refused() {
    let server = server();
    for (body, expected) in [
        (json!({}), 422),
        (json!([]), 400),
        (json!("pod"), 400),
        (json!({ "metadata": 1 }), 400),
        (json!({ "kind": "Node", "metadata": { "name": "a" } }), 400),
        (json!({ "apiVersion": "v2", "metadata": { "name": "a" } }), 400),
        (json!({ "metadata": { "name": "a/b" } }), 422),
        (json!({ "metadata": { "name": ".." } }), 422),
        (json!({ "metadata": { "name": "a", "namespace": "shop" } }), 400),
        (json!({ "metadata": { "name": "a", "resourceVersion": "1" } }), 500),
    ] {
        let (code, status) = call(&server, Method::POST, ONE, &body).await;
        assert_eq!((code.as_u16(), &status["kind"]), (expected, &json!("Status")), "{body}");
    }
    assert_eq!(server.version(), 1);
    assert_eq!(
        call(&server, Method::POST, PODS, &pod("a")).await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn missing_object_is_not_found() {
    let server = server_with(1);
    let status = refused(&server, &format!("{ONE}/b")).await;
    assert_eq!((status.code, status.message.as_str()), (404, "pods \"b\" not found"));
    assert!(status.is_not_found());
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    assert!(pods.get_opt("a").await.unwrap().is_none());
    assert_eq!(code(pods.delete("a", &DeleteParams::default()).await), 404);
    assert_eq!(code(pods.patch("a", &PatchParams::default(), &Patch::Merge(json!({}))).await), 404);
}

#[tokio::test]
async fn update_of_another_version_conflicts() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let made = maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let mut newer = made.clone();
    newer.data = map("a", "2").data;
    let newer = maps.replace("a", &PostParams::default(), &newer).await.unwrap();
    assert_eq!(newer.metadata.resource_version.as_deref(), Some("3"));
    assert_eq!(
        (&newer.metadata.uid, &newer.metadata.creation_timestamp),
        (&made.metadata.uid, &made.metadata.creation_timestamp)
    );

    let Err(kube::Error::Api(status)) = maps.replace("a", &PostParams::default(), &made).await
    else {
        panic!("no conflict")
    };
    assert!(status.is_conflict());
    assert!(status.message.contains("the object has been modified"), "{}", status.message);
    let mut other = newer.clone();
    other.metadata.uid = Some("another".to_owned());
    assert_eq!(code(maps.replace("a", &PostParams::default(), &other).await), 409);
    assert_eq!(code(maps.replace("b", &PostParams::default(), &newer).await), 400);
    assert_eq!(code(maps.replace("b", &PostParams::default(), &map("b", "1")).await), 404);
}

#[tokio::test]
async fn update_without_a_version_is_for_built_in_kinds_only() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let updated = maps.replace("a", &PostParams::default(), &map("a", "2")).await.unwrap();
    assert_eq!(updated.data, map("a", "2").data);

    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &widget_api());
    let widget = DynamicObject::new("w", &widget_api()).data(json!({ "spec": { "size": 1 } }));
    let made = all.create(&PostParams::default(), &widget).await.unwrap();
    assert_eq!(code(all.replace("w", &PostParams::default(), &widget).await), 422);
    let larger = DynamicObject { data: json!({ "spec": { "size": 2 } }), ..made };
    all.replace("w", &PostParams::default(), &larger).await.unwrap();
    assert_eq!(server.get(&widgets(), "default", "w").unwrap()["spec"]["size"], 2);
}

#[tokio::test]
async fn write_without_a_change_keeps_the_version() {
    let server = server_with(1);
    let mut watch = open(&server, &format!("{PODS}?watch=true&resourceVersion=2")).await;
    assert_eq!(server.apply(pod("a")).unwrap(), 2);
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    pods.patch("a", &PatchParams::default(), &Patch::Merge(json!({ "metadata": { "name": "a" } })))
        .await
        .unwrap();
    let same = pods.get("a").await.unwrap();
    pods.replace("a", &PostParams::default(), &same).await.unwrap();
    assert_eq!(server.version(), 2);
    watch.silent();
}

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

#[tokio::test]
async fn generation_of_a_kind_without_one_is_kept() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let patch = Patch::Merge(json!({ "metadata": { "generation": 9 } }));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.metadata.generation, None);
}

#[tokio::test]
async fn status_subresource_changes_the_status_only() {
    let server = server();
    server.apply(app("a", "web")).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let patch =
        json!({ "metadata": { "labels": { "app": "mail" } }, "status": { "phase": "Running" } });
    let patched =
        pods.patch_status("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(patched.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(patched.metadata.labels.unwrap()["app"], "web");

    let mut done = pods.get_status("a").await.unwrap();
    done.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    done.metadata.labels = None;
    let done = pods.replace_status("a", &PostParams::default(), &done).await.unwrap();
    assert_eq!(done.status.unwrap().phase.as_deref(), Some("Succeeded"));
    assert_eq!(done.metadata.labels.unwrap()["app"], "web");
    assert_eq!(refused(&server, &format!("{ONE}/a/log")).await.code, 404);
    // A kind without a status subresource has no such path.
    server.apply(map("m", "1")).unwrap();
    let uri = "/api/v1/namespaces/default/configmaps/m/status";
    assert_eq!(refused(&server, uri).await.code, 404);
}

#[tokio::test]
async fn object_itself_keeps_its_status() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let new: Pod = serde_json::from_value(phase("a", "Running")).unwrap();
    let mut made = pods.create(&PostParams::default(), &new).await.unwrap();
    assert_eq!(made.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    made.status.as_mut().unwrap().phase = Some("Running".to_owned());
    made.metadata.labels = Some([("seen".to_owned(), "yes".to_owned())].into());
    let made = pods.replace("a", &PostParams::default(), &made).await.unwrap();
    assert_eq!(made.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    assert!(made.metadata.labels.is_some());
    let patch = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    let same = pods.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(same.metadata.resource_version, made.metadata.resource_version);

    // A custom resource without the subresource has its status in the object.
    let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Gadget"));
    let gadgets = Resource::custom(api.clone(), Scope::Namespaced).status_subresource(false);
    server.register(gadgets.clone());
    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &api);
    let gadget = DynamicObject::new("g", &api).data(json!({ "status": { "ready": true } }));
    all.create(&PostParams::default(), &gadget).await.unwrap();
    assert_eq!(server.get(&gadgets, "default", "g").unwrap()["status"]["ready"], true);
    assert_eq!(code(all.get_status("g").await), 404);
}

#[tokio::test]
async fn generation_rises_with_changes_of_anything_but_metadata_and_status() {
    let server = server();
    server.register(Resource::built_in(ApiResource::erase::<Deployment>(&()), Scope::Namespaced));
    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &widget_api());
    let widget = DynamicObject::new("w", &widget_api()).data(json!({ "spec": { "size": 1 } }));
    let made = all.create(&PostParams::default(), &widget).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let patch = |patch: Value| {
        let all = all.clone();
        async move {
            let patched = all.patch("w", &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.unwrap().metadata.generation.unwrap()
        }
    };
    assert_eq!(patch(json!({ "metadata": { "labels": { "a": "b" } } })).await, 1);
    assert_eq!(patch(json!({ "spec": { "size": 2 } })).await, 2);
    assert_eq!(patch(json!({ "metadata": { "generation": 9 } })).await, 2);
    assert_eq!(patch(json!({ "data": 1 })).await, 3);
    let status = Patch::Merge(json!({ "status": { "ready": true } }));
    let status = all.patch_status("w", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(status.metadata.generation, Some(3));
    assert_eq!(patch(json!({ "metadata": { "finalizers": ["example.com/a"] } })).await, 3);
    all.delete("w", &DeleteParams::default()).await.unwrap();
    assert_eq!(all.get("w").await.unwrap().metadata.generation, Some(4));

    // A config map has no generation. An annotation counts for a deployment.
    server.apply(map("m", "1")).unwrap();
    let found = server.get(&Resource::config_maps(), "default", "m").unwrap();
    assert!(found["metadata"].get("generation").is_none());
    let web = json!({ "kind": "Deployment", "apiVersion": "apps/v1", "metadata": { "name": "d" } });
    server.apply(web).unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(server.client());
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "a": "b" } } }));
    let noted = deployments.patch("d", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(noted.metadata.generation, Some(2));
}

#[tokio::test]
async fn largest_generation_does_not_overflow() {
    let server = server();
    let metadata = json!({ "name": "a", "generation": i64::MAX });
    server.apply(json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata })).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let patch = Patch::Merge(json!({ "spec": { "nodeName": "n" } }));
    let patched = pods.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.metadata.generation, Some(i64::MAX));
}

#[tokio::test]
async fn test_can_set_a_generation() {
    let server = server();
    let mut one = pod("a");
    one["metadata"]["generation"] = 7.into();
    server.apply(&one).unwrap();
    let read = || server.get(&Resource::pods(), "default", "a").unwrap();
    assert_eq!(read()["metadata"]["generation"], 7);
    let mut next = read();
    next["spec"] = json!({ "nodeName": "n" });
    server.apply(next).unwrap();
    assert_eq!(read()["metadata"]["generation"], 8);
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

#[tokio::test]
async fn test_writes_without_http_and_watches_see_it() {
    let server = server();
    let mut watch = open(&server, &format!("{PODS}?watch=true")).await;
    assert_eq!(server.apply(phase("a", "Pending")).unwrap(), 2);
    // The version in the object is ignored.
    let mut seen = server.get(&Resource::pods(), "default", "a").unwrap();
    seen["metadata"]["resourceVersion"] = "1".into();
    seen["status"]["phase"] = "Running".into();
    assert_eq!(server.apply(&seen).unwrap(), 3);
    assert_eq!(server.delete(&Resource::pods(), "default", "a").unwrap(), 4);
    watch.events(["ADDED a 2", "MODIFIED a 3", "DELETED a 4"]).await;
    assert!(server.get(&Resource::pods(), "default", "a").is_none());
    server.apply(map("typed", "1")).unwrap();
    assert_eq!(
        server.get(&Resource::config_maps(), "default", "typed").unwrap()["data"]["key"],
        "1"
    );
}

#[tokio::test]
async fn errors_of_the_test_side_name_cause_and_remedy() {
    let server = server();
    let unknown = server.apply(json!({ "kind": "Gadget", "apiVersion": "v1" })).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "kind \"Gadget\" of \"v1\" is not served; register its resource first"
    );
    assert!(matches!(
        server.apply(json!({ "kind": "Pod", "apiVersion": "v1" })),
        Err(Error::Refused(_))
    ));
    assert!(matches!(server.delete(&Resource::pods(), "default", "a"), Err(Error::Refused(_))));
}

#[tokio::test]
async fn resource_registered_later_is_served() {
    let server = deltafifo_testkit::ApiServer::builder().resource(Resource::pods()).build();
    let all: Api<DynamicObject> = Api::all_with(server.client(), &widget_api());
    // For a group that is not served the response is not a Status.
    let opened = open(&server, "/apis/example.com/v1/widgets").await;
    assert_eq!(
        (opened.code, opened.text().await.as_str()),
        (StatusCode::NOT_FOUND, "404 page not found\n")
    );
    assert_eq!(code(all.list(&ListParams::default()).await), 404);
    let status = refused(&server, "/api/v1/secrets").await;
    assert_eq!(status.message, "the server could not find the requested resource");

    server.register(widgets());
    server.register(widgets());
    assert!(all.list(&ListParams::default()).await.unwrap().items.is_empty());
}
