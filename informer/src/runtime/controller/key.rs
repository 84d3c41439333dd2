//! From an object, or a reference to one, to its key, and back. Keys are those of the store: `namespace/name`, or `name`.

use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::ObjectRef;

/// What the queue is of: cheap to clone, and one allocation however often an object is asked for.
pub(super) type Key = Arc<str>;

/// A key of these parts.
pub(super) fn key(namespace: Option<&str>, name: &str) -> Key {
    match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }
}

/// An object's; none if it has no name.
pub(super) fn key_of<K: Resource>(object: &K) -> Option<Key> {
    let meta = object.meta();
    meta.name.as_deref().map(|name| key(meta.namespace.as_deref(), name))
}

/// The object that a reference refers to.
pub(super) fn referred<K: Resource>(to: &ObjectRef<K>) -> Key {
    key(to.namespace.as_deref(), &to.name)
}

/// A reference to whatever has this key.
pub(super) fn reference<K: Resource>(key: &str, types: K::DynamicType) -> ObjectRef<K> {
    match key.split_once('/') {
        Some((namespace, name)) => ObjectRef::new_with(name, types).within(namespace),
        None => ObjectRef::new_with(key, types),
    }
}
