//! How the engine reads an object's metadata without owning its type.

/// Gives the metadata of a `T`, borrowed. The queue and the store carry an accessor as a type parameter, because a trait
/// on the object itself could be implemented neither by this crate nor by yours for Kubernetes' own types (the orphan
/// rule).
///
/// The four methods are called often and should only read fields. They may be called while the engine joins a relist,
/// so they must not call back into the queue or the store that they serve.
///
/// ```
/// use deltafifo::Meta;
///
/// struct Pod { namespace: String, name: String, resource_version: String }
///
/// struct PodMeta;
/// impl Meta<Pod> for PodMeta {
///     fn namespace<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(&pod.namespace) }
///     fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(&pod.name) }
///     fn version<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(&pod.resource_version) }
/// }
/// ```
pub trait Meta<T>: Send + Sync + 'static {
    /// Namespace; `None` or empty for a cluster-scoped object.
    fn namespace<'a>(&self, object: &'a T) -> Option<&'a str>;

    /// Name. An object without one (`None` or empty) has no `MetaNamespaceKey`.
    fn name<'a>(&self, object: &'a T) -> Option<&'a str>;

    /// Resource version. `None` or empty means unknown: such an object is never taken for unchanged.
    fn version<'a>(&self, _object: &'a T) -> Option<&'a str> {
        None
    }

    /// Unique id over the object's life.
    fn uid<'a>(&self, _object: &'a T) -> Option<&'a str> {
        None
    }
}

/// Gives an object's labels, for accessors that know them. A [`Lister`](crate::Lister) whose accessor does selects by label;
/// nothing else needs it.
///
/// ```
/// use deltafifo::{Labels, Meta};
///
/// struct Pod { name: String, labels: std::collections::BTreeMap<String, String> }
///
/// struct PodMeta;
/// impl Meta<Pod> for PodMeta {
///     fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> { None }
///     fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(&pod.name) }
/// }
/// impl Labels<Pod> for PodMeta {
///     fn label<'a>(&self, pod: &'a Pod, key: &str) -> Option<&'a str> { pod.labels.get(key).map(String::as_str) }
/// }
/// ```
pub trait Labels<T>: Meta<T> {
    /// The value of label `key`; `None` when the object does not have it. An empty value is a value.
    fn label<'a>(&self, object: &'a T, key: &str) -> Option<&'a str>;
}

/// An accessor that knows nothing, for queues whose custom [key function](crate::KeyFunc::custom) says all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMeta;

impl<T> Meta<T> for NoMeta {
    fn namespace<'a>(&self, _object: &'a T) -> Option<&'a str> {
        None
    }

    fn name<'a>(&self, _object: &'a T) -> Option<&'a str> {
        None
    }
}
