//! The [`Indexer`], and the writes to a store without a queue.

mod builder;

use std::collections::HashSet;
use std::ops::Deref;

use super::apply::{Failed, Plan, log_differing};
use super::{Core, IndexReader, Transformer};
use crate::engine::release::{OneByOne, Rest, UserCode};
use crate::engine::slot::Slot;
use crate::engine::sync::locks::Held;
use crate::engine::sync::{Arc, Event, IntoNotification, mutant};
use crate::engine::wait::wait;
use crate::error::{KeyError, OfferError, StoreError, TransactionError, VersionError};
use crate::key::KeyBuf;
use crate::panics::{FirstPanic, caught, ignore_panic};
use crate::store::applied::{self, Origin, Source};
use crate::{DeltaObject, KeyFunc, KeySource, Meta};
pub use builder::IndexerBuilder;

/// A store with indexes (client-go `Indexer`). Dereferences to its [`IndexReader`].
///
/// Without a queue it is written with [`add`](Self::add), [`update`](Self::update),
/// [`delete`](Self::delete) and [`replace`](Self::replace), from any thread. A queue that takes it
/// ([`DeltaFifo::over`](crate::DeltaFifo::over)) writes it through popped items only; readers stay
/// valid.
///
/// Writers of one key wait for each other, and a writer waits for readers of an index that it
/// changes ([`by_index`](IndexReader::by_index) with a large answer). A reader of one key waits
/// neither for writers of the key nor for readers of an index.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{Indexer, KeyFunc, NoMeta};
///
/// struct Pod { name: String, node: String }
/// let keys = KeyFunc::custom(NoMeta, |pod: &Pod| Ok(pod.name.clone()));
/// let store = Indexer::builder(keys)
///     .index("node", |pod: &Pod| Ok(vec![pod.node.clone()]))
///     .build()?;
/// store.add(Arc::new(Pod { name: "a".into(), node: "n1".into() }))?;
/// store.add(Arc::new(Pod { name: "b".into(), node: "n1".into() }))?;
/// assert_eq!(store.index_keys("node", "n1")?, ["a", "b"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ThreadSafeStore")]
pub struct Indexer<T, M> {
    reader: IndexReader<T, M>,
    source: Source,
    transformer: Option<Transformer<T>>,
    /// The event that is notified when a write, and its claim of a slot, has ended.
    ended: Event,
}

/// One change of a [transaction](Indexer::transaction).
#[derive(Clone, Debug)]
pub enum Transaction<T> {
    /// A new object.
    Add(Arc<T>),
    /// A changed object.
    Update(Arc<T>),
    /// A deletion, by an object or a tombstone. A key that is not stored is not an error.
    Delete(DeltaObject<T>),
}

/// The parts of a store that a queue takes over.
pub(crate) type Parts<T, M> = (Arc<Core<T, M>>, Source, Option<Transformer<T>>);

impl<T, M: Meta<T>> Indexer<T, M> {
    /// Returns a builder of a store with the built-in namespace index.
    pub fn builder(keys: KeyFunc<T, M>) -> IndexerBuilder<T, M> {
        IndexerBuilder::new(keys)
    }

    /// Returns a handle for reading.
    #[must_use]
    pub fn reader(&self) -> IndexReader<T, M> {
        self.reader.clone()
    }

    pub(crate) fn into_parts(self) -> Parts<T, M> {
        (self.reader.core, self.source, self.transformer)
    }

    /// Declares that everything up to `version` has been written (client-go `Store.Bookmark`). The
    /// [applied version](IndexReader::applied_version) rises to it at once, and callers that wait
    /// for it wake. A smaller version changes nothing; only
    /// [`ReflectorStore::replace`](crate::ReflectorStore::replace) can lower the version. O(1).
    ///
    /// Writes do not change the applied version. (In client-go, a write raises it to the version of
    /// the written object. Here every writer would have to read that version and to update one
    /// shared counter. With several writers, the counter could be ahead of writes that have not
    /// ended.)
    ///
    /// # Errors
    /// [`VersionError::NotANumber`] if `version` is not a decimal number.
    pub fn bookmark(&self, version: &str) -> Result<(), VersionError> {
        self.reached(version, Origin::Bookmark)
    }

    /// Records that a list at `version` has replaced everything. Does nothing if the version is not
    /// a number. Unlike a bookmark, this can lower the applied version.
    fn listed(&self, version: &str) {
        if self.reached(version, Origin::List).is_ok() {
            self.core.applied.announce();
        }
    }

    /// Ends a list of which everything is written: records its version, and then resumes the panic
    /// of a write.
    fn end_list(&self, version: Option<&str>, mut panic: FirstPanic) {
        if let Some(version) = version {
            panic.call(|| self.listed(version));
        }
        panic.resume();
    }

    fn reached(&self, version: &str, origin: Origin) -> Result<(), VersionError> {
        let point = self.core.applied.expect(applied::parse(version)?, origin)?;
        self.core.applied.raise(point);
        Ok(())
    }

    /// Stores `object` under its key, in place of the former object. O(1) plus the index
    /// functions.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: `object` has no key, or the transformer failed.
    /// [`StoreError::Index`]: an index function failed. The store is unchanged.
    pub fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        let (object, mut key) = (UserCode::new(object), KeyBuf::new());
        self.core.keys.write(&object, &mut key)?;
        let object = self.transformed(crate::key::as_str(&key), object.into_inner())?;
        self.write(&key, Some(object)).map(drop)
    }

    /// Stores `object` as [`add`](Self::add) does (as in client-go).
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        self.add(object)
    }

    /// Removes the object that is stored under the key of `of`. O(1) plus the index functions.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if `of` has no key.
    pub fn delete<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<(), StoreError>
    where
        T: 'a,
    {
        let mut key = KeyBuf::new();
        self.core.keys.write_source(&of.into(), &mut key)?;
        self.write(&key, None).map(drop)
    }

    /// Replaces the contents with `objects`. If two of them have the same key, the later one is
    /// stored. Atomic per key, not as a whole: readers proceed, and find either the old or the new
    /// object of a key. O(objects + stored); index functions run twice per object.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: an object has no key, or the transformer failed for it.
    /// [`StoreError::Index`]: an index function failed. Nothing was changed, because the functions
    /// run for all objects before the first is stored. If an index function fails only after that
    /// (it is not pure, or the index was added in between), the object for which it failed is not
    /// stored, the stored object of its key stays, and all other changes are made; the error is
    /// [`StoreError::Index`] then, too. [`StoreError::Released`]: the destructor of a replaced
    /// object panicked, and everything is stored.
    ///
    /// # Panics
    /// If the key function, an accessor or the destructor of an object that is not stored panics.
    /// Before the first object is stored, a panic changes nothing. After that, the other objects
    /// are stored before the first panic is resumed.
    pub fn replace(&self, objects: Vec<Arc<T>>) -> Result<(), StoreError> {
        self.replace_at(objects, None)
    }

    /// Replaces the contents as [`replace`](Self::replace) does. Unless the list is refused as a
    /// whole, also records its version, before a panic is resumed.
    pub(crate) fn replace_at(
        &self,
        objects: Vec<Arc<T>>,
        version: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut listed = OneByOne(objects);
        let keys = listed
            .iter()
            .map(|object| self.core.keys.key(object))
            .collect::<Result<Vec<_>, KeyError>>()?;
        let mut rest = Rest(listed.take().into_iter());
        let mut objects = OneByOne(Vec::with_capacity(keys.len()));
        for key in &keys {
            let Some(object) = rest.0.next() else { break };
            objects.push(self.transformed(key, object)?);
        }
        for (key, object) in keys.iter().zip(&*objects) {
            self.core.check_indexes(key, object)?;
        }
        let mut failed = OneByOne(None);
        let mut panic = FirstPanic::default();
        let mut put = |key: &str, object| {
            // From here on, a panic of an accessor or of a destructor must not end the list half
            // way.
            if let Some(Err(error)) = panic.catch(|| self.put(key, object)) {
                keep(&mut failed, error);
            }
        };
        let mut objects = Rest(objects.take().into_iter());
        for (key, object) in keys.iter().zip(objects.0.by_ref()) {
            put(key, Some(object));
        }
        let listed: HashSet<&str> = keys.iter().map(String::as_str).collect();
        for key in self.list_keys().iter().filter(|key| !listed.contains(key.as_str())) {
            put(key, None);
        }
        self.end_list(version, panic);
        failed.take().map_or(Ok(()), Err)
    }

    /// Replaces the contents with a list of which some objects are not available, for example
    /// because they cannot be decoded. Their keys are passed as `kept`, and the stored objects of
    /// these keys stay. Stored objects that are neither listed nor kept are removed.
    ///
    /// An object that the key function, the transformer or an index function refuses is not stored.
    /// If it has a key, the stored object of that key stays as well. Returns the errors of refused
    /// objects. Also returns [`Released`](StoreError::Released) for each replaced object whose
    /// destructor panicked; these writes were made. O(objects + stored); index functions run once
    /// per object.
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
    /// let list = ["b", "c"].map(|name| Arc::new(name.to_owned()));
    /// let refused = store.replace_keeping(list.into(), ["a"]);
    /// assert_eq!(refused.len(), 1);
    /// let mut stored = store.list_keys();
    /// stored.sort();
    /// assert_eq!(stored, ["a", "c"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If `kept` panics; then nothing is changed. If the key function, an accessor or the
    /// destructor of an object that is not stored panics; then the other objects are stored before
    /// the first panic is resumed. If an object has no key because of a panic, nothing is removed,
    /// because the object may be any of those that are stored.
    pub fn replace_keeping<'k>(
        &self,
        objects: Vec<Arc<T>>,
        kept: impl IntoIterator<Item = &'k str>,
    ) -> Vec<StoreError> {
        self.replace_keeping_at(objects, kept, None)
    }

    /// Replaces the contents as [`replace_keeping`](Self::replace_keeping) does, and records the
    /// version of the list, before a panic is resumed.
    pub(crate) fn replace_keeping_at<'k>(
        &self,
        objects: Vec<Arc<T>>,
        kept: impl IntoIterator<Item = &'k str>,
        version: Option<&str>,
    ) -> Vec<StoreError> {
        let mut rest = Rest(objects.into_iter());
        let mut listed: HashSet<String> = kept.into_iter().map(str::to_owned).collect();
        let mut refused = OneByOne(Vec::new());
        let mut panic = FirstPanic::default();
        let mut removes = true;
        for object in rest.0.by_ref() {
            let object = UserCode::new(object);
            // As in `replace`, here and below.
            let key = match panic.catch(|| self.core.keys.key(&object)) {
                Some(Ok(key)) => key,
                unknown => {
                    // After a panic, the object may have any key.
                    removes &= unknown.is_some();
                    refused.extend(unknown.and_then(Result::err).map(StoreError::from));
                    panic.catch(|| drop(object));
                    continue;
                }
            };
            let stored = panic.catch(|| {
                self.transformed(&key, object.into_inner())
                    .and_then(|object| self.put(&key, Some(object)))
            });
            refused.extend(stored.and_then(Result::err));
            listed.insert(key);
        }
        let unlisted = |key: &&String| removes && !listed.contains(key.as_str());
        for key in self.list_keys().iter().filter(unlisted) {
            refused.extend(panic.catch(|| self.put(key, None)).and_then(Result::err));
        }
        self.end_list(version, panic);
        refused.take()
    }

    /// Makes many changes in order (client-go `Transaction`). A change that fails is skipped, and
    /// the others are made. Atomic per key, not as a whole: a reader of several keys may see only
    /// some of the changes. An index never returns an object that the key no longer has.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{Indexer, KeyFunc, NoMeta, Transaction};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| {
    ///     if name.is_empty() { Err("no name".into()) } else { Ok(name.clone()) }
    /// });
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
    ///
    /// # Panics
    /// If `changes`, the key function or the destructor of an object panics. The changes after that
    /// are not made.
    pub fn transaction(
        &self,
        changes: impl IntoIterator<Item = Transaction<T>>,
    ) -> Result<(), TransactionError> {
        let (mut total, mut failed) = (0, OneByOne(Vec::new()));
        let mut changes = OneByOne(Some(changes.into_iter()));
        for (number, change) in changes.iter_mut().flatten().enumerate() {
            let made = match change {
                Transaction::Add(object) => self.add(object),
                Transaction::Update(object) => self.update(object),
                Transaction::Delete(object) => self.delete(&*UserCode::new(object)),
            };
            failed.extend(made.err().map(|error| (number, error)));
            total += 1;
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(TransactionError { total, failed: failed.take() })
        }
    }

    fn transformed(&self, key: &str, object: Arc<T>) -> Result<Arc<T>, StoreError> {
        let Some(transformer) = &self.transformer else { return Ok(object) };
        let object = UserCode::new(object);
        let version = self.core.version_of(&object);
        transformer(object.into_inner())
            .map_err(|source| OfferError::Transform { key: key.to_owned(), version, source }.into())
    }

    /// Writes one of many objects. If the destructor of the replaced object panics, returns
    /// [`StoreError::Released`], so that the caller still writes the others.
    fn put(&self, key: &str, new: Option<Arc<T>>) -> Result<(), StoreError> {
        let old = self.write(key.as_bytes(), new)?;
        caught(|| drop(old))
            .map_err(|message| StoreError::Released { key: key.to_owned(), message })
    }

    /// Stores `new` under `key`, or removes the object if `new` is `None`. Returns the replaced
    /// object.
    fn write(&self, key: &[u8], new: Option<Arc<T>>) -> Result<Option<Arc<T>>, StoreError> {
        let core = &self.core;
        // Another writer may replace the objects that this one holds; their destructors then run
        // here.
        let mut new = OneByOne(new);
        let (hash, name) = (core.table.hash(key), crate::key::as_str(key));
        // Whether the slot has other index entries than the labels of the old object say.
        let mut differed = false;
        loop {
            let list = core.indexes.load();
            let old = OneByOne(core.table.shard(hash).read().find(hash, key).and_then(Slot::known));
            if old.is_none() && new.is_none() {
                return Ok(None);
            }
            // User code runs with nothing locked or claimed. By the time of the swap there may be
            // another old object, or more indexes.
            let objects = old.as_deref().zip(new.as_deref()).filter(|_| !differed);
            let same = objects.and_then(|(old, new)| core.same_entries(&list, old, new));
            let mut values = same
                .is_none()
                .then(|| core.index_values(&list, name, old.as_deref(), new.as_deref()));
            let failed = values.as_mut().and_then(|values| values.failed.take());
            if let Some(Failed { index, source }) = failed {
                let source = UserCode::new(source);
                let version = new.as_ref().and_then(|new| core.version_of(new));
                let (key, source) = (name.to_owned(), source.into_inner());
                return Err(StoreError::Index { index, key, version, source });
            }
            let claimed = wait(&self.ended, || core.claim(hash, name, new.is_some()).ok());
            let Some(mut running) = claimed else { continue };
            // Other writers of the key wait for this claim as for a lock.
            let held = Held::new();
            running.heed();
            let now = OneByOne(running.known());
            let is_as_asked = now.as_ref().map(Arc::as_ptr) == old.as_ref().map(Arc::as_ptr)
                && core.indexes.is_current(&list);
            let plan = match values {
                _ if !is_as_asked => None,
                Some(values) => Some(core.plan(&list, values, running.slot())),
                None => (same == Some(running.slot().index_entries())).then(Plan::default),
            };
            differed = is_as_asked && plan.is_none();
            let replaced = match &plan {
                Some(plan) => core.carry_out(&list, plan, &mut running, new.take()),
                None => Err(new.take()),
            };
            core.unclaim(running);
            #[allow(clippy::drop_non_drop)] // Release builds and models count nothing.
            drop(held);
            self.notify_ended();
            if plan.is_some_and(|plan| plan.differs) {
                log_differing(name);
            }
            match replaced {
                Ok(old) => return Ok(old),
                Err(again) => *new = again,
            }
        }
    }

    /// Wakes all writers that wait for a slot, because the keys that they wait for are not
    /// recorded.
    fn notify_ended(&self) {
        mutant!(WriteEndsUnnotified => return);
        self.ended.notify(usize::MAX.additional());
    }
}

/// Keeps the first error of a list. An error of an object that is not stored replaces one of an
/// object that is stored.
fn keep(failed: &mut OneByOne<Option<StoreError>>, error: StoreError) {
    if failed.as_ref().is_none_or(|kept| kept.is_stored() && !error.is_stored()) {
        failed.supersede(Some(error));
    } else {
        ignore_panic(|| drop(error));
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
    fn writer_waiting_for_an_index_reader_does_not_block_readers_of_its_key() {
        let keys = KeyFunc::custom(NoMeta, |_: &u32| Ok("a".to_owned()));
        let index = |number: &u32| Ok(vec![number.to_string()]);
        let store = Indexer::builder(keys).index("number", index).build().unwrap();
        store.add(Arc::new(1)).unwrap();
        let core = &store.core;
        let hash = core.table.hash(b"a");
        let lock = core.table.shard(hash);
        thread::scope(|scope| {
            let read = |_: &_| {
                // The writer removes the key from the value that this thread reads.
                scope.spawn(|| store.add(Arc::new(2)).unwrap());
                loop {
                    let shard = lock.try_read().expect("the writer holds the shard while it waits");
                    if shard.find(hash, b"a").unwrap().state() == State::Running {
                        break;
                    }
                    drop(shard);
                    thread::yield_now();
                }
                assert!(store.get_by_key("a").is_some());
            };
            core.values("number", |values| values.for_each("1", read)).unwrap();
        });
        assert_eq!(store.get_by_key("a").as_deref(), Some(&2));
        assert_eq!(store.list_index_func_values("number").unwrap(), ["2"]);
    }
}
