//! Requests for the subresource `scale`, of built-in kinds and of a custom resource whose scale has
//! paths of its own.

use http::Method;
use serde_json::{Value, json};

use super::recorded::{DEFINITIONS, MAPS, WIDGETS};
use super::step::{APPLY, MERGE, OPERATIONS, STRATEGIC, Step};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/e2e/deployments";
/// The path of gadgets.
pub const GADGETS: &str = "/apis/scale.example.com/v1/namespaces/e2e/gadgets";

/// Returns an object with replicas.
fn scaled(kind: &str, replicas: u32) -> Value {
    let labels = json!({ "app": "web" });
    let containers = json!([{ "name": "web", "image": "1" }]);
    let expressions = json!([
        { "key": "tier", "operator": "In", "values": ["b", "a"] },
        { "key": "app", "operator": "Exists" },
        { "key": "old", "operator": "DoesNotExist" },
        { "key": "zone", "operator": "NotIn", "values": ["x"] },
    ]);
    json!({
        "kind": kind, "apiVersion": "apps/v1", "metadata": { "name": "s" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels, "matchExpressions": expressions },
            "template": {
                "metadata": { "labels": { "app": "web", "tier": "a" } },
                "spec": { "containers": containers },
            },
        },
    })
}

/// Returns a scale of an object with this specification.
fn scale_to(name: &str, spec: &Value) -> Value {
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": { "name": name }, "spec": spec,
    })
}

pub fn scale_of_deployments() -> Vec<Step> {
    let one = format!("{DEPLOYMENTS}/s");
    let scale = format!("{one}/scale");
    let replicas = |count: u32| json!({ "spec": { "replicas": count } });
    let to = |count: u32| scale_to("s", &json!({ "replicas": count }));
    let apply = |manager: &str, body: &Value| Step::apply(&scale, manager, body);
    let forced = format!("{scale}?fieldManager=x&force=true");
    vec![
        Step::get(&scale),
        Step::post(format!("{DEPLOYMENTS}?fieldManager=a"), &scaled("Deployment", 3)).contained(),
        Step::get(&scale).named("s"),
        Step::put(&scale, &to(2)),
        Step::get(&one).contained(),
        Step::put(&scale, &scale_to("s", &json!({}))),
        Step::get(&one).contained(),
        Step::put(
            &scale,
            &json!({
                "metadata": { "name": "s", "labels": { "a": "b" } }, "spec": { "replicas": 4 },
                "status": { "replicas": 9 },
            }),
        ),
        Step::patch(&scale, MERGE, &replicas(5)),
        Step::patch(&scale, MERGE, &replicas(5)),
        Step::patch(&scale, STRATEGIC, &replicas(6)),
        Step::patch(
            &scale,
            OPERATIONS,
            &json!([{ "op": "replace", "path": "/spec/replicas", "value": 7 }]),
        ),
        Step::patch(
            &scale,
            OPERATIONS,
            &json!([{ "op": "test", "path": "/spec/replicas", "value": 8 }]),
        )
        .reason(),
        Step::patch(&scale, MERGE, &json!({ "spec": { "replicas": null } })),
        Step::patch(&scale, MERGE, &replicas(4)),
        Step::patch(format!("{scale}?dryRun=All"), MERGE, &replicas(8)),
        Step::get(&scale),
        apply("x", &to(2)).reason(),
        Step::patch(&forced, APPLY, &to(2)),
        Step::get(&one).contained(),
        Step::apply(&one, "y", &scaled("Deployment", 9)),
        apply("x", &to(3)),
        apply("x", &scaled("Deployment", 3)).reason(),
        Step::patch(format!("{scale}?fieldManager=b"), MERGE, &replicas(4)),
        Step::patch(format!("{scale}?fieldManager=c"), MERGE, &replicas(5)),
        Step::get(&one).contained(),
        Step::patch(format!("{one}/status"), MERGE, &json!({ "status": { "replicas": 2 } }))
            .contained(),
        Step::get(&scale),
        Step::delete(&one, &json!({ "propagationPolicy": "Background" })),
    ]
}

pub fn scales_of_sets() -> Vec<Step> {
    let mut steps = Vec::new();
    for (kind, plural) in [("ReplicaSet", "replicasets"), ("StatefulSet", "statefulsets")] {
        let all = format!("/apis/apps/v1/namespaces/e2e/{plural}");
        let one = format!("{all}/s");
        let scale = format!("{one}/scale");
        let mut object = scaled(kind, 3);
        if kind == "StatefulSet" {
            object["spec"]["serviceName"] = "s".into();
        }
        steps.extend([
            Step::post(&all, &object).contained(),
            Step::get(&scale),
            Step::put(&scale, &scale_to("s", &json!({ "replicas": 2 }))),
            Step::patch(&scale, MERGE, &json!({ "spec": { "replicas": 1 } })),
            Step::get(&one).contained(),
            Step::delete(&one, &json!({ "propagationPolicy": "Background" })),
        ]);
    }
    steps.extend([
        Step::get("/apis/apps/v1/namespaces/e2e/daemonsets/s/scale"),
        Step::get(format!("{MAPS}/s/scale")),
        // The definition of widgets has no such subresource.
        Step::get(format!("{WIDGETS}/s/scale")),
    ]);
    steps
}

pub fn refused_scales_of_deployments() -> Vec<Step> {
    let one = format!("{DEPLOYMENTS}/s");
    let scale = format!("{one}/scale");
    let to = |name: &str, count: i64| scale_to(name, &json!({ "replicas": count }));
    let with = |field: &str, value: Value| {
        let mut scale = to("s", 2);
        scale["metadata"][field] = value;
        scale
    };
    let missing = format!("{DEPLOYMENTS}/missing/scale");
    vec![
        Step::post(DEPLOYMENTS, &scaled("Deployment", 3)).contained(),
        Step::put(&scale, &to("s", -1)),
        Step::patch(&scale, MERGE, &json!({ "spec": { "replicas": -3 } })),
        Step::put(&scale, &scale_to("s", &json!({ "replicas": "x" }))).reason(),
        Step::put(&scale, &to("s", 3_000_000_000)).reason(),
        Step::put(&scale, &to("t", 2)),
        Step::put(&scale, &json!({ "spec": { "replicas": 2 } })),
        Step::put(&scale, &with("namespace", "other".into())),
        Step::put(&scale, &with("resourceVersion", "1".into())),
        Step::put(&scale, &with("uid", "x".into())).reason(),
        Step::put(&scale, &scaled("Deployment", 2)).reason(),
        Step::raw(Method::PUT, &scale, "x").reason(),
        Step::raw(Method::PUT, &scale, "[]").reason(),
        Step::patch(&scale, MERGE, &json!({ "metadata": { "resourceVersion": "1" } })),
        Step::patch(&scale, MERGE, &json!({ "metadata": { "name": "q" } })),
        Step::delete(&scale, &Value::Null),
        Step::post(&scale, &to("s", 2)),
        Step::get(&missing),
        Step::put(&missing, &to("missing", 2)),
        Step::patch(&missing, MERGE, &json!({})),
        Step::apply(&missing, "x", &to("missing", 2)),
        Step::delete(&one, &json!({ "propagationPolicy": "Background" })),
    ]
}

/// Returns the definition of gadgets, whose scale has paths of its own.
pub fn gadgets() -> Value {
    scaled_definition(
        "gadgets",
        "Gadget",
        &json!({
            "specReplicasPath": ".spec.deep.size", "statusReplicasPath": ".status.size",
            "labelSelectorPath": ".status.selector",
        }),
    )
}

/// Returns a definition with this subresource `scale`.
fn scaled_definition(plural: &str, kind: &str, scale: &Value) -> Value {
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let (integer, text) = (json!({ "type": "integer" }), json!({ "type": "string" }));
    let spec = object(json!({ "colour": text, "deep": object(json!({ "size": integer })) }));
    let status = object(json!({ "size": integer, "selector": text }));
    json!({
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": { "name": format!("{plural}.scale.example.com") },
        "spec": {
            "group": "scale.example.com",
            "scope": "Namespaced",
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {}, "scale": scale },
                "schema": {
                    "openAPIV3Schema": object(json!({ "spec": spec, "status": status })),
                },
            }],
        },
    })
}

pub fn gadget(name: &str, spec: &Value) -> Value {
    json!({
        "kind": "Gadget", "apiVersion": "scale.example.com/v1", "metadata": { "name": name },
        "spec": spec,
    })
}

/// Returns requests for the scale of a custom resource.
pub fn scale_of_gadgets() -> Vec<Step> {
    let one = format!("{GADGETS}/g");
    let scale = format!("{one}/scale");
    let to = |count: u32| scale_to("g", &json!({ "replicas": count }));
    let replicas = |count: u32| json!({ "spec": { "replicas": count } });
    let size = |count: u32| json!({ "deep": { "size": count } });
    vec![
        Step::get("/apis/scale.example.com/v1").contained(),
        Step::get(&scale),
        Step::post(format!("{GADGETS}?fieldManager=a"), &gadget("g", &json!({ "colour": "red" }))),
        Step::get(&scale),
        Step::patch(&scale, MERGE, &replicas(1)),
        Step::put(&scale, &to(2)).named("g"),
        Step::get(&one),
        Step::put(&scale, &to(2)),
        Step::put(&scale, &scale_to("g", &json!({}))),
        Step::put(&scale, &to(0)),
        Step::get(&one),
        Step::patch(&scale, MERGE, &replicas(5)),
        Step::patch(&scale, STRATEGIC, &replicas(6)),
        Step::patch(
            &scale,
            OPERATIONS,
            &json!([{ "op": "replace", "path": "/spec/replicas", "value": 7 }]),
        ),
        Step::patch(&scale, MERGE, &json!({ "spec": { "replicas": null } })),
        Step::patch(
            format!("{one}/status"),
            MERGE,
            &json!({ "status": { "size": 4, "selector": "app=web" } }),
        ),
        Step::get(&scale),
        Step::patch(format!("{scale}?dryRun=All"), MERGE, &replicas(9)),
        Step::patch(
            &scale,
            MERGE,
            &json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "replicas": 3 }, "status": { "replicas": 9 } }),
        ),
        Step::get(&one),
        Step::apply(&scale, "x", &to(3)),
        Step::apply(&one, "y", &gadget("g", &size(9))),
        Step::apply(&one, "y", &gadget("g", &size(3))),
        Step::patch(format!("{scale}?fieldManager=b"), MERGE, &replicas(4)),
        Step::get(&one),
        Step::apply(&one, "y", &gadget("g", &size(5))),
        Step::put(format!("{scale}?fieldManager=c"), &to(6)),
        Step::get(&one),
        Step::put(format!("{scale}?fieldManager=c"), &to(0)),
        Step::get(&one),
        Step::put(format!("{scale}?fieldManager=c"), &to(1)),
        Step::get(&one),
        Step::patch(&one, MERGE, &json!({ "spec": { "deep": null } })),
        Step::get(&scale),
        Step::put(&scale, &to(4)),
        Step::get(&one),
        Step::delete(&one, &Value::Null),
    ]
}

pub fn refused_scales_of_gadgets() -> Vec<Step> {
    let one = format!("{GADGETS}/r");
    let scale = format!("{one}/scale");
    let missing = format!("{GADGETS}/missing/scale");
    let to = |name: &str, count: i64| scale_to(name, &json!({ "replicas": count }));
    let with = |field: &str, value: Value| {
        let mut scale = to("r", 2);
        scale["metadata"][field] = value;
        scale
    };
    vec![
        Step::post(GADGETS, &gadget("r", &json!({ "deep": { "size": 2 } }))),
        Step::put(&scale, &to("r", -1)),
        Step::patch(&scale, MERGE, &json!({ "spec": { "replicas": -3 } })),
        Step::put(&scale, &to("r", 3_000_000_000)).reason(),
        Step::put(&scale, &scale_to("r", &json!({ "replicas": "x" }))).reason(),
        Step::put(&scale, &gadget("r", &json!({}))).reason(),
        Step::put(&scale, &to("t", 2)),
        Step::put(&scale, &json!({ "spec": { "replicas": 2 } })),
        Step::put(&scale, &with("namespace", "other".into())),
        Step::put(&scale, &with("resourceVersion", "1".into())),
        Step::put(&scale, &with("uid", "x".into())).reason(),
        Step::delete(&scale, &Value::Null),
        Step::post(&scale, &to("r", 2)),
        Step::get(&missing),
        Step::put(&missing, &to("missing", 2)),
        Step::put(&missing, &to("other", 2)),
        Step::patch(&missing, MERGE, &json!({})),
        Step::apply(&missing, "x", &to("missing", 2)),
        Step::get("/apis/example.com/v1/namespaces/e2e/widgets/r/scale"),
        Step::get(format!("{one}/other")),
        Step::delete(&one, &Value::Null),
    ]
}

/// Returns definitions with a scale whose paths are valid or not.
pub fn definitions() -> Vec<Step> {
    let (spec, status) = (".spec.size", ".status.size");
    let scales = [
        json!({ "specReplicasPath": spec, "statusReplicasPath": status }),
        json!({ "specReplicasPath": "spec.size", "statusReplicasPath": status }),
        json!({ "specReplicasPath": status, "statusReplicasPath": status }),
        json!({ "specReplicasPath": spec, "statusReplicasPath": spec }),
        json!({ "specReplicasPath": spec }),
        json!({ "statusReplicasPath": status }),
        json!({ "specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": "" }),
        json!({ "specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": ".spec.a" }),
        json!({ "specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": ".metadata.a" }),
        json!({ "specReplicasPath": ".spec", "statusReplicasPath": ".status" }),
        json!({}),
        Value::Null,
    ];
    let define = |(number, scale): (usize, &Value)| {
        let definition = scaled_definition(&format!("scaled{number}s"), "Scaled", scale);
        Step::post(format!("{DEFINITIONS}?dryRun=All"), &definition).reason()
    };
    scales.iter().enumerate().map(define).collect()
}
