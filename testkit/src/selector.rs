//! The filter of a list or watch: its namespace, labels, fields and shards.

use deltafifo::Selector;
use serde_json::Value;

use crate::Resource;
use crate::object::Object;
use crate::request::Request;
use crate::shards::Shards;
use crate::status::{self, Refused};

/// The namespace, labels, fields and shards that a request selects.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    namespace: Option<String>,
    labels: Option<Selector>,
    fields: Vec<Term>,
    shards: Option<Shards>,
}

/// A condition on one field.
#[derive(Debug)]
struct Term {
    field: Field,
    is: bool,
    value: String,
}

#[derive(Debug)]
enum Field {
    Name,
    Namespace,
    /// A field of the object, and its value in an object without it.
    Other(Vec<String>, String),
}

impl Field {
    /// Returns whether the field of the object has this value.
    fn is(&self, object: &Object, value: &str) -> bool {
        match self {
            Self::Name => object.key.name == value,
            Self::Namespace => object.key.namespace == value,
            Self::Other(path, missing) => match object.draft.at(path.iter().map(String::as_str)) {
                None | Some(Value::Null) => missing == value,
                Some(Value::String(known)) => known == value,
                Some(Value::Bool(known)) => value == if *known { "true" } else { "false" },
                Some(known) => known.as_i64().is_some_and(|known| value.parse() == Ok(known)),
            },
        }
    }
}

impl Filter {
    /// Reads the namespace, labels and fields of a request.
    pub(crate) fn read(request: &Request, resource: &Resource) -> Refused<Self> {
        let text = |name| request.parameter(name).filter(|text| !text.is_empty());
        let labels =
            text("labelSelector").map(str::parse::<Selector>).transpose().map_err(|error| {
                status::bad_request(&format!("unable to parse labelSelector: {error}"))
            })?;
        let fields = text("fieldSelector").map(|text| terms(text, resource)).transpose()?;
        let fields = fields.unwrap_or_default();
        Ok(Self { namespace: request.namespace().map(str::to_owned), labels, fields, shards: None })
    }

    /// Returns the filter of the objects of these shards, or of all shards.
    pub(crate) fn of(self, shards: Option<Shards>) -> Self {
        Self { shards, ..self }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn shards(&self) -> Option<&Shards> {
        self.shards.as_ref()
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.namespace.is_none() && !self.has_selectors()
    }

    pub(crate) fn has_selectors(&self) -> bool {
        self.has_terms() || self.shards.is_some()
    }

    /// Returns whether the filter selects by labels or fields.
    pub(crate) fn has_terms(&self) -> bool {
        self.labels.is_some() || !self.fields.is_empty()
    }

    /// Returns the filter without its selectors.
    pub(crate) fn unselected(&self) -> Self {
        Self { namespace: self.namespace.clone(), ..Self::default() }
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        let key = &object.key;
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(|label| object.label(label)))
            && self.fields.iter().all(|Term { field, is, value }| field.is(object, value) == *is)
            && self.shards.as_ref().is_none_or(|shards| shards.contains(object))
    }
}

/// Parses a field selector such as `metadata.name=web,metadata.namespace!=shop`.
fn terms(text: &str, resource: &Resource) -> Refused<Vec<Term>> {
    text.split(',').filter(|text| !text.is_empty()).map(|text| term(text, resource)).collect()
}

fn term(text: &str, resource: &Resource) -> Refused<Term> {
    let (name, is, value) = ["!=", "==", "="]
        .iter()
        .find_map(|sign| text.split_once(sign).map(|(name, value)| (name, *sign != "!=", value)))
        .ok_or_else(|| {
            status::bad_request(&format!("invalid selector: '{text}'; can't understand '{text}'"))
        })?;
    let field = match name {
        "metadata.name" => Field::Name,
        "metadata.namespace" => Field::Namespace,
        _ => match resource.fields().iter().find(|(known, _)| known == name) {
            Some((_, missing)) => {
                Field::Other(name.split('.').map(str::to_owned).collect(), missing.clone())
            }
            None => return Err(Box::new(status::bad_request(&unsupported(name, resource)))),
        },
    };
    Ok(Term { field, is, value: value.to_owned() })
}

/// Returns the message for a field that the resource cannot select by. The real server has another
/// message for resources that can select by name and namespace only.
fn unsupported(name: &str, resource: &Resource) -> String {
    if resource.is_custom() || !resource.fields().is_empty() {
        return format!("field label not supported: {name}");
    }
    format!(
        "{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    )
}
