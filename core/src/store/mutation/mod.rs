//! One's own writes, read back at once: an overlay over a store that the watch brings up to date a
//! moment later.
//!
//! An overlay is read before the store: a write that is gone from it is gone because the store had
//! something as new by then, so that nobody is led back in time. Index functions and accessors are
//! asked with no lock held; whatever was judged meanwhile has a version, and is taken out only if
//! it is still that one.

mod recent;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::engine::clock::{Clock, system};
use crate::engine::release::OneByOne;
use crate::engine::sync::{Arc, Mutex};
use crate::error::{MutationError, unharmed};
use crate::version::ResourceVersion;
use crate::{DeltaObject, IndexReader, KeySource, Meta};
use recent::Recent;

/// client-go's defaults.
const TTL: Duration = Duration::from_secs(5 * 60);
const CAPACITY: usize = 100;

/// What a client has just written, overlaid on a store until its watch has brought that, or
/// something newer (client-go `MutationCache`): a controller that reads it does not act on a state
/// from before its own write.
///
/// [`mutation`](Self::mutation) takes what the API server answered to a write. Versions compare as
/// decimal numbers; what has another is an error as soon as it is to be compared. It is a help,
/// not a promise: an own write is forgotten after a [time](MutationCacheBuilder::ttl), or when
/// there are [too many](MutationCacheBuilder::capacity).
///
/// Call [`on_add_or_update`](Self::on_add_or_update) and [`on_delete`](Self::on_delete) from the
/// handlers of the store's changes: then writes are forgotten as soon as they are not needed, and
/// a late answer to a write does not bring back what was deleted since. Whether an answer is of
/// the very object that was deleted, its uid says: what has none is the same object as no other
/// (client-go takes any two without a uid for the same).
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{Indexer, KeyFunc, Meta, MutationCache};
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
/// store.update(Arc::new(Pod { name: "web", version: "11" }))?; // the watch has brought it, and more
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

/// What is known of a key beside the store.
struct Own<T> {
    version: ResourceVersion,
    uid: Option<Box<str>>,
    /// What was written. `None`: deleted, as the store has told; a later answer to an earlier
    /// write must not count.
    written: Option<Arc<T>>,
}

/// Builds a [`MutationCache`]; made by [`MutationCache::builder`].
#[must_use]
pub struct MutationCacheBuilder<T, M> {
    store: IndexReader<T, M>,
    ttl: Duration,
    capacity: usize,
    include_adds: bool,
    clock: Clock,
}

impl<T, M: Meta<T>> MutationCacheBuilder<T, M> {
    /// How long a write is kept: 5 minutes by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How many writes are kept: 100 by default, at least one. The one not asked for longest makes
    /// room.
    pub fn capacity(mut self, writes: usize) -> Self {
        self.capacity = writes.max(1);
        self
    }

    /// Whether a write counts whose key the store does not have. Off by default: it cannot be told
    /// whether the store does not have it yet or not any more. On, what is written and deleted in
    /// quick succession may be there until its time is over.
    pub fn include_adds(mut self, include: bool) -> Self {
        self.include_adds = include;
        self
    }

    /// Takes the time from `clock`, for tests.
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// The cache.
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
    /// Starts a cache over what `store` reads.
    pub fn builder(store: IndexReader<T, M>) -> MutationCacheBuilder<T, M> {
        MutationCacheBuilder { store, ttl: TTL, capacity: CAPACITY, include_adds: false, clock: system() }
    }

    /// The object under `key`: the newer one of the store's and an own write. O(log writes).
    ///
    /// # Errors
    /// [`MutationError::Version`] when the store's version cannot be compared with that of an own
    /// write.
    pub fn get_by_key(&self, key: &str) -> Result<Option<Arc<T>>, MutationError> {
        let own = self.known(key);
        let stored = self.store.get_by_key(key);
        match own {
            Some(own) => self.newer(key, stored, &own),
            None => Ok(stored),
        }
    }

    /// Every object with `value` in index `name`: the newer ones of the store's and own writes. An
    /// own write counts under the values that it has, whatever the store's object has; one whose
    /// index function fails has none. O(answers + writes).
    ///
    /// # Errors
    /// [`MutationError::Index`]: no such index. [`MutationError::Version`] as for
    /// [`get_by_key`](Self::get_by_key).
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, MutationError> {
        let now = (self.clock)();
        let own: Vec<(String, Arc<Own<T>>)> = {
            let own = self.own.lock();
            own.iter(now)
                .filter(|(_, own)| own.written.is_some())
                .map(|(key, own)| (key.to_owned(), own.clone()))
                .collect()
        };
        let mut found = self.store.by_index(name, value)?;
        if own.is_empty() {
            return Ok(found);
        }
        let own_keys: HashSet<&str> = own.iter().map(|(key, _)| key.as_str()).collect();
        let keys = &self.store.core.keys;
        found.retain(|object| !keys.key(object).is_ok_and(|key| own_keys.contains(&*key)));
        for (key, own) in &own {
            if let Some(object) = self.newer(key, self.store.get_by_key(key), own)?
                && self.has_value(name, value, key, &object)
            {
                found.push(object);
            }
        }
        Ok(found)
    }

    fn has_value(&self, name: &str, value: &str, key: &str, object: &T) -> bool {
        match self.store.core.values_of(name, object) {
            Ok(values) => values.iter().any(|one| one == value),
            Err(error) => {
                unharmed(|| tracing::warn!(key, %error, "an own write is left out of an index"));
                false
            }
        }
    }

    /// The newer one of the store's object and what is known beside it, which ends if it is not
    /// the newer.
    fn newer(&self, key: &str, stored: Option<Arc<T>>, own: &Arc<Own<T>>) -> Result<Option<Arc<T>>, MutationError> {
        let Some(stored) = stored else {
            return Ok(own.written.clone().filter(|_| self.include_adds));
        };
        if self.version(key, &stored)? >= own.version {
            self.forget(key, own);
            return Ok(Some(stored));
        }
        Ok(Some(own.written.clone().unwrap_or(stored)))
    }

    /// Takes what the server answered to a write (client-go `Mutation`). Nothing, if something
    /// newer is known of its key, or that the very object was deleted since. O(log writes).
    ///
    /// # Errors
    /// [`MutationError::Key`], [`MutationError::Version`]: it is not kept.
    pub fn mutation(&self, object: Arc<T>) -> Result<(), MutationError> {
        let key = self.store.core.keys.key(&object)?;
        let own = self.own_of(&key, &object)?;
        let own = Own { written: Some(object), ..own };
        self.note(&key, own, |own, known| {
            let is_newer = own.version >= known.version;
            is_newer && (known.written.is_some() || own.version > known.version && !own.is_same_object(known))
        });
        Ok(())
    }

    /// The store has this object now (client-go `OnAddOrUpdate`): an own write that is no newer is
    /// forgotten. O(log writes).
    ///
    /// # Errors
    /// [`MutationError::Key`], [`MutationError::Version`]: nothing is forgotten.
    pub fn on_add_or_update(&self, object: &T) -> Result<(), MutationError> {
        let key = self.store.core.keys.key(object)?;
        if let Some(known) = self.known(&key)
            && self.version(&key, object)? >= known.version
        {
            self.forget(&key, &known);
        }
        Ok(())
    }

    /// The store has lost this object (client-go `OnDelete`): an own write of that very object, or
    /// one that is no newer, is forgotten, and does not count if it comes late. Of a tombstone
    /// that holds no object nothing follows. O(log writes).
    ///
    /// # Errors
    /// As for [`on_add_or_update`](Self::on_add_or_update).
    pub fn on_delete(&self, last: &DeltaObject<T>) -> Result<(), MutationError> {
        let Some(object) = last.object() else { return Ok(()) };
        let key = self.store.core.keys.key_of(&KeySource::from(last))?;
        let gone = self.own_of(&key, object)?;
        self.note(&key, gone, |gone, known| gone.version >= known.version || gone.is_same_object(known));
        Ok(())
    }

    /// What is known of `key` beside the store.
    fn known(&self, key: &str) -> Option<Arc<Own<T>>> {
        let now = (self.clock)();
        let mut released = OneByOne(Vec::new());
        self.own.lock().get(key, now, &mut released).cloned()
    }

    /// Puts `own` in the place of what is known of `key`, if there is nothing or `counts` says so
    /// of the two.
    fn note(&self, key: &str, own: Own<T>, counts: impl Fn(&Own<T>, &Own<T>) -> bool) {
        let (now, own) = ((self.clock)(), Arc::new(own));
        let mut released = OneByOne(Vec::new());
        let mut all = self.own.lock();
        if all.get(key, now, &mut released).is_none_or(|known| counts(&own, known)) {
            all.put(key, own.clone(), now.checked_add(self.ttl), &mut released);
        }
    }

    /// Forgets what is known of `key`, if it is still that.
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
        ResourceVersion::parse(version)
            .ok_or_else(|| MutationError::Version { key: key.to_owned(), version: version.to_owned() })
    }
}

impl<T> Own<T> {
    /// Whether both are states of one object, and not of two that had the key one after the other.
    fn is_same_object(&self, other: &Self) -> bool {
        self.uid.is_some() && self.uid == other.uid
    }
}
