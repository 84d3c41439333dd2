//! Which updates count (kube's `predicates`): functions of an object as it was and as it is, for
//! [`Controller::when`](super::Controller::when) and [`Source::when`](super::controller::Source::when).
//!
//! They are asked about updates only. An object that comes, one that goes, one that is asked to go (it has finalizers, and now a
//! deletion timestamp), and one whose finalizers change (a [`finalizer`](super::finalizer()) that was just written is among them) are
//! never kept from a controller; kube's predicates hide such (its issue 1768).
//!
//! ```
//! use deltafifo_informer::runtime::{Controller, predicates, watcher};
//! # use k8s_openapi::api::apps::v1::Deployment;
//! # fn build(api: kube::Api<Deployment>) -> Controller<Deployment> {
//! // Of a deployment whose status alone has changed nothing is to be done.
//! let controller = Controller::new(api, watcher::Config::default())
//!     .when(|old, new| predicates::generation(old, new) || predicates::labels(old, new));
//! # controller
//! # }
//! ```

use kube::Resource;
use kube::runtime::Predicate;

/// Its desired state has changed, or it does not count its changes (`ConfigMap`s do not).
pub fn generation<K: Resource>(old: &K, new: &K) -> bool {
    new.meta().generation.is_none() || old.meta().generation != new.meta().generation
}

/// Anything has changed, its status too.
pub fn resource_version<K: Resource>(old: &K, new: &K) -> bool {
    old.meta().resource_version != new.meta().resource_version
}

/// Its labels have changed.
pub fn labels<K: Resource>(old: &K, new: &K) -> bool {
    old.meta().labels != new.meta().labels
}

/// Its annotations have changed.
pub fn annotations<K: Resource>(old: &K, new: &K) -> bool {
    old.meta().annotations != new.meta().annotations
}

/// Its finalizers have changed.
pub fn finalizers<K: Resource>(old: &K, new: &K) -> bool {
    old.meta().finalizers != new.meta().finalizers
}

/// What a predicate of kube's looks at has changed, or is not there: for those who have some, combined or with a fallback.
///
/// ```
/// # use deltafifo_informer::runtime::predicates;
/// # use k8s_openapi::api::core::v1::Pod;
/// use kube::runtime::{Predicate, predicates as kubes};
///
/// let changed = predicates::changed(kubes::generation.fallback(kubes::resource_version));
/// let pod = |version: &str| {
///     let mut pod = Pod::default();
///     pod.metadata.resource_version = Some(version.to_owned());
///     pod
/// };
/// assert!(changed(&pod("1"), &pod("2")));
/// assert!(!changed(&pod("1"), &pod("1")));
/// ```
pub fn changed<K>(property: impl Predicate<K>) -> impl Fn(&K, &K) -> bool {
    move |old, new| {
        let is = property.hash_property(new);
        is.is_none() || property.hash_property(old) != is
    }
}

/// Whether an update counts although a predicate may see nothing in it: the object is asked to go, or others are to be asked before
/// it does. [`finalizer`](super::finalizer()) waits for both.
pub(super) fn concerns_its_end<K: Resource>(old: &K, new: &K) -> bool {
    let is_asked_to_go = old.meta().deletion_timestamp.is_none() && new.meta().deletion_timestamp.is_some();
    is_asked_to_go || finalizers(old, new)
}
