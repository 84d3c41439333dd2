//! What a reflector feeds, behind one trait.
//!
//! * `pieces.rs`: a queue of deltas, which takes a relist in pieces.
//! * `whole.rs`: everything else takes it as a whole.

mod pieces;
mod whole;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use deltafifo::{Closed, DeletedFinalStateUnknown, DeltaObject, IndexReader, Meta, Refused, RelistError, StoreError};
use futures_util::future::BoxFuture;

pub use whole::Plain;

/// Anything that a reflector can feed.
///
/// A [`DeltaFifo`](deltafifo::DeltaFifo) gets a relist in pieces, so that nothing is decoded that did not change, and
/// consumers have the first page while the last is on its way. Everything else gets it as a whole: an
/// [`InOrderFifo`](deltafifo::InOrderFifo), and any [`Store`](deltafifo::Store) by [`Plain`].
pub trait Target<K>: Send + Sync + 'static {
    /// Begins a relist.
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>>;

    /// A new object.
    ///
    /// # Errors
    /// It was not stored, or not completely: see [`ReflectorStore`](deltafifo::ReflectorStore).
    fn add(&self, object: Arc<K>) -> Result<(), StoreError>;

    /// A changed object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn update(&self, object: Arc<K>) -> Result<(), StoreError>;

    /// An object is gone.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn delete(&self, object: DeltaObject<K>) -> Result<(), StoreError>;

    /// Everything up to `version` has been told.
    fn bookmark(&self, version: &str);

    /// Tells of everything known once more.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn resync(&self) -> Result<(), StoreError>;

    /// Waits until there is room.
    ///
    /// # Errors
    /// [`Closed`]: nobody takes anything any more.
    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>>;

    /// Waits until nobody takes anything any more.
    fn closed(&self) -> BoxFuture<'_, Closed>;

    /// The key of the stored object that is called `namespace/name`, or `name`: for an object of which nothing but that can
    /// be read. None when keys are not names, and no such object is stored.
    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>>;
}

/// A relist in progress. Dropped, it is abandoned: nothing is deleted. A name here is `namespace/name`, or `name`.
pub trait Pieces<K>: Send + 'static {
    /// About how many objects are to come in all.
    fn expect(&mut self, objects: usize);

    /// Of each listed (name, version), whether the object is needed.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError>;

    /// Takes the objects that were needed, in list order, with their names. What is refused comes back.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    fn offer(&mut self, names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError>;

    /// An object that was listed, perhaps, is gone again.
    ///
    /// # Errors
    /// As for [`Target::delete`].
    fn delete(&mut self, name: &str, object: DeltaObject<K>) -> Result<(), StoreError>;

    /// What is called `name` is listed, but its object cannot be had: what is known of it stays as it is.
    ///
    /// # Errors
    /// [`RelistError::Superseded`].
    fn keep(&mut self, name: &str) -> Result<(), RelistError>;

    /// Ends the relist: what was not listed is gone. What is refused only now comes back.
    ///
    /// # Errors
    /// Nothing is deleted, or not everything is stored: the error says which.
    fn commit(self: Box<Self>, version: &str) -> Result<Vec<Refused>, StoreError>;
}

/// The keys of the stored objects that are called so. Where keys are not names, those that are not stored are left out.
fn keys_of_named<'a, K, M: Meta<K>>(store: &IndexReader<K, M>, names: &[&'a str]) -> Vec<Cow<'a, str>> {
    let keys = store.keys();
    if keys.is_meta_namespace() {
        return names.iter().map(|&name| name.into()).collect();
    }
    if names.is_empty() {
        return Vec::new();
    }
    // Keys of a function of yours: only a look at every object tells, but one look for all names.
    let names: HashSet<&str> = names.iter().copied().collect();
    let mut found = Vec::new();
    store.for_each(|object| {
        let (namespace, name) = (keys.meta().namespace(object), keys.meta().name(object).unwrap_or_default());
        let is_named = match namespace {
            None | Some("") => names.contains(name),
            Some(namespace) => names.contains(format!("{namespace}/{name}").as_str()),
        };
        if is_named {
            found.extend(keys.key(object).ok().map(Cow::Owned));
        }
    });
    found
}

/// The deletion of what is called so, of which nothing else can be read.
pub(super) fn gone<K: 'static>(target: &dyn Target<K>, name: &str) -> Option<DeltaObject<K>> {
    let key = target.key_of_named(name)?;
    Some(DeltaObject::from(DeletedFinalStateUnknown { key: (*key).into(), obj: None }))
}
