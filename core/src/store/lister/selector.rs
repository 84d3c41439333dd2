//! Label selectors: matching and text.

use std::fmt;
use std::str::FromStr;

use super::{label, parse};
use crate::SelectorError;

/// A label selector (Kubernetes' `labels.Selector`): requirements that an object's labels must all
/// meet.
///
/// | text | an object matches if its label |
/// | --- | --- |
/// | `a=b`, `a==b` | has the value `b` |
/// | `a!=b` | does not exist, or has another value than `b` |
/// | `a in (x, y)` | has one of these values |
/// | `a notin (x, y)` | does not exist, or has none of these values |
/// | `a` | exists |
/// | `!a` | does not exist |
/// | `a>5`, `a<5` | is a whole number above or below this one |
///
/// Requirements are joined by commas. The empty selector matches everything. A value may be empty:
/// `a=`, `a in (x,)`. A selector is displayed in one form, with the keys in order, whatever it was
/// parsed from.
///
/// ```
/// use deltafifo::Selector;
///
/// let selector: Selector = "tier notin (back), app == web".parse()?;
/// assert_eq!(selector.to_string(), "app=web,tier!=back");
/// assert!(selector.matches(|key| (key == "app").then_some("web")));
///
/// let error = "app ist web".parse::<Selector>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "character 5 of the selector: found \"ist\", expected =, ==, !=, in, notin, > or <"
/// );
/// # Ok::<(), deltafifo::SelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The requirements, sorted.
    requirements: Vec<Requirement>,
}

/// The requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Test {
    /// The label has one of these values. They are sorted and distinct.
    In(Vec<String>),
    /// The label is absent, or has a value that is not among these. They are sorted and distinct.
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl Requirement {
    pub(super) fn new(key: String, mut test: Test) -> Result<Self, SelectorError> {
        label::check_key(&key)?;
        if let Test::In(values) | Test::NotIn(values) = &mut test {
            values.iter().try_for_each(|value| label::check_value(&key, value))?;
            values.sort_unstable();
            values.dedup();
        }
        Ok(Self { key, test })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let is_one_of =
            |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => is_one_of(values),
            Test::NotIn(values) => !is_one_of(values),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl Selector {
    /// Creates a selector that requires all of `labels` with these values (client-go
    /// `SelectorFromSet`), as the selector of a Service does. Without labels it matches
    /// everything.
    ///
    /// # Errors
    /// [`SelectorError::Key`], [`SelectorError::Value`]: a key or value is not valid in a label.
    #[doc(alias = "SelectorFromSet")]
    pub fn of_labels<K: Into<String>, V: Into<String>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SelectorError> {
        let requirement =
            |(key, value): (K, V)| Requirement::new(key.into(), Test::In(vec![value.into()]));
        Ok(Self::all(labels.into_iter().map(requirement).collect::<Result<_, _>>()?))
    }

    pub(super) fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_unstable();
        Self { requirements }
    }

    /// Returns the labels that must have one of some values, with these values.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.requirements.iter().filter_map(|Requirement { key, test }| match test {
            Test::In(values) => Some((&**key, &**values)),
            _ => None,
        })
    }

    /// Returns whether the labels of an object match. `label` returns the value of a key, or `None`
    /// if there is no such label.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parse::selector(text)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, requirement) in self.requirements.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0]),
            Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values[0]),
            Test::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Test::Exists => write!(f, "{key}"),
            Test::Absent => write!(f, "!{key}"),
            Test::Above(bound) => write!(f, "{key}>{bound}"),
            Test::Below(bound) => write!(f, "{key}<{bound}"),
        }
    }
}
