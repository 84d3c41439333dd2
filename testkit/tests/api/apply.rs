//! Tests of server-side apply.

use deltafifo_testkit::{ApiServer, Resource};
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::common::{builder, call, send, server, widget_api, widgets};

const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const POD: &str = "/api/v1/namespaces/default/pods/a";
const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/w";

/// Applies a configuration of this manager, and returns the code and the response.
async fn apply(server: &ApiServer, uri: &str, manager: &str, body: &Value) -> (u16, Value) {
    let separator = if uri.contains('?') { '&' } else { '?' };
    let request = http::Request::patch(format!("{uri}{separator}fieldManager={manager}"))
        .header("content-type", "application/apply-patch+yaml");
    let sent = send(server, request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
    (sent.code.as_u16(), sent.json().await)
}

async fn applied(server: &ApiServer, uri: &str, manager: &str, body: &Value) -> Value {
    let (code, json) = apply(server, uri, manager, body).await;
    assert!(code == 200 || code == 201, "{json}");
    json
}

fn map(data: &Value) -> Value {
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" }, "data": data })
}

fn pod(spec: &Value) -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "a" }, "spec": spec })
}

/// Returns managers and their fields, in the order of the object.
fn managers(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let read = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let subresource = text("subresource");
        let name = format!("{} {} {subresource}", text("manager"), text("operation"));
        (name.trim_end().to_owned(), entry["fieldsV1"].clone())
    };
    entries.iter().map(read).collect()
}

#[tokio::test]
async fn configuration_creates_a_missing_object() {
    let server = server();
    let (code, made) = apply(&server, MAP, "one", &map(&json!({ "k": "1" }))).await;
    assert_eq!(code, 201);
    assert_eq!(made["data"], json!({ "k": "1" }));
    assert_eq!(managers(&made), [("one Apply".to_owned(), json!({ "f:data": { "f:k": {} } }))]);
    assert_eq!(made["metadata"]["managedFields"][0]["apiVersion"], "v1");
    let (code, same) = apply(&server, MAP, "one", &map(&json!({ "k": "1" }))).await;
    assert_eq!((code, &same), (200, &made), "no change, no version");
}

#[tokio::test]
async fn field_of_another_manager_is_a_conflict_unless_forced() {
    let server = server();
    applied(&server, MAP, "one", &map(&json!({ "k": "1", "l": "1" }))).await;
    // An equal value is shared.
    applied(&server, MAP, "two", &map(&json!({ "k": "1" }))).await;
    let (code, status) = apply(&server, MAP, "two", &map(&json!({ "k": "2" }))).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert_eq!(status["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    assert_eq!(
        status["details"]["causes"],
        json!([{
            "reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.k",
        }])
    );
    let both = map(&json!({ "k": "2", "l": "2" }));
    let (_, status) = apply(&server, MAP, "two", &both).await;
    assert_eq!(
        status["message"],
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l"
    );
    let forced = applied(&server, &format!("{MAP}?force=true"), "two", &both).await;
    assert_eq!(forced["data"], json!({ "k": "2", "l": "2" }));
    let all = json!({ "f:data": { "f:k": {}, "f:l": {} } });
    assert_eq!(managers(&forced), [("two Apply".to_owned(), all)]);
}

#[tokio::test]
async fn field_left_out_goes_unless_another_manager_has_it() {
    let server = server();
    let mut first = map(&json!({ "k": "1", "l": "1" }));
    first["metadata"]["labels"] = json!({ "a": "b" });
    applied(&server, MAP, "one", &first).await;
    applied(&server, MAP, "two", &map(&json!({ "k": "1" }))).await;
    let left = applied(&server, MAP, "one", &map(&json!({}))).await;
    assert_eq!(left["data"], json!({ "k": "1" }));
    assert!(left["metadata"].get("labels").is_none());
    let empty = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" } });
    applied(&server, MAP, "one", &empty).await;
    let left = applied(&server, MAP, "two", &empty).await;
    assert!(left.get("data").is_none() && managers(&left).is_empty(), "{left}");
}

#[tokio::test]
async fn update_takes_fields_of_an_applied_object() {
    let server = server();
    applied(&server, MAP, "one", &map(&json!({ "k": "1", "l": "1" }))).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let params = PatchParams { field_manager: Some("other".to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "data": { "k": "2", "l": null, "m": "1" } }));
    maps.patch("a", &params, &patch).await.unwrap();
    let found = server.get(&Resource::config_maps(), "default", "a").unwrap();
    assert_eq!(
        managers(&found),
        [("other Update".to_owned(), json!({ "f:data": { "f:k": {}, "f:m": {} } }))]
    );
    let (_, status) = apply(&server, MAP, "one", &map(&json!({ "k": "1" }))).await;
    assert_eq!(
        status["message"],
        "Apply failed with 1 conflict: conflict with \"other\" using v1: .data.k"
    );
    // A client that sends no managers keeps them, and an empty one drops them.
    let mut update: ConfigMap = maps.get("a").await.unwrap();
    update.metadata.managed_fields = None;
    let kept = maps.replace("a", &PostParams::default(), &update).await.unwrap();
    assert_eq!(kept.metadata.managed_fields.unwrap().len(), 1);
    let reset = Patch::Merge(json!({ "metadata": { "managedFields": [{}] } }));
    let reset = maps.patch("a", &PatchParams::default(), &reset).await.unwrap();
    assert!(reset.metadata.managed_fields.is_none());
}

#[tokio::test]
async fn user_agent_names_a_manager_without_a_name() {
    let server = builder().managed_fields(true).build();
    for (name, agent, expected) in [("a", "kubectl/v1.36 (linux)", "kubectl"), ("b", "", "unknown")]
    {
        let mut body = map(&json!({ "k": "1" }));
        body["metadata"]["name"] = name.into();
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("user-agent", agent)
            .body(body.to_string().into_bytes())
            .unwrap();
        let made = send(&server, request).await.unwrap();
        assert_eq!(made.code, StatusCode::CREATED);
        let fields = json!({ "f:data": { ".": {}, "f:k": {} } });
        assert_eq!(managers(&made.json().await), [(format!("{expected} Update"), fields)]);
    }
}

#[tokio::test]
async fn fields_from_before_the_first_apply_have_a_manager() {
    let server = server();
    server.apply(map(&json!({ "k": "1" }))).unwrap();
    let (code, status) = apply(&server, MAP, "one", &map(&json!({ "k": "2" }))).await;
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k"
    );
    let added = applied(&server, MAP, "one", &map(&json!({ "l": "2" }))).await;
    assert_eq!(added["data"], json!({ "k": "1", "l": "2" }));
    assert_eq!(managers(&added).len(), 2);
}

#[tokio::test]
async fn known_lists_merge_by_keys_and_others_are_replaced() {
    let server = server();
    let port = |port: u16| json!({ "containerPort": port });
    let first = pod(&json!({
        "containers": [{ "name": "web", "image": "1", "args": ["a"], "ports": [port(80)] }],
        "tolerations": [{ "key": "a" }],
    }));
    let made = applied(&server, POD, "one", &first).await;
    assert_eq!(
        managers(&made)[0].1["f:spec"]["f:containers"],
        json!({ "k:{\"name\":\"web\"}": {
            ".": {}, "f:args": {}, "f:image": {}, "f:name": {},
            "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                ".": {}, "f:containerPort": {},
            } },
        } })
    );
    let second = pod(&json!({ "containers": [
        { "name": "proxy", "image": "1" },
        { "name": "web", "ports": [port(81)] },
    ] }));
    let both = applied(&server, POD, "two", &second).await;
    assert_eq!(
        both["spec"]["containers"],
        json!([
            { "name": "proxy", "image": "1" },
            { "name": "web", "image": "1", "args": ["a"], "ports": [port(80), port(81)] },
        ])
    );
    let (code, _) =
        apply(&server, POD, "two", &pod(&json!({ "tolerations": [{ "key": "b" }] }))).await;
    assert_eq!(code, 409, "the list is of one manager");
    let less =
        applied(&server, POD, "two", &pod(&json!({ "containers": [{ "name": "web" }] }))).await;
    assert_eq!(less["spec"]["containers"][0]["ports"], json!([port(80)]));
    assert_eq!(less["spec"]["containers"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn finalizers_and_owners_merge_in_every_kind() {
    let server = server();
    let widget = |metadata: Value, spec: Value| {
        let mut widget = json!({
            "kind": "Widget", "apiVersion": "example.com/v1", "metadata": metadata, "spec": spec,
        });
        widget["metadata"]["name"] = "w".into();
        widget
    };
    let first = widget(json!({ "finalizers": ["example.com/a"] }), json!({ "list": [1] }));
    applied(&server, WIDGET, "one", &first).await;
    let owner = json!({ "kind": "ConfigMap", "apiVersion": "v1", "name": "x", "uid": "u" });
    let second =
        widget(json!({ "finalizers": ["example.com/b"], "ownerReferences": [owner] }), json!({}));
    let both = applied(&server, WIDGET, "two", &second).await;
    assert_eq!(both["metadata"]["finalizers"], json!(["example.com/a", "example.com/b"]));
    let fields = &managers(&both)[1].1["f:metadata"];
    assert_eq!(
        *fields,
        json!({
            "f:finalizers": { "v:\"example.com/b\"": {} },
            "f:ownerReferences": { "k:{\"uid\":\"u\"}": {} },
        })
    );
    let left = applied(&server, WIDGET, "one", &widget(json!({}), json!({ "list": [2, 3] }))).await;
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/b"]));
    assert_eq!(left["spec"]["list"], json!([2, 3]));
}

#[tokio::test]
async fn declared_list_of_a_custom_resource_merges_by_its_keys() {
    let keyed = widgets().list_keys("status.conditions", &["type"]);
    let server = ApiServer::builder().resource(keyed.clone()).build();
    let all: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &widget_api());
    let widget = DynamicObject::new("w", &widget_api()).data(json!({ "spec": { "size": 1 } }));
    all.create(&PostParams::default(), &widget).await.unwrap();
    let status = |kind: &str| {
        json!({
            "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "w" },
            "spec": { "size": 7 }, "status": { "conditions": [{ "type": kind, "status": "True" }] },
        })
    };
    let uri = format!("{WIDGET}/status");
    applied(&server, &uri, "one", &status("Ready")).await;
    let both = applied(&server, &uri, "two", &status("Synced")).await;
    assert_eq!(both["status"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(both["spec"]["size"], 1, "only the status is applied");
    let names: Vec<String> = managers(&both).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["one Apply status", "two Apply status", "before-first-apply Update"]);
    // Through the object the status does not count.
    let other = applied(
        &server,
        WIDGET,
        "one",
        &json!({
            "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "w" },
            "spec": { "colour": "red" }, "status": { "conditions": [] },
        }),
    )
    .await;
    assert_eq!(other["status"], both["status"]);
    assert_eq!(other["metadata"]["generation"], 2);
    let missing = "/apis/example.com/v1/namespaces/default/widgets/v/status";
    let mut body = status("Ready");
    body["metadata"]["name"] = "v".into();
    assert_eq!(apply(&server, missing, "one", &body).await.0, 404);
}

#[tokio::test]
async fn invalid_configurations_are_refused() {
    let server = server();
    let with = |field: &str, value: Value| {
        let mut map = map(&json!({ "k": "1" }));
        map["metadata"][field] = value;
        map
    };
    let bare = json!({ "metadata": { "name": "a" } });
    for (manager, body, expected) in [
        ("", map(&json!({})), 422),
        ("one", with("name", "b".into()), 400),
        ("one", with("managedFields", json!([{ "manager": "x" }])), 400),
        ("one", with("uid", "x".into()), 409),
        ("one", bare, 400),
        ("one", json!([]), 400),
    ] {
        assert_eq!(apply(&server, MAP, manager, &body).await.0, expected, "{body}");
    }
    applied(&server, MAP, "one", &map(&json!({}))).await;
    let old = with("resourceVersion", "1".into());
    assert_eq!(apply(&server, MAP, "one", &old).await.0, 409);
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let forced = PatchParams { force: true, ..PatchParams::default() };
    let request = http::Request::patch(format!("{MAP}?force=true"))
        .header("content-type", "application/merge-patch+json");
    let sent = send(&server, request.body(b"{}".to_vec()).unwrap()).await.unwrap();
    assert_eq!(sent.code, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(maps.patch("a", &forced, &Patch::Merge(json!({}))).await.is_err());
    assert_eq!(server.version(), 2);
}

#[tokio::test]
async fn list_merges_by_the_type_of_its_object_and_not_by_its_name() {
    let accounts = Resource::known().find(|known| known.kind() == "ServiceAccount").unwrap();
    let server = ApiServer::builder().resource(accounts).build();
    let uri = "/api/v1/namespaces/default/serviceaccounts/a";
    let account = |field: &str, name: &str| {
        let mut account = json!({ "kind": "ServiceAccount", "apiVersion": "v1" });
        account["metadata"]["name"] = "a".into();
        account[field] = json!([{ "name": name }]);
        account
    };
    applied(&server, uri, "one", &account("imagePullSecrets", "a")).await;
    let (code, status) = apply(&server, uri, "two", &account("imagePullSecrets", "b")).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (409, &".imagePullSecrets".into())
    );
    applied(&server, uri, "one", &account("secrets", "a")).await;
    let both = applied(&server, uri, "two", &account("secrets", "b")).await;
    assert_eq!(both["secrets"], json!([{ "name": "a" }, { "name": "b" }]));
}

#[tokio::test]
async fn applied_list_with_elements_of_one_name_is_refused() {
    let server = server();
    let container = json!({ "name": "web", "env": [
        { "name": "A", "value": "1" }, { "name": "B" }, { "name": "A", "value": "2" },
    ] });
    let twice = pod(&json!({ "containers": [container] }));
    let (code, status) = apply(&server, POD, "one", &twice).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "failed to create typed patch object (/a; /v1, Kind=Pod): .spec.containers[name=\"web\"].env: duplicate entries for key [name=\"A\"]"
    );
    let mut finalizers = map(&json!({}));
    finalizers["metadata"]["finalizers"] = json!(["x/a", "x/a"]);
    assert_eq!(apply(&server, MAP, "one", &finalizers).await.0, 500);
    assert_eq!(server.version(), 1);
}

#[tokio::test]
async fn elements_of_one_name_stay_until_a_configuration_has_the_name() {
    let server = server();
    let web = |env: Value| pod(&json!({ "containers": [{ "name": "web", "env": env }] }));
    let (a, b) = (json!({ "name": "A", "value": "1" }), json!({ "name": "B", "value": "1" }));
    let second = json!({ "name": "A", "value": "2" });
    server.apply(web(json!([a, b, second]))).unwrap();
    let c = json!({ "name": "C", "value": "1" });
    let added = applied(&server, POD, "one", &web(json!([c]))).await;
    let env = |pod: &Value| pod["spec"]["containers"][0]["env"].clone();
    assert_eq!(env(&added), json!([a, b, second, c]));
    let (code, status) = apply(&server, POD, "two", &web(json!([second]))).await;
    assert_eq!(code, 409, "{status}");
    let forced = applied(&server, &format!("{POD}?force=true"), "two", &web(json!([second]))).await;
    assert_eq!(env(&forced), json!([second, b, c]));
}

#[tokio::test]
async fn definition_declares_sets_atomic_maps_and_defaults_of_keys() {
    let definitions = Resource::known().filter(|known| known.kind() == "CustomResourceDefinition");
    let server = ApiServer::builder().resources(definitions).build();
    let list = |kind: &str| json!({ "type": "array", "x-kubernetes-list-type": kind });
    let mut rules = list("map");
    rules["x-kubernetes-list-map-keys"] = json!(["port", "protocol"]);
    rules["items"]["properties"]["protocol"]["default"] = "TCP".into();
    let spec = json!({ "properties": {
        "tags": list("set"), "rules": rules,
        "reference": { "type": "object", "x-kubernetes-map-type": "atomic" },
    } });
    let schema = json!({ "openAPIV3Schema": { "properties": { "spec": spec } } });
    server
        .apply(json!({
            "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": { "name": "widgets.example.com" },
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": { "kind": "Widget", "plural": "widgets" },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
            },
        }))
        .unwrap();
    let widget = |spec: Value| {
        json!({
            "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "w" }, "spec": spec,
        })
    };
    let one = json!({ "tags": ["a"], "rules": [{ "port": 1 }], "reference": { "a": 1 } });
    let made = applied(&server, WIDGET, "one", &widget(one)).await;
    assert_eq!(
        managers(&made)[0].1["f:spec"],
        json!({
            "f:reference": {},
            "f:rules": { "k:{\"port\":1,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {} } },
            "f:tags": { "v:\"a\"": {} },
        })
    );
    let none = applied(&server, WIDGET, "three", &widget(json!({ "tags": [], "plain": [] }))).await;
    let fields = json!({ "f:spec": { "f:plain": {} } });
    assert!(managers(&none).contains(&("three Apply".to_owned(), fields)), "{none}");
    let two = json!({ "tags": ["b"], "rules": [{ "port": 1, "protocol": "UDP" }] });
    let both = applied(&server, WIDGET, "two", &widget(two)).await;
    assert_eq!(both["spec"]["tags"], json!(["a", "b"]));
    assert_eq!(both["spec"]["rules"].as_array().unwrap().len(), 2);
    let (code, _) =
        apply(&server, WIDGET, "two", &widget(json!({ "reference": { "b": 1 } }))).await;
    assert_eq!(code, 409);
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[tokio::test]
async fn kubectl_has_no_conflict_in_fields_that_it_applied_as_a_client() {
    let server = builder().managed_fields(true).build();
    let last = map(&json!({ "k": "1", "l": "1" }));
    let mut made = last.clone();
    made["metadata"]["annotations"] = json!({ LAST_APPLIED: last.to_string() });
    let uri = "/api/v1/namespaces/default/configmaps?fieldManager=kubectl-client-side-apply";
    assert_eq!(call(&server, Method::POST, uri, &made).await.0, StatusCode::CREATED);
    let changed = map(&json!({ "k": "2" }));
    assert_eq!(apply(&server, MAP, "other", &changed).await.0, 409);
    let moved = applied(&server, MAP, "kubectl", &changed).await;
    assert_eq!(moved["data"], json!({ "k": "2", "l": "1" }));
    let last = moved["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(last).unwrap(), changed);
    let fields = |manager: usize| managers(&moved)[manager].clone();
    assert_eq!(fields(0), ("kubectl Apply".to_owned(), json!({ "f:data": { "f:k": {} } })));
    // The field has another value than in the annotation.
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let params = PatchParams { field_manager: Some("other".to_owned()), ..PatchParams::default() };
    maps.patch("a", &params, &Patch::Merge(json!({ "data": { "k": "3" } }))).await.unwrap();
    assert_eq!(apply(&server, MAP, "kubectl", &map(&json!({ "k": "4" }))).await.0, 409);
}

#[tokio::test]
async fn oldest_of_many_managers_of_updates_become_one() {
    let server = builder().managed_fields(true).build();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    applied(&server, MAP, "one", &map(&json!({ "k": "1" }))).await;
    for number in 0..13 {
        let manager = Some(format!("m{number:02}"));
        let params = PatchParams { field_manager: manager, ..PatchParams::default() };
        let patch = json!({ "data": { format!("k{number:02}"): "1" } });
        maps.patch("a", &params, &Patch::Merge(patch)).await.unwrap();
    }
    let found = server.get(&Resource::config_maps(), "default", "a").unwrap();
    let managers = managers(&found);
    assert_eq!(managers.len(), 11);
    let ancient = json!({ "f:data": { "f:k00": {}, "f:k01": {}, "f:k02": {}, "f:k03": {} } });
    assert_eq!(managers[1], ("ancient-changes Update".to_owned(), ancient));
    assert_eq!(managers[2].0, "m04 Update");
}

#[tokio::test]
async fn status_write_does_not_set_managers() {
    let server = builder().managed_fields(true).build();
    let pods = "/api/v1/namespaces/default/pods?fieldManager=one";
    let mut labelled = pod(&json!({ "containers": [] }));
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    let (_, made) = call(&server, Method::POST, pods, &labelled).await;
    let labels = json!({ "f:labels": { ".": {}, "f:a": {} } });
    assert_eq!(managers(&made)[0].1["f:metadata"], labels, "no manager has the whole metadata");
    let reset = json!({ "metadata": { "managedFields": [{}] }, "status": { "phase": "Running" } });
    let request = http::Request::patch(format!("{POD}/status?fieldManager=two"))
        .header("content-type", "application/merge-patch+json");
    let sent = send(&server, request.body(reset.to_string().into_bytes()).unwrap()).await.unwrap();
    let names: Vec<String> =
        managers(&sent.json().await).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["one Update", "two Update status"]);
}
