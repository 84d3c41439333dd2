//! The queue or store that a reflector writes to, behind one trait.
//!
//! * `pieces.rs`: a queue of deltas, which takes a relist in pieces.
//! * `whole.rs`: all other targets, which take a relist as a whole.
//! * `scope.rs`: one scope of a queue.
//! * `sharded.rs`: a queue whose objects belong to shards that are moved.
//! * `history.rs`: the scopes that must be listed again after a restore of the API server.

mod history;
mod pieces;
mod scope;
#[cfg(feature = "leader-election")]
mod sharded;
mod whole;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use deltafifo::panics::ignore_panic;
use deltafifo::{
    Closed, DeletedFinalStateUnknown, DeltaObject, IndexReader, Meta, Refused, RelistError,
    StoreError,
};
use futures_util::future::BoxFuture;

use crate::meta::object_key;

pub(crate) use history::{Histories, History};
pub(crate) use scope::{InScope, Scoped};
#[cfg(feature = "leader-election")]
pub(crate) use sharded::Sharded;
pub use whole::Plain;

/// A queue or store that a reflector can write to.
///
/// A [`DeltaFifo`](deltafifo::DeltaFifo) receives a relist in pieces, so that unchanged objects
/// are not decoded, and consumers get the first page before the last one has arrived. All other
/// targets receive it as a whole: an [`InOrderFifo`](deltafifo::InOrderFifo), and any
/// [`Store`](deltafifo::Store) as a [`Plain`]. Other crates cannot implement this trait: a target
/// of your own is a `Store` in a `Plain`.
///
/// # Custom keys
///
/// If an object cannot be decoded, or the key function fails for it, only its name is known. With
/// [default keys](deltafifo::KeyFunc::meta_namespace) the name is the key, so the known object
/// stays. With [custom keys](deltafifo::KeyFunc::custom) the target searches all objects for a
/// known object of this name: once per relist, and once for each DELETED event with such an object.
/// A `DeltaFifo` searches the queued objects and [its store](deltafifo::DeltaFifo::store), an
/// `InOrderFifo` its store only. A known object that this search does not find is deleted by a
/// relist, and a DELETED event for it is ignored. In an `InOrderFifo` these are objects that are
/// still queued. In a `DeltaFifo` they are objects that a handler has taken and not applied; if its
/// known objects are not in its own store, they are all objects that are not queued.
pub trait Target<K>: Send + Sync + 'static {
    /// Begins a relist.
    #[doc(hidden)]
    fn begin(self: Arc<Self>) -> Box<dyn Pieces<K>>;

    /// Offers a new object.
    ///
    /// # Errors
    /// The object was not stored, or only in part: see
    /// [`ReflectorStore`](deltafifo::ReflectorStore).
    #[doc(hidden)]
    fn add(&self, object: Arc<K>) -> Result<(), StoreError>;

    /// Offers a changed object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    #[doc(hidden)]
    fn update(&self, object: Arc<K>) -> Result<(), StoreError>;

    /// Offers a deletion.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    #[doc(hidden)]
    fn delete(&self, object: DeltaObject<K>) -> Result<(), StoreError>;

    /// Declares that everything up to `version` has been offered.
    #[doc(hidden)]
    fn bookmark(&self, version: &str);

    /// Resyncs every known object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    #[doc(hidden)]
    fn resync(&self) -> Result<(), StoreError>;

    /// Waits until the target has room.
    ///
    /// # Errors
    /// [`Closed`]: the queue is closed.
    #[doc(hidden)]
    fn ready(&self) -> BoxFuture<'_, Result<(), Closed>>;

    /// Waits until the queue is closed.
    #[doc(hidden)]
    fn closed(&self) -> BoxFuture<'_, Closed>;

    /// Returns the key of an object of which only the name is known: `namespace/name`, or `name`.
    /// `None` if keys are not names, and no known object has that name.
    #[doc(hidden)]
    fn key_of_named<'a>(&self, name: &'a str) -> Option<Cow<'a, str>>;
}

/// A relist in progress. If it is dropped, it is abandoned, and deletes nothing. In its methods a
/// name is `namespace/name`, or `name`.
pub trait Pieces<K>: Send + 'static {
    /// Prepares for about this number of objects in the whole list.
    fn expect(&mut self, objects: usize);

    /// Returns for each listed (name, version) whether the object must be decoded and
    /// [offered](Self::offer).
    ///
    /// # Errors
    /// [`RelistError::Superseded`] if a later relist has superseded this one.
    fn probe(&mut self, listed: &[(&str, &str)]) -> Result<Vec<bool>, RelistError>;

    /// Takes listed objects, in list order, with their names. The caller may leave out those for
    /// which [`probe`](Self::probe) has returned false. Returns the refused ones.
    ///
    /// # Errors
    /// [`RelistError::Superseded`] if a later relist has superseded this one.
    fn offer(&mut self, names: &[&str], objects: Vec<Arc<K>>) -> Result<Vec<Refused>, RelistError>;

    /// Deletes an object that may have been listed. `object` is `None` if it cannot be decoded.
    ///
    /// # Errors
    /// [`StoreError::Relist`] if a later relist has superseded this one. With any other error the
    /// object was refused, and is still deleted by its name.
    fn delete(&mut self, name: &str, object: Option<DeltaObject<K>>) -> Result<(), StoreError>;

    /// Keeps the known object of `name`, which is listed, but cannot be decoded or stored.
    ///
    /// # Errors
    /// [`RelistError::Superseded`] if a later relist has superseded this one.
    fn keep(&mut self, name: &str) -> Result<(), RelistError>;

    /// Makes the commit keep objects that are not listed, unless [`delete`](Self::delete) has named
    /// them. The list has an object whose name cannot be read, and which may be any known object
    /// whose name is not listed. Returns whether the target supports this. If it does not, which is
    /// the default, the list is abandoned.
    fn keep_unlisted(&mut self) -> bool {
        false
    }

    /// Makes the relist take every object, even if its version is the stored one, because the
    /// versions of earlier lists cannot be compared with the versions of this list. A target that
    /// never skips objects does nothing.
    fn ignore_versions(&mut self) {}

    /// Ends the relist, and deletes the objects that were not listed. Returns the errors of objects
    /// that are refused at this point; each names its object.
    ///
    /// # Errors
    /// Nothing was deleted, or not everything was stored, as the error says.
    fn commit(self: Box<Self>, version: &str) -> Result<Vec<StoreError>, StoreError>;
}

/// Names with their keys.
type NamedKeys<'n> = Vec<(&'n str, Cow<'n, str>)>;

/// Returns the keys of objects with these names. If keys are not names, only the objects in
/// `pending` and `store` are found.
fn keys_of_named<'n, K, M: Meta<K>>(
    names: impl IntoIterator<Item = &'n str>,
    pending: impl FnOnce() -> Vec<Arc<K>>,
    store: &IndexReader<K, M>,
) -> NamedKeys<'n> {
    let keys = store.keys();
    let names = names.into_iter();
    if keys.is_meta_namespace() {
        return names.map(|name| (name, name.into())).collect();
    }
    let names: HashSet<&str> = names.collect();
    if names.is_empty() {
        return Vec::new();
    }
    // Custom keys are found by a scan of all objects, one for all names.
    let mut found = NamedKeys::new();
    let mut search = |object: &K| {
        let name = keys.meta().name(object).unwrap_or_default();
        let name = names.get(&*object_key(keys.meta().namespace(object), name));
        found.extend(name.and_then(|name| Some((*name, keys.key(object).ok()?.into()))));
    };
    // Pending objects are searched before stored ones. In the other order, an object that is stored
    // between the two scans would be missed.
    for object in pending() {
        search(&object);
    }
    store.for_each(|object| search(object));
    found
}

/// The objects of a page that are still to be taken. When it is dropped, panics of their
/// destructors are ignored: the panic of an accessor may be unwinding, and a second panic would
/// abort the process.
struct Rest<K>(std::vec::IntoIter<Arc<K>>);

impl<K> Drop for Rest<K> {
    fn drop(&mut self) {
        for object in self.0.by_ref() {
            ignore_panic(|| drop(object));
        }
    }
}

/// Creates a deletion from a key, for an object of which nothing else is known.
pub(super) fn tombstone<K>(key: &str) -> DeltaObject<K> {
    DeltaObject::from(DeletedFinalStateUnknown::new(key, None))
}

/// Creates a deletion from a name, for an object of which nothing else is known. Returns `None` if
/// keys are not names, and `target` finds no known object of that name.
pub(super) fn gone<K: 'static>(target: &dyn Target<K>, name: &str) -> Option<DeltaObject<K>> {
    target.key_of_named(name).map(|key| tombstone(&key))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::AtomicBool;

    use deltafifo::{DeltaFifo, InOrderFifo, Indexer, KeyFunc, KeyScope, NoMeta};

    use super::*;

    /// An object whose key function panics, and whose destructor panics, too.
    struct Fragile;

    impl Drop for Fragile {
        fn drop(&mut self) {
            resume_unwind(Box::new("as the test wants"));
        }
    }

    fn store() -> Indexer<Fragile, NoMeta> {
        let keys = KeyFunc::custom(NoMeta, |_: &Fragile| resume_unwind(Box::new("as above")));
        Indexer::builder(keys).build().unwrap()
    }

    /// Offers two objects, and asserts that the panic is caught here. A second panic during the
    /// first would abort the test.
    fn offer_fragile(mut relist: Box<dyn Pieces<Fragile>>) {
        let objects = vec![Arc::new(Fragile), Arc::new(Fragile)];
        let offer = || drop(relist.offer(&["green/a", "green/b"], objects));
        assert!(catch_unwind(AssertUnwindSafe(offer)).is_err());
    }

    #[test]
    fn panics_of_destructors_during_the_panic_of_a_key_function_do_not_abort_a_final_list() {
        let queue = Arc::new(DeltaFifo::over(store()).build());
        let scope = queue.add_scope(KeyScope::keys("green", |_| true)).unwrap();
        let last = InScope {
            queue,
            scope,
            has_objects: Arc::default(),
            history: Arc::new(History::new(&Histories::default())),
            is_last: Arc::new(AtomicBool::new(true)),
            on_reached: Arc::new(|| ()),
        };
        offer_fragile(Arc::new(last).begin());
    }

    #[test]
    fn panics_of_destructors_during_the_panic_of_a_key_function_do_not_abort_a_collected_list() {
        offer_fragile(Target::begin(Arc::new(InOrderFifo::over(store()).build())));
    }
}
