//! The reading handle of a store, which can be cloned and outlives the queue.

use super::{Core, Indexers, Values};
use crate::engine::buckets::Cursor;
use crate::engine::release::{OneByOne, release};
use crate::engine::slot::Slot;
use crate::engine::sync::{Arc, GROUP, assert_none_held};
use crate::error::{BoxError, IndexError, KeyError, WaitError};
use crate::key::KeyBuf;
use crate::{KeyFunc, KeySource, KnownObjects, Meta};

/// A reader of a store (the reading half of client-go's `Indexer`). Cheap to clone; every clone
/// sees the same store, whether an [`Indexer`](crate::Indexer) or a queue writes it.
///
/// A read of one key is atomic. A read of several keys (list, index) reads shard by shard and may
/// see part of another thread's relist, but never an object that was not stored. A read of an
/// index never returns an object that has none of the values that are looked up, and never misses
/// an object that has at least one of them both before and after an update. A new object may be
/// found by its key a moment before it is found in an index.
pub struct IndexReader<T, M> {
    pub(crate) core: Arc<Core<T, M>>,
}

impl<T, M> Clone for IndexReader<T, M> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<T, M: Meta<T>> IndexReader<T, M> {
    /// Returns the key function.
    #[must_use]
    pub fn keys(&self) -> &KeyFunc<T, M> {
        &self.core.keys
    }

    /// Adds indexes (client-go `AddIndexers`), at any time: while the store is filled, written and
    /// read. Readers find the indexes when this returns. O(objects), with memory for 64 of them at
    /// a time. The index functions run on the calling thread, once per object, and again for each
    /// object that is replaced at the same time. So this blocks: async code calls it on a thread
    /// that may block.
    ///
    /// An index of a [label](Indexers::label), of [owners](Indexers::owners) or of a
    /// [field](Indexers::field) that the store already has is shared, and not added again. So each
    /// user of a store may add the indexes that it reads. If another thread is building an index
    /// with one of the names, this call first waits for the end of that build. An index function
    /// may call this method, too: a name that its own thread is building is then a conflict. But
    /// if the index functions of two builds wait for each other's index, neither build ends.
    ///
    /// Until this returns, writers store one object after another: each waits while the build
    /// inserts at most 64 objects, and for the other writers, one of which may wait for the readers
    /// of an index. Readers do not use the lock for which these writers wait.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{Indexer, Indexers, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |(name, _): &(&str, u32)| Ok((*name).to_owned()));
    /// let store = Indexer::builder(keys).build()?;
    /// store.add(Arc::new(("a", 7)))?;
    /// let indexers = Indexers::new()
    ///     .index("number", |(_, number): &(&str, u32)| Ok(vec![number.to_string()]));
    /// store.add_indexers(indexers)?;
    /// assert_eq!(store.index_keys("number", "7")?, ["a"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IndexError::Conflict`]: a name is given twice, or an index has it that the new one cannot
    /// share or that this thread is building. [`IndexError::Build`]: a function failed for a stored
    /// object. No index is added then, and the store is unchanged.
    pub fn add_indexers(&self, indexers: Indexers<T>) -> Result<(), IndexError> {
        self.core.add_indexers(indexers)
    }

    /// Returns the object that is stored under the key of `of` (an object, tombstone or
    /// [`ExplicitKey`](crate::ExplicitKey)). O(1).
    ///
    /// # Errors
    /// [`KeyError`] if `of` has no key.
    pub fn get<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<Option<Arc<T>>, KeyError>
    where
        T: 'a,
    {
        let mut key = KeyBuf::new();
        self.core.keys.write_source(&of.into(), &mut key)?;
        Ok(self.get_by_bytes(&key))
    }

    /// Returns the object that is stored under `key`. O(1). Waits for a relist's group of 64 slots
    /// at most, or for a resync's pass over a shard of the table (a 256th of the keys).
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.get_by_bytes(key.as_bytes())
    }

    #[inline]
    fn get_by_bytes(&self, key: &[u8]) -> Option<Arc<T>> {
        let hash = self.core.table.hash(key);
        let shard = self.core.table.shard(hash).read();
        shard.find(hash, key)?.known()
    }

    /// Returns all objects, in no particular order. O(n).
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        let mut objects = Vec::with_capacity(self.len());
        for shard in self.core.table.shards() {
            objects.extend(shard.read().slots_near().filter_map(Slot::known));
        }
        objects
    }

    /// Returns all keys, in no particular order. O(n).
    #[must_use]
    pub fn list_keys(&self) -> Vec<String> {
        let mut keys = Vec::with_capacity(self.len());
        for shard in self.core.table.shards() {
            let shard = shard.read();
            keys.extend(
                shard.slots_near().filter(|slot| slot.is_known()).map(|slot| slot.key().to_owned()),
            );
        }
        keys
    }

    /// Visits every object, in no particular order, without collecting them (client-go has no such
    /// call). O(n), in steps of about 64 objects; `visit` runs between the steps, when nothing is
    /// locked. An object that stays stored during the walk is visited once; one that is added or
    /// deleted during the walk may be visited.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{Indexer, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let store = Indexer::builder(keys).build()?;
    /// ["a", "bc"].map(|name| store.add(Arc::new(name.to_owned())));
    /// let mut length = 0;
    /// store.for_each(|name| length += name.len());
    /// assert_eq!(length, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(&Arc<T>)) {
        let mut step = OneByOne(Vec::new());
        for number in 0..self.core.table.shards().len() {
            let mut cursor = Some(Cursor::default());
            while let Some(from) = cursor {
                cursor =
                    self.core.table.walk(number, from, GROUP, |slot, _| step.extend(slot.known()));
                assert_none_held();
                step.iter().for_each(&mut visit);
                release(step.drain(..));
            }
        }
    }

    /// Returns how many objects are stored. While an object is written, it may be counted before it
    /// is stored. With custom keys it may be counted twice while its namespace changes.
    /// O(namespaces).
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.namespaces.len()
    }

    /// Returns whether no object is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns every stored object that shares a value of index `name` with `object`, each once.
    /// O(answers), each counted once per shared value.
    ///
    /// # Errors
    /// [`IndexError`]: there is no such index, or its function fails for `object`.
    pub fn index(&self, name: &str, object: &T) -> Result<Vec<Arc<T>>, IndexError> {
        let values = self.core.values_of(name, object)?;
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        self.by_values(name, &values)
    }

    /// Returns every stored object with `value` in index `name`. O(answers).
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no index of that name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        self.by_values(name, &[value])
    }

    /// Returns every stored object that has any of `values` in index `name`, each once.
    pub(super) fn by_values(&self, name: &str, values: &[&str]) -> Result<Vec<Arc<T>>, IndexError> {
        let mut found = self.core.find(name, values, |_| ())?;
        Ok(found.take().into_iter().map(|((), object)| object).collect())
    }

    /// Returns the keys of the objects with `value` in index `name`, sorted.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no index of that name.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<String>, IndexError> {
        let mut found = self.core.find(name, &[value], |slot| slot.key().to_owned())?;
        let (mut keys, objects): (Vec<_>, Vec<_>) = found.take().into_iter().unzip();
        release(objects);
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns all values of index `name`, sorted. During an update both the old and the new value
    /// may be among them.
    ///
    /// # Errors
    /// [`IndexError::Unknown`] if there is no index of that name.
    pub fn list_index_func_values(&self, name: &str) -> Result<Vec<String>, IndexError> {
        self.core.values(name, Values::values)
    }

    /// Returns the applied version (client-go `LastStoreSyncResourceVersion`): the greatest
    /// version up to which everything is known to be in the store. A
    /// [`DeltaFifo::bookmark`](crate::DeltaFifo::bookmark) raises it once everything that was
    /// offered before is handled; an [`Indexer::bookmark`](crate::Indexer::bookmark) raises it at
    /// once. Returns `None` until a version is applied.
    ///
    /// The applied version rises, with two exceptions. It is lowered by a complete list that is
    /// committed at a lower version than an earlier bookmark or list. Such a list means that the
    /// API server has been restored from a backup, so that the same version now denotes another
    /// state. The applied version is `None` until that list is handled, and then rises from the
    /// version of the list. A list at version 0 does not lower it: some aggregated API servers list
    /// everything at version 0. The other exception is a [scope](crate::KeyScope) that is added, or
    /// that counts again after a waiver: the applied version is then `None` until everything that
    /// was offered before is handled, and the scope has a version, which may be a lower one.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    #[must_use]
    pub fn applied_version(&self) -> Option<String> {
        self.core.applied.version()
    }

    /// Returns the number of lists at a lower version that the store has noticed, each of which
    /// shows that the API server has been restored from a backup.
    #[doc(hidden)]
    #[must_use]
    pub fn history(&self) -> u64 {
        self.core.applied.history()
    }

    /// Blocks until the [applied version](Self::applied_version) is `version` or greater, so that
    /// reads of this store are at least that fresh. Versions compare as decimal numbers. If the
    /// store has noticed that the API server was restored from a backup, `version` is taken as a
    /// version from after the restore.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{DeltaFifo, Indexer, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let fifo = DeltaFifo::over(Indexer::builder(keys).build()?).track_applied(true).build();
    /// let store = fifo.store();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| while fifo.process(|item| item.apply(|_| ())).is_ok() {});
    ///     fifo.add(Arc::new("a".to_owned()))?;
    ///     fifo.bookmark("7")?;
    ///     store.wait_for_resource_version("7")?;
    ///     assert!(store.get_by_key("a").is_some());
    ///     fifo.close();
    ///     Ok::<(), Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError::Version`]: `version` is not a decimal number, or the queue over this store
    /// does not track the applied version. [`WaitError::Rewound`]: a list at a lower version was
    /// committed during the wait. [`WaitError::Closed`]: the queue is closed and holds no marker
    /// of that version or a greater one (a bookmark or the end of a list), or the queue or indexer
    /// that wrote the store was dropped. (While a closed queue has such a marker, the wait goes
    /// on, because queued deltas are still popped.)
    pub fn wait_for_resource_version(&self, version: &str) -> Result<(), WaitError> {
        self.core.applied.wait(version)
    }

    /// Waits as [`wait_for_resource_version`](Self::wait_for_resource_version) does, without
    /// blocking the thread.
    ///
    /// # Errors
    /// As for [`wait_for_resource_version`](Self::wait_for_resource_version).
    pub async fn wait_for_resource_version_async(&self, version: &str) -> Result<(), WaitError> {
        self.core.applied.wait_async(version).await
    }
}

impl<T: Send + Sync, M: Meta<T>> KnownObjects<T> for IndexReader<T, M> {
    fn list_keys(&self) -> Vec<String> {
        self.list_keys()
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<T>>, BoxError> {
        Ok(self.get_by_key(key))
    }
}
