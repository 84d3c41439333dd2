//! The filter of a list or watch: its namespace, labels, fields and shards.

use deltafifo::Selector;

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
}

impl Filter {
    pub(crate) fn read(request: &Request, shards: Option<Shards>) -> Refused<Self> {
        let text = |name| request.parameter(name).filter(|text| !text.is_empty());
        let labels =
            text("labelSelector").map(str::parse::<Selector>).transpose().map_err(|error| {
                status::bad_request(&format!("unable to parse labelSelector: {error}"))
            })?;
        let fields = text("fieldSelector").map_or_else(|| Ok(Vec::new()), terms)?;
        Ok(Self { namespace: request.namespace().map(str::to_owned), labels, fields, shards })
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
        self.labels.is_some() || !self.fields.is_empty() || self.shards.is_some()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        let key = &object.key;
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(|label| object.label(label)))
            && self.fields.iter().all(|Term { field, is, value }| {
                let known = match field {
                    Field::Name => &key.name,
                    Field::Namespace => &key.namespace,
                };
                (known == value) == *is
            })
            && self.shards.as_ref().is_none_or(|shards| shards.contains(object))
    }
}

/// Parses a field selector such as `metadata.name=web,metadata.namespace!=shop`.
fn terms(text: &str) -> Refused<Vec<Term>> {
    text.split(',').filter(|term| !term.is_empty()).map(term).collect()
}

fn term(text: &str) -> Refused<Term> {
    let (name, is, value) = ["!=", "==", "="]
        .iter()
        .find_map(|sign| text.split_once(sign).map(|(name, value)| (name, *sign != "!=", value)))
        .ok_or_else(|| {
            status::bad_request(&format!("invalid selector: '{text}'; can't understand '{text}'"))
        })?;
    let field = match name {
        "metadata.name" => Field::Name,
        "metadata.namespace" => Field::Namespace,
        _ => {
            return Err(Box::new(status::bad_request(&format!(
                "field label not supported: {name}"
            ))));
        }
    };
    Ok(Term { field, is, value: value.to_owned() })
}
