//! client-go's `DeltaFIFO` as plainly as it can be written: no locks, a map and a queue. What this
//! project adds, for handlers that run outside any lock, is here as its rule says it: an operation
//! on a key whose handler runs is written down, and done when the handler has ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use deltafifo::{BoxError, Delta, DeltaObject, DeltaType, Deltas, KeyError, KeySource, OfferError};

use relist::Open;
pub use relist::Unchanged;

mod relist;

type Transformer<T> = Box<dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError>>;

/// The plain queue. Its methods are those of the engine, by name.
pub struct Model<T> {
    key: fn(&T) -> Option<String>,
    transformer: Option<Transformer<T>>,
    listed_as: DeltaType,
    /// `None`: there are no known objects at all.
    known: Option<BTreeMap<String, Arc<T>>>,
    /// A key is here exactly when it is in `queue`, once, or in a batch that was taken.
    items: BTreeMap<String, Vec<Delta<T>>>,
    queue: VecDeque<String>,
    running: BTreeMap<String, Running<T>>,
    initial: Initial,
    /// Pending keys of the initial population.
    marked: BTreeSet<String>,
    /// How many relists have begun.
    relists: u32,
    open: Option<Open>,
    /// `None`: nothing is ever found unchanged.
    unchanged: Option<Unchanged<T>>,
    closed: bool,
}

/// How far the initial population is.
#[derive(PartialEq, Eq)]
enum Initial {
    Unpopulated,
    /// A first relist is open.
    Claimed,
    /// The same, and something else was offered meanwhile.
    Touched,
    /// The first list is in; not all of it has been handled.
    Draining,
    Synced,
}

/// A key whose handler runs.
struct Running<T> {
    marked: bool,
    /// What came meanwhile, oldest first.
    later: Vec<Later<T>>,
}

enum Later<T> {
    /// An object; whether it is of the initial population.
    Offered(Delta<T>, bool),
    /// The same of a deletion.
    Deleted(DeltaObject<T>, bool),
    /// Not listed by a relist; whether that was the first.
    Swept(bool),
    Resynced,
    IfNotPresent(Vec<Delta<T>>),
}

/// What a pop gives; its handler runs until [`Model::end`].
pub struct Taken<T> {
    /// The key.
    pub key: String,
    /// What happened to it, oldest first.
    pub deltas: Vec<Delta<T>>,
    /// Whether it is of the initial population.
    pub is_in_initial_list: bool,
}

impl<T> Model<T> {
    /// An empty queue. `known`: what is known at the start, if there are known objects at all.
    pub fn new(
        key: fn(&T) -> Option<String>,
        known: Option<Vec<Arc<T>>>,
        emit_replaced: bool,
    ) -> Self {
        let by_key = |object: Arc<T>| key(&object).map(|key| (key, object));
        Self {
            key,
            transformer: None,
            listed_as: if emit_replaced { DeltaType::Replaced } else { DeltaType::Sync },
            known: known.map(|objects| objects.into_iter().filter_map(by_key).collect()),
            items: BTreeMap::new(),
            queue: VecDeque::new(),
            running: BTreeMap::new(),
            initial: Initial::Unpopulated,
            marked: BTreeSet::new(),
            relists: 0,
            open: None,
            unchanged: None,
            closed: false,
        }
    }

    /// Changes objects before they are queued.
    #[must_use]
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + 'static,
    ) -> Self {
        self.transformer = Some(Box::new(transformer));
        self
    }

    /// Looks for unchanged objects, as the engine does in a store of its own.
    #[must_use]
    pub fn unchanged(mut self, unchanged: Unchanged<T>) -> Self {
        self.unchanged = Some(unchanged);
        self
    }

    /// The objects known under their keys.
    pub fn known(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.known.iter().flatten().map(|(key, object)| (key.as_str(), object))
    }

    /// # Errors
    /// No key, or the transformer failed.
    pub fn add(&mut self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Added, object)
    }

    /// # Errors
    /// No key, or the transformer failed.
    pub fn update(&mut self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Updated, object)
    }

    fn offer(&mut self, kind: DeltaType, object: Arc<T>) -> Result<(), OfferError> {
        self.touch();
        let key = (self.key)(&object).ok_or(KeyError::NoName)?;
        let object = self.transform(&key, object)?;
        self.note_listed(&key);
        self.push(&key, Delta::new(kind, object), false);
        Ok(())
    }

    /// # Errors
    /// No key, or the transformer failed.
    pub fn delete(&mut self, object: impl Into<DeltaObject<T>>) -> Result<(), OfferError> {
        let object = object.into();
        let key = self.key_of(&object)?;
        self.touch();
        if self.exists(&key) {
            let object = self.transform_deleted(&key, object)?;
            self.push_deletion(&key, object, false);
        }
        Ok(())
    }

    /// Whether there is anything to delete, now or when the key's handler has ended.
    fn exists(&self, key: &str) -> bool {
        self.running.contains_key(key) || self.items.contains_key(key) || self.is_known(key)
    }

    fn transform_deleted(
        &self,
        key: &str,
        object: DeltaObject<T>,
    ) -> Result<DeltaObject<T>, OfferError> {
        match object {
            DeltaObject::Object(object) => Ok(self.transform(key, object)?.into()),
            tombstone @ DeltaObject::Tombstone(_) => Ok(tombstone),
        }
    }

    /// Of a key that exists. `first`: it is of the initial population.
    fn push_deletion(&mut self, key: &str, object: DeltaObject<T>, first: bool) {
        if let Some(running) = self.running.get_mut(key) {
            running.later.push(Later::Deleted(object, first));
            return;
        }
        self.append(key, Delta::new(DeltaType::Deleted, object));
        self.mark(key, first);
    }

    /// Queues a Sync of what is known and not pending. What is not known yet may be, when its
    /// handler has ended.
    pub fn resync(&mut self) {
        let Some(known) = &self.known else { return };
        self.running.values_mut().for_each(|running| running.later.push(Later::Resynced));
        let idle: Vec<_> =
            known.keys().filter(|key| !self.running.contains_key(*key)).cloned().collect();
        for key in &idle {
            self.sync(key);
        }
    }

    fn sync(&mut self, key: &str) {
        if let Some(object) = self.known_object(key)
            && !self.items.contains_key(key)
        {
            self.append(key, Delta::new(DeltaType::Sync, object));
        }
    }

    /// # Errors
    /// There are no deltas, or the newest has no key.
    pub fn add_if_not_present(&mut self, deltas: Deltas<T>) -> Result<(), KeyError> {
        let key = self.key_of(&deltas)?;
        self.touch();
        self.note_listed(&key);
        let deltas = deltas.into_iter().collect();
        match self.running.get_mut(&key) {
            Some(running) => running.later.push(Later::IfNotPresent(deltas)),
            None => self.put(&key, deltas),
        }
        Ok(())
    }

    fn put(&mut self, key: &str, deltas: Vec<Delta<T>>) {
        if !self.items.contains_key(key) {
            self.queue.push_back(key.to_owned());
            self.items.insert(key.to_owned(), deltas);
        }
    }

    /// Takes the next key.
    pub fn pop(&mut self) -> Option<Taken<T>> {
        let key = self.queue.pop_front()?;
        self.take(&key)
    }

    /// Takes a key out of its turn, in the queue or in a batch.
    pub fn pop_key(&mut self, key: &str) -> Option<Taken<T>> {
        self.queue.retain(|queued| queued != key);
        self.take(key)
    }

    /// Takes up to `max` keys off the queue; they stay pending until each is taken.
    pub fn pop_batch(&mut self, max: usize) -> VecDeque<String> {
        self.queue.drain(..max.min(self.queue.len())).collect()
    }

    /// Puts keys of a batch back at the front.
    pub fn give_back(&mut self, keys: VecDeque<String>) {
        keys.into_iter().rev().for_each(|key| self.queue.push_front(key));
    }

    /// Takes a key of a batch.
    pub fn take(&mut self, key: &str) -> Option<Taken<T>> {
        let deltas = self.items.remove(key)?;
        let marked = self.marked.remove(key);
        self.running.insert(key.to_owned(), Running { marked, later: Vec::new() });
        let is_in_initial_list = match self.initial {
            Initial::Unpopulated | Initial::Claimed => true,
            Initial::Touched | Initial::Draining => marked,
            Initial::Synced => false,
        };
        Some(Taken { key: key.to_owned(), deltas, is_in_initial_list })
    }

    /// What a handler does to the known objects.
    pub fn apply(&mut self, taken: &Taken<T>) {
        let Some(known) = &mut self.known else { return };
        for delta in &taken.deltas {
            match &delta.object {
                DeltaObject::Object(object) if delta.kind != DeltaType::Deleted => {
                    known.insert(taken.key.clone(), object.clone());
                }
                _ => drop(known.remove(&taken.key)),
            }
        }
    }

    /// A handler has ended. What it puts back goes in front of what came meanwhile; that is done
    /// now.
    pub fn end(&mut self, taken: Taken<T>, put_back: bool) {
        let Some(running) = self.running.remove(&taken.key) else { return };
        let key = taken.key.as_str();
        if put_back {
            // It came before, so that it does not populate.
            self.put(key, taken.deltas);
        }
        for later in running.later {
            let exists = self.items.contains_key(key) || self.is_known(key);
            match later {
                Later::Offered(delta, first) => self.push(key, delta, first),
                Later::Deleted(object, first) if exists => self.push_deletion(key, object, first),
                Later::Swept(first) if exists => self.sweep(key, first),
                Later::Deleted(..) | Later::Swept(_) => {}
                Later::Resynced => self.sync(key),
                Later::IfNotPresent(deltas) => self.put(key, deltas),
            }
        }
        self.finish_initial();
    }

    /// Whether the initial population has been handled.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.initial == Initial::Synced
    }

    /// No pop waits any more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether that was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Pending keys, sorted.
    #[must_use]
    pub fn list_keys(&self) -> Vec<String> {
        self.items.keys().cloned().collect()
    }

    /// The newest delta of each pending key, by key.
    #[must_use]
    pub fn list(&self) -> Vec<Delta<T>> {
        self.items.values().filter_map(|deltas| deltas.last().cloned()).collect()
    }

    /// Pending deltas of what has a key.
    ///
    /// # Errors
    /// It has none.
    pub fn get<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<Option<Deltas<T>>, KeyError>
    where
        T: 'a,
    {
        Ok(self.get_by_key(&self.key_of(of)?))
    }

    /// Pending deltas of a key, as a copy.
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Deltas<T>> {
        self.pending(key).map(|deltas| deltas.iter().cloned().collect())
    }

    /// The same in place.
    #[must_use]
    pub fn pending(&self, key: &str) -> Option<&[Delta<T>]> {
        self.items.get(key).map(Vec::as_slice)
    }

    /// The key of what has one.
    ///
    /// # Errors
    /// It has none.
    pub fn key_of<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<String, KeyError>
    where
        T: 'a,
    {
        match of.into() {
            KeySource::Object(object) => (self.key)(object).ok_or(KeyError::NoName),
            KeySource::Tombstone(tombstone) => Ok(tombstone.key.to_string()),
            KeySource::Explicit(key) => Ok(key.0.to_owned()),
            KeySource::Deltas(deltas) => {
                match &deltas.newest().ok_or(KeyError::ZeroLengthDeltas)?.object {
                    DeltaObject::Object(object) => (self.key)(object).ok_or(KeyError::NoName),
                    DeltaObject::Tombstone(tombstone) => Ok(tombstone.key.to_string()),
                }
            }
        }
    }

    /// Whether a handler of the key runs.
    #[must_use]
    pub fn is_running(&self, key: &str) -> bool {
        self.running.contains_key(key)
    }

    fn push(&mut self, key: &str, delta: Delta<T>, first: bool) {
        if let Some(running) = self.running.get_mut(key) {
            running.later.push(Later::Offered(delta, first));
            return;
        }
        self.append(key, delta);
        self.mark(key, first);
    }

    /// client-go's `queueActionInternalLocked`: of two deletions at the end the older stays,
    /// unless it is a tombstone.
    fn append(&mut self, key: &str, delta: Delta<T>) {
        if !self.items.contains_key(key) {
            self.queue.push_back(key.to_owned());
        }
        let deltas = self.items.entry(key.to_owned()).or_default();
        deltas.push(delta);
        if let [.., older, newer] = deltas.as_slice()
            && older.kind == DeltaType::Deleted
            && newer.kind == DeltaType::Deleted
        {
            let dropped =
                if older.object.is_tombstone() { deltas.len() - 2 } else { deltas.len() - 1 };
            deltas.remove(dropped);
        }
    }

    fn transform(&self, key: &str, object: Arc<T>) -> Result<Arc<T>, OfferError> {
        let Some(transform) = &self.transformer else { return Ok(object) };
        transform(object).map_err(|source| OfferError::Transform {
            key: key.to_owned(),
            version: None,
            source,
        })
    }

    fn is_known(&self, key: &str) -> bool {
        self.known.as_ref().is_some_and(|known| known.contains_key(key))
    }

    /// What is known under a key.
    #[must_use]
    pub fn known_object(&self, key: &str) -> Option<Arc<T>> {
        self.known.as_ref()?.get(key).cloned()
    }

    /// Something other than a relist came: what it comes to first is populated by it, and synced.
    fn touch(&mut self) {
        match self.initial {
            Initial::Unpopulated => self.initial = Initial::Synced,
            Initial::Claimed => self.initial = Initial::Touched,
            _ => {}
        }
    }

    fn mark(&mut self, key: &str, first: bool) {
        if first {
            self.marked.insert(key.to_owned());
        }
    }

    /// Synced when no mark is left, neither pending, nor in a handler, nor in what came over one.
    fn finish_initial(&mut self) {
        let marked = |later: &Later<T>| {
            matches!(later, Later::Offered(_, true) | Later::Deleted(_, true) | Later::Swept(true))
        };
        let runs = |running: &Running<T>| running.marked || running.later.iter().any(marked);
        if self.initial == Initial::Draining
            && self.marked.is_empty()
            && !self.running.values().any(runs)
        {
            self.initial = Initial::Synced;
        }
    }
}
