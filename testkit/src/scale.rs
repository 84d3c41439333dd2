//! The subresource `scale`: the number of replicas of an object, as an object of its own.

use std::collections::BTreeMap;

use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::{Map, Value, json};

use crate::Resource;
use crate::object::{Draft, Fields, Object, text};
use crate::status::{self, Refused};

/// The metadata fields of an object that its scale has, too.
const SHARED: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

pub(crate) const API_VERSION: &str = "autoscaling/v1";

/// Returns the kind of scales.
pub(crate) fn resource() -> Resource {
    let api = ApiResource {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: "Scale".to_owned(),
        plural: "scales".to_owned(),
    };
    Resource::built_in(api, Scope::Namespaced)
}

/// The paths in a custom resource of the values in its scale: the path of the wanted replicas, that
/// of the running ones, and that of the selector, which can be empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Paths {
    wanted: String,
    running: String,
    selector: String,
}

/// The fields of a definition that have the paths.
const WANTED: &str = "specReplicasPath";
const RUNNING: &str = "statusReplicasPath";
const SELECTOR: &str = "labelSelectorPath";

impl Paths {
    /// Reads the subresource `scale` of a definition. Returns `None` if there is none.
    pub(crate) fn read(scale: &Value) -> Option<Self> {
        let text = |field: &str| scale.get(field).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            wanted: text(WANTED)?,
            running: text(RUNNING)?,
            selector: text(SELECTOR).unwrap_or_default(),
        })
    }

    /// Returns the names of the fields on the way to the wanted replicas.
    fn wanted(&self) -> impl Iterator<Item = &str> {
        steps(&self.wanted)
    }
}

/// Returns the names of the fields in a path, for example `spec` and `replicas`.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('.').split('.')
}

/// Returns the path of the number of replicas in objects of a kind with a scale.
pub(crate) fn path_of_replicas(resource: &Resource) -> Vec<&str> {
    match resource.scale_paths() {
        Some(paths) => paths.wanted().collect(),
        None => vec!["spec", "replicas"],
    }
}

/// Returns the field of the subresource `scale` of a definition that has an invalid path, and the
/// message about it.
pub(crate) fn fault_of_paths(scale: &Value) -> Option<(&'static str, String)> {
    let rules: [(_, &[&str], _); 3] = [
        (WANTED, &[".spec."], ".spec"),
        (RUNNING, &[".status."], ".status"),
        (SELECTOR, &[".spec.", ".status."], "either .spec or .status"),
    ];
    rules.into_iter().find_map(|(field, starts, title)| {
        let path = scale.get(field).and_then(Value::as_str).unwrap_or_default();
        let fault = if path.is_empty() {
            (field != SELECTOR).then(|| "Required value".to_owned())
        } else if !path.starts_with('.') {
            let why = "must be a simple json path starting with .";
            Some(format!("Invalid value: {path:?}: {why}"))
        } else if !starts.iter().any(|start| path.starts_with(start)) {
            Some(format!("Invalid value: {path:?}: should be a json path under {title}"))
        } else {
            None
        };
        Some((field, fault?))
    })
}

/// Returns the scale of an object, for a response that must have a number of replicas. Refuses the
/// request if the object is a custom resource without one, as the real server does.
pub(crate) fn shown(object: &Object, resource: &Resource) -> Refused<Value> {
    match resource.scale_paths() {
        Some(paths) if object.draft.at(paths.wanted()).and_then(Value::as_i64).is_none() => {
            let why = format!("the spec replicas field {:?} does not exist", paths.wanted);
            Err(Box::new(status::internal_error(&why)))
        }
        _ => Ok(of(object, resource)),
    }
}

/// Returns the scale of an object. An object of a built-in kind without a number of replicas has
/// 1, which the real server writes into it.
pub(crate) fn of(object: &Object, resource: &Resource) -> Value {
    let draft = &object.draft;
    let number = |value: Option<&Value>| value.and_then(Value::as_i64);
    let (wanted, running, selector) = match resource.scale_paths() {
        Some(Paths { wanted, running, selector }) => (
            number(draft.at(steps(wanted))).unwrap_or_default(),
            number(draft.at(steps(running))),
            draft.at(steps(selector)).and_then(Value::as_str).unwrap_or_default().to_owned(),
        ),
        None => (
            number(draft.at(["spec", "replicas"])).unwrap_or(1),
            number(draft.at(["status", "replicas"])),
            selector_of(draft.at(["spec", "selector"]).unwrap_or(&Value::Null)),
        ),
    };
    let shared = SHARED
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), draft.metadata.get(*field)?.clone())));
    let metadata: Map<String, Value> = shared.collect();
    let mut spec = json!({});
    if wanted != 0 {
        spec["replicas"] = wanted.into();
    }
    let mut status = json!({ "replicas": running.unwrap_or_default() });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": API_VERSION,
        "metadata": metadata, "spec": spec, "status": status,
    })
}

/// Returns a label selector as the text of a query, in the order of keys.
fn selector_of(selector: &Value) -> String {
    let mut terms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        terms.entry(key.clone()).or_default().push(format!("{key}={value}"));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.entry(key.to_owned()).or_default().push(term);
    }
    terms.into_values().flatten().collect::<Vec<_>>().join(",")
}

/// Returns the number of replicas that the scale of an object of this kind asks for.
fn replicas(scale: &Draft, of: &Resource) -> Refused<i32> {
    let given = match scale.at(["spec", "replicas"]) {
        None | Some(Value::Null) => return Ok(0),
        Some(given) => given,
    };
    let number = given.as_i64().and_then(|number| i32::try_from(number).ok());
    let Some(number) = number else {
        let why = format!("Scale in version \"v1\" cannot be handled: spec.replicas is {given}");
        return Err(Box::new(status::bad_request(&why)));
    };
    if number < 0 {
        let name = text(&scale.metadata, "name");
        let why = format!("Invalid value: {number}:");
        return Err(Box::new(if let Some(paths) = of.scale_paths() {
            let fault = format!("{why} should be a non-negative integer");
            status::invalid(of, name, &paths.wanted, &fault)
        } else {
            let fault = format!("{why} must be greater than or equal to 0");
            status::invalid(&resource(), name, "spec.replicas", &fault)
        }));
    }
    Ok(number)
}

/// Returns the object with the number of replicas of a scale. Its name, uid and version are those
/// of the scale, which are checked as in other writes.
pub(crate) fn scaled(object: &Draft, scale: &Draft, resource: &Resource) -> Refused<Draft> {
    let mut draft = object.clone();
    draft.metadata.retain(|field, _| !SHARED.contains(&field.as_str()));
    draft.metadata.extend(shared(scale));
    let number = replicas(scale, resource)?;
    set(&mut draft.rest, &path_of_replicas(resource), number)?;
    Ok(draft)
}

/// Sets the number at a path, and makes the maps on the way.
fn set(fields: &mut Fields, path: &[&str], number: i32) -> Refused<()> {
    let [name, rest @ ..] = path else { return Ok(()) };
    if rest.is_empty() {
        fields.insert((*name).to_owned(), number.into());
        return Ok(());
    }
    match fields.entry(*name).or_insert_with(|| json!({})) {
        Value::Object(below) => set(below, rest, number),
        other => {
            let why = format!("the number of replicas cannot be set because {name} is {other}");
            Err(Box::new(status::internal_error(&why)))
        }
    }
}

/// Returns the metadata that an object and its scale have.
fn shared(scale: &Draft) -> Fields {
    let mut metadata = scale.metadata.clone();
    metadata.retain(|field, _| SHARED.contains(&field.as_str()));
    metadata
}

/// Returns the configuration of an object of a built-in kind that applies a scale: its identity
/// and the number of replicas.
pub(crate) fn configuration(scale: &Draft, resource: &Resource) -> Refused<Draft> {
    let mut rest = Map::new();
    rest.insert("spec".to_owned(), json!({ "replicas": replicas(scale, resource)? }));
    Ok(Draft { metadata: shared(scale), rest })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Paths, fault_of_paths, of, scaled, selector_of, shown};
    use crate::Resource;
    use crate::object::{Draft, Key};

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "key": key, "operator": operator, "values": values })
    }

    #[test]
    fn selector_is_a_text_in_the_order_of_keys() {
        let expressions = [
            expression("z", "In", &["q", "b"]),
            expression("y", "Exists", &[]),
            expression("w", "DoesNotExist", &[]),
            expression("v", "NotIn", &["b", "a"]),
            expression("u", "In", &["one"]),
        ];
        let labels = json!({ "b": "1", "app": "web" });
        let text = selector_of(&json!({ "matchLabels": labels, "matchExpressions": expressions }));
        assert_eq!(text, "app=web,b=1,u in (one),v notin (a,b),!w,y,z in (b,q)");
    }

    #[test]
    fn scale_of_a_custom_resource_has_the_values_at_its_paths() {
        let paths = json!({
            "specReplicasPath": ".spec.deep.count", "statusReplicasPath": ".status.count",
            "labelSelectorPath": ".status.selector",
        });
        assert_eq!(fault_of_paths(&paths), None);
        let kind = Resource::pods().with_scale(Paths::read(&paths));
        let draft = |json| Draft::new(json, &kind).unwrap();
        let empty = draft(json!({}));
        let refused = shown(&empty.clone().seal(Key::default(), 1), &kind).unwrap_err();
        assert_eq!(refused.code, 500);
        let two = draft(json!({ "spec": { "replicas": 2 } }));
        let mut made = scaled(&empty, &two, &kind).unwrap();
        assert_eq!(made.rest["spec"], json!({ "deep": { "count": 2 } }));
        made.rest.insert("status".to_owned(), json!({ "count": 1, "selector": "app=web" }));
        let scale = shown(&made.seal(Key::default(), 1), &kind).unwrap();
        assert_eq!(scale["spec"], json!({ "replicas": 2 }));
        assert_eq!(scale["status"], json!({ "replicas": 1, "selector": "app=web" }));
        let other = draft(json!({ "spec": { "deep": 1 } }));
        assert_eq!(scaled(&other, &two, &kind).unwrap_err().code, 500);
    }

    #[test]
    fn paths_of_a_scale_are_below_specification_and_status() {
        let fault = |wanted: &str, running: &str, selector: &str| {
            let paths = json!({
                "specReplicasPath": wanted, "statusReplicasPath": running,
                "labelSelectorPath": selector,
            });
            fault_of_paths(&paths).map(|(field, _)| field)
        };
        for (wanted, running, selector, expected) in [
            (".spec.a", ".status.a", "", None),
            (".spec.a.b", ".status.a", ".spec.c", None),
            ("", ".status.a", "", Some("specReplicasPath")),
            ("spec.a", ".status.a", "", Some("specReplicasPath")),
            (".status.a", ".status.a", "", Some("specReplicasPath")),
            (".spec.a", ".spec.a", "", Some("statusReplicasPath")),
            (".spec.a", ".status.a", ".metadata.c", Some("labelSelectorPath")),
        ] {
            assert_eq!(fault(wanted, running, selector), expected, "{wanted} {running} {selector}");
        }
    }

    #[test]
    fn object_without_replicas_has_one_and_zero_is_left_out() {
        let scale = |spec| {
            let draft = Draft::new(json!({ "spec": spec }), &Resource::pods()).unwrap();
            of(&draft.seal(Key::default(), 1), &Resource::pods())
        };
        assert_eq!(scale(json!({}))["spec"], json!({ "replicas": 1 }));
        assert_eq!(scale(json!({ "replicas": 0 }))["spec"], json!({}));
        assert_eq!(scale(json!({}))["status"], json!({ "replicas": 0 }));
    }
}
