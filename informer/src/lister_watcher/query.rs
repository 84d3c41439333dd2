//! Query parameters that a user adds to every list and watch.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use deltafifo::{Selector, SelectorError};

/// The parameter of label selectors.
pub(crate) const LABELS: &str = "labelSelector";
/// The parameter of field selectors.
pub(crate) const FIELDS: &str = "fieldSelector";

/// Parameters that the reflector sets in each request.
const RESERVED: [&str; 8] = [
    "allowWatchBookmarks",
    "continue",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];

/// The error of a query parameter that cannot be added to lists and watches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    /// The reflector sets this parameter in each request.
    #[error(
        "query parameter {key:?} is set by the reflector in each request; remove it, and configure the reflector's builder"
    )]
    Reserved {
        /// The name of the parameter.
        key: String,
    },
    /// The parameter was added with two values, and is not a selector, whose values could be
    /// joined.
    #[error(
        "query parameter {key:?} is added as {first:?} and as {second:?}, but a server reads only one; remove the other"
    )]
    Duplicate {
        /// The name of the parameter.
        key: String,
        /// The first value.
        first: String,
        /// The second value.
        second: String,
    },
    /// The label selector is invalid.
    #[error("label selector {selector:?} is invalid: {error}")]
    Labels {
        /// The selector, as it was set.
        selector: String,
        /// The error of the parser.
        error: SelectorError,
    },
    /// The field selector is invalid.
    #[error(
        "field selector {selector:?} is invalid: {term:?} {fault}; write it as in metadata.name=web,metadata.namespace!=shop"
    )]
    Fields {
        /// The selector, as it was set.
        selector: String,
        /// The term that is wrong.
        term: String,
        /// The reason, for the text of the error.
        fault: &'static str,
    },
}

/// Returns the terms of a field selector. A backslash escapes the next character. Empty terms are
/// omitted.
pub(crate) fn field_terms(selector: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    let is_between = move |character| {
        let escaped = std::mem::take(&mut is_escaped);
        is_escaped = !escaped && character == '\\';
        character == ',' && !escaped
    };
    selector.split(is_between).filter(|term| !term.is_empty())
}

/// Returns the fault of a term of a field selector, or `None` if it is valid (client-go's
/// `ParseSelector`).
fn fault_of_term(term: &str) -> Option<&'static str> {
    let value_at = |at| ["!=", "==", "="].iter().find_map(|sign| term[at..].strip_prefix(sign));
    let Some(value) = term.char_indices().find_map(|(at, _)| value_at(at)) else {
        return Some("has none of the operators =, == and !=");
    };
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if !matches!(characters.next(), Some('\\' | ',' | '=')) => {
                return Some("has a backslash before a character that needs none");
            }
            '=' => return Some("has a second = without a backslash before it"),
            _ => {}
        }
    }
    None
}

/// Checks the value of a selector. Other parameters have no syntax.
fn check(key: &str, value: &str) -> Result<(), QueryError> {
    match key {
        LABELS => value
            .parse::<Selector>()
            .map(drop)
            .map_err(|error| QueryError::Labels { selector: value.to_owned(), error }),
        FIELDS => {
            let fault = field_terms(value).find_map(|term| Some((term, fault_of_term(term)?)));
            fault.map_or(Ok(()), |(term, fault)| {
                let (selector, term) = (value.to_owned(), term.to_owned());
                Err(QueryError::Fields { selector, term, fault })
            })
        }
        _ => Ok(()),
    }
}

/// Query parameters by name, each with one value: a server reads only the first value of a
/// repeated parameter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Adds a parameter. Selectors that are added twice are joined, so that both apply.
    ///
    /// # Errors
    /// [`QueryError`]: the parameter is reserved, is an invalid selector, or was added with another
    /// value.
    pub(crate) fn add(&mut self, key: String, value: String) -> Result<(), QueryError> {
        if RESERVED.contains(&key.as_str()) {
            return Err(QueryError::Reserved { key });
        }
        check(&key, &value)?;
        match self.0.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(value)),
            Entry::Occupied(there) if *there.get() == value => {}
            Entry::Occupied(mut there) if [LABELS, FIELDS].contains(&there.key().as_str()) => {
                let before = there.get_mut();
                // An empty selector selects everything.
                if before.is_empty() {
                    *before = value;
                } else if !value.is_empty() {
                    *before = format!("{before},{value}");
                }
            }
            Entry::Occupied(there) => {
                let (key, first) = there.remove_entry();
                return Err(QueryError::Duplicate { key, first, second: value });
            }
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{FIELDS, LABELS, Query, QueryError, RESERVED};

    fn query(parameters: &[(&str, &str)]) -> Result<Vec<(String, String)>, QueryError> {
        let mut query = Query::default();
        for (key, value) in parameters {
            query.add((*key).to_owned(), (*value).to_owned())?;
        }
        Ok(query.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    #[test]
    fn selectors_are_joined() {
        for selector in [LABELS, FIELDS] {
            for (values, joined) in [
                (&["a=b", "c!=d,e==f"][..], "a=b,c!=d,e==f"),
                (&["", "a=b"], "a=b"),
                (&["a=b", ""], "a=b"),
                (&["a=b", "a=b"], "a=b"),
                (&["a=", "b!=", "c!=d"], "a=,b!=,c!=d"),
            ] {
                let parameters: Vec<_> = values.iter().map(|value| (selector, *value)).collect();
                assert_eq!(query(&parameters).unwrap(), [(selector.to_owned(), joined.to_owned())]);
            }
        }
    }

    #[test]
    fn invalid_selector_is_an_error_that_names_the_fault() {
        for (parameter, selector, fault) in [
            (LABELS, "app is web", "found \"is\""),
            (LABELS, "app in (web", "found the end"),
            (LABELS, "a b=c", "found"),
            (FIELDS, "metadata.name", "none of the operators"),
            (FIELDS, "metadata.name=a,spec", "\"spec\" has none"),
            (FIELDS, "metadata.name!a", "none of the operators"),
            (FIELDS, "a===b", "second ="),
            (FIELDS, "a=b=c", "second ="),
            (FIELDS, r"a=b\c", "backslash"),
            (FIELDS, r"a=b\", "backslash"),
        ] {
            let error = query(&[(parameter, selector)]).unwrap_err().to_string();
            assert!(error.contains(fault) && error.contains("selector"), "{error}");
        }
        for selector in ["", ",", "a=b", "a==b,", "a!=b,c=", r"a=b\,c\=d\\", "=b"] {
            assert_eq!(query(&[(FIELDS, selector)]).map(drop), Ok(()), "{selector}");
        }
    }

    #[test]
    fn other_parameter_with_two_values_is_an_error() {
        let error = query(&[("pretty", "true"), ("pretty", "false")]).unwrap_err();
        assert!(
            matches!(&error, QueryError::Duplicate { first, second, .. } if first == "true" && second == "false")
        );
        assert!(query(&[("pretty", "true"), ("pretty", "true"), ("dryRun", "All")]).is_ok());
    }

    #[test]
    fn parameter_of_the_reflector_is_an_error() {
        for key in RESERVED {
            assert_eq!(query(&[(key, "1")]), Err(QueryError::Reserved { key: key.to_owned() }));
        }
    }
}
