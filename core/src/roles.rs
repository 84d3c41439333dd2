//! What a reflector writes to, what a reader reads, and what a controller pops: client-go's `ReflectorStore`, `Store` and
//! `Queue`. All three can be trait objects, so that a reflector need not know which store it feeds.
//!
//! The types' own methods say the same with more precise errors, and more; these are for code that serves any of them.

use crate::engine::sync::Arc;
use crate::error::{BoxError, Closed, HandlerError, KeyError, ProcessError, StoreError};
use crate::{DeltaFifo, DeltaObject, Deltas, Indexer, Meta};

/// What a reflector feeds (client-go `ReflectorStore`): any store, and any queue.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{DeltaFifo, Fifo, Indexer, KeyFunc, NoMeta, ReflectorStore};
///
/// let keys = || KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
/// let (store, fifo) = (Indexer::builder(keys()).build()?, Fifo::new(keys()));
/// let deltas = DeltaFifo::builder(keys()).build();
/// let fed: [&dyn ReflectorStore<String>; 3] = [&store, &fifo, &deltas];
/// for store in fed {
///     store.replace(vec![Arc::new("a".to_owned()), Arc::new("b".to_owned())], "7")?;
///     store.delete(Arc::new("a".to_owned()).into())?;
///     store.bookmark("9");
/// }
/// assert_eq!((store.list_keys().len(), fifo.len(), deltas.list_keys().len()), (1, 1, 2));
/// assert_eq!(store.applied_version().as_deref(), Some("9"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ReflectorStore<T>: Send + Sync {
    /// A new object.
    ///
    /// # Errors
    /// [`StoreError`] says what was not done, or not completely.
    fn add(&self, object: Arc<T>) -> Result<(), StoreError>;

    /// A changed object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn update(&self, object: Arc<T>) -> Result<(), StoreError>;

    /// An object is gone. That of a key which is not there is no error.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError>;

    /// These are all objects, as of `version`; whatever else is there is gone. A list is the truth: one at a lower version
    /// than before takes the [applied version](crate::IndexReader::applied_version) of a store that keeps one back.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), StoreError>;

    /// Everything up to `version` has been told by the calls before (client-go `ReflectorBookmarkStore`). Moves the applied
    /// version of a store that keeps one: an [`Indexer`]'s at once, a queue's that
    /// [tracks](crate::DeltaFifoBuilder::track_applied) it when all of that is handled. Any other does nothing, nor does one
    /// with a version that is no decimal number.
    ///
    /// No other call but [`replace`](Self::replace) moves it (in client-go each event's version does): who feeds a store says so
    /// whenever there is nothing more to tell just then, and passes on what the API server says.
    fn bookmark(&self, version: &str) {
        let _ = version;
    }

    /// Tells of everything known once more, where there is somebody to tell; in a plain store it does nothing.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    fn resync(&self) -> Result<(), StoreError>;
}

/// A store of objects by key (client-go `Store`). Of a [`Fifo`](crate::Fifo) and a [`Heap`](crate::Heap) it holds what is
/// queued. A [`DeltaFifo`] is none: it holds deltas, and its objects are in [its store](DeltaFifo::store).
pub trait Store<T>: ReflectorStore<T> {
    /// All objects, in no particular order.
    fn list(&self) -> Vec<Arc<T>>;

    /// All keys, in no particular order.
    fn list_keys(&self) -> Vec<String>;

    /// What is stored under the key of `object`.
    ///
    /// # Errors
    /// [`KeyError`] when it has no key.
    fn get(&self, object: &T) -> Result<Option<Arc<T>>, KeyError>;

    /// The object under `key`.
    fn get_by_key(&self, key: &str) -> Option<Arc<T>>;

    /// The same as [`replace`](ReflectorStore::replace) with what can be had of a list: each of `kept` is listed, too, but
    /// has no object here, and what is stored under it stays. Objects that are refused come back with the reason: their keys
    /// are kept as well, if they have any.
    ///
    /// Unless a store has a way of its own, objects without a key are left out, and what is kept is put in once more as it is
    /// stored: for a store that refuses nothing else.
    ///
    /// # Errors
    /// As for [`replace`](ReflectorStore::replace): not of one object alone.
    fn replace_keeping(&self, list: Vec<Arc<T>>, kept: &[&str], version: &str) -> Result<Vec<StoreError>, StoreError> {
        let mut refused = Vec::new();
        // First: of a key that is listed with an object, too, that one counts.
        let mut all: Vec<_> = kept.iter().filter_map(|key| self.get_by_key(key)).collect();
        for object in list {
            match self.get(&object) {
                Ok(_) => all.push(object),
                Err(error) => refused.push(error.into()),
            }
        }
        self.replace(all, version)?;
        Ok(refused)
    }
}

/// A handler behind a [`Queue`]: gets an item, and whether it is of the initial population.
pub type ItemHandler<'h, Item> = dyn FnMut(&Item, bool) -> Result<(), BoxError> + 'h;

/// A queue that a controller pops (client-go `Queue`).
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{DeltaFifo, Deltas, KeyFunc, NoMeta, Queue};
///
/// fn run(queue: &dyn Queue<String, Item = Deltas<String>>) -> usize {
///     let mut handled = 0;
///     while queue.process(&mut |deltas, _initial| Ok(handled += deltas.len())).is_ok() {}
///     handled
/// }
///
/// let fifo = DeltaFifo::builder(KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()))).build();
/// fifo.add(Arc::new("a".to_owned()))?;
/// fifo.update(Arc::new("a".to_owned()))?;
/// fifo.close();
/// assert_eq!(run(&fifo), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Queue<T>: ReflectorStore<T> {
    /// What a handler gets: the deltas of a key, its newest object, or an event.
    type Item;

    /// Takes the next key or event and calls `handler` with what is queued for it (client-go `Pop`); blocks while the queue
    /// is empty and open. What was handled is not put back, whatever the handler returned. A queue that is fused with a store
    /// has applied it to that before.
    ///
    /// # Errors
    /// [`ProcessError`]: the queue is closed and empty, or the handler failed or panicked, or an index function of the
    /// store failed.
    fn process(&self, handler: &mut ItemHandler<'_, Self::Item>) -> Result<(), ProcessError<HandlerError>>;

    /// Closes it: what is queued is still popped, then pops say [`Closed`].
    fn close(&self);

    /// Whether [`close`](Self::close) was called.
    fn is_closed(&self) -> bool;

    /// Whether the initial population has been handled. Once true it stays true.
    fn has_synced(&self) -> bool;

    /// Blocks until [`has_synced`](Self::has_synced) (client-go `HasSyncedChecker`).
    ///
    /// # Errors
    /// [`Closed`] when the queue is closed before.
    fn wait_for_sync(&self) -> Result<(), Closed>;
}

impl<T: Send + Sync, M: Meta<T>> ReflectorStore<T> for Indexer<T, M> {
    fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.add(object)
    }

    fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.update(object)
    }

    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError> {
        self.delete(&object)
    }

    fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), StoreError> {
        self.replace(list)?;
        self.listed(version);
        Ok(())
    }

    fn bookmark(&self, version: &str) {
        // A version that does not compare says nothing of what is applied.
        let _ = self.bookmark(version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl<T: Send + Sync, M: Meta<T>> Store<T> for Indexer<T, M> {
    fn list(&self) -> Vec<Arc<T>> {
        self.reader().list()
    }

    fn list_keys(&self) -> Vec<String> {
        self.reader().list_keys()
    }

    fn get(&self, object: &T) -> Result<Option<Arc<T>>, KeyError> {
        self.reader().get(object)
    }

    fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.reader().get_by_key(key)
    }

    fn replace_keeping(&self, list: Vec<Arc<T>>, kept: &[&str], version: &str) -> Result<Vec<StoreError>, StoreError> {
        let refused = self.replace_keeping(list, kept.iter().copied());
        self.listed(version);
        Ok(refused)
    }
}

impl<T: Send + Sync, M: Meta<T>> ReflectorStore<T> for DeltaFifo<T, M> {
    fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        Ok(self.add(object)?)
    }

    fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        Ok(self.update(object)?)
    }

    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError> {
        Ok(self.delete(object)?)
    }

    fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), StoreError> {
        self.replace(list, version)?;
        Ok(())
    }

    fn bookmark(&self, version: &str) {
        // Where nothing is tracked, or the version does not compare, there is nobody who could be told.
        let _ = self.bookmark(version);
    }

    fn resync(&self) -> Result<(), StoreError> {
        self.resync();
        Ok(())
    }
}

impl<T: Send + Sync, M: Meta<T>> Queue<T> for DeltaFifo<T, M> {
    type Item = Deltas<T>;

    fn process(&self, handler: &mut ItemHandler<'_, Deltas<T>>) -> Result<(), ProcessError<HandlerError>> {
        self.process(|item| {
            let initial = item.is_in_initial_list();
            if !self.is_fused() {
                return Ok(handler(item.deltas(), initial)?);
            }
            // Applied, they are gone.
            let deltas = item.deltas().clone();
            let stored = item.apply(|_| ());
            handler(&deltas, initial)?;
            Ok(stored.map_err(BoxError::from)?)
        })
    }

    fn close(&self) {
        self.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn wait_for_sync(&self) -> Result<(), Closed> {
        self.wait_for_sync()
    }
}

/// What is known outside the queue (client-go `KnownObjects`, `KeyListerGetter`). A queue over a fused
/// [`Indexer`](crate::Indexer) needs none; this is for stores that the queue does not own.
///
/// Both methods are called with no lock of the queue held.
pub trait KnownObjects<T>: Send + Sync {
    /// All keys. Their order is the order of the deletions that a relist finds and of a resync.
    fn list_keys(&self) -> Vec<String>;

    /// The object of `key`, `None` when it is not known.
    ///
    /// # Errors
    /// Whatever the store says. A deletion is then queued all the same, since dropping it could not be mended.
    fn get_by_key(&self, key: &str) -> Result<Option<Arc<T>>, BoxError>;
}
