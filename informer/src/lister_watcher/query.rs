//! Query parameters that a user adds to every list and watch.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
}

/// Query parameters by name, each with one value: a server reads only the first value of a
/// repeated parameter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Adds a parameter. Selectors that are added twice are joined, so that both apply.
    ///
    /// # Errors
    /// [`QueryError`]: the parameter is reserved, or was added with another value.
    pub(crate) fn add(&mut self, key: String, value: String) -> Result<(), QueryError> {
        if RESERVED.contains(&key.as_str()) {
            return Err(QueryError::Reserved { key });
        }
        match self.0.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(value)),
            Entry::Occupied(there) if *there.get() == value => {}
            Entry::Occupied(mut there)
                if ["labelSelector", "fieldSelector"].contains(&there.key().as_str()) =>
            {
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
    use super::{Query, QueryError, RESERVED};

    fn query(parameters: &[(&str, &str)]) -> Result<Vec<(String, String)>, QueryError> {
        let mut query = Query::default();
        for (key, value) in parameters {
            query.add((*key).to_owned(), (*value).to_owned())?;
        }
        Ok(query.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    #[test]
    fn selectors_are_joined() {
        for selector in ["labelSelector", "fieldSelector"] {
            for (values, joined) in [
                (&["a=b", "c in (d,e)"][..], "a=b,c in (d,e)"),
                (&["", "a=b"], "a=b"),
                (&["a=b", ""], "a=b"),
                (&["a=b", "a=b"], "a=b"),
                (&["a", "!b", "c!=d"], "a,!b,c!=d"),
            ] {
                let parameters: Vec<_> = values.iter().map(|value| (selector, *value)).collect();
                assert_eq!(query(&parameters).unwrap(), [(selector.to_owned(), joined.to_owned())]);
            }
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
