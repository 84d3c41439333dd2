//! The resources that a server can serve.

use kube::core::ApiResource;
use kube::core::discovery::Scope;
use serde_json::Value;

use crate::known::{self, Known, Trait, UNKNOWN};
use crate::scale::Paths;

/// A kind of objects as an API server serves it: group, version, plural and kind, namespaced or
/// not, built in or custom.
///
/// ```
/// use deltafifo_testkit::Resource;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kube::core::ApiResource;
/// use kube::core::discovery::Scope;
///
/// let deployments = Resource::built_in(ApiResource::erase::<Deployment>(&()), Scope::Namespaced);
/// assert_eq!((deployments.api_version(), deployments.plural()), ("apps/v1", "deployments"));
/// assert!(!Resource::nodes().is_namespaced());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    pub(crate) api: ApiResource,
    scope: Scope,
    custom: bool,
    status: bool,
    /// Other properties of the kind, as letters.
    traits: &'static str,
    short_names: Vec<String>,
    /// The selectable fields beside name and namespace, with their values in objects without them.
    fields: Vec<(String, String)>,
    /// The schema of a custom resource, as far as it is known.
    schema: Value,
    /// The paths of the scale of a custom resource, if it has one.
    scale: Option<Paths>,
}

impl Resource {
    /// Creates a resource of a built-in kind. The items of its lists have no `kind` and
    /// `apiVersion`, as in the real server.
    ///
    /// For the common kinds the server knows whether they have a status subresource and
    /// `metadata.generation`, their selectable fields and short names. Any other kind has the
    /// first two, and no more selectable fields than its name and namespace.
    #[must_use]
    pub fn built_in(api: ApiResource, scope: Scope) -> Self {
        let known = Known::find(&api.api_version, &api.kind);
        let traits = known.map_or(UNKNOWN, Known::traits);
        let fields = known.map_or(&[][..], Known::fields).iter();
        let owned = |text: &&str| (*text).to_owned();
        Self {
            scope,
            custom: false,
            status: traits.contains(Trait::Status.letter()),
            traits,
            short_names: known.map_or(&[][..], Known::short_names).iter().map(owned).collect(),
            fields: fields.map(|(field, value)| (owned(field), owned(value))).collect(),
            schema: Value::Null,
            scale: None,
            api,
        }
    }

    /// Creates a resource of a custom resource definition. The items of its lists have `kind` and
    /// `apiVersion`, and an update must contain the version that it updates. It has a status
    /// subresource, unless [`status_subresource`](Self::status_subresource) says otherwise.
    #[must_use]
    pub fn custom(api: ApiResource, scope: Scope) -> Self {
        Self {
            api,
            scope,
            custom: true,
            status: true,
            traits: UNKNOWN,
            short_names: Vec::new(),
            fields: Vec::new(),
            schema: Value::Null,
            scale: None,
        }
    }

    /// Sets whether the resource has a status subresource. If it has one, a client can change the
    /// status only there, and nothing else there.
    #[must_use]
    pub fn status_subresource(self, status: bool) -> Self {
        Self { status, ..self }
    }

    /// Adds a field that field selectors can name, for example `spec.colour`: one of the
    /// `selectableFields` of a custom resource definition.
    #[must_use]
    pub fn selectable_field(mut self, path: &str) -> Self {
        self.fields.push((path.to_owned(), String::new()));
        self
    }

    /// Adds a short name for `kubectl`.
    #[must_use]
    pub fn short_name(mut self, name: &str) -> Self {
        self.short_names.push(name.to_owned());
        self
    }

    /// Declares that the elements of a list of a custom resource merge if these fields are equal:
    /// the `x-kubernetes-list-map-keys` of its schema. Server-side apply replaces other lists of
    /// custom resources as a whole. A resource whose definition a client or the test creates has
    /// the schema of its definition, and needs no declarations.
    ///
    /// ```
    /// # use deltafifo_testkit::Resource;
    /// # use kube::core::{ApiResource, GroupVersionKind, discovery::Scope};
    /// let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    /// let widgets = Resource::custom(api, Scope::Namespaced)
    ///     .list_keys("status.conditions", &["type"])
    ///     .selectable_field("spec.colour")
    ///     .short_name("wd");
    /// assert_eq!(widgets.kind(), "Widget");
    /// ```
    #[must_use]
    pub fn list_keys(mut self, path: &str, keys: &[&str]) -> Self {
        let schema = path.split('.').fold(&mut self.schema, |at, name| &mut at["properties"][name]);
        schema["x-kubernetes-list-type"] = "map".into();
        schema["x-kubernetes-list-map-keys"] = keys.into();
        self
    }

    /// Sets the schema of a custom resource: the `openAPIV3Schema` of its definition.
    pub(crate) fn with_schema(self, schema: Value) -> Self {
        Self { schema, ..self }
    }

    /// Sets the paths of the scale of a custom resource, which has no such subresource otherwise.
    pub(crate) fn with_scale(self, scale: Option<Paths>) -> Self {
        Self { scale, ..self }
    }

    /// Returns the resources of the built-in kinds that the server knows, for a server that has
    /// all of them.
    ///
    /// ```
    /// use deltafifo_testkit::{ApiServer, Resource};
    ///
    /// let server = ApiServer::builder().resources(Resource::known()).build();
    /// let metadata = serde_json::json!({ "name": "web" });
    /// server.apply(serde_json::json!({
    ///     "kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata,
    /// }))?;
    /// # Ok::<_, deltafifo_testkit::Error>(())
    /// ```
    pub fn known() -> impl Iterator<Item = Self> {
        known::all()
    }

    /// Returns the resource of `v1` pods.
    #[must_use]
    pub fn pods() -> Self {
        Self::core("Pod", "pods", Scope::Namespaced)
    }

    /// Returns the resource of `v1` configmaps.
    #[must_use]
    pub fn config_maps() -> Self {
        Self::core("ConfigMap", "configmaps", Scope::Namespaced)
    }

    /// Returns the resource of `v1` nodes, which are not in a namespace.
    #[must_use]
    pub fn nodes() -> Self {
        Self::core("Node", "nodes", Scope::Cluster)
    }

    /// Returns the resource of `v1` namespaces, which are in no namespace themselves. The server
    /// does not check that an object's namespace exists, but it refuses new objects in a namespace
    /// that is being deleted.
    #[must_use]
    pub fn namespaces() -> Self {
        Self::core("Namespace", "namespaces", Scope::Cluster)
    }

    fn core(kind: &str, plural: &str, scope: Scope) -> Self {
        let api = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self::built_in(api, scope)
    }

    /// Returns the kind, for example `Pod`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.api.kind
    }

    /// Returns the plural in paths, for example `pods`.
    #[must_use]
    pub fn plural(&self) -> &str {
        &self.api.plural
    }

    /// Returns the group and the version, for example `apps/v1`; for the core group only the
    /// version.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api.api_version
    }

    /// Returns whether the objects are in namespaces.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.custom
    }

    pub(crate) fn has_status(&self) -> bool {
        self.status
    }

    pub(crate) fn short_names(&self) -> &[String] {
        &self.short_names
    }

    /// Returns the selectable fields beside name and namespace, with their values in objects
    /// without them.
    pub(crate) fn fields(&self) -> &[(String, String)] {
        &self.fields
    }

    /// Returns the schema of a custom resource, as far as it is known.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the paths of the scale of a custom resource.
    pub(crate) fn scale_paths(&self) -> Option<&Paths> {
        self.scale.as_ref()
    }

    pub(crate) fn has_scale(&self) -> bool {
        self.scale.is_some() || self.has(Trait::Scale)
    }

    /// Returns whether the kind has a trait.
    pub(crate) fn has(&self, one: Trait) -> bool {
        self.traits.contains(one.letter())
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.api.group.is_empty() && self.api.plural == "namespaces"
    }

    /// Returns whether the objects are custom resource definitions.
    pub(crate) fn is_definition(&self) -> bool {
        self.api.kind == "CustomResourceDefinition" && self.api.group == "apiextensions.k8s.io"
    }

    pub(crate) fn is_pod(&self) -> bool {
        self.api.group.is_empty() && self.api.plural == "pods"
    }

    /// Returns the name that messages use, for example `pods` or `deployments.apps`.
    pub(crate) fn title(&self) -> String {
        match self.api.group.as_str() {
            "" => self.api.plural.clone(),
            group => format!("{}.{group}", self.api.plural),
        }
    }

    /// Returns whether both resources have the same paths.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let (own, other) = (&self.api, &other.api);
        own.group == other.group && own.version == other.version && own.plural == other.plural
    }
}
