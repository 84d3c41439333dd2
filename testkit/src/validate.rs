//! The validation of metadata in the writes of clients.

use serde_json::Value;

use crate::Resource;
use crate::object::{Draft, Fields, text};
use crate::status::{self, Refused};

/// The longest name part of a label or annotation, and the longest value of a label.
const LONGEST_WORD: usize = 63;
/// The longest name of an object, and prefix of a label or annotation.
const LONGEST_NAME: usize = 253;
/// The largest size of all annotations of an object.
const MOST_ANNOTATIONS: usize = 256 << 10;
const WORD: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
/// The finalizers that need no domain.
const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// The groups whose objects can have any name that fits into a path.
const FREE_NAMES: [&str; 2] = ["rbac.authorization.k8s.io", "certificates.k8s.io"];

/// Returns whether the objects can have any name that fits into a path.
fn has_free_names(resource: &Resource) -> bool {
    let group = resource.api.group.as_str();
    FREE_NAMES.contains(&group) || group.is_empty() && resource.plural() == "events"
}

/// Refuses a new object with an invalid name or invalid metadata.
pub(crate) fn check_new(resource: &Resource, name: &str, draft: &Draft) -> Refused<()> {
    if !has_free_names(resource) {
        let prefix = text(&draft.metadata, "generateName");
        // As in the real server, a prefix can end in a `-`.
        let begin = prefix.strip_suffix('-').map(|begin| format!("{begin}a"));
        let is_generated = !prefix.is_empty() && text(&draft.metadata, "name").is_empty();
        let invalid = if is_generated && !is_subdomain(begin.as_deref().unwrap_or(prefix)) {
            Some(fault("metadata.generateName", prefix, SUBDOMAIN))
        } else {
            (!is_subdomain(name)).then(|| fault("metadata.name", name, SUBDOMAIN))
        };
        if let Some((field, fault)) = invalid {
            return Err(Box::new(status::invalid(resource, name, &field, &fault)));
        }
    }
    check(resource, name, &Fields::new(), draft)
}

/// Refuses invalid labels, annotations, finalizers and owner references. Those that are equal in
/// the metadata before are not checked, because a test can have stored them.
pub(crate) fn check(
    resource: &Resource,
    name: &str,
    before: &Fields,
    draft: &Draft,
) -> Refused<()> {
    let metadata = &draft.metadata;
    let is_new = |field: &str| metadata.get(field) != before.get(field);
    let mut faults = [
        is_new("labels").then(|| labels(metadata)).flatten(),
        is_new("annotations").then(|| annotations(metadata)).flatten(),
        is_new("finalizers").then(|| finalizers(resource, draft)).flatten(),
        is_new("ownerReferences").then(|| owners(metadata)).flatten(),
    ]
    .into_iter();
    match faults.find_map(|fault| fault) {
        None => Ok(()),
        Some((field, fault)) => Err(Box::new(status::invalid(resource, name, &field, &fault))),
    }
}

/// A field, and the message about its value.
type Fault = (String, String);

fn fault(field: &str, value: &str, why: &str) -> Fault {
    (field.to_owned(), format!("Invalid value: {value:?}: {why}"))
}

fn labels(metadata: &Fields) -> Option<Fault> {
    let labels = metadata.get("labels")?.as_object()?;
    let field = "metadata.labels";
    labels.iter().find_map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        let of_key = key_fault(key).map(|why| fault(field, key, &why));
        of_key.or_else(|| {
            let why = if value.len() > LONGEST_WORD {
                format!("must be no more than {LONGEST_WORD} bytes")
            } else if !value.is_empty() && !is_word(value) {
                format!("a valid label is empty or {WORD}")
            } else {
                return None;
            };
            Some(fault(field, value, &why))
        })
    })
}

fn annotations(metadata: &Fields) -> Option<Fault> {
    let annotations = metadata.get("annotations")?.as_object()?;
    let field = "metadata.annotations";
    let of_key = annotations
        .keys()
        .find_map(|key| Some(fault(field, key, &key_fault(&key.to_lowercase())?)));
    of_key.or_else(|| {
        let size =
            |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or_default().len();
        let is_large = annotations.iter().map(size).sum::<usize>() > MOST_ANNOTATIONS;
        let why = format!("Too long: may not be more than {MOST_ANNOTATIONS} bytes");
        is_large.then(|| (field.to_owned(), why))
    })
}

/// Returns the fault of a finalizer without a domain. Custom resources can have such finalizers.
fn finalizers(resource: &Resource, draft: &Draft) -> Option<Fault> {
    let is_invalid = |name: &str| !STANDARD.contains(&name) && !name.contains('/');
    draft.finalizers().enumerate().find_map(|(at, name)| {
        let field = format!("metadata.finalizers[{at}]");
        let why = key_fault(name).or_else(|| {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            (is_invalid(name) && !resource.is_custom()).then(|| why.to_owned())
        })?;
        Some(fault(&field, name, &why))
    })
}

fn owners(metadata: &Fields) -> Option<Fault> {
    let owners = metadata.get("ownerReferences")?.as_array()?;
    let owners: Vec<&Fields> = owners.iter().filter_map(Value::as_object).collect();
    let field = "metadata.ownerReferences";
    for owner in &owners {
        for name in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, name).is_empty() {
                let field = format!("{field}.{name}");
                return Some(fault(&field, "", "must not be empty"));
            }
        }
    }
    let controls = |owner: &&&Fields| owner.get("controller") == Some(&Value::Bool(true));
    let names = |owner: &&Fields| format!("{}/{}", text(owner, "kind"), text(owner, "name"));
    let controllers: Vec<String> = owners.iter().filter(controls).map(names).collect();
    match controllers.as_slice() {
        [first, second, ..] => {
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
            );
            Some(fault(field, "", &why))
        }
        _ => None,
    }
}

/// Returns the reason why a key of a label or annotation, or a finalizer, is invalid.
fn key_fault(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Some(format!("prefix part {SUBDOMAIN}"));
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > LONGEST_WORD {
        return Some(format!("name part must be no more than {LONGEST_WORD} bytes"));
    }
    (!is_word(name)).then(|| format!("name part {WORD}"))
}

/// Returns whether a string has only letters, digits, `-`, `_` and `.`, and neither begins nor ends
/// with one of the last three.
fn is_word(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Returns whether a string is the name of a DNS subdomain, as the names of most objects are.
fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        is_word(label)
            && label
                .bytes()
                .all(|byte| byte == b'-' || byte.is_ascii_digit() || byte.is_ascii_lowercase())
    };
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{check, check_new};
    use crate::Resource;
    use crate::object::{Draft, Fields};

    fn is_valid(field: &str, value: &Value) -> bool {
        let pods = Resource::pods();
        let draft = Draft::new(json!({ "metadata": { field: value } }), &pods).unwrap();
        let checked = check(&pods, "a", &Fields::new(), &draft);
        let is_same = check(&pods, "a", &draft.metadata, &draft).is_ok();
        assert!(is_same, "unchanged metadata is accepted");
        if let Err(status) = &checked {
            assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        }
        checked.is_ok()
    }

    #[test]
    fn labels_and_annotations_have_short_words() {
        let (longest, longer) = ("a".repeat(63), "a".repeat(64));
        for (key, value) in [("a", ""), ("a.b-c/D_e.f", "X-1_y.z"), (&longest, &longest)] {
            assert!(is_valid("labels", &json!({ key: value })), "{key}: {value}");
            assert!(is_valid("annotations", &json!({ key: "any text" })), "{key}");
        }
        for key in ["", "a b", "-a", "a.", "a/", "/a", "A.b/c", "a..b/c", "a/b/c", &longer] {
            assert!(!is_valid("labels", &json!({ key: "" })), "{key}");
            assert!(is_valid("annotations", &json!({ key: "" })) == (key == "A.b/c"), "{key}");
        }
        for value in ["b c", "-b", "b.", &longer] {
            assert!(!is_valid("labels", &json!({ "a": value })), "{value}");
        }
        assert!(!is_valid("annotations", &json!({ "a": "x".repeat(256 << 10) })));
    }

    #[test]
    fn finalizers_have_a_domain_and_owners_are_complete() {
        for name in ["orphan", "foregroundDeletion", "kubernetes", "example.com/a"] {
            assert!(is_valid("finalizers", &json!([name])), "{name}");
        }
        assert!(!is_valid("finalizers", &json!(["example.com/a", "b"])));
        let owner = |uid: &str, controls: bool| {
            let mut owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "a" });
            (owner["uid"], owner["controller"]) = (uid.into(), controls.into());
            owner
        };
        let valid = [owner("x", true), owner("y", false)];
        assert!(is_valid("ownerReferences", &json!(valid)));
        assert!(!is_valid("ownerReferences", &json!([owner("", false)])));
        assert!(!is_valid("ownerReferences", &json!([owner("x", true), owner("y", true)])));
    }

    #[test]
    fn most_objects_have_the_name_of_a_subdomain() {
        let draft = |resource| Draft::new(json!({}), resource).unwrap();
        let pods = Resource::pods();
        let roles = Resource::known().find(|resource| resource.plural() == "clusterroles").unwrap();
        for name in ["UPPER", "a_b", "-a", "a..b", "a:b"] {
            assert!(check_new(&pods, name, &draft(&pods)).is_err(), "{name}");
            assert!(check_new(&roles, name, &draft(&roles)).is_ok(), "{name}");
        }
        for name in ["a", "a.b", "0-1.example.com"] {
            assert!(check_new(&pods, name, &draft(&pods)).is_ok(), "{name}");
        }
    }
}
