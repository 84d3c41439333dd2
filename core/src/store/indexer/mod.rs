//! Writing the store alone, without a queue.

mod builder;

use std::collections::HashSet;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::apply::Failed;
use super::{Core, IndexReader, Transformer};
use crate::engine::release::{OneByOne, Rest};
use crate::engine::slot::Slot;
use crate::engine::sync::{Arc, Event, IntoNotification, mutant};
use crate::engine::wait::wait;
use crate::error::{KeyError, StoreError, TransactionError, VersionError, panic_message};
use crate::key::KeyBuf;
use crate::store::applied::{self, Origin, Source};
use crate::{DeltaObject, KeyFunc, KeySource, Meta};
pub use builder::IndexerBuilder;

/// A store with indexes (client-go `Indexer`). Dereferences to its [`IndexReader`].
///
/// Alone it is written with [`add`](Self::add), [`update`](Self::update), [`delete`](Self::delete)
/// and [`replace`](Self::replace), from any thread. Given to a queue
/// ([`DeltaFifo::over`](crate::DeltaFifo::over)) it is written through popped items only: the
/// queue takes it, and readers stay valid.
///
/// Writers of one key come one after another, and a writer waits for who reads an index that it
/// changes ([`by_index`](IndexReader::by_index) of a large answer). Who reads a key waits for
/// neither.
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
    transformer: Option<Transformer<T>>,
    /// Somebody has ended a write, and with it a claim of a slot.
    ended: Event,
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

/// What a store is made of, as a queue takes it over.
pub(crate) type Parts<T, M> = (Arc<Core<T, M>>, Source, Option<Transformer<T>>);

impl<T, M: Meta<T>> Indexer<T, M> {
    /// Starts a store with the built-in namespace index.
    pub fn builder(keys: KeyFunc<T, M>) -> IndexerBuilder<T, M> {
        IndexerBuilder::new(keys)
    }

    /// A handle for reading.
    #[must_use]
    pub fn reader(&self) -> IndexReader<T, M> {
        self.reader.clone()
    }

    pub(crate) fn into_parts(self) -> Parts<T, M> {
        (self.reader.core, self.source, self.transformer)
    }

    /// Everything up to `version` has been written (client-go `Store.Bookmark`): the [applied
    /// version](IndexReader::applied_version) rises to it at once, and who waits for it is told. A
    /// smaller one than before changes nothing; only
    /// [`ReflectorStore::replace`](crate::ReflectorStore::replace) takes the version back. O(1).
    ///
    /// Writes do not move it. (client-go's do, each by the version of its object: here every
    /// writer would have to ask for that and to change one counter that all of them share, and
    /// with several writers it could run ahead of what is written.)
    ///
    /// # Errors
    /// [`VersionError::NotANumber`].
    pub fn bookmark(&self, version: &str) -> Result<(), VersionError> {
        self.reached(version, Origin::Bookmark)
    }

    /// Everything was replaced by a list of `version`, if that compares: unlike a bookmark, that
    /// takes a greater version back.
    pub(crate) fn listed(&self, version: &str) {
        if self.reached(version, Origin::List).is_ok() {
            self.core.applied.announce();
        }
    }

    fn reached(&self, version: &str, origin: Origin) -> Result<(), VersionError> {
        let point = self.core.applied.expect(applied::parse(version)?, origin)?;
        self.core.applied.raise(point);
        Ok(())
    }

    /// Stores `object` under its key, in place of what was there. O(1) and the index functions.
    ///
    /// # Errors
    /// [`StoreError::Key`], [`StoreError::Transform`], [`StoreError::Index`]: the transformer or
    /// an index function failed. The store is as it was.
    pub fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        let mut key = KeyBuf::new();
        self.core.keys.write(&object, &mut key)?;
        let object = self.transformed(crate::key::as_str(&key), object)?;
        self.write(&key, Some(object)).map(drop)
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
        self.write(&key, None).map(drop)
    }

    /// Stores exactly `objects`; the later of two with one key. Atomic per key, not as a whole:
    /// readers go on meanwhile and see each object as it was or as it is. O(objects + stored),
    /// each index function twice an object.
    ///
    /// # Errors
    /// [`StoreError::Key`], [`StoreError::Transform`], [`StoreError::Index`]: nothing was changed.
    /// All objects are asked about before the first is stored; an index function that fails only
    /// after that (it does not say the same twice, or came meanwhile) keeps its object out, and
    /// all else is done. [`StoreError::Released`]: all is done.
    pub fn replace(&self, objects: Vec<Arc<T>>) -> Result<(), StoreError> {
        let mut listed = OneByOne(objects);
        let keys = listed.iter().map(|object| self.core.keys.key(object)).collect::<Result<Vec<_>, KeyError>>()?;
        let mut rest = Rest(listed.take().into_iter());
        let mut objects = OneByOne(Vec::with_capacity(keys.len()));
        for key in &keys {
            let Some(object) = rest.0.next() else { break };
            objects.push(self.transformed(key, object)?);
        }
        for (key, object) in keys.iter().zip(&*objects) {
            self.core.check_indexes(key, object)?;
        }
        let mut outcome = Ok(());
        for (key, object) in keys.iter().zip(objects.take()) {
            outcome = outcome.and(self.put(key, Some(object)));
        }
        let listed: HashSet<&str> = keys.iter().map(String::as_str).collect();
        for key in self.list_keys().iter().filter(|key| !listed.contains(key.as_str())) {
            outcome = outcome.and(self.put(key, None));
        }
        outcome
    }

    /// The same with what can be had of a list: each of `kept` is listed, too, but has no object
    /// here; what is stored under it stays as it is, and is not transformed again. What is refused
    /// comes back, and its key is kept as well; what has no key cannot be. Of what is only
    /// [`Released`](StoreError::Released) nothing was refused. O(objects + stored), each index
    /// function once an object.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{Indexer, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let no_b = |name: Arc<String>| if *name == "b" { Err("no b".into()) } else { Ok(name) };
    /// let store = Indexer::builder(keys).transformer(no_b).build()?;
    /// store.add(Arc::new("a".to_owned()))?;
    /// store.add(Arc::new("z".to_owned()))?;
    /// let refused = store.replace_keeping(["b", "c"].map(|name| Arc::new(name.to_owned())).into(), ["a"]);
    /// assert_eq!(refused.len(), 1);
    /// let mut stored = store.list_keys();
    /// stored.sort();
    /// assert_eq!(stored, ["a", "c"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace_keeping<'k>(
        &self,
        objects: Vec<Arc<T>>,
        kept: impl IntoIterator<Item = &'k str>,
    ) -> Vec<StoreError> {
        let mut listed: HashSet<String> = kept.into_iter().map(str::to_owned).collect();
        let mut refused = Vec::new();
        for object in objects {
            let key = match self.core.keys.key(&object) {
                Ok(key) => key,
                Err(error) => {
                    refused.push(error.into());
                    continue;
                }
            };
            let stored = self.transformed(&key, object).and_then(|object| self.put(&key, Some(object)));
            refused.extend(stored.err());
            listed.insert(key);
        }
        for key in self.list_keys().iter().filter(|key| !listed.contains(key.as_str())) {
            refused.extend(self.put(key, None).err());
        }
        refused
    }

    /// Makes many changes (client-go `Transaction`), in order; those that fail are left out, the
    /// others made. Atomic per key, not as a whole: a reader of several keys may see part of it,
    /// and what an index has is never what the key no longer has.
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

    fn transformed(&self, key: &str, object: Arc<T>) -> Result<Arc<T>, StoreError> {
        let Some(transformer) = &self.transformer else { return Ok(object) };
        let version = self.core.version_of(&object);
        transformer(object).map_err(|source| StoreError::Transform { key: key.to_owned(), version, source })
    }

    /// One of many: should the object that it replaces panic when it is dropped, the others are
    /// written all the same.
    fn put(&self, key: &str, new: Option<Arc<T>>) -> Result<(), StoreError> {
        let old = self.write(key.as_bytes(), new)?;
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(old)));
        dropped.map_err(|panic| StoreError::Released { key: key.to_owned(), message: panic_message(panic) })
    }

    /// What it replaces.
    fn write(&self, key: &[u8], new: Option<Arc<T>>) -> Result<Option<Arc<T>>, StoreError> {
        let core = &self.core;
        // Another writer may have replaced what this one holds, whose destructors then run here.
        let mut new = OneByOne(new);
        let (hash, name) = (core.table.hash(key), crate::key::as_str(key));
        loop {
            let list = core.indexes.load();
            let old = OneByOne(core.table.shard(hash).read().find(hash, key).and_then(Slot::known));
            if old.is_none() && new.is_none() {
                return Ok(None);
            }
            // User code: with nothing locked nor claimed, hence of an old object that may be
            // another by the time it is swapped, and for indexes that may not be all by then.
            let mut said = core.ask(&list, name, old.as_deref(), new.as_deref());
            if let Some(Failed { index, source }) = said.failed.take() {
                let version = new.as_ref().and_then(|new| core.version_of(new));
                return Err(StoreError::Index { index, key: name.to_owned(), version, source });
            }
            let claimed = wait(&self.ended, || core.claim(hash, name, new.is_some()).ok());
            let Some(mut running) = claimed else { continue };
            running.heed();
            let now = OneByOne(running.known());
            let is_as_asked = now.as_ref().map(Arc::as_ptr) == old.as_ref().map(Arc::as_ptr);
            let replaced = if is_as_asked && core.indexes.is_current(&list) {
                let plan = core.plan(&list, name, said, running.slot());
                core.carry_out(&list, &plan, &mut running, new.take())
            } else {
                Err(new.take())
            };
            core.unclaim(running);
            self.tell_ended();
            match replaced {
                Ok(old) => return Ok(old),
                Err(again) => *new = again,
            }
        }
    }

    /// Wakes who waits to write the same key; which key that is, is not known.
    fn tell_ended(&self) {
        mutant!(WriteEndsUnheard => return);
        self.ended.notify(usize::MAX.additional());
    }
}

impl<T, M> Deref for Indexer<T, M> {
    type Target = IndexReader<T, M>;

    fn deref(&self) -> &IndexReader<T, M> {
        &self.reader
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crate::engine::slot::State;
    use crate::engine::sync::Arc;
    use crate::{Indexer, KeyFunc, NoMeta};

    #[test]
    fn a_writer_that_waits_for_who_reads_an_index_does_not_keep_readers_from_its_key() {
        let keys = KeyFunc::custom(NoMeta, |_: &u32| Ok("a".to_owned()));
        let index = |number: &u32| Ok(vec![number.to_string()]);
        let store = Indexer::builder(keys).index("number", index).build().unwrap();
        store.add(Arc::new(1)).unwrap();
        let core = &store.core;
        let hash = core.table.hash(b"a");
        let lock = core.table.shard(hash);
        thread::scope(|scope| {
            let read = |_: &_| {
                // The writer is to take the key out of what is read here.
                scope.spawn(|| store.add(Arc::new(2)).unwrap());
                loop {
                    let shard = lock.try_read().expect("the writer holds the shard while it waits");
                    if shard.find(hash, b"a").unwrap().state() == State::Running {
                        break;
                    }
                    drop(shard);
                    thread::yield_now();
                }
                assert_eq!(store.get_by_key("a").as_deref(), Some(&1));
            };
            core.values("number", |values| values.for_each("1", read)).unwrap();
        });
        assert_eq!(store.get_by_key("a").as_deref(), Some(&2));
        assert_eq!(store.list_index_func_values("number").unwrap(), ["2"]);
    }
}
