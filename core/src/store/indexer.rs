//! Writing the store alone, without a queue.

use std::collections::HashSet;
use std::ops::Deref;

use super::apply::Failed;
use super::{Core, IndexReader, Indexers};
use crate::applied::{self, Source};
use crate::error::{BoxError, IndexError, KeyError, StoreError, TransactionError, VersionError};
use crate::key::KeyBuf;
use crate::slot::SlotOwner;
use crate::sync::{self, Arc};
use crate::{DeltaObject, KeyFunc, KeySource, Meta};

/// A store with indexes (client-go `Indexer`). Dereferences to its [`IndexReader`].
///
/// Alone it is written with [`add`](Self::add), [`update`](Self::update), [`delete`](Self::delete) and
/// [`replace`](Self::replace), from any thread. Given to a queue ([`DeltaFifo::over`](crate::DeltaFifo::over)) it is
/// written through popped items only: the queue takes it, and readers stay valid.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{Indexer, KeyFunc, NoMeta};
///
/// struct Pod { name: String, node: String }
/// let keys = KeyFunc::custom(NoMeta, |pod: &Pod| Ok(pod.name.clone()));
/// let store = Indexer::builder(keys).index("node", |pod: &Pod| Ok(vec![pod.node.clone()])).build()?;
/// store.add(Arc::new(Pod { name: "a".into(), node: "n1".into() }))?;
/// store.add(Arc::new(Pod { name: "b".into(), node: "n1".into() }))?;
/// assert_eq!(store.index_keys("node", "n1")?, ["a", "b"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Indexer<T, M> {
    reader: IndexReader<T, M>,
    source: Source,
}

/// One change of a [transaction](Indexer::transaction).
#[derive(Clone, Debug)]
pub enum Transaction<T> {
    /// A new object.
    Add(Arc<T>),
    /// A changed object.
    Update(Arc<T>),
    /// An object is gone, or its tombstone. That of a key which is not there is no error.
    Delete(DeltaObject<T>),
}

/// Builds an [`Indexer`]; made by [`Indexer::builder`].
pub struct IndexerBuilder<T, M> {
    keys: KeyFunc<T, M>,
    indexers: Indexers<T>,
}

impl<T, M: Meta<T>> IndexerBuilder<T, M> {
    /// Adds an index. Its function gives any number of values and must give the same ones for the same object; it runs
    /// with no lock held. Later ones: [`IndexReader::add_indexers`].
    #[must_use]
    pub fn index(
        mut self,
        name: &str,
        function: impl Fn(&T) -> Result<Vec<String>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.indexers = self.indexers.index(name, function);
        self
    }

    /// The store, empty.
    ///
    /// # Errors
    /// [`IndexError::Conflict`] when a name is given twice or is [`NAMESPACE_INDEX`](crate::NAMESPACE_INDEX).
    pub fn build(self) -> Result<Indexer<T, M>, IndexError> {
        let core = Arc::new(Core::new(self.keys, self.indexers)?);
        let source = Source::of(&core.applied);
        Ok(Indexer { reader: IndexReader { core }, source })
    }
}

impl<T, M: Meta<T>> Indexer<T, M> {
    /// Starts a store with the built-in namespace index.
    pub fn builder(keys: KeyFunc<T, M>) -> IndexerBuilder<T, M> {
        IndexerBuilder { keys, indexers: Indexers::new() }
    }

    /// A handle for reading.
    #[must_use]
    pub fn reader(&self) -> IndexReader<T, M> {
        self.reader.clone()
    }

    pub(crate) fn into_parts(self) -> (Arc<Core<T, M>>, Source) {
        (self.reader.core, self.source)
    }

    /// Everything up to `version` has been written (client-go `Store.Bookmark`): the
    /// [applied version](IndexReader::applied_version) rises to it at once, and who waits for it is told. A smaller one than
    /// before changes nothing. O(1).
    ///
    /// # Errors
    /// [`VersionError::NotANumber`].
    pub fn bookmark(&self, version: &str) -> Result<(), VersionError> {
        self.core.applied.raise(applied::parse(version)?);
        Ok(())
    }

    /// Stores `object` under its key, in place of what was there. O(1) and the index functions.
    ///
    /// # Errors
    /// [`StoreError::Key`], [`StoreError::Index`]: an index function failed; the store is as it was.
    pub fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        let mut key = KeyBuf::new();
        self.core.keys.write(&object, &mut key)?;
        self.write(&key, Some(object))
    }

    /// The same as [`add`](Self::add) (as in client-go).
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.add(object)
    }

    /// Removes what is stored under the key of `of`. O(1) and the index functions.
    ///
    /// # Errors
    /// [`StoreError::Key`] when it has no key.
    pub fn delete<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<(), StoreError>
    where
        T: 'a,
    {
        let mut key = KeyBuf::new();
        self.core.keys.write_source(&of.into(), &mut key)?;
        self.write(&key, None)
    }

    /// Stores exactly `objects`; the later of two with one key. Atomic per key, not as a whole: readers go on meanwhile and
    /// see each object as it was or as it is. O(objects + stored), each index function twice an object.
    ///
    /// # Errors
    /// [`StoreError::Key`], [`StoreError::Index`]: nothing was changed.
    pub fn replace(&self, objects: Vec<Arc<T>>) -> Result<(), StoreError> {
        let keys = objects.iter().map(|object| self.core.keys.key(object)).collect::<Result<Vec<_>, KeyError>>()?;
        for (key, object) in keys.iter().zip(&objects) {
            self.core.check_indexes(key, object)?;
        }
        let mut outcome = Ok(());
        for (key, object) in keys.iter().zip(objects) {
            outcome = outcome.and(self.write(key.as_bytes(), Some(object)));
        }
        let listed: HashSet<&str> = keys.iter().map(String::as_str).collect();
        for key in self.list_keys().iter().filter(|key| !listed.contains(key.as_str())) {
            outcome = outcome.and(self.write(key.as_bytes(), None));
        }
        outcome
    }

    /// Makes many changes (client-go `Transaction`), in order; those that fail are left out, the others made. Atomic per key
    /// with its indexes, not as a whole: a reader of several keys may see part of it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{ExplicitKey, Indexer, KeyFunc, NoMeta, Transaction};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| if name.is_empty() { Err("no name".into()) } else { Ok(name.clone()) });
    /// let store = Indexer::builder(keys).build()?;
    /// let changes = ["a", "", "b"].map(|name| Transaction::Add(Arc::new(name.to_owned())));
    /// let error = store.transaction(changes).unwrap_err();
    /// assert_eq!((error.failed[0].0, error.total), (1, 3));
    /// assert_eq!(store.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TransactionError`] names the changes that failed.
    pub fn transaction(&self, changes: impl IntoIterator<Item = Transaction<T>>) -> Result<(), TransactionError> {
        let (mut total, mut failed) = (0, Vec::new());
        for (number, change) in changes.into_iter().enumerate() {
            let made = match change {
                Transaction::Add(object) => self.add(object),
                Transaction::Update(object) => self.update(object),
                Transaction::Delete(object) => self.delete(&object),
            };
            failed.extend(made.err().map(|error| (number, error)));
            total += 1;
        }
        if failed.is_empty() { Ok(()) } else { Err(TransactionError { total, failed }) }
    }

    fn write(&self, key: &[u8], mut new: Option<Arc<T>>) -> Result<(), StoreError> {
        let core = &self.core;
        let hash = core.table.hash(key);
        let mut tries = 0;
        loop {
            let list = core.indexes.load();
            let (old, entries) = {
                let shard = core.table.shard(hash).read();
                shard.find(hash, key).map_or((None, 0), |slot| (slot.known(), slot.index_entries()))
            };
            if old.is_none() && new.is_none() {
                return Ok(());
            }
            let name = crate::key::as_str(key);
            // User code: with no lock held, hence against an old object that may have changed by the time it is swapped,
            // and for indexes that may not be all by then.
            let mut plan = core.plan(&list, name, old.as_deref(), new.as_deref(), entries, None);
            if let Some(Failed { index, source }) = plan.failed.take() {
                return Err(StoreError::Index { index, key: name.to_owned(), source });
            }
            let mut shard = core.table.shard(hash).write();
            let is_stored = new.is_some();
            let place = if is_stored {
                Some(core.table.find_or_insert(&mut shard, hash, name))
            } else {
                shard.place_of(hash, key)
            };
            let owner = place.map(|place| shard.at(place));
            let now = owner.and_then(|owner| owner.known());
            let unchanged = now.as_ref().map(Arc::as_ptr) == old.as_ref().map(Arc::as_ptr);
            let claimed = if unchanged { owner.and_then(SlotOwner::claim) } else { None };
            let Some(mut running) = claimed else {
                drop(shard);
                sync::spin(&mut tries);
                continue;
            };
            running.heed();
            // Whoever builds an index notices what is known with the shard shared, hence not now.
            let replaced = if core.indexes.is_current(&list) {
                core.carry_out(&list, &plan, &mut running, new.take())
            } else {
                Err(new.take())
            };
            let stays = running.is_known();
            let retired = if stays { running.idle().map(|()| None) } else { shard.retire(hash, running) };
            debug_assert!(retired.is_ok(), "a store alone has no pushers");
            drop(shard);
            drop((retired, now, old));
            match replaced {
                Ok(_old) => return Ok(()),
                Err(again) => new = again,
            }
        }
    }
}

impl<T, M> Deref for Indexer<T, M> {
    type Target = IndexReader<T, M>;

    fn deref(&self) -> &IndexReader<T, M> {
        &self.reader
    }
}
