//! The subresource `scale`: the number of replicas of an object, as an object of its own.

use std::collections::BTreeMap;

use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::{Map, Value, json};

use crate::Resource;
use crate::object::{Draft, Object};
use crate::status::{self, Refused};

/// The metadata fields of an object that its scale has, too.
const SHARED: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/// Returns the kind of scales.
pub(crate) fn resource() -> Resource {
    let api = ApiResource {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        api_version: "autoscaling/v1".to_owned(),
        kind: "Scale".to_owned(),
        plural: "scales".to_owned(),
    };
    Resource::built_in(api, Scope::Namespaced)
}

/// Returns the scale of an object. An object without a number of replicas has 1, which the real
/// server writes into it.
pub(crate) fn of(object: &Object) -> Value {
    let draft = &object.draft;
    let shared = SHARED
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), draft.metadata.get(*field)?.clone())));
    let metadata: Map<String, Value> = shared.collect();
    let wanted = draft.at(["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
    let mut spec = json!({});
    if wanted != 0 {
        spec["replicas"] = wanted.into();
    }
    let running = draft.at(["status", "replicas"]).and_then(Value::as_i64).unwrap_or_default();
    let mut status = json!({ "replicas": running });
    let selector = selector(draft.at(["spec", "selector"]).unwrap_or(&Value::Null));
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata, "spec": spec, "status": status,
    })
}

/// Returns a label selector as the text of a query, in the order of keys.
fn selector(selector: &Value) -> String {
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

/// Returns the number of replicas that a scale asks for.
fn replicas(scale: &Draft) -> Refused<i32> {
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
        let fault = format!("Invalid value: {number}: must be greater than or equal to 0");
        let name = scale.metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        return Err(Box::new(status::invalid(&resource(), name, "spec.replicas", &fault)));
    }
    Ok(number)
}

/// Returns the object with the number of replicas of a scale. Its name, uid and version are those
/// of the scale, which are checked as in other writes.
pub(crate) fn scaled(object: &Draft, scale: &Draft) -> Refused<Draft> {
    let mut draft = object.clone();
    let configuration = configuration(scale)?;
    draft.metadata.retain(|field, _| !SHARED.contains(&field.as_str()));
    draft.metadata.extend(configuration.metadata);
    let spec = draft.rest.entry("spec").or_insert_with(|| json!({}));
    if let (Value::Object(spec), Some(Value::Object(scaled))) =
        (spec, configuration.rest.get("spec"))
    {
        spec.extend(scaled.clone());
    }
    Ok(draft)
}

/// Returns the configuration of an object that applies a scale: its identity and the number of
/// replicas.
pub(crate) fn configuration(scale: &Draft) -> Refused<Draft> {
    let mut metadata = scale.metadata.clone();
    metadata.retain(|field, _| SHARED.contains(&field.as_str()));
    let mut rest = Map::new();
    rest.insert("spec".to_owned(), json!({ "replicas": replicas(scale)? }));
    Ok(Draft { metadata, rest })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{of, selector};
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
        let text = selector(&json!({ "matchLabels": labels, "matchExpressions": expressions }));
        assert_eq!(text, "app=web,b=1,u in (one),v notin (a,b),!w,y,z in (b,q)");
    }

    #[test]
    fn object_without_replicas_has_one_and_zero_is_left_out() {
        let scale = |spec| {
            let draft = Draft::new(json!({ "spec": spec }), &Resource::pods()).unwrap();
            of(&draft.seal(Key::default(), 1))
        };
        assert_eq!(scale(json!({}))["spec"], json!({ "replicas": 1 }));
        assert_eq!(scale(json!({ "replicas": 0 }))["spec"], json!({}));
        assert_eq!(scale(json!({}))["status"], json!({ "replicas": 0 }));
    }
}
