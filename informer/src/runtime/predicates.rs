//! Predicates over updates (kube's `predicates`): functions of an object's old and new state, for
//! [`Controller::when`](super::Controller::when) and
//! [`Source::when`](super::controller::Source::when), and for
//! [`predicate_filter`](super::WatchStreamExt::predicate_filter) of a stream.
//!
//! A predicate is called for updates only. Additions and deletions always trigger a reconcile,
//! and so do updates that set the deletion timestamp or change the finalizers (for example when
//! [`finalizer`](super::finalizer()) has written one). kube's predicates can hide these updates
//! (kube issue 1768).
//!
//! The functions that compare metadata also take two compact objects (feature `compact`), of which
//! they read the headers only. `when(predicates::labels)` also decodes nothing. A closure that is
//! passed to `when` receives decoded objects, even if it only calls these functions: an update then
//! takes two decodes. Pass such a closure to `when_compact` instead.
//!
//! ```
//! use deltafifo_informer::runtime::{Controller, predicates, watcher};
//! # use k8s_openapi::api::apps::v1::Deployment;
//! # fn build(api: kube::Api<Deployment>) -> Controller<Deployment> {
//! // Skip updates that change only the status of a deployment.
//! let controller = Controller::new(api, watcher::Config::default())
//!     .when(|old, new| predicates::generation(old, new) || predicates::labels(old, new));
//! # controller
//! # }
//! ```

use std::any::TypeId;

use kube::Resource;

use super::form::{MetaField, StoreForm};
use super::predicate::Predicate;

/// Returns whether the generation, and so the desired state, has changed. Always true for kinds
/// without a generation, such as `ConfigMap`.
pub fn generation<F: StoreForm>(old: &F, new: &F) -> bool {
    F::differs(old, new, MetaField::Generation)
}

/// Returns whether anything has changed, the status included.
pub fn resource_version<F: StoreForm>(old: &F, new: &F) -> bool {
    F::differs(old, new, MetaField::ResourceVersion)
}

/// Returns whether the labels have changed.
pub fn labels<F: StoreForm>(old: &F, new: &F) -> bool {
    F::differs(old, new, MetaField::Labels)
}

/// Returns whether the annotations have changed.
pub fn annotations<F: StoreForm>(old: &F, new: &F) -> bool {
    F::differs(old, new, MetaField::Annotations)
}

/// Returns whether the finalizers have changed.
pub fn finalizers<F: StoreForm>(old: &F, new: &F) -> bool {
    F::differs(old, new, MetaField::Finalizers)
}

/// Returns the field of the metadata that a predicate over objects of type `K` compares, or `None`
/// if it is not one of the functions above. Each function has a type of its own, which identifies
/// it.
pub(super) fn field_of<K, P>(_: &P) -> Option<MetaField>
where
    K: Resource + 'static,
    P: 'static,
{
    fn id<T: 'static>(_: T) -> TypeId {
        TypeId::of::<T>()
    }

    let fields = [
        (id(generation::<K>), MetaField::Generation),
        (id(resource_version::<K>), MetaField::ResourceVersion),
        (id(labels::<K>), MetaField::Labels),
        (id(annotations::<K>), MetaField::Annotations),
        (id(finalizers::<K>), MetaField::Finalizers),
    ];
    fields.into_iter().find(|(id, _)| *id == TypeId::of::<P>()).map(|(_, field)| field)
}

/// Converts a [`Predicate`] of one state, which may be combined or have a fallback. The result is
/// true if the property that it hashes has changed, or is missing in the new state.
///
/// ```
/// use deltafifo_informer::runtime::{Predicate, predicates};
/// # use k8s_openapi::api::core::v1::Pod;
///
/// let changed =
///     predicates::changed(predicates::generation.fallback(predicates::resource_version));
/// let pod = |version: &str| {
///     let mut pod = Pod::default();
///     pod.metadata.resource_version = Some(version.to_owned());
///     pod
/// };
/// assert!(changed(&pod("1"), &pod("2")));
/// assert!(!changed(&pod("1"), &pod("1")));
/// ```
pub fn changed<K, M>(property: impl Predicate<K, M>) -> impl Fn(&K, &K) -> bool {
    move |old, new| {
        let current = property.hash_property(new);
        current.is_none() || property.hash_property(old) != current
    }
}

/// Returns whether an update triggers a reconcile even if the predicate rejects it: it sets the
/// deletion timestamp or changes the finalizers. [`finalizer`](super::finalizer()) waits for
/// both.
pub(super) fn affects_deletion<F: StoreForm>(old: &F, new: &F) -> bool {
    let begins_deletion = !old.is_ending() && new.is_ending();
    begins_deletion || finalizers(old, new)
}
