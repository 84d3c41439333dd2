//! Requests whose answers depend on options and formats: dry runs, YAML, instructions of strategic
//! merge patches, and metadata that only the server sets.

use http::Method;
use serde_json::{Value, json};

use super::recorded::{MAPS, WIDGETS, map, map_with};
use super::scales::{refused_scales_of_deployments, scale_of_deployments, scales_of_sets};
use super::step::{APPLY, MERGE, OPERATIONS, STRATEGIC, Step};

const YAML: &str = "application/yaml";

/// Returns the requests of each part, which depends on no other part.
pub fn parts() -> Vec<Vec<Step>> {
    vec![
        instructions(),
        lists(),
        dry_runs(),
        dry_deletions(),
        yaml(),
        other_formats(),
        scale_of_deployments(),
        scales_of_sets(),
        refused_scales_of_deployments(),
        metadata(),
        deletions(),
        pages(),
        validation(),
    ]
}

/// Returns strategic merge patches with instructions.
fn instructions() -> Vec<Step> {
    let one = "/api/v1/namespaces/e2e/serviceaccounts/i";
    let account = json!({
        "kind": "ServiceAccount", "apiVersion": "v1",
        "metadata": { "name": "i", "labels": { "a": "b" }, "finalizers": ["example.com/a"] },
        "secrets": [{ "name": "a" }, { "name": "b" }],
    });
    let patch = |patch: Value| Step::patch(one, STRATEGIC, &patch);
    let labels = |labels: Value| patch(json!({ "metadata": { "labels": labels } }));
    let annotations = |map: Value| patch(json!({ "metadata": { "annotations": map } }));
    let metadata = |name: &str, value: Value| patch(json!({ "metadata": { name: value } }));
    vec![
        Step::post("/api/v1/namespaces/e2e/serviceaccounts", &account),
        patch(json!({ "$patch": "foo" })),
        patch(json!({ "$patch": null })),
        patch(json!({ "$patch": 1 })),
        patch(json!({ "$patch": "merge" })),
        patch(json!({ "$patch": "delete" })),
        Step::raw(Method::PATCH, one, "null").typed(STRATEGIC),
        Step::raw(Method::PATCH, one, "[]").typed(STRATEGIC).reason(),
        labels(json!({ "$patch": "foo", "c": "d" })),
        labels(json!({ "$patch": null, "c": "d" })),
        labels(json!({ "$patch": true, "c": "d" })),
        labels(json!({ "$patch": "replace", "c": "d" })),
        labels(json!({ "$patch": "delete", "e": "f" })),
        labels(json!({ "$patch": "foo", "c": "d" })),
        annotations(json!({ "$patch": "replace", "c": "d" })),
        annotations(json!({ "a": null, "b": "c" })),
        metadata("$retainKeys", json!("a")),
        metadata("$retainKeys", Value::Null),
        patch(json!({ "metadata": { "$retainKeys": ["name"], "labels": { "q": "r" } } })),
        patch(json!({ "metadata": { "$retainKeys": ["name", "labels"], "labels": { "q": "r" } } })),
        metadata("finalizers", json!(["example.com/a", "example.com/b"])),
        metadata("finalizers", json!([1])),
        metadata("finalizers", json!([null])),
        metadata("finalizers", json!([{ "$patch": "replace" }])),
        metadata("$deleteFromPrimitiveList/finalizers", json!([1])),
        metadata("$deleteFromPrimitiveList/finalizers", json!("a")),
        metadata("$deleteFromPrimitiveList/finalizers", json!(["example.com/a"])),
        metadata("$deleteFromPrimitiveList/finalizers", Value::Null),
        Step::delete(one, &Value::Null).contained(),
    ]
}

/// Returns strategic merge patches of a list that merges by a key.
fn lists() -> Vec<Step> {
    let one = "/api/v1/namespaces/e2e/serviceaccounts/l";
    let account = json!({
        "kind": "ServiceAccount", "apiVersion": "v1", "metadata": { "name": "l" },
        "secrets": [{ "name": "a" }, { "name": "b" }],
    });
    let patch = |patch: Value| Step::patch(one, STRATEGIC, &patch);
    let secrets = |list: Value| patch(json!({ "secrets": list }));
    let ordered = |order: Value, list: Value| {
        patch(json!({ "$setElementOrder/secrets": order, "secrets": list }))
    };
    let reset = || Step::put(one, &account);
    vec![
        Step::post("/api/v1/namespaces/e2e/serviceaccounts", &account),
        secrets(json!([{ "$patch": "foo" }])),
        secrets(json!([{ "$patch": "foo", "name": "a" }])),
        secrets(json!([{ "namespace": "c" }, { "$patch": "foo" }])),
        secrets(json!([{ "$patch": "replace" }, { "$patch": "foo" }])),
        secrets(json!([{ "$patch": "merge", "name": "a" }])),
        secrets(json!([{ "$patch": "delete" }])),
        secrets(json!([{ "$patch": "replace" }, { "namespace": "c" }])),
        secrets(json!([{ "namespace": "c" }])),
        secrets(json!(["a"])),
        secrets(json!([null])),
        secrets(json!([{ "name": "a" }, null])),
        secrets(json!([{ "$patch": "delete", "name": null }])),
        secrets(json!([{ "$patch": "delete", "name": "missing" }])),
        secrets(json!([{ "name": "a" }, { "$patch": "delete", "name": "a" }])),
        reset(),
        secrets(json!([{ "name": "b" }, { "$patch": "replace" }, { "name": "b" }])),
        reset(),
        // Afterwards the real server has no managers of the fields of the object.
        secrets(json!([{ "name": null }])).reason(),
        secrets(json!([{ "name": "a" }])),
        Step::delete(one, &Value::Null).reason(),
        Step::post("/api/v1/namespaces/e2e/serviceaccounts", &account),
        patch(json!({ "$setElementOrder/secrets": "a" })),
        patch(json!({ "$setElementOrder/secrets": [{ "name": "b" }, { "name": "a" }] })),
        ordered(json!([{ "name": "q" }]), json!([{ "name": "a" }])),
        ordered(
            json!([{ "name": "b" }, { "name": "a" }]),
            json!([{ "name": "a" }, { "name": "b" }]),
        ),
        ordered(json!([{ "name": "a" }, { "name": "n" }]), json!([{ "name": "n" }])),
        secrets(Value::Null),
        secrets(json!([{ "name": "c" }, { "$patch": "foo" }])),
        Step::delete(one, &Value::Null).contained(),
    ]
}

fn dry_runs() -> Vec<Step> {
    let one = format!("{MAPS}/r");
    let dry = |path: &str| format!("{path}?dryRun=All");
    let labelled = map_with("r", "labels", json!({ "app": "web" }));
    let applied = map_with("new", "labels", json!({ "app": "web" }));
    let widget = json!({
        "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "r" },
        "spec": { "colour": "red" },
    });
    let mut steps = vec![
        Step::post(dry(MAPS), &map("r", &json!({ "k": "1" }))),
        Step::get(&one),
        Step::post(MAPS, &map("r", &json!({ "k": "1", "l": "1" }))),
        Step::post(dry(MAPS), &map("r", &json!({ "k": "1" }))),
        Step::put(dry(&one), &labelled),
        Step::patch(dry(&one), MERGE, &json!({ "data": { "k": "2" } })),
        Step::patch(dry(&one), OPERATIONS, &json!([{ "op": "remove", "path": "/data/k" }])),
        Step::patch(dry(&one), STRATEGIC, &json!({ "data": { "k": null } })),
        Step::patch(format!("{one}?dryRun=All&fieldManager=x"), APPLY, &labelled),
        Step::patch(
            format!("{one}?dryRun=All&fieldManager=x"),
            APPLY,
            &map("r", &json!({ "k": "2" })),
        ),
        Step::patch(format!("{MAPS}/new?dryRun=All&fieldManager=x"), APPLY, &applied),
        Step::put(dry(&one), &map_with("r", "resourceVersion", "1".into())),
        Step::put(dry(&format!("{MAPS}/missing")), &map("missing", &json!({}))).reason(),
        Step::patch(dry(&format!("{MAPS}/missing")), MERGE, &json!({})),
        Step::post(
            dry("/api/v1/namespaces"),
            &json!({
                "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": "dry" },
            }),
        ),
        Step::get("/api/v1/namespaces/dry"),
        Step::post(dry(WIDGETS), &widget),
        Step::get(format!("{WIDGETS}/r")),
        Step::post(WIDGETS, &widget),
        Step::patch(dry(&format!("{WIDGETS}/r")), MERGE, &json!({ "spec": { "colour": "blue" } })),
        Step::patch(
            dry(&format!("{WIDGETS}/r/status")),
            MERGE,
            &json!({ "status": { "size": 1 } }),
        ),
        Step::get(format!("{WIDGETS}/r")),
        Step::delete(dry(&format!("{WIDGETS}/r")), &Value::Null),
        Step::delete(format!("{WIDGETS}/r"), &Value::Null),
        Step::get(&one),
    ];
    for query in ["dryRun=x", "dryRun=", "dryRun", "dryRun=All&dryRun=x", "dryRun=all"] {
        steps.extend([
            Step::post(format!("{MAPS}?{query}"), &map("r", &json!({}))),
            Step::raw(Method::PUT, format!("{one}?{query}"), "no JSON"),
            Step::raw(Method::PATCH, format!("{one}?{query}"), "no JSON").typed(MERGE),
            Step::delete(format!("{one}?{query}"), &Value::Null),
            Step::delete(format!("{MAPS}?{query}&labelSelector=none"), &Value::Null),
        ]);
    }
    steps.push(Step::delete(&one, &Value::Null));
    steps
}

fn dry_deletions() -> Vec<Step> {
    let one = format!("{MAPS}/t");
    let labelled = map_with("t", "labels", json!({ "app": "dry" }));
    vec![
        Step::post(MAPS, &labelled).named("t"),
        Step::delete(format!("{one}?dryRun=All"), &Value::Null),
        Step::delete(&one, &json!({ "dryRun": ["All"] })),
        Step::delete(&one, &json!({ "dryRun": ["All"], "propagationPolicy": "Foreground" })),
        Step::delete(&one, &json!({ "dryRun": ["All"], "preconditions": { "uid": "x" } })),
        Step::delete(&one, &json!({ "dryRun": ["None"] })),
        Step::delete(format!("{MAPS}?labelSelector=app%3Ddry&dryRun=All"), &Value::Null),
        Step::delete(format!("{MAPS}/missing?dryRun=All"), &Value::Null),
        Step::get(&one),
        Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": ["example.com/a"] } })),
        Step::delete(format!("{one}?dryRun=All"), &Value::Null),
        Step::get(&one),
        Step::delete(&one, &Value::Null),
        Step::patch(
            format!("{one}?dryRun=All"),
            MERGE,
            &json!({ "metadata": { "finalizers": [] } }),
        ),
        Step::get(&one),
        Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": [] } })),
        Step::get(&one),
    ]
}

fn yaml() -> Vec<Step> {
    let one = format!("{MAPS}/yaml");
    let body = |data: &str| {
        format!("# a map\nkind: ConfigMap\napiVersion: v1\nmetadata:\n  name: yaml\ndata: {data}\n")
    };
    let post = |body: &str| Step::raw(Method::POST, MAPS, body).typed(YAML);
    let apply =
        |body: &str| Step::raw(Method::PATCH, format!("{one}?fieldManager=x"), body).typed(APPLY);
    vec![
        post(&body("{k: \"1\", l: text}")),
        post(&body("{}")),
        Step::raw(Method::PUT, &one, &body("{k: \"2\"}")).typed(YAML),
        Step::raw(Method::PUT, &one, &body("{k: \"3\"}")).typed("application/yaml; charset=utf-8"),
        Step::raw(Method::PUT, &one, &body("{k: \"4\"}")).typed("APPLICATION/YAML"),
        Step::raw(Method::PUT, &one, &map("yaml", &json!({ "k": "5" })).to_string()).typed(YAML),
        Step::raw(Method::PUT, &one, &format!("{}---\nkind: Secret\n", body("{k: \"6\"}")))
            .typed(YAML),
        Step::raw(Method::PUT, &one, &body("{k: \"6\", k: \"7\"}")).typed(YAML),
        Step::raw(Method::PUT, &one, &body("{<<: {m: \"1\"}, k: \"8\"}")).typed(YAML),
        Step::raw(Method::PUT, &one, &body("&d {k: |\n  two\n  lines\n  }")).typed(YAML).reason(),
        Step::raw(Method::PUT, &one, &body("\n  k: |\n    two\n    lines\n  1: one")).typed(YAML),
        apply(&body("{one: \"1\"}")),
        apply(&format!("--- \n{}", body("{one: \"2\"}"))),
        apply(&body("{k: other}")),
        apply("").reason(),
        apply("null").reason(),
        apply("a: b: c").reason(),
        apply("- a").reason(),
        apply("text").reason(),
        apply("{").reason(),
        post("").reason(),
        post("a: b: c").reason(),
        post("- a").reason(),
        post("text").reason(),
        post("kind: Secret\napiVersion: v1\nmetadata: {name: yaml}\n").reason(),
        Step::raw(Method::DELETE, &one, "dryRun: [All]\n").typed(YAML),
        Step::raw(Method::DELETE, &one, "propagationPolicy: Never\n").typed(YAML),
        Step::raw(Method::DELETE, &one, "- a").typed(YAML).reason(),
        Step::raw(Method::DELETE, &one, "propagationPolicy: Background\n").typed(YAML),
    ]
}

/// Returns requests with content types that are refused.
fn other_formats() -> Vec<Step> {
    let one = format!("{MAPS}/o");
    let body = map("o", &json!({ "k": "1" })).to_string();
    let mut steps = vec![Step::post(MAPS, &map("o", &json!({ "k": "1" })))];
    for content_type in ["application/x-yaml", "text/yaml", "text/plain", "*/*", "application/cbor"]
    {
        steps.extend([
            Step::raw(Method::POST, MAPS, &body).typed(content_type).reason(),
            Step::raw(Method::PUT, &one, &body).typed(content_type).reason(),
            Step::raw(Method::DELETE, &one, "{}").typed(content_type).reason(),
        ]);
    }
    for content_type in [
        YAML,
        "application/merge-patch+yaml",
        "application/strategic-merge-patch+yaml",
        "application/json-patch+yaml",
        "application/apply-patch+json",
    ] {
        steps.push(Step::raw(Method::PATCH, &one, &body).typed(content_type).reason());
    }
    for content_type in [MERGE, STRATEGIC, OPERATIONS] {
        steps.push(Step::raw(Method::PATCH, &one, "k: 1").typed(content_type).reason());
    }
    steps.push(Step::patch(MAPS, MERGE, &json!({})));
    steps.push(Step::delete(&one, &Value::Null));
    steps
}

/// Returns writes of metadata that only the server sets.
fn metadata() -> Vec<Step> {
    let one = format!("{MAPS}/i");
    let set = |field: &str, value: Value| {
        Step::patch(&one, MERGE, &json!({ "metadata": { field: value } }))
    };
    let past = "2020-01-01T00:00:00Z";
    let status = "/api/v1/namespaces/e2e/pods/missing/status";
    vec![
        Step::post(MAPS, &map_with("i", "generation", 7.into())).named("i"),
        Step::put(&one, &json!({ "kind": "", "apiVersion": "", "metadata": { "name": "i" } })),
        set("uid", "other".into()),
        set("deletionTimestamp", past.into()),
        set("deletionGracePeriodSeconds", 5.into()),
        set("deletionTimestamp", Value::Null),
        set("uid", Value::Null),
        set("creationTimestamp", past.into()),
        set("creationTimestamp", Value::Null),
        set("generation", 9.into()),
        set("generateName", "i-".into()),
        set("resourceVersion", "0".into()),
        set("resourceVersion", "".into()),
        set("resourceVersion", "abc".into()),
        set("resourceVersion", "${i.version}".into()),
        Step::put(&one, &map_with("i", "uid", "other".into())).reason(),
        Step::put(&one, &map_with("i", "uid", "".into())),
        Step::put(&one, &map_with("i", "resourceVersion", "0".into())),
        Step::put(&one, &map_with("i", "resourceVersion", "abc".into())),
        Step::put(&one, &map_with("i", "deletionTimestamp", past.into())),
        Step::get(&one),
        Step::delete(&one, &Value::Null),
        Step::delete(status, &Value::Null),
        Step::post(status, &json!({})),
    ]
}

/// Returns deletions with options in the body and the query, and deletions of collections.
fn deletions() -> Vec<Step> {
    let one = format!("{MAPS}/x");
    let named = |name: &str, app: &str| {
        let mut map = map(name, &json!({ "k": "1" }));
        map["metadata"]["labels"] = json!({ "app": app });
        map
    };
    let of_app = |query: &str| format!("{MAPS}?labelSelector=app%3Dcollection{query}");
    let unset = json!({ "metadata": { "finalizers": null } });
    vec![
        Step::post(MAPS, &named("x", "one")).named("x"),
        Step::delete(&one, &json!({ "preconditions": { "resourceVersion": "abc" } })),
        Step::delete(&one, &json!({ "preconditions": { "resourceVersion": "0" } })),
        Step::delete(&one, &json!({ "preconditions": { "resourceVersion": "" } })),
        Step::delete(&one, &json!({ "preconditions": { "uid": "" } })),
        Step::delete(format!("{one}?gracePeriodSeconds=x"), &Value::Null).reason(),
        Step::raw(Method::DELETE, &one, "[]").reason(),
        // The body replaces all options of the query.
        Step::delete(
            format!("{one}?propagationPolicy=Foreground&dryRun=x"),
            &json!({ "gracePeriodSeconds": 0 }),
        ),
        Step::get(&one),
        Step::post(MAPS, &named("x", "one")),
        Step::raw(Method::DELETE, &one, "null"),
        Step::post(MAPS, &named("x", "one")),
        Step::delete(format!("{one}?orphanDependents=true"), &Value::Null),
        Step::post(MAPS, &named("x", "one")),
        Step::patch(&one, MERGE, &unset),
        Step::post(MAPS, &named("a", "collection")),
        Step::post(MAPS, &named("b", "collection")),
        Step::delete(of_app(""), &json!({ "preconditions": { "uid": "x" } })),
        Step::delete(of_app("&propagationPolicy=Never"), &Value::Null),
        Step::delete(of_app("&continue=x"), &Value::Null).reason(),
        Step::delete(of_app("&limit=1"), &Value::Null).reason(),
        Step::get(of_app("")),
        Step::post(MAPS, &named("a", "collection")),
        Step::delete(of_app("&fieldSelector=metadata.name%3Da"), &Value::Null),
        Step::get(of_app("")),
        Step::delete(of_app("&propagationPolicy=Orphan"), &Value::Null),
        Step::get(of_app("")),
        Step::patch(format!("{MAPS}/b"), MERGE, &unset),
        Step::get(of_app("")),
        Step::delete("/api/v1/configmaps", &Value::Null),
        Step::delete("/api/v1/namespaces", &Value::Null),
    ]
}

/// Returns lists with versions, limits and tokens that are refused.
fn pages() -> Vec<Step> {
    let list = |query: &str| Step::get(format!("{MAPS}?{query}"));
    vec![
        list("resourceVersionMatch=Exact"),
        list("resourceVersionMatch=Exact&resourceVersion=0"),
        list("resourceVersionMatch=Foo&resourceVersion=1").reason(),
        list("limit=1&continue=x").reason(),
        list("limit=1&continue=x&resourceVersion=1").reason(),
        list("resourceVersion=abc").reason(),
        list("sendInitialEvents=true"),
        list("watch=true&sendInitialEvents=true"),
        list("watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=1"),
        list("watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1")
            .reason(),
    ]
}

/// Returns writes of invalid metadata.
fn validation() -> Vec<Step> {
    let one = format!("{MAPS}/q");
    let set = |field: &str, value: Value| {
        Step::patch(&one, MERGE, &json!({ "metadata": { field: value } })).reason()
    };
    let post = |name: &str, field: &str, value: Value| {
        Step::post(MAPS, &map_with(name, field, value)).reason()
    };
    let owner = |uid: &str, controls: bool| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "controller": controls,
        })
    };
    let long = "a".repeat(64);
    let mut steps = vec![Step::post(MAPS, &map("q", &json!({ "k": "1" })))];
    for key in ["a b", "", "-a", "a.", "a/", "/a", "A.b/c", "a..b/c", "a/b/c", &long] {
        steps.push(set("labels", json!({ key: "x" })));
        steps.push(set("annotations", json!({ key: "x" })));
    }
    for value in ["b c", "-b", "b.", &long] {
        steps.push(set("labels", json!({ "a": value })));
        steps.push(post("new", "labels", json!({ "a": value })));
    }
    steps.extend([
        set("labels", json!({ "a.b-c/D_e.f": "X-1_y.z", "b": "" })),
        set("labels", json!({ "a": 1 })),
        set("annotations", json!({ "a": true })),
        Step::post(MAPS, &json!({ "metadata": {} })),
        set("finalizers", json!(["nodomain"])),
        set("finalizers", json!(["example.com/a b"])),
        set("ownerReferences", json!([owner("", false)])),
        set("ownerReferences", json!([owner("x", true), owner("y", true)])),
        set("ownerReferences", json!([owner("x", true), owner("y", false)])),
        post("new", "finalizers", json!(["nodomain"])),
        post("new", "ownerReferences", json!([owner("", false)])),
        Step::apply(&one, "x", &map_with("q", "labels", json!({ "a": "b c" }))).reason(),
        Step::get(&one),
        Step::delete(&one, &Value::Null),
    ]);
    for name in ["UPPER", "a_b", "-a", "a..b", "a:b"] {
        steps.push(Step::post(MAPS, &map(name, &json!({}))).reason());
    }
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({
        "kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": { "name": "E2E:role" },
    });
    let widget = json!({
        "kind": "Widget", "apiVersion": "example.com/v1",
        "metadata": { "name": "q", "finalizers": ["nodomain"] },
    });
    let mut invalid = widget.clone();
    invalid["metadata"]["labels"] = json!({ "a": "b c" });
    steps.extend([
        Step::post(roles, &role).contained(),
        Step::delete(format!("{roles}/E2E:role"), &Value::Null),
        Step::post(WIDGETS, &invalid).reason(),
        Step::post(WIDGETS, &widget),
        Step::patch(format!("{WIDGETS}/q"), MERGE, &json!({ "metadata": { "finalizers": null } })),
        Step::delete(format!("{WIDGETS}/q"), &Value::Null),
    ]);
    steps
}
