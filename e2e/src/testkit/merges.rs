//! Requests whose answers depend on how lists and maps merge, and on the managers of fields.

use http::Method;
use serde_json::{Value, json};

use super::recorded::{MAPS, PODS, WIDGETS, map, map_with, owner};
use super::step::{APPLY, MERGE, STRATEGIC, Step};

/// Returns the requests of each part, which depends on no other part.
pub fn parts() -> Vec<Vec<Step>> {
    vec![
        pods(),
        service_accounts(),
        cluster_objects(),
        namespaced_objects(),
        deployments(),
        widgets(),
        kubectl(),
        many_managers(),
        given_managers(),
        null_options(),
    ]
}

fn pods() -> Vec<Step> {
    let one = format!("{PODS}/m");
    let status = format!("{one}/status");
    let pod = |field: &str, value: Value| {
        let mut pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "m" } });
        pod[field] = value;
        pod
    };
    let claim = |name: &str| {
        let claims = json!([{ "name": name, "resourceClaimName": name }]);
        let resources = json!({ "claims": [{ "name": name }] });
        pod(
            "spec",
            json!({
                "resourceClaims": claims,
                "containers": [{ "name": "web", "image": "1", "resources": resources }],
            }),
        )
    };
    let host = |ip: &str| pod("status", json!({ "hostIP": ip, "hostIPs": [{ "ip": ip }] }));
    let address = |ip: &str| pod("status", json!({ "podIP": ip, "podIPs": [{ "ip": ip }] }));
    let condition = |kind: &str| {
        let condition = json!({ "type": kind, "status": "True", "lastTransitionTime": null });
        pod("status", json!({ "conditions": [condition] }))
    };
    vec![
        Step::apply(&one, "one", &claim("a")).contained(),
        Step::apply(&status, "one", &host("10.0.0.1")).contained(),
        Step::apply(&status, "two", &host("10.0.0.2")),
        Step::apply(&status, "one", &address("10.0.0.1")).contained(),
        Step::apply(&status, "one", &condition("example.com/a")).contained(),
        Step::apply(&status, "two", &condition("example.com/b")).contained(),
        Step::delete(&one, &Value::Null).contained(),
    ]
}

fn service_accounts() -> Vec<Step> {
    let one = "/api/v1/namespaces/e2e/serviceaccounts/m";
    let account = |field: &str, names: &[&str]| {
        let names: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        let mut account =
            json!({ "kind": "ServiceAccount", "apiVersion": "v1", "metadata": { "name": "m" } });
        account[field] = names.into();
        account
    };
    vec![
        Step::apply(one, "one", &account("imagePullSecrets", &["a"])).contained(),
        Step::apply(one, "two", &account("imagePullSecrets", &["b"])),
        Step::apply(one, "one", &account("secrets", &["a", "b", "c"])).contained(),
        Step::apply(one, "two", &account("secrets", &["x", "c", "y", "a", "z"])).contained(),
        Step::patch(one, STRATEGIC, &account("secrets", &["n"])).contained(),
        Step::delete(one, &Value::Null).contained(),
    ]
}

fn cluster_objects() -> Vec<Step> {
    let nodes = "/api/v1/nodes/m";
    let node = |blocks: &[&str]| {
        json!({
            "kind": "Node", "apiVersion": "v1", "metadata": { "name": "m" },
            "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": blocks },
        })
    };
    let volumes = "/api/v1/persistentvolumes/m";
    let volume = |spec: Value| {
        json!({
            "kind": "PersistentVolume", "apiVersion": "v1", "metadata": { "name": "m" },
            "spec": spec,
        })
    };
    let secret = |name: &str| {
        let secret = json!({ "name": name, "namespace": "e2e" });
        json!({ "driver": "example.com", "volumeHandle": "m", "nodeStageSecretRef": secret })
    };
    let whole = volume(json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
        "csi": secret("a"), "claimRef": { "name": "m", "namespace": "e2e" },
    }));
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/m";
    let webhook = |condition: &str| {
        let conditions = json!([{ "name": condition, "expression": "true" }]);
        let rule = json!({
            "apiGroups": ["other.example.com"], "apiVersions": ["v1"], "resources": ["others"],
            "operations": ["CREATE"], "scope": "*",
        });
        json!({
            "kind": "ValidatingWebhookConfiguration",
            "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": { "name": "m" },
            "webhooks": [{
                "name": "m.example.com", "clientConfig": { "url": "https://127.0.0.1:1" },
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule],
                "failurePolicy": "Ignore", "matchConditions": conditions,
            }],
        })
    };
    vec![
        Step::apply(nodes, "one", &node(&["10.0.0.0/24"])).contained(),
        Step::apply(nodes, "two", &node(&["10.0.0.0/24"])).contained(),
        Step::delete(nodes, &Value::Null).contained(),
        Step::apply(volumes, "one", &whole).contained(),
        Step::apply(volumes, "two", &volume(json!({ "claimRef": { "uid": "u" } }))).contained(),
        Step::apply(volumes, "two", &volume(json!({ "claimRef": { "name": "n" } }))),
        Step::apply(volumes, "two", &volume(json!({ "csi": secret("b") }))),
        Step::apply(webhooks, "one", &webhook("a")).contained(),
        Step::apply(webhooks, "two", &webhook("b")).contained(),
        Step::delete(webhooks, &Value::Null).contained(),
    ]
}

fn namespaced_objects() -> Vec<Step> {
    let scalers = "/apis/autoscaling/v2/namespaces/e2e/horizontalpodautoscalers/m";
    let scaler = |target: Value| {
        json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": { "name": "m" },
            "spec": { "maxReplicas": 2, "scaleTargetRef": target },
        })
    };
    let quotas = "/api/v1/namespaces/e2e/resourcequotas/m";
    let quota = |scope: &str| {
        let expressions = json!([{ "scopeName": scope, "operator": "Exists" }]);
        json!({
            "kind": "ResourceQuota", "apiVersion": "v1", "metadata": { "name": "m" },
            "spec": { "hard": { "pods": "1" }, "scopeSelector": { "matchExpressions": expressions } },
        })
    };
    let events = "/api/v1/namespaces/e2e/events/m";
    let event = |name: &str| {
        let object = json!({ "kind": "Pod", "namespace": "e2e", "name": name });
        json!({
            "kind": "Event", "apiVersion": "v1", "metadata": { "name": "m", "namespace": "e2e" },
            "involvedObject": object,
        })
    };
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/e2e/rolebindings/m";
    let binding = |role: &str| {
        let role = json!({ "kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": role });
        json!({
            "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": { "name": "m" }, "roleRef": role,
        })
    };
    let target =
        |name: &str| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name });
    vec![
        Step::apply(scalers, "one", &scaler(target("m"))).contained(),
        Step::apply(scalers, "two", &scaler(target("m"))).contained(),
        Step::apply(scalers, "two", &scaler(target("n"))),
        Step::delete(scalers, &Value::Null).contained(),
        Step::apply(quotas, "one", &quota("Terminating")).contained(),
        Step::apply(quotas, "two", &quota("NotTerminating")),
        Step::delete(quotas, &Value::Null).contained(),
        Step::apply(events, "one", &event("a")).contained(),
        Step::apply(events, "two", &event("b")),
        Step::delete(events, &Value::Null).contained(),
        Step::apply(bindings, "one", &binding("a")).contained(),
        Step::apply(bindings, "two", &binding("b")),
        Step::delete(bindings, &Value::Null).contained(),
    ]
}

/// Returns writes of elements with equal keys: a configuration must have none, an object may.
fn deployments() -> Vec<Step> {
    let all = "/apis/apps/v1/namespaces/e2e/deployments";
    let one = format!("{all}/m");
    let deployment = |name: &str, container: Value| {
        let labels = json!({ "app": "web" });
        json!({
            "kind": "Deployment", "apiVersion": "apps/v1", "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
            },
        })
    };
    let env = |pairs: &[(&str, &str)]| {
        let pair = |(name, value): &(&str, &str)| json!({ "name": name, "value": value });
        let env: Vec<Value> = pairs.iter().map(pair).collect();
        json!({ "name": "web", "image": "1", "env": env })
    };
    let ports = json!([{ "containerPort": 80 }, { "containerPort": 80, "protocol": "TCP" }]);
    let ports = json!({ "name": "web", "image": "1", "ports": ports });
    let twice = deployment("m", env(&[("A", "1"), ("B", "1"), ("A", "2")]));
    let mut owned = deployment("m", env(&[]));
    owned["metadata"]["ownerReferences"] = json!([owner("x"), owner("x")]);
    owned["metadata"]["finalizers"] = json!(["example.com/a", "example.com/a"]);
    vec![
        Step::apply(&one, "one", &twice),
        Step::apply(&one, "one", &deployment("m", ports)),
        // The real server names the two lists in any order.
        Step::apply(&one, "one", &owned).reason(),
        Step::get(&one),
        Step::post(format!("{all}?fieldManager=one"), &twice).contained(),
        Step::patch(
            format!("{one}?fieldManager=one"),
            MERGE,
            &json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .contained(),
        Step::apply(&one, "two", &deployment("m", env(&[("C", "1")]))).contained(),
        Step::apply(&one, "two", &deployment("m", env(&[("A", "1")]))),
        Step::patch(
            format!("{one}?fieldManager=two&force=true"),
            APPLY,
            &deployment("m", env(&[("A", "1")])),
        )
        .contained(),
        Step::put(format!("{one}?fieldManager=three"), &twice).contained(),
        Step::delete(&one, &json!({ "propagationPolicy": "Background" })),
    ]
}

/// Returns writes of widgets with all the list and map types of a definition.
fn widgets() -> Vec<Step> {
    let one = format!("{WIDGETS}/m");
    let widget = |merged: Value| {
        json!({
            "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "m" },
            "spec": { "merged": merged },
        })
    };
    let rule = |port: u16, tags: &[&str]| json!({ "port": port, "tags": tags });
    let reference = |name: &str| json!({ "reference": { "name": name } });
    let named = |name: &str, tag: &str| json!({ "named": { name: { "tags": [tag] } } });
    let free = |value: Value| json!({ "free": value });
    let mut template = widget(json!({ "template": {
        "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "finalizers": ["x/a"] },
    } }));
    let first_template = template.clone();
    template["spec"]["merged"]["template"]["metadata"]["finalizers"] = json!(["x/b"]);
    vec![
        Step::apply(&one, "one", &widget(json!({ "tags": ["a", "b"] }))),
        Step::apply(&one, "two", &widget(json!({ "tags": ["c", "a"] }))),
        Step::apply(&one, "one", &widget(json!({ "tags": ["a"] }))),
        Step::apply(&one, "one", &widget(json!({ "tags": ["a", "a"] }))),
        Step::apply(&one, "one", &widget(json!({ "rules": [rule(1, &["a"])] }))).contained(),
        Step::apply(&one, "two", &widget(json!({ "rules": [rule(2, &[]), rule(1, &["b"])] })))
            .contained(),
        Step::apply(&one, "two", &widget(json!({ "rules": [rule(1, &[]), rule(1, &[])] }))),
        Step::apply(&one, "two", &widget(json!({ "rules": [{ "tags": ["a"] }] }))).contained(),
        Step::apply(&one, "one", &widget(json!({ "plain": ["a"] }))).contained(),
        Step::apply(&one, "two", &widget(json!({ "plain": ["b"] }))),
        Step::apply(&one, "one", &widget(reference("a"))).contained(),
        Step::apply(&one, "two", &widget(json!({ "reference": { "namespace": "b" } }))),
        Step::apply(&one, "one", &widget(named("x", "a"))).contained(),
        Step::apply(&one, "two", &widget(named("x", "b"))).contained(),
        Step::apply(&one, "one", &widget(free(json!({ "a": { "b": 1 }, "list": [1] }))))
            .contained(),
        Step::apply(&one, "two", &widget(free(json!({ "a": { "c": 1 } })))).contained(),
        Step::apply(&one, "two", &widget(free(json!({ "list": [1, 2] })))),
        Step::apply(&one, "one", &first_template).contained(),
        Step::apply(&one, "two", &template).contained(),
        Step::delete(&one, &Value::Null),
    ]
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns requests for an object of client-side apply that `kubectl` applies on the server.
fn kubectl() -> Vec<Step> {
    let one = format!("{MAPS}/m");
    let client = format!("{MAPS}?fieldManager=kubectl-client-side-apply");
    let applied = map("m", &json!({ "k": "1", "l": "1", "m": "1" }));
    let mut made = applied.clone();
    made["metadata"]["annotations"] = json!({ LAST_APPLIED: applied.to_string() });
    let mut labelled = map("m", &json!({ "k": "2" }));
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    let mut other = made.clone();
    other["metadata"]["name"] = "o".into();
    other["metadata"]["annotations"][LAST_APPLIED] = "{".into();
    vec![
        Step::post(&client, &made),
        Step::patch(format!("{one}?fieldManager=x"), MERGE, &json!({ "data": { "m": "2" } })),
        Step::apply(&one, "other", &map("m", &json!({ "k": "2" }))),
        Step::apply(&one, "kubectl", &map("m", &json!({ "k": "2", "m": "3" }))),
        Step::apply(&one, "kubectl", &labelled),
        Step::apply(&one, "kubectl", &map("m", &json!({ "l": "2" }))),
        Step::delete(&one, &Value::Null),
        Step::post(&client, &other),
        Step::apply(&format!("{MAPS}/o"), "kubectl", &map("o", &json!({ "k": "2" }))),
        Step::delete(format!("{MAPS}/o"), &Value::Null),
    ]
}

/// Returns updates by more managers than the server keeps.
fn many_managers() -> Vec<Step> {
    let one = format!("{MAPS}/n");
    let update = |number: u32| {
        let path = format!("{one}?fieldManager=m{number:02}");
        Step::patch(path, MERGE, &json!({ "data": { format!("k{number:02}"): "1" } }))
    };
    let mut steps = vec![Step::post(
        format!("{MAPS}?fieldManager=m00"),
        &map("n", &json!({ "k": "1", "k01": "0" })),
    )];
    steps.extend((1..14).map(update));
    steps.extend([
        Step::apply(&one, "one", &map("n", &json!({ "k": "2", "k02": "2", "k13": "2" }))),
        Step::delete(&one, &Value::Null),
    ]);
    steps
}

/// Returns writes of clients that set managers.
fn given_managers() -> Vec<Step> {
    let one = format!("{MAPS}/g");
    let managers = |list: Value| json!({ "metadata": { "managedFields": list } });
    vec![
        Step::apply(&one, "one", &map("g", &json!({ "k": "1" }))),
        Step::patch(&one, MERGE, &managers(json!([]))),
        Step::apply(&one, "one", &map("g", &json!({ "k": "1" }))),
        Step::patch(&one, MERGE, &managers(json!([{}]))),
        Step::delete(&one, &Value::Null),
        Step::post(
            format!("{WIDGETS}?fieldManager=one"),
            &json!({
                "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "g" },
                "spec": { "colour": "red" },
            }),
        ),
        Step::patch(format!("{WIDGETS}/g/status?fieldManager=two"), MERGE, &managers(json!([{}]))),
        Step::delete(format!("{WIDGETS}/g"), &Value::Null),
    ]
}

/// Returns deletions with options that are null.
fn null_options() -> Vec<Step> {
    let one = format!("{MAPS}/d");
    let options = |name: &str| json!({ name: null });
    let names =
        ["preconditions", "dryRun", "gracePeriodSeconds", "propagationPolicy", "orphanDependents"];
    let mut steps = Vec::new();
    for name in names {
        steps.push(Step::post(MAPS, &map("d", &json!({ "k": "1" }))));
        steps.push(Step::delete(&one, &options(name)));
    }
    steps.extend([
        Step::post(MAPS, &map_with("d", "labels", json!({ "app": "gone" }))),
        Step::raw(Method::DELETE, &one, r#"{"preconditions":{"uid":null,"resourceVersion":null}}"#),
    ]);
    steps
}
