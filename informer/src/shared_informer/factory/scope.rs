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

    /// Objects of one namespace.
    #[must_use]
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    /// Of those, the ones with these labels.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        self.query("labelSelector", selector)
    }

    /// Of those, the ones with these fields.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.query("fieldSelector", selector)
    }

    /// Adds to the query of every list and watch (client-go `TweakListOptions`).
    #[must_use]
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.insert((key.into(), value.into()));
        self
    }

    /// `?labelSelector=app%3Dweb`, or nothing.
    pub(super) fn query_text(&self) -> String {
        let mut text = String::new();
        for (number, (key, value)) in self.query.iter().enumerate() {
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
