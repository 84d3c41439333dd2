//! Conversions between objects, references and store keys (`namespace/name`, or `name` alone).

use std::sync::Arc;

use deltafifo::Meta;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;

use crate::KubeMeta;
use crate::meta::{object_key, split_key};

/// The item type of the work queue. Cheap to clone: all requests of an object share one
/// allocation.
pub(super) type StoreKey = Arc<str>;

/// Returns the key for a namespace and a name. An empty namespace counts as none.
pub(super) fn key(namespace: Option<&str>, name: &str) -> StoreKey {
    object_key(namespace, name).into()
}

/// Returns the key of an object, or `None` if it has no name.
pub(super) fn key_of<F>(object: &F) -> Option<StoreKey>
where
    KubeMeta: Meta<F>,
{
    KubeMeta.name(object).map(|name| key(KubeMeta.namespace(object), name))
}

/// Returns the key of the object that a reference refers to.
pub(super) fn key_of_ref<K: Resource>(to: &ObjectRef<K>) -> StoreKey {
    key(to.namespace.as_deref(), &to.name)
}

/// Returns a reference to the object with this key.
pub(super) fn reference<K: Resource>(key: &str, types: K::DynamicType) -> ObjectRef<K> {
    let (namespace, name) = split_key(key);
    let object = ObjectRef::new_with(name, types);
    if namespace.is_empty() { object } else { object.within(namespace) }
}
