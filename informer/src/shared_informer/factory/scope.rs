//! Which objects of a kind.

use std::collections::BTreeSet;

use deltafifo::Selector;
use kube::Resource;

use crate::lister_watcher::resource;
use crate::shared_informer::Namespaces;

/// Which objects of a kind an informer is of. Scopes that select the same by other words are
/// equal: requirements in another order, repeated, or spelled as `a == b` and `a in (b)`, and
/// selectors that are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    pub(super) namespace: Option<String>,
    pub(super) namespaces: Option<Namespaces>,
    /// Of selectors each requirement, in canonical form.
    query: BTreeSet<(String, String)>,
}

/// Parameters of which several values apply together, joined by commas.
const LABELS: &str = "labelSelector";
const FIELDS: &str = "fieldSelector";

impl Scope {
    /// Objects of all namespaces.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Objects of one namespace; of `""`, of all (client-go `NamespaceAll`).
    #[must_use]
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()).filter(|namespace: &String| !namespace.is_empty()),
            ..Self::default()
        }
    }

    /// Objects of the namespaces of a set, each of which is listed and watched separately: see
    /// [`Namespaces`]. Scopes are equal only if they are of the same set.
    #[must_use]
    pub fn namespaces(namespaces: &Namespaces) -> Self {
        Self { namespaces: Some(namespaces.clone()), ..Self::default() }
    }

    /// Selects the objects with these labels. Several calls apply together.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        self.query(LABELS, selector)
    }

    /// Selects the objects with these fields. Several calls apply together.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.query(FIELDS, selector)
    }

    /// Adds a parameter to the query of every list and watch (client-go `TweakListOptions`).
    /// Selectors apply together with those that are there. A factory refuses any other parameter
    /// with two values, and those that a reflector sets, such as `limit`, with
    /// [`FactoryError::Query`](crate::shared_informer::FactoryError::Query).
    #[must_use]
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        let values = match key.as_str() {
            LABELS => label_requirements(value),
            FIELDS => field_requirements(&value),
            _ => vec![value],
        };
        self.query.extend(values.into_iter().map(|value| (key.clone(), value)));
        self
    }

    /// Adds the query of another scope.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.query.extend(other.query.iter().cloned());
        self
    }

    /// Returns the query as it is sent, with one parameter for each selector: of two the API
    /// server reads the first only.
    pub(super) fn parameters(&self) -> Vec<(String, String)> {
        let mut all = Vec::<(String, String)>::new();
        for (key, value) in &self.query {
            let is_selector = [LABELS, FIELDS].contains(&key.as_str());
            match all.last_mut().filter(|(before, _)| is_selector && before == key) {
                Some((_, before)) => *before = format!("{before},{value}"),
                None => all.push((key.clone(), value.clone())),
            }
        }
        all
    }

    /// `?labelSelector=app%3Dweb`, or nothing.
    pub(super) fn query_text(&self) -> String {
        let mut text = String::new();
        for (number, (key, value)) in self.parameters().iter().enumerate() {
            text.push(if number == 0 { '?' } else { '&' });
            text.push_str(
                &form_urlencoded::Serializer::new(String::new()).append_pair(key, value).finish(),
            );
        }
        text
    }
}

/// What an informer of it is called in errors: `pods.v1`,
/// `deployments.v1.apps in shop?labelSelector=app%3Dweb`.
pub(super) fn name<K: Resource>(types: &K::DynamicType, scope: &Scope) -> String {
    let mut name = resource::<K>(types);
    if let Some(namespace) = &scope.namespace {
        name = format!("{name} in {namespace}");
    } else if let Some(namespaces) = &scope.namespaces {
        name = format!("{name} in {namespaces}");
    }
    name.push_str(&scope.query_text());
    name
}

/// Splits a label selector into requirements in canonical form. Text that is no selector stays as
/// it is, for the API server to refuse.
fn label_requirements(text: String) -> Vec<String> {
    let Ok(selector) = text.parse::<Selector>() else { return vec![text] };
    let mut depth = 0;
    let is_between = |character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        character == ',' && depth == 0
    };
    let text = selector.to_string();
    text.split(is_between)
        .filter(|requirement| !requirement.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Does the same for a field selector, in which a backslash escapes the next character, and empty
/// requirements do not count.
fn field_requirements(text: &str) -> Vec<String> {
    let mut is_escaped = false;
    let is_between = |character| {
        let escaped = std::mem::take(&mut is_escaped);
        is_escaped = !escaped && character == '\\';
        character == ',' && !escaped
    };
    text.split(is_between).filter(|one| !one.is_empty()).map(field_requirement).collect()
}

/// Writes `a==b` as `a=b`.
fn field_requirement(text: &str) -> String {
    match text.split_once("==") {
        // Not the second half of `!==`, nor a value that has the operator itself.
        Some((field, value)) if !field.contains(['=', '!']) && !value.starts_with('=') => {
            format!("{field}={value}")
        }
        _ => text.to_owned(),
    }
}
