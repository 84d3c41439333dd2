//! The traits for code that works with any store: client-go's `ReflectorStore` and `Store`. Both
//! are object safe, so a reflector need not know which store it writes to.
//!
//! The inherent methods of each type do more and return more precise errors.

use crate::DeltaObject;
use crate::engine::release::{OneByOne, Rest, UserCode};
use crate::engine::sync::Arc;
use crate::error::{BoxError, KeyError, StoreError};

/// The target of a reflector (client-go `ReflectorStore`): any store and any queue.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{DeltaFifo, Indexer, KeyFunc, NoMeta, ReflectorStore};
///
/// let keys = || KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
/// let store = Indexer::builder(keys()).build()?;
/// let deltas = DeltaFifo::builder(keys()).build();
/// let fed: [&dyn ReflectorStore<String>; 2] = [&store, &deltas];
/// for store in fed {
///     store.replace(vec![Arc::new("a".to_owned()), Arc::new("b".to_owned())], "7")?;
///     store.delete(Arc::new("a".to_owned()).into())?;
///     store.bookmark("9");
/// }
/// assert_eq!((store.list_keys().len(), deltas.list_keys().len()), (1, 2));
/// assert_eq!(store.applied_version().as_deref(), Some("9"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ReflectorStore<T>: Send + Sync {
    /// Adds a new object.
    ///
    /// # Errors
    /// [`StoreError`]: the change was not made, or not completely. The variant says which part.
    fn add(&self, object: Arc<T>) -> Result<(), StoreError>;

    /// Updates a changed object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn update(&self, object: Arc<T>) -> Result<(), StoreError>;

    /// Deletes an object. Deleting a key that does not exist is not an error.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError>;

    /// Replaces the contents with `list`, as of `version`; all other objects are deleted. A list
    /// is authoritative: if its version is lower than the [applied
    /// version](crate::IndexReader::applied_version) of a store that has one, the applied version
    /// is lowered to it.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), StoreError>;

    /// Declares that every change up to `version` was written by earlier calls (client-go
    /// `ReflectorBookmarkStore`). This advances the applied version of a store that has one: at
    /// once for an [`Indexer`](crate::Indexer), and once everything before it is handled for a
    /// queue that [tracks it](crate::DeltaFifoBuilder::track_applied). In other stores, and if
    /// `version` is not a decimal number, this does nothing.
    ///
    /// Apart from [`replace`](Self::replace) no other call moves the applied version (in
    /// client-go each event does). A writer should therefore call this whenever it has no further
    /// change to write for the moment, and for every bookmark of the API server.
    fn bookmark(&self, version: &str) {
        let _ = version;
    }

    /// Notifies the handlers again of every known object, if the store has handlers; a plain store
    /// does nothing.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn resync(&self) -> Result<(), StoreError>;
}

/// A store of objects by key (client-go `Store`). A [`DeltaFifo`](crate::DeltaFifo) is not a
/// `Store`: it contains deltas, and its objects are in [its store](crate::DeltaFifo::store).
pub trait Store<T>: ReflectorStore<T> {
    /// Returns all objects, in no particular order.
    fn list(&self) -> Vec<Arc<T>>;

    /// Returns all keys, in no particular order.
    fn list_keys(&self) -> Vec<String>;

    /// Returns the object that is stored under the key of `object`.
    ///
    /// # Errors
    /// [`KeyError`] if `object` has no key.
    fn get(&self, object: &T) -> Result<Option<Arc<T>>, KeyError>;

    /// Returns the object stored under `key`.
    fn get_by_key(&self, key: &str) -> Option<Arc<T>>;

    /// Replaces the contents like [`replace`](ReflectorStore::replace), for a list of which some
    /// objects are not available: the objects stored under the keys in `kept` stay. Objects that
    /// the store refuses are returned with the reason; if such an object has a key, the object
    /// stored under that key stays as well.
    ///
    /// The default implementation skips objects without a key, and adds the stored objects of
    /// `kept` to the list. It suits stores that refuse only objects without a key.
    ///
    /// # Errors
    /// As for [`replace`](ReflectorStore::replace). Refused objects are not an error.
    fn replace_keeping(
        &self,
        list: Vec<Arc<T>>,
        kept: &[&str],
        version: &str,
    ) -> Result<Vec<StoreError>, StoreError> {
        let mut refused = OneByOne(Vec::new());
        // The kept objects come first: if a key is also listed with an object, the later object
        // wins.
        let mut all = OneByOne(Vec::new());
        let mut list = Rest(list.into_iter());
        all.extend(kept.iter().filter_map(|key| self.get_by_key(key)));
        for object in list.0.by_ref() {
            let object = UserCode::new(object);
            match self.get(&object) {
                Ok(_) => all.push(object.into_inner()),
                Err(error) => refused.push(error.into()),
            }
        }
        self.replace(all.take(), version)?;
        Ok(refused.take())
    }
}

/// The objects known outside the queue (client-go `KnownObjects`, `KeyListerGetter`), for stores
/// that the queue does not own. A queue [over an `Indexer`](crate::DeltaFifo::over) does not need
/// this.
///
/// Both methods are called with no lock of the queue held.
#[doc(alias = "KeyListerGetter")]
pub trait KnownObjects<T>: Send + Sync {
    /// Returns all keys. A relist, to find deletions, and a resync visit them in this order.
    fn list_keys(&self) -> Vec<String>;

    /// Returns the object of `key`, or `None` if it is not known.
    ///
    /// # Errors
    /// Any error of the store. A deletion is queued despite the error, because a lost deletion
    /// could not be repaired later.
    fn get_by_key(&self, key: &str) -> Result<Option<Arc<T>>, BoxError>;
}
