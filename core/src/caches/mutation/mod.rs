//! An overlay of a client's own writes over a store, which the watch updates a moment later.
//!
//! The overlay is read before the store, and a write leaves the overlay when the store has an
//! object that is at least as new. So no reader goes back in time, unless the write was dropped
//! earlier, because of its age or of too many other writes. Index functions and accessors run with
//! no lock held, so another thread may replace an entry of the overlay while its version is
//! compared. An entry is removed only if it is still the compared one.

mod recent;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::clock::{Clock, system};
use crate::engine::release::{OneByOne, UserCode};
use crate::engine::sync::{Arc, Mutex};
use crate::error::{IndexError, KeyError};
use crate::panics::ignore_panic;
use crate::version::ResourceVersion;
use crate::{DeltaObject, IndexReader, KeySource, Meta, error_chain};
use recent::Recent;

/// The default time for which a write is kept, as in client-go.
const TTL: Duration = Duration::from_secs(5 * 60);
/// The default for the largest number of writes that are kept, as in client-go.
const CAPACITY: usize = 100;

/// The reason why a [`MutationCache`] cannot answer a query, or did not keep a write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MutationError {
    /// The object has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no index of that name.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The version is not a decimal number, so it cannot be compared.
    #[error(
        "version {version:?} of key {key:?} is not a decimal number, so it cannot be compared: return the object's \
         resourceVersion from the accessor's `version`"
    )]
    Version {
        /// The key of the object.
        key: String,
        /// The object's version, empty if it has none.
        version: String,
    },
}

/// The recent writes of a client, overlaid on a store until the store's watch has brought them, or
/// newer objects (client-go `MutationCache`). A controller that reads this cache does not act on a
/// state from before its own write.
///
/// [`mutation`](Self::mutation) takes the API server's answer to a write. Versions compare as
/// decimal numbers; any other version is an error when it is compared. The cache gives no
/// guarantee: a write is dropped after a [time](MutationCacheBuilder::ttl), or when there are [too
/// many](MutationCacheBuilder::capacity).
///
/// Call [`on_add_or_update`](Self::on_add_or_update) and [`on_delete`](Self::on_delete) from the
/// handlers of the store's changes. Then writes are dropped as soon as they are not needed, and a
/// late answer to a write does not bring a deleted object back. The cache compares uids to find
/// whether an answer belongs to the deleted object. An object without a uid differs from every
/// other (in client-go any two objects without a uid are the same).
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::caches::MutationCache;
/// use deltafifo::{Indexer, KeyFunc, Meta};
///
/// struct Pod { name: &'static str, version: &'static str }
/// struct PodMeta;
/// impl Meta<Pod> for PodMeta {
///     fn namespace<'a>(&self, _: &'a Pod) -> Option<&'a str> { None }
///     fn name<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(pod.name) }
///     fn version<'a>(&self, pod: &'a Pod) -> Option<&'a str> { Some(pod.version) }
/// }
///
/// let store = Indexer::builder(KeyFunc::meta_namespace(PodMeta)).build()?;
/// let pods = MutationCache::builder(store.reader()).build();
/// store.add(Arc::new(Pod { name: "web", version: "9" }))?;
/// pods.mutation(Arc::new(Pod { name: "web", version: "10" }))?; // written by us, not watched yet
/// assert_eq!(pods.get_by_key("web")?.unwrap().version, "10");
/// // The watch brings a newer object.
/// store.update(Arc::new(Pod { name: "web", version: "11" }))?;
/// assert_eq!(pods.get_by_key("web")?.unwrap().version, "11");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MutationCache<T, M> {
    store: IndexReader<T, M>,
    own: Mutex<Recent<Arc<Own<T>>>>,
    ttl: Duration,
    include_adds: bool,
    clock: Clock,
}

/// The entry of a key in the overlay.
struct Own<T> {
    version: ResourceVersion,
    uid: Option<Box<str>>,
    /// The written object. `None` if the cache was notified of a deletion; a late answer to an
    /// earlier write then has no effect.
    written: Option<Arc<T>>,
}

/// A builder of a [`MutationCache`], created by [`MutationCache::builder`].
#[must_use]
pub struct MutationCacheBuilder<T, M> {
    store: IndexReader<T, M>,
    ttl: Duration,
    capacity: usize,
    include_adds: bool,
    clock: Clock,
}

impl<T, M: Meta<T>> MutationCacheBuilder<T, M> {
    /// Sets how long a write is kept: 5 minutes by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets how many writes are kept: 100 by default, at least one. The least recently used one is
    /// dropped.
    pub fn capacity(mut self, writes: usize) -> Self {
        self.capacity = writes.max(1);
        self
    }

    /// Sets whether a write is returned if the store does not have its key. Off by default,
    /// because the store may not have the key yet, or not any more. If it is on, an object that is
    /// written and soon deleted may be returned until its time is over.
    pub fn include_adds(mut self, include: bool) -> Self {
        self.include_adds = include;
        self
    }

    /// Sets the clock, for tests.
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = UserCode::new(Box::new(clock));
        self
    }

    /// Builds the cache.
    #[must_use]
    pub fn build(self) -> MutationCache<T, M> {
        MutationCache {
            store: self.store,
            own: Mutex::new(Recent::new(self.capacity)),
            ttl: self.ttl,
            include_adds: self.include_adds,
            clock: self.clock,
        }
    }
}

impl<T, M: Meta<T>> MutationCache<T, M> {
    /// Returns a builder of a cache over `store`.
    pub fn builder(store: IndexReader<T, M>) -> MutationCacheBuilder<T, M> {
        MutationCacheBuilder {
            store,
            ttl: TTL,
            capacity: CAPACITY,
            include_adds: false,
            clock: system(),
        }
    }

    /// Returns the object under `key`: the newer one of the stored object and the client's own
    /// write. If no object is stored, returns the own write only if
    /// [`include_adds`](MutationCacheBuilder::include_adds) is set, and `None` otherwise. O(log
    /// writes).
    ///
    /// # Errors
    /// [`MutationError::Version`] if the versions of the stored object and of the own write cannot
    /// be compared.
    pub fn get_by_key(&self, key: &str) -> Result<Option<Arc<T>>, MutationError> {
        let own = self.known(key).map(UserCode::new);
        let stored = self.store.get_by_key(key);
        match own {
            Some(own) => self.newer(key, stored, &own),
            None => Ok(stored),
        }
    }

    /// Returns every object with `value` in index `name`. Considers for each key the object that
    /// [`get_by_key`](Self::get_by_key) returns, with the index values of that object. An own
    /// write has no values if the index function fails for it. O(answers + writes).
    ///
    /// # Errors
    /// [`MutationError::Index`]: no such index. [`MutationError::Version`] as for
    /// [`get_by_key`](Self::get_by_key).
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, MutationError> {
        let now = (self.clock)();
        let own: OneByOne<Vec<(String, Arc<Own<T>>)>> = OneByOne({
            let own = self.own.lock();
            own.iter(now)
                .filter(|(_, own)| own.written.is_some())
                .map(|(key, own)| (key.to_owned(), own.clone()))
                .collect()
        });
        let mut found = OneByOne(self.store.by_index(name, value)?);
        if own.is_empty() {
            return Ok(found.take());
        }
        let own_keys: HashSet<&str> = own.iter().map(|(key, _)| key.as_str()).collect();
        let keys = &self.store.core.keys;
        found.retain(|object| !keys.key(object).is_ok_and(|key| own_keys.contains(&*key)));
        for (key, own) in &*own {
            let newer = self.newer(key, self.store.get_by_key(key), own)?;
            if let Some(object) = newer.map(UserCode::new)
                && self.has_value(name, value, key, &object)
            {
                found.push(object.into_inner());
            }
        }
        Ok(found.take())
    }

    fn has_value(&self, name: &str, value: &str, key: &str, object: &T) -> bool {
        match self.store.core.values_of(name, object) {
            Ok(values) => values.iter().any(|one| one == value),
            Err(error) => {
                ignore_panic(|| {
                    let error = error_chain(&error);
                    tracing::warn!(
                        key,
                        error,
                        "index function failed for a write; a look-up by that index does not find it"
                    );
                });
                false
            }
        }
    }

    /// Returns the newer one of the stored object and the object of the entry. Drops the entry if
    /// the stored object is at least as new. If no object is stored, returns the object of the
    /// entry if `include_adds` is set, and `None` otherwise.
    fn newer(
        &self,
        key: &str,
        stored: Option<Arc<T>>,
        own: &Arc<Own<T>>,
    ) -> Result<Option<Arc<T>>, MutationError> {
        let Some(stored) = stored else {
            return Ok(own.written.clone().filter(|_| self.include_adds));
        };
        let stored = UserCode::new(stored);
        if self.version(key, &stored)? >= own.version {
            self.forget(key, own);
            return Ok(Some(stored.into_inner()));
        }
        Ok(Some(own.written.clone().unwrap_or_else(|| stored.into_inner())))
    }

    /// Takes the server's answer to a write (client-go `Mutation`). Does nothing if the key has a
    /// newer entry, or if the same object has been deleted since the write. O(log writes).
    ///
    /// # Errors
    /// [`MutationError::Key`], [`MutationError::Version`]: the answer is not kept.
    pub fn mutation(&self, object: Arc<T>) -> Result<(), MutationError> {
        let object = UserCode::new(object);
        let key = self.store.core.keys.key(&object)?;
        let own = self.own_of(&key, &object)?;
        let own = Own { written: Some(object.into_inner()), ..own };
        self.note(&key, own, |own, known| {
            let is_newer = own.version >= known.version;
            is_newer
                && (known.written.is_some()
                    || own.version > known.version && !own.is_same_object(known))
        });
        Ok(())
    }

    /// Records that the store has this object (client-go `OnAddOrUpdate`), and drops an own write
    /// that is not newer. O(log writes).
    ///
    /// # Errors
    /// [`MutationError::Key`], [`MutationError::Version`]: nothing is dropped.
    pub fn on_add_or_update(&self, object: &T) -> Result<(), MutationError> {
        let key = self.store.core.keys.key(object)?;
        if let Some(known) = self.known(&key).map(UserCode::new)
            && self.version(&key, object)? >= known.version
        {
            self.forget(&key, &known);
        }
        Ok(())
    }

    /// Records that the store has lost this object (client-go `OnDelete`). Drops an own write of
    /// the same object, or one that is not newer; a late answer to that write has no effect. A
    /// tombstone without an object changes nothing. O(log writes).
    ///
    /// # Errors
    /// As for [`on_add_or_update`](Self::on_add_or_update).
    pub fn on_delete(&self, last: &DeltaObject<T>) -> Result<(), MutationError> {
        let Some(object) = last.object() else { return Ok(()) };
        let key = self.store.core.keys.key_of(&KeySource::from(last))?;
        let gone = self.own_of(&key, object)?;
        self.note(&key, gone, |gone, known| {
            gone.version >= known.version || gone.is_same_object(known)
        });
        Ok(())
    }

    /// Returns the entry of `key`.
    fn known(&self, key: &str) -> Option<Arc<Own<T>>> {
        let now = (self.clock)();
        let mut released = OneByOne(Vec::new());
        self.own.lock().get(key, now, &mut released).cloned()
    }

    /// Stores `own` as the entry of `key`, if there is no entry or if `counts`, called with `own`
    /// and the present entry, returns true.
    fn note(&self, key: &str, own: Own<T>, counts: impl Fn(&Own<T>, &Own<T>) -> bool) {
        let own = UserCode::new(Arc::new(own));
        let now = (self.clock)();
        let mut released = OneByOne(Vec::new());
        let mut all = self.own.lock();
        if all.get(key, now, &mut released).is_none_or(|known| counts(&own, known)) {
            all.put(key, own.clone(), now.checked_add(self.ttl), &mut released);
        }
    }

    /// Drops the entry of `key`, if it is still `known`.
    fn forget(&self, key: &str, known: &Arc<Own<T>>) {
        let now = (self.clock)();
        let mut released = OneByOne(Vec::new());
        let mut own = self.own.lock();
        if own.get(key, now, &mut released).is_some_and(|now| Arc::ptr_eq(now, known)) {
            released.extend(own.remove(key));
        }
    }

    fn own_of(&self, key: &str, object: &T) -> Result<Own<T>, MutationError> {
        let uid = self.store.core.keys.meta().uid(object).filter(|uid| !uid.is_empty());
        Ok(Own { version: self.version(key, object)?, uid: uid.map(Box::from), written: None })
    }

    fn version(&self, key: &str, object: &T) -> Result<ResourceVersion, MutationError> {
        let version = self.store.core.keys.meta().version(object).unwrap_or_default();
        ResourceVersion::parse(version).ok_or_else(|| MutationError::Version {
            key: key.to_owned(),
            version: version.to_owned(),
        })
    }
}

impl<T> Own<T> {
    /// Returns whether both are states of one object, and not of two objects that had the key one
    /// after the other.
    fn is_same_object(&self, other: &Self) -> bool {
        self.uid.is_some() && self.uid == other.uid
    }
}
