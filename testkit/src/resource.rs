//! The resources that a server can serve.

use kube::core::ApiResource;
use kube::core::discovery::Scope;

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
}

impl Resource {
    /// Creates a resource of a built-in kind. The items of its lists have no `kind` and
    /// `apiVersion`, as in the real server.
    #[must_use]
    pub fn built_in(api: ApiResource, scope: Scope) -> Self {
        Self { api, scope, custom: false }
    }

    /// Creates a resource of a custom resource definition. The items of its lists have `kind` and
    /// `apiVersion`, and an update must contain the version that it updates.
    #[must_use]
    pub fn custom(api: ApiResource, scope: Scope) -> Self {
        Self { api, scope, custom: true }
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
    /// does not check that an object's namespace exists.
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

    /// Returns the name that messages use, for example `pods` or `deployments.apps`.
    pub(crate) fn title(&self) -> String {
        match self.api.group.as_str() {
            "" => self.api.plural.clone(),
            group => format!("{}.{group}", self.api.plural),
        }
    }

    /// Returns whether both resources have the same paths.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let place = |resource: &Self| {
            let ApiResource { group, version, plural, .. } = &resource.api;
            (group.clone(), version.clone(), plural.clone())
        };
        place(self) == place(other)
    }
}
