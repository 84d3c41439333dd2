//! The types of objects that a factory has informers of.

use std::sync::Arc;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::DeserializeOwned;

use crate::reflector::Decodable;

/// A type that a [`SharedInformerFactory`](super::SharedInformerFactory) has informers of: every
/// Kubernetes resource, and
/// [`Compact`](https://docs.rs/deltafifo-informer/latest/deltafifo_informer/compact/struct.Compact.html)
/// objects of one (feature `compact`). There is no need to implement it.
pub trait FactoryKind: Decodable {
    /// The resource that is listed and watched.
    type Resource: Resource + 'static;

    /// Calls `change` with the metadata of an object, and returns the object. Compact objects are
    /// returned unchanged.
    #[doc(hidden)]
    fn change_metadata(object: Arc<Self>, change: &dyn Fn(&mut ObjectMeta)) -> Arc<Self>;
}

impl<K: Resource + Clone + DeserializeOwned + Send + Sync + 'static> FactoryKind for K {
    type Resource = K;

    fn change_metadata(mut object: Arc<Self>, change: &dyn Fn(&mut ObjectMeta)) -> Arc<Self> {
        // No other thread has the object yet, so this does not clone it.
        change(Arc::make_mut(&mut object).meta_mut());
        object
    }
}

#[cfg(feature = "compact")]
impl<K: Resource + DeserializeOwned + 'static> FactoryKind for crate::compact::Compact<K> {
    type Resource = K;

    // Never called: an informer of compact objects with a transform is not built.
    fn change_metadata(object: Arc<Self>, _: &dyn Fn(&mut ObjectMeta)) -> Arc<Self> {
        object
    }
}
