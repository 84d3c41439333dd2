//! The requests that both servers get, in order.

use http::Method;
use serde_json::{Value, json};

use super::step::{APPLY, MERGE, OPERATIONS, STRATEGIC, Step};

/// The path of configmaps.
pub const MAPS: &str = "/api/v1/namespaces/e2e/configmaps";
/// The path of pods.
pub const PODS: &str = "/api/v1/namespaces/e2e/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/e2e/deployments";
/// The path of widgets.
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/e2e/widgets";
/// The path of the definition of widgets.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the requests of each part, which depends on no other part.
pub fn parts() -> Vec<Vec<Step>> {
    vec![
        writes(),
        patches(),
        applied_maps(),
        applied_deployments(),
        pods(),
        deletions(),
        selectors(),
        widgets(),
        discovery(),
        namespaces(),
        bad_input(),
    ]
}

/// Returns a configmap.
pub fn map(name: &str, data: &Value) -> Value {
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": name }, "data": data })
}

/// Returns a configmap with a field of its metadata.
pub fn map_with(name: &str, field: &str, value: Value) -> Value {
    let mut map = map(name, &json!({ "k": "1" }));
    map["metadata"][field] = value;
    map
}

fn writes() -> Vec<Step> {
    let one = format!("{MAPS}/w");
    vec![
        Step::get(&one),
        Step::post(MAPS, &map("w", &json!({ "k": "1" }))).named("w"),
        Step::post(MAPS, &map("w", &json!({ "k": "1" }))),
        Step::get(&one),
        Step::put(&one, &map_with("w", "resourceVersion", "1".into())),
        Step::put(&one, &map_with("w", "resourceVersion", "${w.version}".into())),
        Step::put(&one, &map_with("w", "labels", json!({ "app": "web" }))).named("w"),
        Step::put(&one, &map_with("w", "uid", "${w.uid}".into())),
        Step::put(&one, &map_with("w", "uid", "other".into())).reason(),
        Step::put(&one, &map("other", &json!({ "k": "1" }))),
        Step::put(format!("{MAPS}/missing"), &map("missing", &json!({ "k": "1" }))).reason(),
        Step::post(MAPS, &map_with("v", "resourceVersion", "1".into())),
        Step::post(MAPS, &map_with("v", "namespace", "default".into())),
        Step::get(format!("{MAPS}?labelSelector=app%3Dweb")),
        Step::delete(&one, &Value::Null),
        Step::delete(&one, &Value::Null),
    ]
}

fn patches() -> Vec<Step> {
    let one = format!("{MAPS}/p");
    let operation =
        |op: &str, path: &str, value: Value| json!([{ "op": op, "path": path, "value": value }]);
    vec![
        Step::post(MAPS, &map("p", &json!({ "k": "1", "l": "1" }))).named("p"),
        Step::patch(&one, MERGE, &json!({ "data": { "k": "2", "l": null } })),
        Step::patch(&one, MERGE, &json!({ "data": { "k": "2" } })),
        Step::patch(&one, MERGE, &json!({ "metadata": { "resourceVersion": "1" } })),
        Step::patch(&one, MERGE, &json!({ "metadata": { "name": "q" } })),
        Step::patch(&one, OPERATIONS, &operation("add", "/data/m", "1".into())),
        Step::patch(&one, OPERATIONS, &operation("test", "/data/m", "2".into())).reason(),
        Step::patch(&one, OPERATIONS, &operation("test", "/metadata/finalizers", Value::Null)),
        Step::patch(&one, STRATEGIC, &json!({ "data": { "m": null, "n": "1" } })),
        Step::patch(&one, STRATEGIC, &json!({ "metadata": { "finalizers": ["example.com/a"] } })),
        Step::patch(&one, STRATEGIC, &json!({ "metadata": { "finalizers": ["example.com/b"] } })),
        Step::patch(
            &one,
            STRATEGIC,
            &json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/a"] } }),
        ),
        Step::patch(&one, "application/json", &json!({})).reason(),
        Step::patch(format!("{MAPS}/missing"), MERGE, &json!({})),
        Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": null } })),
        Step::delete(&one, &Value::Null),
    ]
}

fn applied_maps() -> Vec<Step> {
    let one = format!("{MAPS}/a");
    let map = |data: Value| map("a", &data);
    let forced = format!("{one}?fieldManager=two&force=true");
    let bare = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" } });
    vec![
        Step::patch(&one, APPLY, &map(json!({ "k": "1" }))),
        Step::apply(&one, "one", &map(json!({ "k": "1" }))),
        Step::apply(&one, "one", &map(json!({ "k": "1" }))),
        Step::apply(&one, "one", &map_with("a", "labels", json!({ "app": "web" }))),
        Step::apply(&one, "one", &map(json!({ "k": "1", "l": "1" }))),
        Step::apply(&one, "two", &map(json!({ "k": "1" }))),
        Step::apply(&one, "two", &map(json!({ "k": "2" }))),
        Step::apply(&one, "two", &map(json!({ "k": "2", "l": "2" }))),
        Step::patch(&forced, APPLY, &map(json!({ "k": "2", "l": "2" }))),
        Step::apply(&one, "one", &bare),
        Step::patch(format!("{one}?fieldManager=three"), MERGE, &json!({ "data": { "k": "3" } })),
        Step::patch(&one, MERGE, &json!({ "data": { "m": "3" } })),
        Step::apply(&one, "two", &map(json!({ "k": "2", "l": "2", "m": "2" }))),
        Step::apply(&one, "two", &map(json!({ "l": "2" }))),
        Step::apply(&one, "two", &bare),
        Step::patch(&one, MERGE, &json!({ "metadata": { "managedFields": [{}] } })),
        Step::apply(&one, "four", &map(json!({ "k": "4", "n": "4" }))),
        Step::apply(&one, "four", &map(json!({ "n": "4" }))),
        Step::apply(&one, "five", &map_with("b", "labels", json!({}))),
        Step::apply(
            &one,
            "five",
            &json!({ "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "a" } }),
        ),
        Step::apply(&one, "five", &json!({ "metadata": { "name": "a" } })),
        Step::apply(&one, "five", &map_with("a", "managedFields", json!([{ "manager": "x" }]))),
        Step::patch(&forced, MERGE, &json!({ "data": { "k": "3" } })),
        Step::apply(&format!("{MAPS}/new"), "five", &map_with("new", "uid", "x".into())),
        Step::apply(&one, "six", &map_with("a", "finalizers", json!(["example.com/a"]))).reason(),
        Step::apply(
            &one,
            "seven",
            &json!({
                "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": { "name": "a", "finalizers": ["example.com/a"], "ownerReferences": [owner("x")] },
            }),
        ),
        Step::apply(
            &one,
            "eight",
            &json!({
                "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": { "name": "a", "finalizers": ["example.com/b"], "ownerReferences": [owner("y")] },
            }),
        ),
        Step::apply(&one, "seven", &bare),
        Step::apply(&one, "eight", &bare),
        Step::delete(&one, &Value::Null),
    ]
}

/// Returns a reference to an owner.
pub fn owner(uid: &str) -> Value {
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "name": "owner", "uid": uid })
}

fn deployment(containers: &Value) -> Value {
    let labels = json!({ "app": "web" });
    json!({
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": { "name": "d" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
        },
    })
}

fn applied_deployments() -> Vec<Step> {
    let one = format!("{DEPLOYMENTS}/d");
    let web = json!({
        "name": "web", "image": "1",
        "ports": [{ "containerPort": 80 }],
        "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "1" }],
        "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
    });
    let mut first = deployment(&json!([web]));
    first["spec"]["template"]["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }]);
    let second = deployment(&json!([
        { "name": "proxy", "image": "1" },
        { "name": "web", "image": "1", "env": [{ "name": "C", "value": "1" }] },
    ]));
    let other = deployment(&json!([{ "name": "web", "image": "2" }]));
    let fewer = deployment(&json!([{ "name": "web", "image": "1" }]));
    let patch = |spec: Value| json!({ "spec": { "template": { "spec": spec } } });
    vec![
        Step::apply(&one, "one", &first).contained(),
        Step::apply(&one, "two", &second).contained(),
        Step::apply(&one, "two", &other),
        Step::patch(&one, MERGE, &json!({ "metadata": { "labels": { "a": "b" } } })).contained(),
        Step::patch(&one, MERGE, &json!({ "metadata": { "annotations": { "a": "b" } } })).contained(),
        Step::patch(&one, MERGE, &json!({ "spec": { "replicas": 2 } })).contained(),
        Step::patch(&one, MERGE, &json!({ "status": { "replicas": 2 } })).contained(),
        Step::patch(
            format!("{one}/status"),
            MERGE,
            &json!({ "spec": { "replicas": 5 }, "status": { "replicas": 2, "updatedReplicas": 1 } }),
        )
        .contained(),
        Step::patch(&one, STRATEGIC, &patch(json!({ "containers": [{ "name": "web", "image": "3" }] })))
            .contained(),
        Step::apply(&one, "one", &first),
        Step::apply(&one, "two", &fewer),
        Step::patch(&one, STRATEGIC, &patch(json!({ "containers": [{ "name": "web", "image": "1" }] })))
            .contained(),
        Step::apply(&one, "two", &fewer).contained(),
        Step::patch(
            &one,
            STRATEGIC,
            &patch(json!({ "containers": [{ "name": "web", "env": [{ "name": "A", "$patch": "delete" }] }] })),
        )
        .contained(),
        Step::delete(&one, &json!({ "propagationPolicy": "Orphan" })).contained(),
        Step::delete(&one, &Value::Null).contained(),
        Step::delete(&one, &json!({ "propagationPolicy": "Background" })),
        Step::get(&one),
    ]
}

fn pods() -> Vec<Step> {
    let pod = |name: &str, node: &str| {
        let containers = json!([{ "name": "web", "image": "1" }]);
        let mut pod = json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": { "name": name },
            "spec": { "containers": containers, "terminationGracePeriodSeconds": 20 },
            "status": { "phase": "Running" },
        });
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        pod
    };
    let (free, bound) = (format!("{PODS}/free"), format!("{PODS}/bound"));
    vec![
        Step::post(PODS, &pod("free", "")).contained(),
        Step::post(PODS, &pod("bound", "n1")).contained(),
        Step::patch(&bound, MERGE, &json!({ "status": { "phase": "Running" } })).contained(),
        Step::patch(format!("{bound}/status"), MERGE, &json!({ "status": { "phase": "Running" } }))
            .contained(),
        Step::get(format!("{bound}/status")).contained(),
        Step::get(format!("{PODS}?fieldSelector=spec.nodeName%3Dn1")).contained(),
        Step::get(format!("{PODS}?fieldSelector=status.phase%3DPending")).contained(),
        Step::get(format!("{PODS}?fieldSelector=status.phase!%3DPending,metadata.name%3Dfree"))
            .contained(),
        Step::delete(&free, &Value::Null).contained(),
        Step::get(&free),
        Step::delete(&bound, &Value::Null).contained(),
        Step::delete(&bound, &json!({ "gracePeriodSeconds": 60 })).contained(),
        Step::delete(&bound, &json!({ "gracePeriodSeconds": 5 })).contained(),
        Step::delete(&bound, &json!({ "gracePeriodSeconds": 0 })).contained(),
        Step::get(&bound),
    ]
}

fn deletions() -> Vec<Step> {
    let one = format!("{MAPS}/d");
    let held = map_with("d", "finalizers", json!(["example.com/a"]));
    let finalizers = |list: Value| json!({ "metadata": { "finalizers": list } });
    let policy = |policy: &str| json!({ "propagationPolicy": policy });
    vec![
        Step::post(MAPS, &held).named("d"),
        Step::delete(&one, &json!({ "preconditions": { "uid": "other" } })),
        Step::delete(&one, &json!({ "preconditions": { "resourceVersion": "1" } })),
        Step::delete(&one, &policy("Never")),
        Step::delete(&one, &json!({ "propagationPolicy": "Orphan", "orphanDependents": true })),
        Step::delete(
            &one,
            &json!({ "preconditions": { "uid": "${d.uid}", "resourceVersion": "${d.version}" } }),
        ),
        Step::delete(&one, &Value::Null),
        Step::patch(&one, MERGE, &finalizers(json!(["example.com/a", "example.com/b"]))),
        Step::patch(&one, MERGE, &json!({ "data": { "k": "2" } })),
        Step::delete(&one, &policy("Foreground")),
        Step::delete(&one, &Value::Null),
        Step::patch(&one, MERGE, &finalizers(json!(["foregroundDeletion"]))),
        Step::delete(&one, &policy("Orphan")),
        Step::delete(&one, &json!({ "orphanDependents": false })),
        Step::get(&one),
        Step::post(MAPS, &map("d", &json!({ "k": "1" }))),
        Step::delete(format!("{one}?propagationPolicy=Foreground"), &Value::Null),
        Step::patch(&one, MERGE, &finalizers(json!([]))),
        Step::get(&one),
        Step::post(MAPS, &map_with("e", "labels", json!({ "app": "gone" }))),
        Step::post(MAPS, &map_with("f", "labels", json!({ "app": "gone" }))),
        Step::delete(format!("{MAPS}?labelSelector=app%3Dgone"), &Value::Null),
        Step::get(format!("{MAPS}?labelSelector=app%3Dgone")),
    ]
}

fn selectors() -> Vec<Step> {
    let list = |path: &str, query: &str| Step::get(format!("{path}?{query}"));
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    vec![
        Step::post(MAPS, &map("s", &json!({ "k": "1" }))),
        list(MAPS, "fieldSelector=metadata.name%3Ds"),
        list(MAPS, "fieldSelector=metadata.name%3D%3Ds,metadata.namespace!%3De2e"),
        list(MAPS, "fieldSelector=data.k%3D1"),
        list(PODS, "fieldSelector=spec.image%3D1"),
        list(PODS, "watch=true&fieldSelector=spec.image%3D1"),
        list(DEPLOYMENTS, "fieldSelector=status.replicas%3D1"),
        list(roles, "fieldSelector=rules%3D1"),
        list(MAPS, "fieldSelector=metadata.name"),
        list(MAPS, "labelSelector=a%20is%20b").reason(),
        list(MAPS, "limit=x").reason(),
        list("/api/v1/secrets", "fieldSelector=type%3DOpaque"),
        list("/api/v1/nodes", "fieldSelector=spec.unschedulable%3Dtrue"),
        list("/api/v1/events", "fieldSelector=involvedObject.name%3Dx,reason%3Dy"),
        list("/apis/batch/v1/jobs", "fieldSelector=status.successful%3D1"),
        list("/apis/apps/v1/replicasets", "fieldSelector=status.replicas%3D1"),
        Step::delete(format!("{MAPS}/s"), &Value::Null),
    ]
}

/// Returns the schema of fields with all list and map types.
fn merged() -> Value {
    let list = |kind: &str, items: Value| json!({ "type": "array", "items": items, "x-kubernetes-list-type": kind });
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let text = json!({ "type": "string" });
    let tags = list("set", text.clone());
    let mut rules = list(
        "map",
        object(json!({
            "port": { "type": "integer", "default": 80 },
            "protocol": { "type": "string", "default": "TCP" },
            "tags": tags,
        })),
    );
    rules["x-kubernetes-list-map-keys"] = json!(["protocol", "port"]);
    let mut reference = object(json!({ "name": text, "namespace": text }));
    reference["x-kubernetes-map-type"] = "atomic".into();
    let named = object(json!({ "tags": tags }));
    object(json!({
        "tags": tags,
        "rules": rules,
        "plain": { "type": "array", "items": text },
        "reference": reference,
        "named": { "type": "object", "additionalProperties": named },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "template": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    }))
}

/// Returns the definition of widgets.
pub fn definition() -> Value {
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let condition = object(json!({ "type": { "type": "string" }, "status": { "type": "string" } }));
    let mut condition = condition;
    condition["required"] = json!(["type"]);
    let conditions = json!({
        "type": "array", "items": condition,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
    });
    let status = object(json!({ "conditions": conditions, "size": { "type": "integer" } }));
    json!({
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget",
                "shortNames": ["wd"],
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "selectableFields": [{ "jsonPath": ".spec.colour" }],
                "schema": { "openAPIV3Schema": object(json!({
                    "spec": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": { "colour": { "type": "string" }, "merged": merged() },
                    },
                    "status": status,
                })) },
            }],
        },
    })
}

fn widgets() -> Vec<Step> {
    let one = format!("{WIDGETS}/w");
    let status = format!("{one}/status");
    let widget = |spec: Value| {
        json!({
            "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "w" }, "spec": spec,
        })
    };
    let with_status = |kind: &str| {
        let mut widget = widget(json!({ "colour": "blue" }));
        widget["status"] = json!({ "conditions": [{ "type": kind, "status": "True" }] });
        widget
    };
    vec![
        Step::get("/apis/example.com/v1").contained(),
        Step::get("/apis/example.com"),
        Step::post(WIDGETS, &with_status("First")).named("w"),
        Step::put(&one, &widget(json!({ "colour": "red" }))),
        Step::patch(&one, MERGE, &json!({ "spec": { "colour": "red", "list": [1] } })),
        Step::patch(&one, MERGE, &json!({ "metadata": { "labels": { "a": "b" } } })),
        Step::patch(&one, MERGE, &json!({ "status": { "size": 1 } })),
        Step::patch(&one, STRATEGIC, &json!({})),
        Step::patch(
            &status,
            MERGE,
            &json!({ "metadata": { "labels": { "c": "d" } }, "spec": { "list": [] }, "status": { "size": 1 } }),
        ),
        Step::get(&status),
        Step::apply(&status, "one", &with_status("Ready")),
        Step::apply(&status, "two", &with_status("Synced")),
        Step::apply(&one, "two", &with_status("Synced")),
        Step::apply(&format!("{one}?force=true"), "two", &with_status("Synced")).reason(),
        Step::patch(format!("{one}?fieldManager=two&force=true"), APPLY, &with_status("Synced")),
        Step::apply(
            &format!("{WIDGETS}/v/status"),
            "one",
            &json!({
                "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "v" },
            }),
        ),
        Step::get(format!("{WIDGETS}?fieldSelector=spec.colour%3Dblue")),
        Step::get(format!("{WIDGETS}?fieldSelector=spec.colour%3Dred")),
        Step::get(format!("{WIDGETS}?fieldSelector=spec.size%3D1")),
        Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": ["example.com/a"] } })),
        Step::delete(&one, &Value::Null),
        Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": ["example.com/b"] } })),
        Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": [] } })),
        Step::get(&one),
        Step::delete(&one, &Value::Null),
    ]
}

fn discovery() -> Vec<Step> {
    let mut steps: Vec<Step> = [
        "/api/v1",
        "/apis/apps/v1",
        "/apis/batch/v1",
        "/apis/coordination.k8s.io/v1",
        "/apis/discovery.k8s.io/v1",
        "/apis/networking.k8s.io/v1",
        "/apis/policy/v1",
        "/apis/rbac.authorization.k8s.io/v1",
        "/apis/storage.k8s.io/v1",
    ]
    .into_iter()
    .map(|path| Step::get(path).contained())
    .collect();
    steps.extend([
        Step::get("/version").reason(),
        Step::get("/api").reason(),
        Step::get("/apis").reason(),
        Step::get("/apis/apps"),
        Step::get("/apis/nope"),
        Step::get("/apis/nope/v1"),
        Step::get("/apis/apps/v9"),
        Step::get("/api/v1/nope"),
        Step::get("/healthz"),
        Step::raw(Method::POST, "/api/v1", "{}"),
    ]);
    steps
}

fn namespaces() -> Vec<Step> {
    let all = "/api/v1/namespaces";
    let maps = "/api/v1/namespaces/shop/configmaps";
    let namespace =
        json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": "shop" } });
    let mut finalized = namespace.clone();
    finalized["spec"] = json!({ "finalizers": [] });
    vec![
        Step::post(all, &namespace),
        Step::post(maps, &map("a", &json!({ "k": "1" }))),
        Step::get(format!("{all}?fieldSelector=status.phase%3DTerminating")),
        Step::delete(format!("{all}/shop"), &Value::Null),
        Step::get(format!("{all}?fieldSelector=status.phase%3DTerminating")),
        Step::post(maps, &map("b", &json!({ "k": "1" }))),
        Step::apply(&format!("{maps}/b"), "one", &map("b", &json!({ "k": "1" }))),
        Step::patch(format!("{maps}/a"), MERGE, &json!({ "data": { "k": "1" } })),
        Step::delete(format!("{maps}/a"), &Value::Null),
        Step::put(format!("{all}/shop/finalize"), &finalized),
        Step::get(format!("{all}/shop")),
    ]
}

fn bad_input() -> Vec<Step> {
    let one = format!("{MAPS}/b");
    vec![
        Step::post(MAPS, &map("b", &json!({ "k": "1" }))),
        Step::raw(Method::POST, MAPS, "{").reason(),
        Step::raw(Method::POST, MAPS, "[]").reason(),
        Step::post(
            MAPS,
            &json!({ "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "x" } }),
        )
        .reason(),
        Step::post(MAPS, &json!({ "metadata": {} })).reason(),
        Step::post("/api/v1/configmaps", &map("x", &json!({ "k": "1" }))).reason(),
        Step::raw(Method::PUT, &one, "nonsense").reason(),
        Step::put(&one, &json!({ "metadata": {} })),
        Step::raw(Method::DELETE, &one, "{").reason(),
        Step::patch(&one, MERGE, &json!([])).reason(),
        Step::raw(Method::POST, &one, "{}"),
        Step::raw(Method::PUT, MAPS, "{}"),
        Step::get("/api/v1/namespaces/e2e/configmaps/b/nope"),
        Step::delete(&one, &Value::Null),
    ]
}
