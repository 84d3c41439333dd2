//! The annotation of client-side apply, with which `kubectl` moves to server-side apply.
//!
//! `kubectl apply` notes the configuration in the annotation. After its move, the fields of an
//! object have another manager than that of `kubectl apply --server-side`, which would conflict. A
//! field that still has the value in the annotation is therefore no conflict for `kubectl`.

use serde_json::Value;

use super::compare::{compare, fields_of};
use super::fields::FieldSet;
use super::schema::Place;
use super::{check, managed};
use crate::Resource;
use crate::object::{Draft, Fields};

/// The only manager for which the annotation counts.
pub(super) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the annotation, unless it is empty.
fn annotation(metadata: &Fields) -> Option<&str> {
    let text = metadata.get("annotations")?.get(ANNOTATION)?.as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the fields that have the value in the annotation. Returns `None` if the object has no
/// valid annotation.
pub(super) fn unchanged(resource: &Resource, object: &Draft, live: &Value) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(&object.metadata)?).ok()?;
    if last.get("apiVersion")? != resource.api_version() {
        return None;
    }
    let last = managed(&Draft::new(last, resource).ok()?);
    let at = Place::root(resource);
    if !check::faults(&last, &at).is_empty() || !check::faults(live, &at).is_empty() {
        return None;
    }
    let mut fields = fields_of(&last, &at);
    fields.subtract(&compare(Some(&last), Some(live), &at).changed_and_removed());
    Some(fields)
}

/// Sets the annotation to the applied configuration, if the object has the annotation.
pub(super) fn renew(metadata: &mut Fields, resource: &Resource, applied: &Draft) {
    if annotation(metadata).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.metadata.get_mut("annotations") {
        annotations.remove(ANNOTATION);
    }
    let mut whole = applied.rest;
    whole.insert("metadata".to_owned(), applied.metadata.into());
    whole.insert("kind".to_owned(), resource.kind().into());
    whole.insert("apiVersion".to_owned(), resource.api_version().into());
    let text = format!("{}\n", Value::Object(whole));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.insert(ANNOTATION.to_owned(), text.into());
    }
}
