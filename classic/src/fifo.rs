//! The producer side and the queries of the queue. Each method does what client-go's method of the
//! same name does, and holds the mutex from beginning to end.

use std::sync::Arc;

use deltafifo::{
    DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, Deltas, ExplicitKey, KeyError,
    KeyFunc, KeySource, Meta, OfferError, RelistError,
};
use parking_lot::{Condvar, Mutex};

use super::builder::Transformer;
use super::known::Known;
use super::state::{Listed, State};
use super::{MutexFifoBuilder, MutexStore};

/// A queue like client-go's `DeltaFIFO`: all deltas of each key since its last pop, with the keys
/// in order.
pub struct MutexFifo<T, M> {
    pub(super) state: Mutex<State<T>>,
    /// The condition that is notified when a key may be ready to pop, and when the queue is
    /// closed.
    pub(super) changed: Condvar,
    keys: Arc<KeyFunc<T, M>>,
    known: Known<T, M>,
    /// The type of the deltas that a relist queues: Replaced or Sync.
    listed_as: DeltaType,
    ordered_walks: bool,
    transformer: Option<Transformer<T>>,
}

impl<T, M: Meta<T>> MutexFifo<T, M> {
    pub(super) fn new(builder: MutexFifoBuilder<T, M>) -> Self {
        Self {
            state: Mutex::new(State::new()),
            changed: Condvar::new(),
            keys: builder.keys,
            known: builder.known,
            listed_as: if builder.emit_replaced { DeltaType::Replaced } else { DeltaType::Sync },
            ordered_walks: builder.ordered_walks,
            transformer: builder.transformer,
        }
    }

    /// Queues an Added delta, for a new object.
    ///
    /// # Errors
    /// If the object has no key, or the transformer rejects it.
    pub fn add(&self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Added, object)
    }

    /// Queues an Updated delta, for a changed object.
    ///
    /// # Errors
    /// If the object has no key, or the transformer rejects it.
    pub fn update(&self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Updated, object)
    }

    fn offer(&self, kind: DeltaType, object: Arc<T>) -> Result<(), OfferError> {
        let key = self.keys.key(&object);
        let mut state = self.state.lock();
        // Set even if the object has no key, as client-go does.
        state.populated = true;
        self.push_object(&mut state, &key?, kind, object)?;
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Queues an Updated delta for each of many objects. The result equals that of as many calls
    /// of [`update`](Self::update), but the queue is locked only once, and the keys are computed
    /// before that.
    ///
    /// # Errors
    /// As for [`update`](Self::update). The objects before the rejected one stay queued.
    pub fn update_burst(&self, objects: Vec<Arc<T>>) -> Result<(), OfferError> {
        let keys: Vec<_> = objects.iter().map(|object| self.keys.key(object)).collect();
        let mut state = self.state.lock();
        state.populated = true;
        let pushed = keys.into_iter().zip(objects).try_for_each(|(key, object)| {
            self.push_object(&mut state, &key?, DeltaType::Updated, object)
        });
        drop(state);
        self.changed.notify_all();
        pushed
    }

    /// Queues a Deleted delta for an object or a tombstone. Does nothing if neither the queue nor
    /// the known objects have its key.
    ///
    /// # Errors
    /// If the object has no key, or the transformer rejects it.
    pub fn delete(&self, object: impl Into<DeltaObject<T>>) -> Result<(), OfferError> {
        let object = object.into();
        let key = match &object {
            DeltaObject::Object(object) => self.keys.key(object)?,
            DeltaObject::Tombstone(tombstone) => tombstone.key.to_string(),
        };
        let mut state = self.state.lock();
        state.populated = true;
        if !state.is_pending(&key) && !self.known.may_hold(&key) {
            return Ok(());
        }
        match object {
            DeltaObject::Object(object) => {
                self.push_object(&mut state, &key, DeltaType::Deleted, object)?;
            }
            // No transformer: the tombstone's object was transformed when it was queued.
            tombstone @ DeltaObject::Tombstone(_) => {
                state.push(&key, Delta::new(DeltaType::Deleted, tombstone));
            }
        }
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Relists: queues every object of `list`, and a deletion of each pending or known object that
    /// is not in `list`. The version is not used.
    ///
    /// # Errors
    /// If an object has no key, or the transformer rejects it. The objects before it stay queued,
    /// and nothing is deleted.
    pub fn replace(&self, list: Vec<Arc<T>>, _version: &str) -> Result<(), RelistError> {
        let mut state = self.state.lock();
        let replaced = self.replace_locked(&mut state, list);
        drop(state);
        self.changed.notify_all();
        replaced
    }

    fn replace_locked(&self, state: &mut State<T>, list: Vec<Arc<T>>) -> Result<(), RelistError> {
        state.reserve(list.len());
        self.known.reserve(list.len());
        let mut listed =
            Listed::with_capacity_and_hasher(list.len(), foldhash::fast::RandomState::default());
        for (index, object) in list.into_iter().enumerate() {
            let refused = |source| RelistError::Refused { index, source };
            let key = self.keys.key(&object).map_err(|error| refused(error.into()))?;
            self.push_object(state, &key, self.listed_as, object).map_err(refused)?;
            listed.insert(key);
        }

        let mut deletions = state.delete_unlisted(&listed);
        for (key, obj) in self.select_known(|key| !listed.contains(key)) {
            if !state.is_pending(&key) {
                let tombstone = DeletedFinalStateUnknown::new(&*key, obj);
                state.push(&key, Delta::new(DeltaType::Deleted, tombstone));
                deletions += 1;
            }
        }

        if !state.populated {
            state.populated = true;
            state.initial = listed.len() + deletions;
        }
        Ok(())
    }

    /// Queues a Sync of every known object whose key has no pending deltas.
    pub fn resync(&self) {
        let mut state = self.state.lock();
        for (key, object) in self.select_known(|_| true) {
            if let Some(object) = object.filter(|_| !state.is_pending(&key)) {
                state.push(&key, Delta::new(DeltaType::Sync, object));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Puts popped deltas back, unless their key has newer ones.
    ///
    /// # Errors
    /// If there are no deltas, or the newest one has no key.
    pub fn add_if_not_present(&self, deltas: Deltas<T>) -> Result<(), KeyError> {
        let key = self.key_of(&deltas)?;
        let mut state = self.state.lock();
        state.populated = true;
        state.push_absent(key.into(), deltas.into_iter().collect());
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Returns whether every item of the first relist has been popped; without a relist, whether
    /// something was ever offered.
    pub fn has_synced(&self) -> bool {
        self.state.lock().has_synced()
    }

    /// Returns a copy of the pending deltas of the source's key. The source is an object, a
    /// tombstone, deltas or an explicit key.
    ///
    /// # Errors
    /// If the source has no key.
    pub fn get<'a>(
        &self,
        source: impl Into<KeySource<'a, T>>,
    ) -> Result<Option<Deltas<T>>, KeyError>
    where
        T: 'a,
    {
        Ok(self.get_by_key(&self.key_of(source)?))
    }

    /// Returns a copy of the pending deltas of a key.
    pub fn get_by_key(&self, key: &str) -> Option<Deltas<T>> {
        self.state.lock().get(key).map(|deltas| deltas.iter().cloned().collect())
    }

    /// Returns the newest delta of every pending key, in no particular order.
    pub fn list(&self) -> Vec<Delta<T>> {
        self.state.lock().iter().filter_map(|(_, deltas)| deltas.last().cloned()).collect()
    }

    /// Returns every pending key, in no particular order.
    pub fn list_keys(&self) -> Vec<String> {
        self.state.lock().iter().map(|(key, _)| String::from(&**key)).collect()
    }

    /// Ends every blocked pop. Queued items can still be popped, and producers can still offer.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Returns whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns the key of an object, a tombstone, deltas or an explicit key.
    ///
    /// # Errors
    /// If the source has no key.
    pub fn key_of<'a>(&self, source: impl Into<KeySource<'a, T>>) -> Result<String, KeyError>
    where
        T: 'a,
    {
        match source.into() {
            KeySource::Object(object) => self.keys.key(object),
            KeySource::Tombstone(tombstone) => Ok(tombstone.key.to_string()),
            KeySource::Explicit(ExplicitKey(key)) => Ok(key.to_owned()),
            KeySource::Deltas(deltas) => {
                match &deltas.newest().ok_or(KeyError::ZeroLengthDeltas)?.object {
                    DeltaObject::Object(object) => self.keys.key(object),
                    DeltaObject::Tombstone(tombstone) => Ok(tombstone.key.to_string()),
                }
            }
        }
    }

    /// Returns the store that the queue was built over; `None` if it was built without one.
    pub fn store(&self) -> Option<&Arc<MutexStore<T, M>>> {
        match &self.known {
            Known::Store(store) => Some(store),
            Known::Nothing | Known::Custom(_) => None,
        }
    }

    /// Transforms an object and queues it.
    fn push_object(
        &self,
        state: &mut State<T>,
        key: &str,
        kind: DeltaType,
        object: Arc<T>,
    ) -> Result<(), OfferError> {
        let object = match &self.transformer {
            None => object,
            Some(transform) => transform(object).map_err(|source| OfferError::Transform {
                key: key.to_owned(),
                version: None,
                source,
            })?,
        };
        state.push(key, Delta::new(kind, object));
        Ok(())
    }

    fn select_known(&self, wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Option<Arc<T>>)> {
        let mut known = self.known.select(wanted);
        if self.ordered_walks {
            known.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        }
        known
    }
}
