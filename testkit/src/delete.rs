//! Deletions: finalizers, grace periods, propagation, and namespaces.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Resource;
use crate::change::now;
use crate::known::Trait;
use crate::object::{Draft, Object, text};
use crate::request::{Request, is_true};
use crate::status::{self, Refused};
use crate::steps::Counted;
use crate::store::{Current, Store};

/// The finalizer of an object whose dependents are to be deleted before it.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to be kept.
pub(crate) const ORPHAN: &str = "orphan";
/// The seconds that a pod without `terminationGracePeriodSeconds` has to end.
const GRACE: i64 = 30;

/// The handling of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Propagation {
    /// They are deleted after the object.
    Background,
    /// They are deleted before the object.
    Foreground,
    /// They are kept, without the reference to the object.
    Orphan,
}

/// The options of a deletion, as the request has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeleteOptions {
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) dry_run: Option<Vec<String>>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
}

impl DeleteOptions {
    /// Reads the options in the query of a request.
    pub(crate) fn of_query(request: &Request) -> Refused<Self> {
        let grace = request.parameter("gracePeriodSeconds").filter(|seconds| !seconds.is_empty());
        let grace = grace.map(|seconds| {
            let refuse = |error| format!("invalid gracePeriodSeconds {seconds:?}: {error}");
            seconds.parse().map_err(|error| Box::new(status::bad_request(&refuse(error))))
        });
        let given = |name: &str| request.parameter(name).filter(|value| !value.is_empty());
        let given = |name: &str| given(name).map(str::to_owned);
        Ok(Self {
            preconditions: Some(Preconditions {
                uid: given("uid"),
                resource_version: given("resourceVersion"),
            }),
            dry_run: Some(request.parameters("dryRun").map(str::to_owned).collect()),
            grace_period_seconds: grace.transpose()?,
            propagation_policy: request.parameter("propagationPolicy").map(str::to_owned),
            orphan_dependents: request.parameter("orphanDependents").map(is_true),
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Preconditions {
    /// Refuses the deletion of an object with another uid or version.
    pub(crate) fn check(&self, resource: &Resource, object: &Object) -> Refused<()> {
        let (uid, version) = (object.uid(), object.version.to_string());
        let refuse = |field: &str, wanted: &str, known: &str, why: &str| {
            let why = format!(
                "the {field} in the precondition ({wanted}) does not match the {field} in record ({known}). The object might have been {why}"
            );
            Err(Box::new(status::precondition_failed(resource, &object.key.name, &why)))
        };
        match (&self.uid, &self.resource_version) {
            (Some(wanted), _) if wanted != uid => {
                refuse("UID", wanted, uid, "deleted and then recreated")
            }
            (_, Some(wanted)) if *wanted != version => {
                refuse("ResourceVersion", wanted, &version, "modified")
            }
            _ => Ok(()),
        }
    }
}

/// A deletion whose options are valid.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deletion {
    /// The requested handling of dependents, if the request names one.
    pub(crate) propagation: Option<Propagation>,
    /// The requested grace period in seconds.
    grace: Option<i64>,
}

impl Deletion {
    /// Checks the options.
    pub(crate) fn new(options: &DeleteOptions) -> Refused<Self> {
        let policy = options.propagation_policy.as_deref();
        let orphans = options.orphan_dependents;
        let refuse = |reason: &str, fault: String| {
            Err(Box::new(status::options("DeleteOptions", reason, "propagationPolicy", &fault)))
        };
        let propagation = match policy {
            Some(policy) if orphans.is_some() => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                return refuse("FieldValueInvalid", format!("Invalid value: {policy:?}: {why}"));
            }
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(policy) => {
                let known = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
                let fault = format!("Unsupported value: {policy:?}: supported values: {known}");
                return refuse("FieldValueNotSupported", fault);
            }
            None => orphans
                .map(|orphans| if orphans { Propagation::Orphan } else { Propagation::Background }),
        };
        let grace = options.grace_period_seconds.map(|seconds| seconds.max(0));
        Ok(Self { propagation, grace })
    }

    pub(crate) fn with(propagation: Propagation) -> Self {
        Self { propagation: Some(propagation), grace: None }
    }
}

/// Deletes the object, or marks it for deletion: if it has finalizers, is a running pod with a
/// grace period, or is a namespace that must be emptied. Returns its last or current state, and
/// whether it is deleted.
pub(crate) fn delete(
    store: &mut Store,
    place: usize,
    current: Current,
    deletion: Deletion,
) -> (Arc<Object>, bool) {
    let resource = Arc::clone(&store.collections[place].resource);
    let before = Arc::clone(&current.object);
    let finalizers = finalizers(&resource, &before.draft, deletion.propagation);
    let grace = grace(&resource, &before.draft, deletion.grace);
    let is_emptied = resource.is_namespace()
        && (store.collector.is_on() || !spec_finalizers(&before.draft).is_empty());
    if finalizers.is_empty() && grace == 0 && !is_emptied {
        let gone = store.remove(place, current);
        return (if resource.is_pod() { marked_pod(&gone) } else { gone }, true);
    }
    let mut draft = before.draft.clone();
    draft.set_finalizers(finalizers.iter().map(String::as_str));
    let is_shorter = draft
        .metadata
        .get("deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|known| grace < known);
    if !draft.is_deleting() || is_shorter {
        mark(&mut draft, grace);
        if resource.is_namespace() {
            draft.metadata.remove("deletionGracePeriodSeconds");
            let status = draft.rest.entry("status").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(status) = status {
                status.insert("phase".to_owned(), "Terminating".into());
            }
        }
    }
    if draft == before.draft {
        return (before, false);
    }
    (store.put(place, before.key.clone(), Some(current), draft), false)
}

/// Marks a draft for deletion, which counts as a change of its generation.
fn mark(draft: &mut Draft, grace: i64) {
    if let Some(generation) =
        draft.metadata.get("generation").and_then(Value::as_i64).filter(|_| !draft.is_deleting())
    {
        draft.metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
    let end = if grace == 0 { now() } else { crate::change::format(end_of(grace)) };
    draft.metadata.insert("deletionTimestamp".to_owned(), end.into());
    draft.metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
}

/// Returns the end of a grace period that begins now, or the largest timestamp if it is earlier. A
/// client can request any number of seconds.
fn end_of(grace: i64) -> jiff::Timestamp {
    let end = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_secs(grace));
    end.unwrap_or(jiff::Timestamp::MAX)
}

/// Returns the last state of a pod as the response to its deletion shows it.
fn marked_pod(gone: &Object) -> Arc<Object> {
    let mut gone = gone.clone();
    mark(&mut gone.draft, 0);
    Arc::new(gone)
}

/// Returns whether nothing delays the end of an object that is marked for deletion any more.
pub(crate) fn is_due(resource: &Resource, draft: &Draft) -> bool {
    let grace = draft.metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    draft.is_deleting()
        && draft.finalizers().next().is_none()
        && grace.unwrap_or_default() == 0
        && (!resource.is_namespace() || spec_finalizers(draft).is_empty())
}

/// Returns the finalizers that an object has after the request for its deletion.
fn finalizers(resource: &Resource, draft: &Draft, requested: Option<Propagation>) -> Vec<String> {
    let has = |name: &str| draft.has_finalizer(name);
    let propagation = match requested {
        Some(requested) => requested,
        None if has(ORPHAN) => Propagation::Orphan,
        None if has(FOREGROUND) => Propagation::Foreground,
        None if resource.has(Trait::Orphans) => Propagation::Orphan,
        None => Propagation::Background,
    };
    let own = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let is_kept = |name: &&str| (*name != ORPHAN && *name != FOREGROUND) || own == Some(*name);
    let mut all: Vec<String> = draft.finalizers().filter(is_kept).map(str::to_owned).collect();
    if let Some(own) = own.filter(|own| !has(own)) {
        all.push(own.to_owned());
    }
    all
}

/// Returns the finalizers in the specification of a namespace, which the real server's controllers
/// remove when the namespace is empty.
pub(crate) fn spec_finalizers(draft: &Draft) -> &[Value] {
    draft.at(["spec", "finalizers"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the grace period in seconds. Only a pod that runs on a node has one.
fn grace(resource: &Resource, draft: &Draft, requested: Option<i64>) -> i64 {
    let field = |path: [&'static str; 2]| draft.at(path);
    let phase = field(["status", "phase"]).and_then(Value::as_str).unwrap_or_default();
    let runs = resource.is_pod()
        && field(["spec", "nodeName"]).and_then(Value::as_str).is_some_and(|node| !node.is_empty())
        && !matches!(phase, "Succeeded" | "Failed");
    if !runs {
        return 0;
    }
    let own = field(["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    requested.or(own).unwrap_or(GRACE).max(0)
}

/// Refuses new finalizers of an object that is being deleted.
pub(crate) fn check_finalizers(resource: &Resource, before: &Object, draft: &Draft) -> Refused<()> {
    if !before.draft.is_deleting() {
        return Ok(());
    }
    let known: HashSet<Counted<&str>> = before.draft.finalizers().map(Counted).collect();
    let is_new = |name: &&str| !known.contains(&Counted(*name));
    let new: Vec<String> =
        draft.finalizers().filter(is_new).map(|name| format!("{name:?}")).collect();
    if new.is_empty() {
        return Ok(());
    }
    let list = new.join(", ");
    let fault = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
    );
    let name = text(&before.draft.metadata, "name");
    let field = "metadata.finalizers";
    Err(Box::new(status::invalid_because("FieldValueForbidden", resource, name, field, &fault)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{check_finalizers, mark};
    use crate::Resource;
    use crate::object::{Draft, Key};
    use crate::steps::assert_linear;

    fn draft(metadata: &Value) -> Draft {
        Draft::new(json!({ "metadata": metadata }), &Resource::pods()).unwrap()
    }

    #[test]
    fn largest_generation_does_not_overflow() {
        let mut pod = draft(&json!({ "generation": i64::MAX }));
        mark(&mut pod, 0);
        assert_eq!(pod.metadata["generation"], i64::MAX);
        assert!(pod.is_deleting());
    }

    #[test]
    fn finalizers_are_compared_a_few_times_each() {
        const COUNT: usize = 500;
        let finalizers: Value = (0..COUNT).map(|number| number.to_string()).collect();
        let pod = draft(&json!({ "deletionTimestamp": "", "finalizers": finalizers }));
        let before = pod.clone().seal(Key::default(), 1);
        assert_linear(COUNT, || check_finalizers(&Resource::pods(), &before, &pod).unwrap());
    }
}
