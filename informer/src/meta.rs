//! The metadata accessor of all Kubernetes types.

use std::borrow::Cow;

use deltafifo::{BoxError, Fields, Labels, Meta, Owners};
use kube::{Resource, ResourceExt};
use serde::Serialize;

use crate::pointer::Pointer;

/// The metadata accessor of every [`kube::Resource`]: typed objects of `k8s-openapi`, derived
/// custom resources, dynamic objects, and partial metadata.
///
/// ```
/// use deltafifo::{KeyFunc, Meta};
/// use deltafifo_informer::KubeMeta;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut pod = Pod::default();
/// pod.metadata.namespace = Some("default".into());
/// pod.metadata.name = Some("web-0".into());
/// assert_eq!(KeyFunc::meta_namespace(KubeMeta).key(&pod)?, "default/web-0");
/// # Ok::<(), deltafifo::KeyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct KubeMeta;

/// Returns `namespace/name`, or `name` if there is no namespace or it is empty, as
/// [`KeyFunc::meta_namespace`](deltafifo::KeyFunc::meta_namespace) does.
pub(crate) fn object_key<'n>(namespace: Option<&str>, name: &'n str) -> Cow<'n, str> {
    match namespace {
        None | Some("") => name.into(),
        Some(namespace) => format!("{namespace}/{name}").into(),
    }
}

/// Returns the namespace and the name of a key of [`object_key`]. The namespace of a key without
/// one is empty.
#[cfg(feature = "runtime")]
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

impl<K: Resource + 'static> Meta<K> for KubeMeta {
    fn namespace<'a>(&self, object: &'a K) -> Option<&'a str> {
        object.meta().namespace.as_deref()
    }

    fn name<'a>(&self, object: &'a K) -> Option<&'a str> {
        object.meta().name.as_deref()
    }

    fn version<'a>(&self, object: &'a K) -> Option<&'a str> {
        object.meta().resource_version.as_deref()
    }

    fn uid<'a>(&self, object: &'a K) -> Option<&'a str> {
        object.meta().uid.as_deref()
    }
}

impl<K: Resource + 'static> Owners<K> for KubeMeta {
    fn owners<'a>(&self, object: &'a K) -> Vec<Cow<'a, str>> {
        object.owner_references().iter().map(|owner| owner.uid.as_str().into()).collect()
    }
}

impl<K: Resource + 'static> Labels<K> for KubeMeta {
    fn label<'a>(&self, object: &'a K, key: &str) -> Option<&'a str> {
        object.meta().labels.as_ref()?.get(key).map(String::as_str)
    }
}

/// Serialises the object for each call, which takes about as long as decoding it.
impl<K: Resource + Serialize + 'static> Fields<K> for KubeMeta {
    fn field<'a>(&self, object: &'a K, pointer: &str) -> Result<Option<Cow<'a, str>>, BoxError> {
        let pointer = Pointer::parse(pointer)?;
        let json = serde_json::to_string(object)?;
        Ok(pointer.read(&json).map(|field| field.into_owned().into()))
    }
}
