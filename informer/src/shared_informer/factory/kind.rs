//! The types of objects that a factory has informers of.

use std::sync::Arc;

use deltafifo::Meta;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::KubeMeta;
use crate::reflector::Decodable;
use crate::shared_informer::SharedInformerBuilder;

/// A type that a [`SharedInformerFactory`](super::SharedInformerFactory) has informers of: every
/// Kubernetes resource that serde can encode and decode, and
/// [`Compact`](https://docs.rs/deltafifo-informer/latest/deltafifo_informer/compact/struct.Compact.html)
/// objects of one (feature `compact`). There is no need to implement it.
pub trait FactoryKind: Decodable {
    /// The resource that is listed and watched.
    type Resource: Resource + 'static;

    /// Calls `change` with the metadata of an object, and returns the object. Compact objects are
    /// returned unchanged.
    #[doc(hidden)]
    fn change_metadata(object: Arc<Self>, change: &dyn Fn(&mut ObjectMeta)) -> Arc<Self>;

    /// Adds the index of a field to an informer.
    #[doc(hidden)]
    fn index_field(
        informer: SharedInformerBuilder<Self, KubeMeta>,
        pointer: &str,
    ) -> SharedInformerBuilder<Self, KubeMeta>
    where
        KubeMeta: Meta<Self>;
}

impl<K> FactoryKind for K
where
    K: Resource + Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Resource = K;

    fn index_field(
        informer: SharedInformerBuilder<Self, KubeMeta>,
        pointer: &str,
    ) -> SharedInformerBuilder<Self, KubeMeta> {
        informer.field(pointer)
    }

    fn change_metadata(mut object: Arc<Self>, change: &dyn Fn(&mut ObjectMeta)) -> Arc<Self> {
        // No other thread has the object yet, so this does not clone it.
        change(Arc::make_mut(&mut object).meta_mut());
        object
    }
}

#[cfg(feature = "compact")]
impl<K: Resource + DeserializeOwned + 'static> FactoryKind for crate::compact::Compact<K> {
    type Resource = K;

    fn index_field(
        informer: SharedInformerBuilder<Self, KubeMeta>,
        pointer: &str,
    ) -> SharedInformerBuilder<Self, KubeMeta> {
        informer.field(pointer)
    }

    // Never called: an informer of compact objects with a transform is not built.
    fn change_metadata(object: Arc<Self>, _: &dyn Fn(&mut ObjectMeta)) -> Arc<Self> {
        object
    }
}
