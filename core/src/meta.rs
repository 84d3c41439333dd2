//! Access to an object's metadata without knowing its type.

use std::borrow::Cow;

use crate::BoxError;

/// An accessor of the metadata of a `T`. Queues and stores take an accessor as a type parameter
/// instead of a trait bound on `T`, because of the orphan rule: neither this crate nor its users
/// could implement such a trait for the Kubernetes types.
///
/// The methods are called often and should only read fields. They are called in the middle of an
/// operation, so they must not call the queue or the store that uses the accessor. If the
/// destructor of an accessor panics, the queue or store still drops everything else.
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
    /// Returns the namespace; `None` or empty for a cluster-scoped object.
    fn namespace<'a>(&self, object: &'a T) -> Option<&'a str>;

    /// Returns the name. An object without one (`None` or empty) has no `MetaNamespaceKey`.
    fn name<'a>(&self, object: &'a T) -> Option<&'a str>;

    /// Returns the resource version. `None` or empty means unknown: such an object never counts
    /// as unchanged.
    fn version<'a>(&self, _object: &'a T) -> Option<&'a str> {
        None
    }

    /// Returns the uid, which is unique across objects and constant for an object's lifetime.
    fn uid<'a>(&self, _object: &'a T) -> Option<&'a str> {
        None
    }

    /// Returns the uid as the API server wrote it, for an accessor whose [`uid`](Self::uid) is a
    /// short form of it.
    #[doc(hidden)]
    fn written_uid<'a>(&self, object: &'a T) -> Option<Cow<'a, str>> {
        self.uid(object).map(Cow::Borrowed)
    }
}

/// An accessor that can also read labels. Only a [`Lister`](crate::Lister) that selects by label
/// and an [index](crate::Indexers::label) of a label need it.
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
///     fn label<'a>(&self, pod: &'a Pod, key: &str) -> Option<&'a str> {
///         pod.labels.get(key).map(String::as_str)
///     }
/// }
/// ```
pub trait Labels<T>: Meta<T> {
    /// Returns the value of label `key`, or `None` if the object does not have the label. The
    /// value may be empty.
    fn label<'a>(&self, object: &'a T, key: &str) -> Option<&'a str>;
}

/// An accessor that can also read owner references. Only an index by
/// [owners](crate::Indexers::owners) needs it.
pub trait Owners<T>: Meta<T> {
    /// Returns the uids of the objects that own this one.
    fn owners<'a>(&self, object: &'a T) -> Vec<Cow<'a, str>>;
}

/// An accessor that can also read fields by JSON pointer. Only an index of a
/// [field](crate::Indexers::field) needs it.
pub trait Fields<T>: Meta<T> {
    /// Returns the field that `pointer` names, a JSON pointer (RFC 6901) such as `/spec/nodeName`:
    /// the contents of a string, or the text of a number or boolean. Returns `None` if the object
    /// has no such field, or if it is of another type.
    ///
    /// # Errors
    /// If the accessor cannot read this field, whether or not the object has it.
    fn field<'a>(&self, object: &'a T, pointer: &str) -> Result<Option<Cow<'a, str>>, BoxError>;
}

/// An accessor without metadata, for queues whose custom [key function](crate::KeyFunc::custom)
/// needs none.
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
