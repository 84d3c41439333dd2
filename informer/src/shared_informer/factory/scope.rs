//! Scopes of informers: the objects of a kind that an informer has.

use std::collections::BTreeSet;

use deltafifo::Selector;

use crate::lister_watcher::{FIELDS, LABELS, field_terms};
use crate::shared_informer::Namespaces;

/// The objects of a kind that an informer has: all that match the selectors, in all or in some
/// namespaces. A scope can also name fields that the informer indexes. For the equality of scopes,
/// the order of requirements makes no difference, nor do repeated and empty requirements, and
/// `a = b`, `a == b` and `a in (b)` are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    pub(super) namespace: Option<String>,
    pub(super) namespaces: Option<Namespaces>,
    /// The parameters of the query. Each requirement of a selector is an entry of its own, in
    /// canonical form.
    query: BTreeSet<(String, String)>,
    /// The JSON pointers of the indexed fields.
    pub(super) indexed: BTreeSet<String>,
}

impl Scope {
    /// Returns the scope of the objects of all namespaces.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the scope of the objects of one namespace, or of all namespaces if `namespace` is
    /// `""` (client-go `NamespaceAll`).
    #[doc(alias = "NamespaceAll")]
    #[doc(alias = "WithNamespace")]
    #[must_use]
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()).filter(|namespace: &String| !namespace.is_empty()),
            ..Self::default()
        }
    }

    /// Returns the scope of the objects of a set of namespaces, each of which is listed and watched
    /// separately: see [`Namespaces`]. Two such scopes are equal only if they have the same set.
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
    /// Selectors apply together with earlier ones. A factory refuses an invalid selector, any other
    /// parameter with two values, and parameters that a reflector sets, such as `limit`, with
    /// [`FactoryError::Query`](crate::shared_informer::FactoryError::Query).
    #[doc(alias = "TweakListOptions")]
    #[must_use]
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        let values = match key.as_str() {
            LABELS => label_requirements(value),
            FIELDS => field_terms(&value).map(field_requirement).collect(),
            _ => vec![value],
        };
        self.query.extend(values.into_iter().map(|value| (key.clone(), value)));
        self
    }

    /// Adds the index of a field to the informer, as
    /// [`SharedInformerBuilder::field`](crate::shared_informer::SharedInformerBuilder::field) does.
    /// Scopes with different indexed fields are not equal: a factory has an informer, and a watch,
    /// for each. So give all users of an informer the same scope. Indexes of labels and owners, and
    /// for typed objects those of fields, can be added to an existing informer instead, by
    /// [`SharedInformer::add_indexers`](crate::SharedInformer::add_indexers).
    ///
    /// ```
    /// use deltafifo_informer::shared_informer::Scope;
    /// # use deltafifo_informer::shared_informer::SharedInformerFactory;
    /// # use deltafifo_testkit::{ApiServer, Resource};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # let _entered = runtime.enter();
    /// # let server = ApiServer::builder().resource(Resource::pods()).build();
    /// # let factory = SharedInformerFactory::new(server.client());
    /// let pods = factory.informer::<Pod>(&Scope::all().index_field("/spec/nodeName"))?;
    /// let on_node = pods.store().by_index("field:/spec/nodeName", "node-7")?;
    /// # assert!(on_node.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn index_field(mut self, pointer: impl Into<String>) -> Self {
        self.indexed.insert(pointer.into());
        self
    }

    /// Adds the query of another scope.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.query.extend(other.query.iter().cloned());
        self
    }

    /// Returns the query that is sent. The requirements of a selector are joined to one parameter,
    /// because the API server reads only the first of several.
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

    /// Returns the query as text, for example `?labelSelector=app%3Dweb`, and then the indexed
    /// fields, for example ` by /spec/nodeName`. Empty without either.
    pub(super) fn suffix(&self) -> String {
        let mut text = String::new();
        for (number, (key, value)) in self.parameters().iter().enumerate() {
            text.push(if number == 0 { '?' } else { '&' });
            text.push_str(
                &form_urlencoded::Serializer::new(String::new()).append_pair(key, value).finish(),
            );
        }
        for pointer in &self.indexed {
            text.push_str(" by ");
            text.push_str(pointer);
        }
        text
    }

    /// Returns the name that errors use for the informer of a resource and this scope, for example
    /// `pods.v1` or `deployments.v1.apps in shop?labelSelector=app%3Dweb`. Scopes that are not
    /// equal may have the same name.
    pub(super) fn name_of(&self, resource: &str) -> String {
        let suffix = self.suffix();
        match (&self.namespace, &self.namespaces) {
            (Some(namespace), _) => format!("{resource} in {namespace}{suffix}"),
            (None, Some(namespaces)) => format!("{resource} in {namespaces}{suffix}"),
            (None, None) => format!("{resource}{suffix}"),
        }
    }
}

/// Splits a label selector into requirements in canonical form. Text that is not a selector is
/// returned unchanged, and the factory will refuse it.
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

/// Writes `a==b` as `a=b`.
fn field_requirement(text: &str) -> String {
    match text.split_once("==") {
        // `a!==b` and `a===b` are not this operator, and the factory will refuse them.
        Some((field, value)) if !field.contains(['=', '!']) && !value.starts_with('=') => {
            format!("{field}={value}")
        }
        _ => text.to_owned(),
    }
}
