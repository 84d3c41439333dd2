//! Requests at the edges of what operators send: metadata of other types, long and generated names,
//! pages, encoded paths, and invalid options.

mod deletions;
mod metadata;
mod pages;
mod requests;

use serde_json::{Value, json};

use super::recorded::{MAPS, map, map_with};
use super::scales::{GADGETS, definitions, gadget, refused_scales_of_gadgets, scale_of_gadgets};
use super::step::{MERGE, OPERATIONS, STRATEGIC, Step};

/// Returns the requests of each part, which depends on no other part.
pub fn parts() -> Vec<Vec<Step>> {
    vec![
        metadata::types(),
        metadata::applied_metadata(),
        metadata::managers(),
        metadata::names(),
        metadata::generated_names(),
        scale_of_gadgets(),
        refused_scales_of_gadgets(),
        definitions(),
        deletions::deletion_with_finalizers(),
        deletions::preconditions(),
        missing_objects(),
        pages::watches(),
        pages::pages(),
        pages::deletion_in_pages(),
        requests::paths(),
        requests::methods(),
        requests::options(),
        kinds(),
    ]
}

/// Returns reads and writes of objects that do not exist, and of their status.
fn missing_objects() -> Vec<Step> {
    let deployments = "/apis/apps/v1/namespaces/e2e/deployments";
    let mut steps = Vec::new();
    for all in [deployments, GADGETS, MAPS] {
        for path in [format!("{all}/no/status"), format!("{all}/no")] {
            steps.extend([
                Step::get(&path),
                Step::patch(&path, MERGE, &json!({ "status": {} })),
                Step::patch(&path, OPERATIONS, &json!([])),
                Step::patch(&path, STRATEGIC, &json!({ "status": {} })),
                Step::delete(&path, &Value::Null),
            ]);
        }
    }
    let mut other = map("no", &json!({}));
    other["metadata"]["namespace"] = "other".into();
    steps.extend([
        Step::apply(&format!("{GADGETS}/no/status"), "x", &gadget("no", &json!({}))),
        Step::put(format!("{MAPS}/no"), &map("other", &json!({}))),
        Step::put(format!("{MAPS}/no"), &other),
        Step::put(format!("{MAPS}/no"), &map_with("no", "uid", "x".into())).reason(),
        Step::put(format!("{MAPS}/no"), &map_with("no", "resourceVersion", "5".into())).reason(),
        Step::put(format!("{GADGETS}/no"), &gadget("other", &json!({}))),
        Step::put("/api/v1/namespaces/e2e/finalize", &json!({ "metadata": { "name": "other" } })),
        Step::delete(format!("{MAPS}/No"), &Value::Null),
        Step::put(format!("{MAPS}/No"), &map("No", &json!({}))).reason(),
        Step::apply(&format!("{MAPS}/No"), "x", &map("No", &json!({}))).reason(),
    ]);
    steps
}

/// Returns custom resources without their kind.
fn kinds() -> Vec<Step> {
    let one = format!("{GADGETS}/k");
    let version = "scale.example.com/v1";
    let mut steps = Vec::new();
    for (kind, api_version) in [
        (Value::Null, Value::Null),
        ("Gadget".into(), Value::Null),
        ("Gadget".into(), "".into()),
        ("Gadget".into(), "scale.example.com/v2".into()),
        (Value::Null, version.into()),
        ("".into(), version.into()),
    ] {
        let mut body = gadget("k", &json!({ "colour": "red" }));
        (body["kind"], body["apiVersion"]) = (kind, api_version);
        steps.extend([
            Step::post(GADGETS, &body).reason(),
            Step::put(&one, &body).reason(),
            Step::apply(&one, "x", &body).reason(),
        ]);
    }
    steps
}
