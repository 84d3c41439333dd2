//! A store whose objects expire lazily: a read removes the expired objects that it finds.
//!
//! The policy, a function that decides whether an object has expired, is user code and runs with no
//! lock held. While it runs, another thread may store another object under the same key. Each
//! stored object therefore has a number, and a read removes the object only if it still has the
//! number of the object that the policy has checked.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::clock::{Clock, system};
use crate::engine::release::{OneByOne, UserCode};
use crate::engine::room::less_room;
use crate::engine::sync::{Arc, Mutex, assert_none_held};
use crate::error::{KeyError, StoreError};
use crate::{DeltaObject, KeyFunc, KeySource, Meta, ReflectorStore, Store};

type Policy<T> = UserCode<Box<dyn Fn(&T, Duration) -> bool + Send + Sync>>;

/// A store whose objects expire (client-go `ExpirationCache`). A read does not return an expired
/// object, and removes it.
///
/// An expired object stays until it is read, and [`list_keys`](Self::list_keys) includes its key;
/// a `list` removes all of them. Storing an object again renews it. One lock guards the store,
/// also for reads.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use deltafifo::caches::ExpirationCache;
/// use deltafifo::{KeyFunc, NoMeta};
///
/// let keys = || KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
/// let tokens = ExpirationCache::with_ttl(keys(), Duration::from_secs(600));
/// tokens.add(Arc::new("a".to_owned()))?;
/// assert!(tokens.get_by_key("a").is_some());
///
/// // A policy of your own sees the object and its age.
/// let short = ExpirationCache::new(keys(), |name: &String, age| {
///     name.len() > 1 || age > Duration::from_secs(5)
/// });
/// short.add(Arc::new("long".to_owned()))?;
/// assert!(short.list().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExpirationCache<T, M> {
    keys: KeyFunc<T, M>,
    policy: Policy<T>,
    clock: Clock,
    stored: Mutex<Stored<T>>,
}

struct Stored<T> {
    entries: OneByOne<HashMap<String, TimedObject<T>>>,
    /// The number of the newest entry.
    numbers: u64,
}

struct TimedObject<T> {
    object: Arc<T>,
    since: Instant,
    number: u64,
}

impl<T> Clone for TimedObject<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), since: self.since, number: self.number }
    }
}

impl<T> Stored<T> {
    fn put(&mut self, key: String, object: Arc<T>, since: Instant) -> Option<TimedObject<T>> {
        self.numbers += 1;
        self.entries.insert(key, TimedObject { object, since, number: self.numbers })
    }

    /// Removes the entry under `key`.
    fn remove(&mut self, key: &str) -> Option<TimedObject<T>> {
        let removed = self.entries.remove(key);
        if let Some(room) = less_room(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(room);
        }
        removed
    }

    /// Removes the entry under `key` if its number is `number`.
    fn take_out(&mut self, key: &str, number: u64) -> Option<TimedObject<T>> {
        let is_that_one = self.entries.get(key).is_some_and(|entry| entry.number == number);
        if is_that_one { self.remove(key) } else { None }
    }
}

impl<T, M: Meta<T>> ExpirationCache<T, M> {
    /// Creates an empty store. `expired` is called with an object and its age, with no lock held,
    /// and returns whether the object has expired.
    pub fn new(
        keys: KeyFunc<T, M>,
        expired: impl Fn(&T, Duration) -> bool + Send + Sync + 'static,
    ) -> Self {
        let stored = Stored { entries: OneByOne::default(), numbers: 0 };
        Self {
            keys,
            policy: UserCode::new(Box::new(expired)),
            clock: system(),
            stored: Mutex::new(stored),
        }
    }

    /// Creates a store whose objects expire when they are older than `ttl` (client-go
    /// `NewTTLStore`). If `ttl` is zero, they never expire.
    #[doc(alias = "NewTTLStore")]
    pub fn with_ttl(keys: KeyFunc<T, M>, ttl: Duration) -> Self {
        Self::new(keys, move |_, age| !ttl.is_zero() && age > ttl)
    }

    /// Sets the clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = UserCode::new(Box::new(clock));
        self
    }

    /// Stores `object` under its key, with the present time, in place of the former object. O(1).
    ///
    /// # Errors
    /// [`KeyError`] if the object has no key; nothing is stored.
    pub fn add(&self, object: Arc<T>) -> Result<(), KeyError> {
        let object = UserCode::new(object);
        let (key, now) = (self.keys.key(&object)?, (self.clock)());
        let released = self.stored.lock().put(key, object.into_inner(), now);
        drop(released);
        Ok(())
    }

    /// Stores `object` as [`add`](Self::add) does (as in client-go), which renews it.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), KeyError> {
        self.add(object)
    }

    /// Removes the object that is stored under the key of `of`. O(1).
    ///
    /// # Errors
    /// [`KeyError`] if `of` has no key.
    pub fn delete<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<(), KeyError>
    where
        T: 'a,
    {
        let key = self.keys.key_of(&of.into())?;
        let released = self.stored.lock().remove(&key);
        drop(released);
        Ok(())
    }

    /// Replaces the contents with `objects`, which are stored with the present time. O(objects +
    /// stored).
    ///
    /// # Errors
    /// [`KeyError`] if an object has no key; nothing is changed.
    pub fn replace(&self, objects: Vec<Arc<T>>) -> Result<(), KeyError> {
        let mut objects = OneByOne(objects);
        let keys =
            objects.iter().map(|object| self.keys.key(object)).collect::<Result<Vec<_>, _>>()?;
        let now = (self.clock)();
        let mut duplicates = OneByOne(Vec::new());
        let mut before = OneByOne(HashMap::with_capacity(objects.len()));
        let mut stored = self.stored.lock();
        std::mem::swap(&mut stored.entries, &mut before);
        for (key, object) in keys.into_iter().zip(objects.take()) {
            duplicates.extend(stored.put(key, object, now));
        }
        Ok(())
    }

    /// Returns the object that is stored under the key of `of`. If it has expired, removes it and
    /// returns `None`. O(1).
    ///
    /// # Errors
    /// [`KeyError`] if `of` has no key.
    pub fn get<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<Option<Arc<T>>, KeyError>
    where
        T: 'a,
    {
        Ok(self.get_by_key(&self.keys.key_of(&of.into())?))
    }

    /// Returns the object that is stored under `key`. If it has expired, removes it and returns
    /// `None`. O(1).
    pub fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        loop {
            let entry = self.stored.lock().entries.get(key).cloned().map(UserCode::new)?;
            if !self.has_expired(&entry, (self.clock)()) {
                return Some(entry.into_inner().object);
            }
            // Tries again if another object is stored now.
            let removed = self.stored.lock().take_out(key, entry.number);
            if removed.is_some() {
                return None;
            }
        }
    }

    /// Returns all objects that have not expired, in no particular order, and removes the others.
    /// O(stored).
    pub fn list(&self) -> Vec<Arc<T>> {
        let entries: OneByOne<Vec<(String, TimedObject<T>)>> = OneByOne(
            self.stored
                .lock()
                .entries
                .iter()
                .map(|(key, entry)| (key.clone(), entry.clone()))
                .collect(),
        );
        let now = (self.clock)();
        let mut live = OneByOne(Vec::with_capacity(entries.len()));
        for (key, entry) in &*entries {
            if self.has_expired(entry, now) {
                live.extend(self.get_by_key(key));
            } else {
                live.push(entry.object.clone());
            }
        }
        // Dropped before the result is returned, which would leak if a destructor panicked.
        drop(entries);
        live.take()
    }

    /// Returns all keys in no particular order, including those of expired objects that have not
    /// been read since they expired. O(stored).
    pub fn list_keys(&self) -> Vec<String> {
        self.stored.lock().entries.keys().cloned().collect()
    }

    fn has_expired(&self, entry: &TimedObject<T>, now: Instant) -> bool {
        assert_none_held();
        (self.policy)(&entry.object, now.saturating_duration_since(entry.since))
    }
}

impl<T: Send + Sync, M: Meta<T>> ReflectorStore<T> for ExpirationCache<T, M> {
    fn add(&self, object: Arc<T>) -> Result<(), StoreError> {
        Ok(self.add(object)?)
    }

    fn update(&self, object: Arc<T>) -> Result<(), StoreError> {
        Ok(self.update(object)?)
    }

    fn delete(&self, object: DeltaObject<T>) -> Result<(), StoreError> {
        Ok(self.delete(&*UserCode::new(object))?)
    }

    fn replace(&self, list: Vec<Arc<T>>, _version: &str) -> Result<(), StoreError> {
        Ok(self.replace(list)?)
    }

    fn resync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl<T: Send + Sync, M: Meta<T>> Store<T> for ExpirationCache<T, M> {
    fn list(&self) -> Vec<Arc<T>> {
        self.list()
    }

    fn list_keys(&self) -> Vec<String> {
        self.list_keys()
    }

    fn get(&self, object: &T) -> Result<Option<Arc<T>>, KeyError> {
        self.get(object)
    }

    fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.get_by_key(key)
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use super::*;
    use crate::NoMeta;
    use crate::engine::room::LEAST_ROOM;

    #[test]
    fn deleted_and_expired_objects_keep_no_memory() {
        let keys = KeyFunc::custom(NoMeta, |number: &u64| Ok(number.to_string()));
        let cache = ExpirationCache::new(keys, |number, _| *number >= 500);
        for number in 0..1_000 {
            cache.add(Arc::new(number)).unwrap();
        }
        assert_eq!(cache.list().len(), 500);
        for number in 0..490 {
            cache.delete(&number).unwrap();
        }
        assert_eq!(cache.list_keys().len(), 10);
        let room = cache.stored.lock().entries.capacity();
        assert!(room <= 2 * LEAST_ROOM, "{room}");
    }
}
