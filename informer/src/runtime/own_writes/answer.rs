//! The objects in the answer to a write.

use deltafifo::ResourceVersion;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::target::Target;

/// An object as a write left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The version, or `None` if the answer to a deletion does not have it.
    pub(super) version: Option<ResourceVersion>,
    /// Whether the object was removed from the server, and not only marked for deletion.
    pub(super) is_gone: bool,
    /// Whether the write created the object.
    pub(super) is_created: bool,
}

/// The answer to a write of one object: the object, or a `Status`.
#[derive(Deserialize)]
struct Answer {
    kind: Option<String>,
    metadata: Option<Metadata>,
}

/// A namespace. The finalizers in its specification hold it, too, until it is empty.
#[derive(Deserialize)]
struct Namespace {
    spec: Option<NamespaceSpec>,
}

#[derive(Deserialize)]
struct NamespaceSpec {
    finalizers: Option<Vec<IgnoredAny>>,
}

/// A `Status`, which answers a deletion that removed the object.
#[derive(Deserialize)]
struct Status {
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    uid: Option<String>,
}

/// The answer to the deletion of a collection.
#[derive(Deserialize)]
struct Collection {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<IgnoredAny>>,
}

impl Metadata {
    /// Returns whether nothing delays the removal of the object.
    fn is_unheld(&self) -> bool {
        self.finalizers.as_ref().is_none_or(Vec::is_empty)
            && self.deletion_grace_period_seconds.unwrap_or_default() == 0
    }

    /// Returns the object, or `None` if the metadata does not name an object and its version.
    /// `is_held` says whether anything else delays the removal of the object.
    fn written(self, is_deletion: bool, is_held: bool) -> Option<Written> {
        let is_deleted = is_deletion || self.deletion_timestamp.is_some();
        let is_gone = is_deleted && !is_held && self.is_unheld();
        let version = ResourceVersion::parse(&self.resource_version.unwrap_or_default());
        let [namespace, name, uid] =
            [self.namespace, self.name, self.uid].map(Option::unwrap_or_default);
        let is_complete = !name.is_empty() && !uid.is_empty() && (version.is_some() || is_gone);
        let written = Written { namespace, name, uid, version, is_gone, is_created: false };
        is_complete.then_some(written)
    }
}

/// Returns the objects in the answer to a write of `target`. Empty if the answer is not an object,
/// for example after an eviction.
pub(super) fn written(
    method: &Method,
    target: &Target<'_>,
    status: StatusCode,
    body: &[u8],
) -> Vec<Written> {
    let is_deletion = method == Method::DELETE;
    if is_deletion && target.name.is_empty() {
        let items = serde_json::from_slice(body).map(|Collection { items }| items);
        let items = items.unwrap_or_default().into_iter();
        return items.filter_map(|item| item.metadata?.written(true, false)).collect();
    }
    let Ok(Answer { kind, metadata }) = serde_json::from_slice(body) else { return Vec::new() };
    let written = if kind.as_deref() == Some("Status") {
        let status = serde_json::from_slice::<Status>(body).ok();
        let uid = status.and_then(|status| status.details?.uid);
        uid.filter(|uid| is_deletion && !uid.is_empty()).map(|uid| Written {
            namespace: target.namespace.to_owned(),
            name: target.name.to_owned(),
            uid,
            version: None,
            is_gone: true,
            is_created: false,
        })
    } else {
        let is_held = is_held_by_spec(target, body);
        metadata.and_then(|metadata| metadata.written(is_deletion, is_held))
    };
    // A POST to a subresource is also answered with 201, and may return the object unchanged.
    let is_of_subresource = method == Method::POST && !target.name.is_empty();
    let is_created = status == StatusCode::CREATED && !is_of_subresource;
    written.map(|written| Written { is_created, ..written }).into_iter().collect()
}

/// Returns whether the object is a namespace with finalizers in its specification.
fn is_held_by_spec(target: &Target<'_>, body: &[u8]) -> bool {
    if !target.group.is_empty() || target.plural != "namespaces" {
        return false;
    }
    let namespace: Option<Namespace> = serde_json::from_slice(body).ok();
    let finalizers = namespace.and_then(|namespace| namespace.spec?.finalizers);
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

#[cfg(test)]
mod tests {
    use deltafifo::ResourceVersion;
    use http::{Method, StatusCode, Uri};
    use serde_json::{Value, json};

    use super::{Target, Written, written};

    fn of(method: &Method, path: &'static str, body: &Value) -> Vec<Written> {
        let uri = Uri::from_static(path);
        let target = Target::of(&uri).unwrap();
        written(method, &target, StatusCode::OK, body.to_string().as_bytes())
    }

    fn pod(version: Option<&str>, is_gone: bool) -> Written {
        Written {
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            uid: "u".to_owned(),
            version: version.and_then(ResourceVersion::parse),
            is_gone,
            is_created: false,
        }
    }

    const POD: &str = "/api/v1/namespaces/shop/pods/a";
    const PODS: &str = "/api/v1/namespaces/shop/pods";

    #[test]
    fn object_in_an_answer_is_the_written_one() {
        let mut body = json!({
            "kind": "Pod", "details": 7, "items": "any",
            "metadata": { "namespace": "shop", "name": "a", "uid": "u", "resourceVersion": "7" },
        });
        assert_eq!(of(&Method::POST, PODS, &body), [pod(Some("7"), false)]);
        assert_eq!(of(&Method::DELETE, POD, &body), [pod(Some("7"), true)]);
        body["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
        assert_eq!(of(&Method::PATCH, POD, &body), [pod(Some("7"), true)], "no finalizer is left");
        body["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        assert_eq!(of(&Method::DELETE, POD, &body), [pod(Some("7"), false)], "it still runs");
        body["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        body["metadata"]["finalizers"] = json!(["example.com/f"]);
        assert_eq!(of(&Method::DELETE, POD, &body), [pod(Some("7"), false)]);
    }

    #[test]
    fn status_of_an_answer_says_whether_the_object_was_created() {
        let body = br#"{ "metadata": { "name": "a", "uid": "u", "resourceVersion": "7" } }"#;
        let is_created = |method, path, status| {
            let uri = Uri::from_static(path);
            written(&method, &Target::of(&uri).unwrap(), status, body)[0].is_created
        };
        assert!(is_created(Method::POST, PODS, StatusCode::CREATED));
        assert!(is_created(Method::PATCH, POD, StatusCode::CREATED), "a server-side apply");
        assert!(!is_created(Method::PATCH, POD, StatusCode::OK));
        let subresource = "/apis/example.com/v1/namespaces/shop/gates/a/openings";
        assert!(!is_created(Method::POST, subresource, StatusCode::CREATED));
    }

    #[test]
    fn namespace_is_not_removed_before_its_specification_has_no_finalizers() {
        const NAMESPACE: &str = "/api/v1/namespaces/shop";
        let mut body = json!({
            "kind": "Namespace",
            "metadata": {
                "name": "shop", "uid": "u", "resourceVersion": "7",
                "deletionTimestamp": "2020-01-01T00:00:00Z",
            },
            "spec": { "finalizers": ["kubernetes"] },
        });
        let is_gone = |method: &Method, body: &Value| of(method, NAMESPACE, body)[0].is_gone;
        assert!(!is_gone(&Method::DELETE, &body), "it is not empty yet");
        assert!(!is_gone(&Method::PATCH, &body));
        body["spec"] = json!({});
        assert!(is_gone(&Method::PUT, &body));
        body["spec"] = json!({ "finalizers": ["kubernetes"] });
        let other = "/apis/example.com/v1/namespaces/shop/gates/a";
        assert!(of(&Method::DELETE, other, &body)[0].is_gone, "of another kind");
    }

    #[test]
    fn status_of_a_deletion_names_the_removed_object() {
        let mut body = json!({
            "kind": "Status", "metadata": {}, "status": "Success",
            "details": { "name": "a", "kind": "pods", "uid": "u" },
        });
        assert_eq!(of(&Method::DELETE, POD, &body), [pod(None, true)]);
        body["details"] = json!({ "name": "a" });
        assert_eq!(of(&Method::DELETE, POD, &body), [], "the object is not known");
        body["details"] = Value::Null;
        assert_eq!(of(&Method::POST, "/api/v1/namespaces/shop/pods/a/eviction", &body), []);
    }

    #[test]
    fn collection_of_a_deletion_has_the_removed_objects() {
        let metadata = json!({ "namespace": "shop", "name": "a", "uid": "u" });
        let body = json!({ "kind": "PodList", "items": [{ "metadata": metadata }, {}] });
        assert_eq!(of(&Method::DELETE, PODS, &body), [pod(None, true)]);
    }

    #[test]
    fn answer_without_an_object_is_not_a_write() {
        for body in [json!(7), json!({}), json!({ "metadata": { "name": "a", "uid": "u" } })] {
            assert_eq!(of(&Method::PUT, POD, &body), []);
        }
    }
}
