//! Deletions with finalizers and with preconditions.

use serde_json::{Value, json};

use crate::testkit::recorded::{MAPS, map_with};
use crate::testkit::step::{MERGE, OPERATIONS, Step};

/// Returns changes of the finalizers of an object that is being deleted in the foreground.
pub fn deletion_with_finalizers() -> Vec<Step> {
    let one = format!("{MAPS}/foreground");
    let held = |name: &str| map_with("foreground", "finalizers", json!([name]));
    let set =
        |list: Value| Step::patch(&one, MERGE, &json!({ "metadata": { "finalizers": list } }));
    let operation = |op: &str, at: usize, value: Value| json!({ "op": op, "path": format!("/metadata/finalizers/{at}"), "value": value });
    let remove_tested = |name: &str| {
        Step::patch(
            &one,
            OPERATIONS,
            &json!([operation("test", 0, json!(name)), operation("remove", 0, Value::Null)]),
        )
    };
    vec![
        Step::post(MAPS, &held("example.com/x")),
        Step::delete(&one, &json!({ "propagationPolicy": "Foreground" })),
        set(json!(["foregroundDeletion"])),
        set(json!(["foregroundDeletion", "example.com/x"])),
        remove_tested("other").reason(),
        Step::patch(&one, OPERATIONS, &json!([operation("remove", 3, Value::Null)])).reason(),
        Step::apply(&one, "x", &held("example.com/y")),
        Step::delete(&one, &json!({ "propagationPolicy": "Background" })),
        Step::get(&one),
        set(json!(null)),
        Step::get(&one),
        Step::post(MAPS, &held("foregroundDeletion")),
        Step::delete(&one, &json!({ "propagationPolicy": "Foreground" })),
        remove_tested("foregroundDeletion"),
        Step::get(&one),
    ]
}

/// Returns deletions with preconditions in the query, and with options of another kind.
pub fn preconditions() -> Vec<Step> {
    let one = format!("{MAPS}/u");
    let all = format!("{MAPS}?labelSelector=app%3Dprecondition");
    let made = || Step::post(MAPS, &map_with("u", "labels", json!({ "app": "precondition" })));
    vec![
        made().named("u"),
        Step::delete(format!("{one}?uid=x"), &Value::Null),
        Step::delete(format!("{one}?resourceVersion=1"), &Value::Null),
        Step::delete(format!("{all}&uid=x"), &Value::Null),
        Step::delete(&one, &json!({ "kind": "ConfigMap", "apiVersion": "v1" })).reason(),
        Step::delete(&one, &json!({ "kind": "Other", "apiVersion": "v1" })).reason(),
        Step::delete(&all, &json!({ "kind": "Other" })).reason(),
        Step::delete(&one, &json!({ "gracePeriodSeconds": "x" })).reason(),
        Step::delete(format!("{one}?uid=${{u.uid}}&resourceVersion=${{u.version}}"), &Value::Null),
        made(),
        Step::delete(format!("{one}?uid="), &Value::Null),
        made(),
        Step::delete(
            format!("{one}?uid=x"),
            &json!({ "kind": "DeleteOptions", "apiVersion": "v1" }),
        ),
    ]
}
