//! A plain model of client-go's `DeltaFIFO`: no locks, a map and a queue. It also has this
//! project's rule for handlers that run without a lock: an operation on a key whose handler runs
//! is recorded, and applied when the handler ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use deltafifo::{BoxError, Delta, DeltaObject, DeltaType, Deltas, KeyError, KeySource, OfferError};

use relist::Open;
pub use relist::Unchanged;
use scopes::Scope;

mod relist;
mod scopes;

type Transformer<T> = Box<dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError>>;

/// The plain queue. Its methods have the names of the engine's methods.
pub struct Model<T> {
    key: fn(&T) -> Option<String>,
    transformer: Option<Transformer<T>>,
    listed_as: DeltaType,
    /// The known objects; `None` if the queue has no known objects.
    known: Option<BTreeMap<String, Arc<T>>>,
    /// The pending deltas by key. Each of these keys is either in `queue`, once, or in a batch
    /// that was taken; `queue` has no other keys.
    items: BTreeMap<String, Vec<Delta<T>>>,
    queue: VecDeque<String>,
    running: BTreeMap<String, Running<T>>,
    initial: Initial,
    /// The pending keys of the initial population.
    marked: BTreeSet<String>,
    /// The number of the relist or scope that was numbered last.
    relists: u32,
    /// The relists that are current: one of the whole queue, or at most one for each scope.
    open: Vec<Open>,
    scopes: Vec<Scope>,
    /// The version of the last relist of the whole queue.
    version: Option<String>,
    /// The detection of unchanged objects; `None` treats every listed object as changed.
    unchanged: Option<Unchanged<T>>,
    closed: bool,
}

/// The phase of the initial population.
#[derive(PartialEq, Eq)]
enum Initial {
    Unpopulated,
    /// A first relist is open, or the first list of a scope is awaited.
    Claimed,
    /// The state after `Claimed`, once an object was offered outside of a relist.
    Touched,
    /// The initial list is complete, and not all of its items are handled.
    Draining,
    Synced,
}

/// A key whose handler runs.
struct Running<T> {
    marked: bool,
    /// The operations during the handler, oldest first.
    later: Vec<Later<T>>,
}

enum Later<T> {
    /// An object, and whether it belongs to the initial population.
    Offered(Delta<T>, bool),
    /// A deletion, and whether it belongs to the initial population.
    Deleted(DeltaObject<T>, bool),
    /// A key that a relist or a scope's removal deletes. The flags say whether the scope was
    /// removed, and whether the deletion belongs to the initial population.
    Swept(bool, bool),
    Resynced,
    IfNotPresent(Vec<Delta<T>>),
}

/// The result of a pop. The handler runs until [`Model::end`].
pub struct TakenItem<T> {
    /// The key.
    pub key: String,
    /// The deltas, oldest first.
    pub deltas: Vec<Delta<T>>,
    /// Whether the item belongs to the initial population.
    pub is_in_initial_list: bool,
}

impl<T> Model<T> {
    /// Creates an empty queue with these known objects, or without known objects for `None`.
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
            open: Vec::new(),
            scopes: Vec::new(),
            version: None,
            unchanged: None,
            closed: false,
        }
    }

    /// Sets a transformer, which changes objects before they are queued.
    #[must_use]
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + 'static,
    ) -> Self {
        self.transformer = Some(Box::new(transformer));
        self
    }

    /// Makes the model detect unchanged objects, as the engine does in its own store.
    #[must_use]
    pub fn unchanged(mut self, unchanged: Unchanged<T>) -> Self {
        self.unchanged = Some(unchanged);
        self
    }

    /// Returns the known objects with their keys.
    pub fn known(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.known.iter().flatten().map(|(key, object)| (key.as_str(), object))
    }

    /// Offers an added object.
    ///
    /// # Errors
    /// The object has no key, or the transformer failed.
    pub fn add(&mut self, object: Arc<T>) -> Result<(), OfferError> {
        self.offer(DeltaType::Added, object)
    }

    /// Offers an updated object.
    ///
    /// # Errors
    /// The object has no key, or the transformer failed.
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

    /// Offers a deletion.
    ///
    /// # Errors
    /// The object has no key, or the transformer failed.
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

    /// Returns whether a deletion of the key can have an effect: the key is known or pending, or
    /// its handler runs. In the last case the deletion is recorded. When the handler ends, the
    /// deletion is queued if the key is known or pending then, and dropped otherwise.
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

    /// Queues the deletion of an existing key. `first` says whether it belongs to the initial
    /// population.
    fn push_deletion(&mut self, key: &str, object: DeltaObject<T>, first: bool) {
        if let Some(running) = self.running.get_mut(key) {
            running.later.push(Later::Deleted(object, first));
            return;
        }
        self.append(key, Delta::new(DeltaType::Deleted, object));
        self.mark(key, first);
    }

    /// Queues a Sync for every known key that is not pending. For a key whose handler runs, the
    /// Sync is queued when the handler ends, if the key is known and not pending then.
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

    /// Queues deltas as a whole if nothing is pending for their key.
    ///
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
    pub fn pop(&mut self) -> Option<TakenItem<T>> {
        let key = self.queue.pop_front()?;
        self.take(&key)
    }

    /// Takes a key before its turn, from the queue or from a batch.
    pub fn pop_key(&mut self, key: &str) -> Option<TakenItem<T>> {
        self.queue.retain(|queued| queued != key);
        self.take(key)
    }

    /// Takes up to `max` keys from the queue. They stay pending until each is taken.
    pub fn pop_batch(&mut self, max: usize) -> VecDeque<String> {
        self.queue.drain(..max.min(self.queue.len())).collect()
    }

    /// Returns the remaining keys of a batch to the front of the queue.
    pub fn give_back(&mut self, keys: VecDeque<String>) {
        keys.into_iter().rev().for_each(|key| self.queue.push_front(key));
    }

    /// Takes a key of a batch.
    pub fn take(&mut self, key: &str) -> Option<TakenItem<T>> {
        let deltas = self.items.remove(key)?;
        let marked = self.marked.remove(key);
        self.running.insert(key.to_owned(), Running { marked, later: Vec::new() });
        let is_in_initial_list = match self.initial {
            Initial::Unpopulated | Initial::Claimed => true,
            Initial::Touched | Initial::Draining => marked,
            Initial::Synced => false,
        };
        Some(TakenItem { key: key.to_owned(), deltas, is_in_initial_list })
    }

    /// Applies an item to the known objects, as a handler does.
    pub fn apply(&mut self, taken: &TakenItem<T>) {
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

    /// Ends a handler. Deltas that it puts back precede the operations that were recorded while it
    /// ran. The recorded operations are applied now.
    pub fn end(&mut self, taken: TakenItem<T>, put_back: bool) {
        let Some(running) = self.running.remove(&taken.key) else { return };
        let key = taken.key.as_str();
        if put_back {
            // The deltas were offered earlier, so putting them back does not populate the queue.
            self.put(key, taken.deltas);
        }
        for later in running.later {
            let exists = self.items.contains_key(key) || self.is_known(key);
            match later {
                Later::Offered(delta, first) => self.push(key, delta, first),
                Later::Deleted(object, first) if exists => self.push_deletion(key, object, first),
                Later::Swept(scope_removed, first) if exists => {
                    self.sweep(key, first, scope_removed);
                }
                Later::Deleted(..) | Later::Swept(..) => {}
                Later::Resynced => self.sync(key),
                Later::IfNotPresent(deltas) => self.put(key, deltas),
            }
        }
        self.finish_initial();
    }

    /// Returns whether the initial population is handled.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.initial == Initial::Synced
    }

    /// Closes the queue, so that no pop waits any more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether the queue is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the pending keys, sorted.
    #[must_use]
    pub fn list_keys(&self) -> Vec<String> {
        self.items.keys().cloned().collect()
    }

    /// Returns the newest delta of each pending key, sorted by key.
    #[must_use]
    pub fn list(&self) -> Vec<Delta<T>> {
        self.items.values().filter_map(|deltas| deltas.last().cloned()).collect()
    }

    /// Returns a copy of the pending deltas of an object, a tombstone or a key.
    ///
    /// # Errors
    /// The source has no key.
    pub fn get<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<Option<Deltas<T>>, KeyError>
    where
        T: 'a,
    {
        Ok(self.get_by_key(&self.key_of(of)?))
    }

    /// Returns a copy of the pending deltas of a key.
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Deltas<T>> {
        self.pending(key).map(|deltas| deltas.iter().cloned().collect())
    }

    /// Returns a reference to the pending deltas of a key.
    #[must_use]
    pub fn pending(&self, key: &str) -> Option<&[Delta<T>]> {
        self.items.get(key).map(Vec::as_slice)
    }

    /// Returns the key of an object, a tombstone or deltas.
    ///
    /// # Errors
    /// The source has no key.
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

    /// Returns whether a handler of the key runs.
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

    /// Appends a delta as client-go's `queueActionInternalLocked` does: of two consecutive
    /// deletions only the older one stays. If the older one is a tombstone, the newer one replaces
    /// it, unless the newer one comes from the removal of a scope.
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
            // The removal of a scope says nothing new about an object that is gone.
            let is_removal = matches!(
                &newer.object, DeltaObject::Tombstone(tombstone) if tombstone.scope_removed
            );
            let keeps_newer = older.object.is_tombstone() && !is_removal;
            deltas.remove(deltas.len() - if keeps_newer { 2 } else { 1 });
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

    /// Returns the known object of a key.
    #[must_use]
    pub fn known_object(&self, key: &str) -> Option<Arc<T>> {
        self.known.as_ref()?.get(key).cloned()
    }

    /// Records an offer outside of a relist. If no relist or scope has claimed the initial
    /// population before, there is no initial population, and the queue is synced.
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

    /// Syncs the queue once no item of the initial population is left: neither pending, nor in a
    /// handler, nor in an operation that was recorded during one.
    fn finish_initial(&mut self) {
        let marked = |later: &Later<T>| {
            matches!(
                later,
                Later::Offered(_, true) | Later::Deleted(_, true) | Later::Swept(_, true)
            )
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
