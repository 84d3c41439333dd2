//! Which objects of a kind.

use std::collections::BTreeSet;

use kube::Resource;

use crate::lister_watcher::resource;

/// Which objects of a kind an informer is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    pub(super) namespace: Option<String>,
    /// Sorted: the order in which they are said makes no other scope.
    pub(super) query: BTreeSet<(String, String)>,
}

impl Scope {
    /// Objects of all namespaces.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Objects of one namespace; of `""`, of all (client-go `NamespaceAll`).
    #[must_use]
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()).filter(|namespace: &String| !namespace.is_empty()), ..Self::default() }
    }

    /// Of those, the ones with these labels. Said again, with those, too.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        self.query("labelSelector", selector)
    }

    /// Of those, the ones with these fields. Said again, with those, too.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.query("fieldSelector", selector)
    }

    /// Adds to the query of every list and watch (client-go `TweakListOptions`); a selector to the one that is there.
    #[must_use]
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.insert((key.into(), value.into()));
        self
    }

    /// The query as it is sent. Of a selector that is there twice a server reads the first only, so the two become one.
    pub(super) fn parameters(&self) -> Vec<(String, String)> {
        let mut all = Vec::<(String, String)>::new();
        for (key, value) in &self.query {
            let is_selector = ["labelSelector", "fieldSelector"].contains(&key.as_str());
            match all.last_mut().filter(|(before, _)| is_selector && before == key) {
                // The empty one, which comes first, selects everything.
                Some((_, before)) if before.is_empty() => before.clone_from(value),
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
            text.push_str(&form_urlencoded::Serializer::new(String::new()).append_pair(key, value).finish());
        }
        text
    }
}

/// What an informer of it is called in errors: `pods.v1`, `deployments.v1.apps in shop?labelSelector=app%3Dweb`.
pub(super) fn name<K: Resource>(types: &K::DynamicType, scope: &Scope) -> String {
    let mut name = resource::<K>(types);
    if let Some(namespace) = &scope.namespace {
        name = format!("{name} in {namespace}");
    }
    name.push_str(&scope.query_text());
    name
}
