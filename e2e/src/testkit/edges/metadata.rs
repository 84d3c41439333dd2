//! Writes of metadata: of other types, with managers of fields, and with long and generated names.

use serde_json::{Value, json};

use crate::testkit::recorded::{MAPS, map, map_with};
use crate::testkit::scales::{GADGETS, gadget};
use crate::testkit::step::{APPLY, MERGE, OPERATIONS, STRATEGIC, Step};

const EVENTS: &str = "/api/v1/namespaces/e2e/events";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/e2e/roles";
const PAST: &str = "2020-01-01T00:00:00Z";

fn owner(field: &str, value: Value) -> Value {
    let mut owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u" });
    owner[field] = value;
    json!([owner])
}

/// Returns writes in all formats of metadata of other types, and of nulls.
pub fn types() -> Vec<Step> {
    let fields = [
        ("labels", json!("x")),
        ("labels", json!([])),
        ("labels", json!({ "a": 1 })),
        ("labels", json!({ "a b": {} })),
        ("labels", json!({ "a": null })),
        ("annotations", json!([])),
        ("annotations", json!({ "a": true })),
        ("ownerReferences", json!({})),
        ("ownerReferences", json!(["x"])),
        ("ownerReferences", owner("name", json!(1))),
        ("ownerReferences", owner("controller", json!("x"))),
        ("finalizers", json!("x")),
        ("finalizers", json!({})),
        ("finalizers", json!([1])),
        ("finalizers", json!([null])),
        ("managedFields", json!("x")),
        ("managedFields", json!({})),
        ("managedFields", json!(["x"])),
        ("managedFields", json!([{ "manager": 1 }])),
        ("managedFields", json!([{ "time": "x" }])),
        ("generation", json!("x")),
        ("generation", json!(1.5)),
        ("deletionGracePeriodSeconds", json!("x")),
        ("generateName", json!(1)),
        ("deletionTimestamp", json!("today")),
        ("deletionTimestamp", json!(1)),
        ("deletionTimestamp", json!(null)),
        ("creationTimestamp", json!("today")),
        ("creationTimestamp", json!("")),
        ("selfLink", json!(1)),
        ("uid", json!(1)),
        ("resourceVersion", json!(1)),
        ("namespace", json!(1)),
    ];
    fields.into_iter().flat_map(|(field, value)| writes_of(field, &value)).collect()
}

/// Returns writes of a metadata field in all formats.
fn writes_of(field: &str, value: &Value) -> Vec<Step> {
    let (one, new) = (format!("{MAPS}/typed"), format!("{MAPS}/new"));
    let set = json!({ "metadata": { field: value } });
    let operations = json!([{ "op": "add", "path": format!("/metadata/{field}"), "value": value }]);
    let with = |name: &str| map_with(name, field, value.clone());
    let apply = |path: &str, name: &str| {
        Step::patch(format!("{path}?fieldManager=x&force=true"), APPLY, &with(name))
    };
    let steps = vec![
        Step::post(MAPS, &with("new")),
        Step::delete(&new, &Value::Null),
        Step::post(MAPS, &map("typed", &json!({ "k": "1" }))),
        Step::put(&one, &with("typed")),
        Step::patch(&one, MERGE, &set),
        Step::patch(&one, STRATEGIC, &set),
        Step::patch(&one, OPERATIONS, &operations),
        apply(&one, "typed"),
        apply(&new, "new"),
        Step::delete(&new, &Value::Null),
        Step::delete(&one, &Value::Null),
    ];
    steps.into_iter().map(Step::reason).collect()
}

/// Returns applied configurations with metadata that only the server sets.
pub fn applied_metadata() -> Vec<Step> {
    let one = format!("{MAPS}/applied");
    let mut steps = vec![Step::post(MAPS, &map("applied", &json!({ "k": "1" })))];
    let apply = |name: &str, field: &str, value: Value| {
        let path = format!("{MAPS}/{name}?fieldManager=x&force=true");
        Step::patch(path, APPLY, &map_with(name, field, value))
    };
    for (field, value) in [
        ("managedFields", json!(null)),
        ("managedFields", json!([])),
        ("managedFields", json!([{}])),
        ("managedFields", json!([null])),
        ("managedFields", json!([null, {}])),
        ("managedFields", json!([{ "other": 1 }])),
        ("uid", json!("other")),
        ("uid", json!("")),
        ("generation", json!(9)),
        ("creationTimestamp", json!(PAST)),
        ("resourceVersion", json!("1")),
        ("resourceVersion", json!("0")),
        ("generateName", json!("x")),
        ("selfLink", json!("/x")),
        ("other", json!(null)),
        ("other", json!(1)),
        ("namespace", json!("other")),
        ("namespace", json!("")),
        ("labels", json!(null)),
    ] {
        steps.push(apply("applied", field, value.clone()));
        steps.push(apply("new", field, value));
        steps.push(Step::delete(format!("{MAPS}/new"), &Value::Null));
    }
    // The real server stores these fields of a new object, and the test kit does not.
    for (field, value) in [
        ("deletionTimestamp", json!(PAST)),
        ("deletionGracePeriodSeconds", json!(5)),
        ("deletionGracePeriodSeconds", json!(0)),
    ] {
        steps.push(apply("applied", field, value));
    }
    steps.extend([
        apply("applied", "ownerReferences", owner("other", json!(1))).reason(),
        apply("applied", "name", json!(1)).reason(),
        apply("new", "name", json!(1)).reason(),
        apply("applied", "name", json!("new")),
        apply("new", "name", json!("other")),
        Step::get(&one),
        Step::delete(&one, &Value::Null),
    ]);
    let apply_gadget = |field: &str, value: Value| {
        let mut gadget = gadget("applied", &json!({ "colour": "red" }));
        gadget["metadata"][field] = value;
        Step::apply(&format!("{GADGETS}/applied"), "x", &gadget)
    };
    steps.extend([
        apply_gadget("other", json!(1)),
        apply_gadget("ownerReferences", owner("other", json!(1))).reason(),
        apply_gadget("managedFields", json!([])),
        apply_gadget("selfLink", json!("/x")),
        Step::delete(format!("{GADGETS}/applied"), &Value::Null),
    ]);
    steps
}

/// Returns writes with managers of fields, and with metadata that Kubernetes does not have.
pub fn managers() -> Vec<Step> {
    let one = format!("{MAPS}/managed");
    let entry = |fields: Value| {
        json!([{
            "manager": "m", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        }])
    };
    let mut steps = Vec::new();
    for (field, value) in [
        ("selfLink", json!("/x")),
        ("other", json!(1)),
        ("ownerReferences", owner("other", json!(1))),
        ("managedFields", json!([{}])),
        ("managedFields", json!([{ "manager": "x" }])),
        ("managedFields", entry(json!({ "f:data": { "f:k": {} } }))),
        ("managedFields", entry(json!({ "f:data": {} }))),
        ("managedFields", entry(json!(1))),
        ("managedFields", entry(json!({ "x": {} }))),
    ] {
        steps.extend([
            Step::post(MAPS, &map_with("managed", field, value.clone())),
            Step::put(&one, &map_with("managed", field, value.clone())),
            Step::patch(&one, MERGE, &json!({ "metadata": { field: value } })),
            Step::get(&one),
            Step::delete(&one, &Value::Null),
        ]);
    }
    steps
}

/// Returns objects with long names, and with names that need not be those of a subdomain.
pub fn names() -> Vec<Step> {
    let (longest, longer, upper) = ("a".repeat(253), "a".repeat(254), "A".repeat(300));
    let mut steps = Vec::new();
    for name in [&longest, &longer, &upper, "A_b", "a:b", "a%b", "..", ".", "a/b"] {
        let event = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": { "name": name, "namespace": "e2e" },
            "involvedObject": { "namespace": "e2e", "kind": "Pod", "name": "x" },
        });
        steps.extend([
            Step::post(MAPS, &map(name, &json!({}))).reason(),
            Step::post(EVENTS, &event).reason(),
            Step::post(ROLES, &json!({ "metadata": { "name": name } })).reason(),
        ]);
    }
    for name in [&longest, &longer, &upper, "A_b", "a:b"] {
        let paths = [MAPS, EVENTS, ROLES].map(|all| format!("{all}/{name}"));
        steps.extend(paths.map(|path| Step::delete(path, &Value::Null)));
    }
    steps
}

/// Returns objects with generated names, which differ.
pub fn generated_names() -> Vec<Step> {
    let prefixes = ["a-", "a", "UPPER-", "a_", "a.", "a/", "-", "", "a-b--"];
    let long = ["a".repeat(100), format!("{}.", "a".repeat(60))];
    let all = prefixes.into_iter().chain(long.iter().map(String::as_str));
    let named = |metadata: Value| {
        Step::post(MAPS, &json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata }))
    };
    let mut steps: Vec<Step> =
        all.map(|prefix| named(json!({ "generateName": prefix })).reason()).collect();
    steps.extend([
        named(json!({ "generateName": "a-", "labels": { "a b": "c" } })).reason(),
        named(json!({ "generateName": "A-", "name": "named" })).reason(),
        named(json!({ "generateName": "a-", "name": "named" })),
        Step::delete(format!("{MAPS}/named"), &Value::Null),
        Step::delete(MAPS, &Value::Null).reason(),
    ]);
    steps
}
