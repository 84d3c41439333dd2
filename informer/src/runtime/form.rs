//! The forms in which stores and the informers of controllers can keep objects.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use deltafifo::BoxError;
use kube::{Resource, ResourceExt};
#[cfg(feature = "compact")]
use serde::de::DeserializeOwned;

#[cfg(feature = "compact")]
use crate::compact::Compact;
#[cfg(feature = "compact")]
use crate::wire::LARGE;

/// The form in which a [`Store`](super::reflector::Store) keeps its objects: the objects
/// themselves, or
/// [`Compact`](https://docs.rs/deltafifo-informer/latest/deltafifo_informer/compact/struct.Compact.html)
/// ones (feature `compact`). There is no need to implement it.
pub trait StoreForm: Sized + 'static {
    /// The type of the objects, which readers of the store receive.
    type Object: Resource + 'static;

    /// Whether the form is the object itself, so that decoding costs nothing.
    #[doc(hidden)]
    const IS_OBJECT: bool;

    /// Returns whether the object takes so long to decode that it must not delay other tasks.
    #[doc(hidden)]
    fn is_large(&self) -> bool;

    /// Returns the object, and decodes it if necessary.
    #[doc(hidden)]
    fn decoded(self: Arc<Self>) -> Result<Arc<Self::Object>, BoxError>;

    /// Returns the object like [`decoded`](Self::decoded), without a new handle if it need not be
    /// decoded.
    #[doc(hidden)]
    fn view(self: &Arc<Self>) -> Result<Cow<'_, Arc<Self::Object>>, BoxError>;

    /// Returns whether a field of the metadata differs between two states of an object. Decodes
    /// nothing.
    #[doc(hidden)]
    fn differs(old: &Self, new: &Self, field: MetaField) -> bool;

    /// Returns whether the object has a deletion timestamp. Decodes nothing.
    #[doc(hidden)]
    fn is_ending(&self) -> bool;

    /// Returns the labels. Decodes nothing.
    #[doc(hidden)]
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>>;

    /// Calls `visit` with the API version, the kind and the name of each owner. Decodes nothing.
    #[doc(hidden)]
    fn each_owner(&self, visit: impl FnMut(&str, &str, &str));
}

/// The form in which a controller's informer keeps its objects, which it uses on several threads.
/// Reconcilers, mappers and predicates receive the [objects](StoreForm::Object). There is no need
/// to implement it.
pub trait Form: StoreForm<Object: Send + Sync> + Send + Sync {}

impl<F: StoreForm<Object: Send + Sync> + Send + Sync> Form for F {}

/// A field of an object's metadata that [`predicates`](super::predicates) compare.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum MetaField {
    Generation,
    ResourceVersion,
    Labels,
    Annotations,
    Finalizers,
}

impl<K: Resource + 'static> StoreForm for K {
    type Object = K;

    const IS_OBJECT: bool = true;

    fn is_large(&self) -> bool {
        false
    }

    fn decoded(self: Arc<Self>) -> Result<Arc<K>, BoxError> {
        Ok(self)
    }

    fn view(self: &Arc<Self>) -> Result<Cow<'_, Arc<K>>, BoxError> {
        Ok(Cow::Borrowed(self))
    }

    fn differs(old: &Self, new: &Self, field: MetaField) -> bool {
        let (old, new) = (old.meta(), new.meta());
        match field {
            MetaField::Generation => new.generation.is_none() || old.generation != new.generation,
            MetaField::ResourceVersion => old.resource_version != new.resource_version,
            MetaField::Labels => old.labels != new.labels,
            MetaField::Annotations => old.annotations != new.annotations,
            MetaField::Finalizers => old.finalizers != new.finalizers,
        }
    }

    fn is_ending(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        Cow::Borrowed(self.labels())
    }

    fn each_owner(&self, mut visit: impl FnMut(&str, &str, &str)) {
        for owner in self.owner_references() {
            visit(&owner.api_version, &owner.kind, &owner.name);
        }
    }
}

#[cfg(feature = "compact")]
impl<K: Resource + DeserializeOwned + Send + Sync + 'static> StoreForm for Compact<K> {
    type Object = K;

    const IS_OBJECT: bool = false;

    fn is_large(&self) -> bool {
        self.raw_size() > LARGE
    }

    fn decoded(self: Arc<Self>) -> Result<Arc<K>, BoxError> {
        Ok(self.decode_shared()?)
    }

    fn view(self: &Arc<Self>) -> Result<Cow<'_, Arc<K>>, BoxError> {
        Ok(Cow::Owned(self.decode_shared()?))
    }

    fn differs(old: &Self, new: &Self, field: MetaField) -> bool {
        match field {
            MetaField::Generation => {
                new.generation().is_none() || old.generation() != new.generation()
            }
            MetaField::ResourceVersion => old.resource_version() != new.resource_version(),
            MetaField::Labels => !old.labels().eq(new.labels()),
            MetaField::Annotations => old.annotations_hash() != new.annotations_hash(),
            MetaField::Finalizers => old.finalizers_hash() != new.finalizers_hash(),
        }
    }

    fn is_ending(&self) -> bool {
        self.is_being_deleted()
    }

    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        let labels = self.labels().map(|(key, value)| (key.to_owned(), value.to_owned()));
        Cow::Owned(labels.collect())
    }

    fn each_owner(&self, mut visit: impl FnMut(&str, &str, &str)) {
        for owner in self.owner_references() {
            visit(owner.api_version, owner.kind, owner.name);
        }
    }
}
