//! Properties of objects by which a stream is filtered (kube's `Predicate`).

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::runtime::predicates as kubes;
use kube::{Resource, ResourceExt};

use super::form::MetaField;
use super::predicates::field_of;

/// A property of an object, for
/// [`predicate_filter`](super::WatchStreamExt::predicate_filter) of a stream and for
/// [`predicates::changed`](super::predicates::changed) (kube's `Predicate`). Import this trait
/// instead of kube's, not beside it. It is implemented by
///
/// * functions that return the hash of a property, for example those of
///   [`kube::runtime::predicates`],
/// * the functions of [`predicates`](super::predicates),
/// * combinations of them, which the methods of this trait return.
///
/// Any other function of two states implements it, too, but has no property that could be hashed,
/// and hides nothing.
///
/// `M` keeps the implementations apart, and is inferred. A type of your own implements
/// `Predicate<K>`, for one type of objects or for all. A function that takes any predicate is
/// generic over it: `fn filter<M: 'static>(predicate: impl Predicate<Pod, M>)`.
///
/// A type that implements kube's trait, such as a predicate of a library, needs a closure:
/// `move |pod: &Pod| kube::runtime::Predicate::hash_property(&theirs, pod)`.
///
/// ```
/// use deltafifo_informer::runtime::{Predicate, WatchStreamExt, predicates};
/// # use futures_util::{FutureExt, StreamExt, stream};
/// # use k8s_openapi::api::core::v1::Node;
/// # let stream = stream::iter([Ok(Node::default()), Ok(Node::default())]);
/// let changed = stream.predicate_filter(
///     predicates::labels.combine(predicates::annotations),
///     Default::default(),
/// );
/// # assert_eq!(changed.count().now_or_never(), Some(1));
/// ```
pub trait Predicate<K, M = Hashed> {
    /// Returns the hash of the property, or `None` if the object does not have it.
    fn hash_property(&self, object: &K) -> Option<u64>;

    /// Returns a predicate that uses the property `other` of objects that do not have this one.
    fn fallback<P: Predicate<K, N>, N>(self, other: P) -> Fallback<Self, P>
    where
        Self: Sized,
    {
        Fallback(self, other)
    }

    /// Returns a predicate of both properties: it changes if one of them changes.
    fn combine<P: Predicate<K, N>, N>(self, other: P) -> Combine<Self, P>
    where
        Self: Sized,
    {
        Combine(self, other)
    }
}

/// Marks the implementation of [`Predicate`] for functions of one state, and for types of a user.
#[derive(Debug)]
pub enum Hashed {}

/// Marks the implementation of [`Predicate`] for functions of two states.
#[derive(Debug)]
pub enum Compared {}

/// See [`Predicate::fallback`].
#[derive(Clone, Copy, Debug)]
pub struct Fallback<A, B>(A, B);

/// See [`Predicate::combine`].
#[derive(Clone, Copy, Debug)]
pub struct Combine<A, B>(A, B);

// Not for each `P` that implements kube's trait: then a type of a user that implements `Predicate`
// for all `K` would not compile, because kube might implement its trait for that type. Only the
// traits of functions are known not to be implemented later.
impl<K, P: Fn(&K) -> Option<u64>> Predicate<K, Hashed> for P {
    fn hash_property(&self, object: &K) -> Option<u64> {
        self(object)
    }
}

impl<K, P> Predicate<K, Compared> for P
where
    K: Resource + 'static,
    P: Fn(&K, &K) -> bool + 'static,
{
    fn hash_property(&self, object: &K) -> Option<u64> {
        match field_of::<K, P>(self)? {
            MetaField::Generation => kubes::generation(object),
            MetaField::ResourceVersion => kubes::resource_version(object),
            MetaField::Labels => kubes::labels(object),
            MetaField::Annotations => kubes::annotations(object),
            MetaField::Finalizers => kubes::finalizers(object),
        }
    }
}

impl<K, A, B, M, N> Predicate<K, (M, N)> for Fallback<A, B>
where
    A: Predicate<K, M>,
    B: Predicate<K, N>,
{
    fn hash_property(&self, object: &K) -> Option<u64> {
        self.0.hash_property(object).or_else(|| self.1.hash_property(object))
    }
}

impl<K, A, B, M, N> Predicate<K, (M, N)> for Combine<A, B>
where
    A: Predicate<K, M>,
    B: Predicate<K, N>,
{
    fn hash_property(&self, object: &K) -> Option<u64> {
        match (self.0.hash_property(object), self.1.hash_property(object)) {
            (None, None) => None,
            both => Some(hash(&both)),
        }
    }
}

fn hash(property: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    property.hash(&mut hasher);
    hasher.finish()
}

/// A predicate for kube's filter that hides less than `P`: see
/// [`predicate_filter`](super::WatchStreamExt::predicate_filter).
#[derive(Debug)]
pub struct Unhidden<P, M> {
    predicate: P,
    /// The number of objects without the property.
    without: AtomicU64,
    marker: PhantomData<fn() -> M>,
}

impl<P, M> Unhidden<P, M> {
    pub(super) fn new(predicate: P) -> Self {
        Self { predicate, without: AtomicU64::new(0), marker: PhantomData }
    }
}

impl<K: Resource, P: Predicate<K, M>, M> kube::runtime::Predicate<K> for Unhidden<P, M> {
    fn hash_property(&self, object: &K) -> Option<u64> {
        let property = self.predicate.hash_property(object).ok_or_else(|| {
            // kube's filter passes an object without a property, and remembers the property that
            // the object had before. So each object without one gets a property of its own.
            self.without.fetch_add(1, Ordering::Relaxed)
        });
        let is_ending = object.meta().deletion_timestamp.is_some();
        Some(hash(&(property, is_ending, object.finalizers())))
    }
}
