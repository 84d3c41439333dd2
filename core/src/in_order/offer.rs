//! Offers: each appends one event to the log. Key function and transformer run first, so a refused
//! offer has queued nothing.

use super::InOrderFifo;
use super::event::{Event, LogEntry, ReplacedAll, ReplacedKeys};
use crate::engine::release::{OneByOne, Rest, UserCode};
use crate::engine::sync::Arc;
use crate::error::{OfferError, RelistError};
use crate::key::{KeyBuf, as_str};
use crate::scope::Within;
use crate::{Delta, DeltaObject, DeltaType, KeySource, Meta, Refused};

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// Queues `Added` (client-go `Add`). Does not wait. O(1).
    ///
    /// # Errors
    /// [`OfferError`]: no key, or the transformer failed; nothing was queued. As in client-go, the
    /// queue still counts as populated.
    pub fn add(&self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Added, object.into())
    }

    /// Queues `Updated` (client-go `Update`). Does not wait. O(1).
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Updated, object.into())
    }

    /// Queues `Deleted` (client-go `Delete`) for an object, or for a [`DeletedFinalStateUnknown`]
    /// when the object's last state was not seen. The deletion is queued whether or not the key is
    /// known. Does not wait. O(1).
    ///
    /// # Errors
    /// As for [`add`](Self::add). The transformer does not see tombstones.
    ///
    /// [`DeletedFinalStateUnknown`]: crate::DeletedFinalStateUnknown
    pub fn delete(&self, object: impl Into<DeltaObject<T>>) -> Result<(), OfferError> {
        self.offer(DeltaType::Deleted, object.into())
    }

    fn offer(&self, kind: DeltaType, object: DeltaObject<T>) -> Result<(), OfferError> {
        self.life.initial.touch();
        let (object, mut key) = (UserCode::new(object), KeyBuf::new());
        self.core.keys.write_source(&KeySource::from(&*object), &mut key)?;
        let object = match object.into_inner() {
            DeltaObject::Object(object) => {
                DeltaObject::Object(self.transform(as_str(&key), object)?)
            }
            tombstone @ DeltaObject::Tombstone(_) => tombstone,
        };
        let hash = Some(self.core.table.hash(&key));
        let event = Event::Delta { key: as_str(&key).into(), delta: Delta { kind, object } };
        self.push(LogEntry { event, hash, marks: 0 });
        Ok(())
    }

    /// Queues a relist as one event (client-go `Replace`): `list` has all objects, as of `version`.
    /// If a key is listed twice, the later object is stored. The list, with its keys, is kept in
    /// memory, besides the known objects, until the relist's turn has ended. Does not wait.
    /// O(listed).
    ///
    /// # Errors
    /// [`RelistError::RefusedWhole`]: an object has no key, or the transformer failed for it.
    /// [`RelistError::HasScopes`]: the queue is relisted scope by scope. In both cases nothing was
    /// queued, and an unpopulated queue stays unpopulated.
    pub fn replace(&self, list: Vec<Arc<T>>, version: &str) -> Result<(), RelistError> {
        let mut list = OneByOne(list);
        self.check_no_scopes()?;
        self.push_all(self.all_or_none(list.take(), None, version)?)
    }

    /// Computes the keys of a list, and transforms its objects. Refuses the whole list if one
    /// object is refused.
    pub(super) fn all_or_none(
        &self,
        list: Vec<Arc<T>>,
        within: Option<&Within>,
        version: &str,
    ) -> Result<ReplacedAll<T>, RelistError> {
        let mut keys = ReplacedKeys::with_capacity(list.len());
        let mut objects = OneByOne(Vec::with_capacity(list.len()));
        let mut list = Rest(list.into_iter());
        for object in list.0.by_ref() {
            let object = UserCode::new(object);
            let index = objects.len();
            let keyed =
                keys.add(|text| self.core.keys.write(&object, text)).map_err(OfferError::from);
            let keyed = keyed.and_then(|key| check_scope(within, key).map(|()| key));
            let transformed = keyed.and_then(|key| self.transform(key, object.into_inner()));
            objects
                .push(transformed.map_err(|source| RelistError::RefusedWhole { index, source })?);
        }
        Ok(ReplacedAll::new(version, keys, objects, Vec::new()))
    }

    /// Queues a relist for which some objects are not available: the keys of `kept` are listed
    /// without an object. If the transformer refuses an object, the object's key is kept as well;
    /// an object without a key is left out. Returns the refused objects of both kinds, with the
    /// reasons. In a queue with [scopes](Self::add_scope) all objects are refused.
    ///
    /// The handler is not called for a kept key. If an object of that key is known when the relist
    /// is handled, it stays. A handler with its own store finds these keys in
    /// [`ReplacedAll::kept`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{InOrderFifo, Indexer, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let fifo = InOrderFifo::over(Indexer::builder(keys).build()?).build();
    /// fifo.add(Arc::new("a".to_owned()))?;
    /// fifo.add(Arc::new("b".to_owned()))?;
    /// let refused = fifo.replace_keeping(vec![Arc::new("c".to_owned())], ["a"], "7");
    /// assert!(refused.is_empty());
    /// while let Some(mut turn) = fifo.try_pop() {
    ///     turn.apply(|_, _| ())?;
    /// }
    /// let mut stored = fifo.store().list_keys();
    /// stored.sort();
    /// assert_eq!(stored, ["a", "c"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace_keeping<'k>(
        &self,
        list: Vec<Arc<T>>,
        kept: impl IntoIterator<Item = &'k str>,
        version: &str,
    ) -> Vec<Refused> {
        let mut list = OneByOne(list);
        let listed = list.len();
        let kept = kept.into_iter().map(Box::from).collect();
        let (all, mut refused) = self.all_but_refused(list.take(), kept, None, version);
        self.push_all(all).map_or_else(|_| all_refused(listed), |()| refused.take())
    }

    /// Queues a relist that contains an object whose key cannot be determined. The relist deletes
    /// nothing, because any key that is not listed may be that object's. A handler with its own
    /// store checks [`ReplacedAll::covers`]. Returns the refused objects; in a queue with
    /// [scopes](Self::add_scope) these are all objects.
    pub fn replace_keeping_unlisted(&self, list: Vec<Arc<T>>, version: &str) -> Vec<Refused> {
        let listed = list.len();
        let (all, mut refused) = self.all_but_refused(list, Vec::new(), None, version);
        let pushed = self.push_all(all.keeping_unlisted());
        pushed.map_or_else(|_| all_refused(listed), |()| refused.take())
    }

    /// Computes the keys of a list, and transforms its objects. Leaves out the refused objects. If
    /// it was the transformer that refused an object, the object's key is kept.
    pub(super) fn all_but_refused(
        &self,
        list: Vec<Arc<T>>,
        mut kept: Vec<Box<str>>,
        within: Option<&Within>,
        version: &str,
    ) -> (ReplacedAll<T>, OneByOne<Vec<Refused>>) {
        let (mut keys, mut objects, mut refused) =
            (ReplacedKeys::with_capacity(list.len()), OneByOne(Vec::new()), OneByOne(Vec::new()));
        let mut list = Rest(list.into_iter().enumerate());
        for (index, object) in list.0.by_ref() {
            let object = UserCode::new(object);
            let keyed = keys.add(|text| self.core.keys.write(&object, text));
            let source = match keyed.map_err(OfferError::from) {
                Ok(key) => match check_scope(within, key) {
                    Ok(()) => match self.transform(key, object.into_inner()) {
                        Ok(object) => {
                            objects.push(object);
                            continue;
                        }
                        Err(source) => {
                            kept.push(key.into());
                            keys.pop();
                            source
                        }
                    },
                    Err(outside) => {
                        keys.pop();
                        outside
                    }
                },
                Err(source) => source,
            };
            refused.push(Refused { index, source });
        }
        (ReplacedAll::new(version, keys, objects, kept), refused)
    }

    /// Queues a resync as one event (client-go `Resync`): in its turn the handler is called for
    /// every object that is known then, even if events are pending for it. O(1).
    pub fn resync(&self) {
        self.push(LogEntry { event: Event::SyncAll, hash: None, marks: 0 });
    }

    fn transform(&self, key: &str, object: Arc<T>) -> Result<Arc<T>, OfferError> {
        self.transform.apply(&self.core.keys, key.as_bytes(), object)
    }

    fn push(&self, entry: LogEntry<T>) {
        self.append(entry);
        self.log.announce();
    }

    /// Appends an event. The caller then calls `announce` on the log, which wakes a consumer.
    pub(super) fn append(&self, entry: LogEntry<T>) {
        self.life.depth.add(entry.weight());
        self.log.append(entry);
    }
}

/// Fails for a key that does not belong to the scope of a relist.
fn check_scope(within: Option<&Within>, key: &str) -> Result<(), OfferError> {
    let Some(within) = within else { return Ok(()) };
    Ok(within.check(key)?)
}

/// Returns a refusal of each object of a relist of the whole queue, because the queue has scopes.
fn all_refused(listed: usize) -> Vec<Refused> {
    (0..listed).map(|index| Refused { index, source: OfferError::HasScopes }).collect()
}
