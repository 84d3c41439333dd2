//! The target of a request: the resource and the object that its path names.

use http::Uri;

/// The resource and the object that the path of a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// The group, empty for the core group.
    pub(super) group: &'a str,
    /// The plural name of the resource.
    pub(super) plural: &'a str,
    pub(super) namespace: &'a str,
    /// The name of the object, empty for a request to the collection.
    pub(super) name: &'a str,
}

impl<'a> Target<'a> {
    /// Parses the path of a request to the API. Returns `None` for the `proxy` of an object, and
    /// for paths of another form.
    pub(super) fn of(uri: &'a Uri) -> Option<Self> {
        let segments: Vec<_> = uri.path().trim_matches('/').split('/').collect();
        let (group, path) = match *segments {
            ["api", _, ref path @ ..] => ("", path),
            ["apis", group, _, ref path @ ..] => (group, path),
            _ => return None,
        };
        let (namespace, path) = match *path {
            // A namespace and its subresources.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", path),
            ["namespaces", namespace, ref path @ ..] => (namespace, path),
            _ => ("", path),
        };
        let (plural, name) = match *path {
            [plural] => (plural, ""),
            [plural, name] => (plural, name),
            [plural, name, subresource] if subresource != "proxy" => (plural, name),
            _ => return None,
        };
        Some(Self { group, plural, namespace, name })
    }

    /// Returns whether this is the resource of an informer, for example `deployments.v1.apps`. The
    /// versions may differ.
    pub(super) fn is_of(&self, resource: &str) -> bool {
        let (plural, version_and_group) = resource.split_once('.').unwrap_or((resource, ""));
        let group = version_and_group.split_once('.').map_or("", |(_, group)| group);
        self.plural == plural && self.group == group
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::Target;

    fn target(uri: &str) -> Option<[String; 4]> {
        let uri: Uri = uri.parse().unwrap();
        let Target { group, plural, namespace, name } = Target::of(&uri)?;
        Some([group, plural, namespace, name].map(str::to_owned))
    }

    #[test]
    fn path_names_group_resource_namespace_and_object() {
        for (path, expected) in [
            ("/api/v1/pods", ["", "pods", "", ""]),
            ("/api/v1/namespaces/shop/pods?dryRun=", ["", "pods", "shop", ""]),
            ("/api/v1/namespaces/shop/pods/a/status", ["", "pods", "shop", "a"]),
            ("/apis/apps/v1/namespaces/shop/deployments/a", ["apps", "deployments", "shop", "a"]),
            ("/apis/a.example/v1/gates/b", ["a.example", "gates", "", "b"]),
            ("/api/v1/namespaces/shop", ["", "namespaces", "", "shop"]),
            ("/api/v1/namespaces/shop/finalize", ["", "namespaces", "", "shop"]),
            ("/api/v1/namespaces", ["", "namespaces", "", ""]),
            ("/api/v1/nodes/a/status", ["", "nodes", "", "a"]),
        ] {
            assert_eq!(target(path), Some(expected.map(str::to_owned)), "{path}");
        }
        for path in ["/", "/version", "/api/v1/nodes/a/proxy", "/api/v1/nodes/a/proxy/metrics"] {
            assert_eq!(target(path), None, "{path}");
        }
    }

    #[test]
    fn resource_matches_in_any_version_of_its_group() {
        let uri = Uri::from_static("/apis/apps/v1beta1/namespaces/shop/deployments/a");
        let target = Target::of(&uri).unwrap();
        assert!(target.is_of("deployments.v1.apps"));
        assert!(!target.is_of("deployments.v1.extensions"));
        assert!(!target.is_of("deployments.v1"));
        assert!(!target.is_of("replicasets.v1.apps"));
        let uri = Uri::from_static("/api/v1/pods");
        assert!(Target::of(&uri).unwrap().is_of("pods.v1"));
        assert!(!Target::of(&uri).unwrap().is_of(""));
    }
}
