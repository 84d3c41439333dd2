//! The types of metadata fields. The real server refuses other types when it decodes an object.

use serde_json::Value;

use crate::object::Fields;

/// The type of a value. Null is a value of each type.
enum Type {
    String,
    Integer,
    Boolean,
    Time,
    List(&'static Self),
    /// A map whose values have one type.
    Map(&'static Self),
    /// An object with these fields. It can have others.
    Object(&'static [(&'static str, Self)]),
}

const METADATA: [(&str, Type); 14] = [
    ("annotations", Type::Map(&Type::String)),
    ("creationTimestamp", Type::Time),
    ("deletionGracePeriodSeconds", Type::Integer),
    ("deletionTimestamp", Type::Time),
    ("finalizers", Type::List(&Type::String)),
    ("generateName", Type::String),
    ("generation", Type::Integer),
    ("labels", Type::Map(&Type::String)),
    ("managedFields", Type::List(&Type::Object(&[]))),
    ("name", Type::String),
    ("namespace", Type::String),
    ("ownerReferences", Type::List(&Type::Object(&OWNER))),
    ("resourceVersion", Type::String),
    ("uid", Type::String),
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

impl Type {
    /// Returns the path inside a value to a part of another type, and the message about it.
    fn fault(&self, value: &Value) -> Option<String> {
        let title = match (self, value) {
            (_, Value::Null)
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
            (Self::Object(fields), Value::Object(map)) => {
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
            (Self::Object(_), _) => "an object",
        };
        Some(format!(" must be {title}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::fault;
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
