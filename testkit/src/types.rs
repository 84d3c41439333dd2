//! The types of metadata fields. The real server refuses other types when it decodes an object.

use serde_json::Value;

use crate::object::Fields;

/// The type of a value. Null is a value of each type.
enum Type {
    Any,
    String,
    Integer,
    Boolean,
    Time,
    List(&'static Self),
    /// A map whose values have one type.
    Map(&'static Self),
    /// An object with these fields.
    Object(&'static [(&'static str, Self)]),
    /// An object with these fields. An applied one can have others.
    Open(&'static [(&'static str, Self)]),
}

const METADATA: [(&str, Type); 15] = [
    ("annotations", Type::Map(&Type::String)),
    ("creationTimestamp", Type::Time),
    ("deletionGracePeriodSeconds", Type::Integer),
    ("deletionTimestamp", Type::Time),
    ("finalizers", Type::List(&Type::String)),
    ("generateName", Type::String),
    ("generation", Type::Integer),
    ("labels", Type::Map(&Type::String)),
    ("managedFields", Type::List(&Type::Open(&MANAGER))),
    ("name", Type::String),
    ("namespace", Type::String),
    ("ownerReferences", Type::List(&Type::Object(&OWNER))),
    ("resourceVersion", Type::String),
    ("selfLink", Type::String),
    ("uid", Type::String),
];

const MANAGER: [(&str, Type); 7] = [
    ("apiVersion", Type::String),
    ("fieldsType", Type::String),
    ("fieldsV1", Type::Any),
    ("manager", Type::String),
    ("operation", Type::String),
    ("subresource", Type::String),
    ("time", Type::Time),
];

const OWNER: [(&str, Type); 6] = [
    ("apiVersion", Type::String),
    ("blockOwnerDeletion", Type::Boolean),
    ("controller", Type::Boolean),
    ("kind", Type::String),
    ("name", Type::String),
    ("uid", Type::String),
];

/// Returns the message about a metadata field of another type. A field that is equal in the
/// metadata before is not checked, because a test can have stored it.
pub(crate) fn fault(metadata: &Fields, before: &Fields) -> Option<String> {
    METADATA.iter().find_map(|(name, expected)| {
        let value = metadata.get(*name).filter(|value| before.get(*name) != Some(value))?;
        Some(format!("metadata.{name}{}", expected.fault(value)?))
    })
}

/// Returns the message about a field of a configuration's metadata that Kubernetes does not have.
pub(crate) fn undeclared(metadata: &Fields) -> Option<String> {
    Some(format!(".metadata{}: field not declared in schema", undeclared_in(&METADATA, metadata)?))
}

/// Removes the fields that Kubernetes does not have. The real server does not read them.
pub(crate) fn prune(metadata: &mut Fields) {
    prune_object(&METADATA, metadata);
}

fn undeclared_in(fields: &[(&str, Type)], map: &Fields) -> Option<String> {
    map.iter().find_map(|(name, value)| match declared(fields, name) {
        None => Some(format!(".{name}")),
        Some(of) => Some(format!(".{name}{}", of.undeclared(value)?)),
    })
}

fn prune_object(fields: &[(&str, Type)], map: &mut Fields) {
    map.retain(|name, value| {
        let of = declared(fields, name);
        of.inspect(|of| of.prune(value)).is_some()
    });
}

fn declared<'a>(fields: &'a [(&str, Type)], name: &str) -> Option<&'a Type> {
    fields.iter().find(|(known, _)| *known == name).map(|(_, of)| of)
}

impl Type {
    /// Returns the path inside a value to a field that is not declared.
    fn undeclared(&self, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::List(of), Value::Array(list)) => {
                let mut items = list.iter().enumerate();
                items.find_map(|(at, item)| Some(format!("[{at}]{}", of.undeclared(item)?)))
            }
            (Self::Object(fields), Value::Object(map)) => undeclared_in(fields, map),
            _ => None,
        }
    }

    fn prune(&self, value: &mut Value) {
        match (self, value) {
            (Self::List(of), Value::Array(list)) => {
                for item in list {
                    of.prune(item);
                }
            }
            (Self::Object(fields) | Self::Open(fields), Value::Object(map)) => {
                prune_object(fields, map);
            }
            _ => {}
        }
    }

    /// Returns the path inside a value to a part of another type, and the message about it.
    fn fault(&self, value: &Value) -> Option<String> {
        let title = match (self, value) {
            (Self::Any, _)
            | (_, Value::Null)
            | (Self::String, Value::String(_))
            | (Self::Boolean, Value::Bool(_)) => return None,
            (Self::Integer, Value::Number(number)) if number.is_i64() => return None,
            (Self::Time, Value::String(time)) if time.parse::<jiff::Timestamp>().is_ok() => {
                return None;
            }
            (Self::List(of), Value::Array(list)) => {
                let mut items = list.iter().enumerate();
                return items.find_map(|(at, item)| Some(format!("[{at}]{}", of.fault(item)?)));
            }
            (Self::Map(of), Value::Object(map)) => {
                let mut items = map.iter();
                return items.find_map(|(key, item)| Some(format!("[{key:?}]{}", of.fault(item)?)));
            }
            (Self::Object(fields) | Self::Open(fields), Value::Object(map)) => {
                return fields
                    .iter()
                    .find_map(|(name, of)| Some(format!(".{name}{}", of.fault(map.get(*name)?)?)));
            }
            (Self::String, _) => "a string",
            (Self::Integer, _) => "an integer",
            (Self::Boolean, _) => "a boolean",
            (Self::Time, _) => "a time, as in RFC 3339",
            (Self::List(_), _) => "a list",
            (Self::Map(_), _) => "a map",
            (Self::Object(_) | Self::Open(_), _) => "an object",
        };
        Some(format!(" must be {title}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{fault, prune, undeclared};
    use crate::object::Fields;

    fn metadata(field: &str, value: Value) -> Fields {
        Fields::from_iter([(field.to_owned(), value)])
    }

    #[test]
    fn message_has_the_path_to_the_value_and_its_type() {
        for (field, value, expected) in [
            ("labels", json!("x"), "metadata.labels must be a map"),
            ("labels", json!({ "a": "", "b": 1 }), "metadata.labels[\"b\"] must be a string"),
            ("finalizers", json!(["a", {}]), "metadata.finalizers[1] must be a string"),
            ("ownerReferences", json!(["x"]), "metadata.ownerReferences[0] must be an object"),
            (
                "ownerReferences",
                json!([{ "controller": "x" }]),
                "metadata.ownerReferences[0].controller must be a boolean",
            ),
            ("managedFields", json!({}), "metadata.managedFields must be a list"),
            (
                "managedFields",
                json!([{ "manager": 1 }]),
                "metadata.managedFields[0].manager must be a string",
            ),
            ("generation", json!(1.5), "metadata.generation must be an integer"),
            (
                "creationTimestamp",
                json!("today"),
                "metadata.creationTimestamp must be a time, as in RFC 3339",
            ),
        ] {
            let metadata = metadata(field, value);
            assert_eq!(fault(&metadata, &Fields::new()).as_deref(), Some(expected));
            assert_eq!(fault(&metadata, &metadata), None, "unchanged metadata is accepted");
        }
    }

    #[test]
    fn fields_that_kubernetes_does_not_have_are_found_and_removed() {
        let owner = json!([{ "uid": "x" }, { "uid": "y", "other": 1 }]);
        for (field, value, path, left) in [
            ("other", json!(null), ".other", None),
            (
                "ownerReferences",
                owner,
                ".ownerReferences[1].other",
                Some(json!([{ "uid": "x" }, { "uid": "y" }])),
            ),
            ("labels", json!({ "other": "x" }), "", Some(json!({ "other": "x" }))),
            (
                "managedFields",
                json!([{ "fieldsV1": { "f:other": {} } }]),
                "",
                Some(json!([{ "fieldsV1": { "f:other": {} } }])),
            ),
        ] {
            let mut metadata = metadata(field, value);
            let expected = format!(".metadata{path}: field not declared in schema");
            assert_eq!(undeclared(&metadata), (!path.is_empty()).then_some(expected));
            prune(&mut metadata);
            assert_eq!(metadata.get(field), left.as_ref());
        }
    }

    #[test]
    fn null_is_a_value_of_each_type() {
        for (field, value) in [
            ("labels", Value::Null),
            ("labels", json!({ "a": null })),
            ("finalizers", json!([null])),
            ("ownerReferences", json!([null, { "controller": null }])),
            ("creationTimestamp", Value::Null),
            ("generation", Value::Null),
        ] {
            assert_eq!(fault(&metadata(field, value), &Fields::new()), None, "{field}");
        }
    }
}
