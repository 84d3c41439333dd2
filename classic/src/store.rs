//! The store: client-go's `ThreadSafeStore` with its namespace index. Popped deltas are applied to
//! it.

use std::sync::Arc;

use deltafifo::{DeltaObject, DeltaType, KeyError, KeyFunc, Meta};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use parking_lot::RwLock;

use super::Popped;
use super::index::Index;

/// The effect of one delta on the store.
pub enum Change<'a, T> {
    /// The key was added: the store did not have it before.
    Added {
        /// The stored object.
        new: &'a Arc<T>,
        /// Whether the delta was popped before the queue had synced.
        is_in_initial_list: bool,
    },
    /// The object of a key was replaced.
    Updated {
        /// The replaced object.
        old: &'a Arc<T>,
        /// The stored object.
        new: &'a Arc<T>,
    },
    /// The key was deleted: the store does not have it any more.
    Deleted {
        /// The removed object, if there was one.
        old: Option<&'a Arc<T>>,
        /// The object or tombstone of the delta.
        object: &'a DeltaObject<T>,
    },
}

/// A function that computes the value of an object in an index.
type IndexFn<T> = Box<dyn Fn(&T) -> String + Send + Sync>;

/// Objects by key, by namespace and, if [`indexed`](MutexStore::indexed) created the store, by a
/// custom index, behind one reader-writer lock.
pub struct MutexStore<T, M> {
    keys: Arc<KeyFunc<T, M>>,
    value: Option<IndexFn<T>>,
    tables: RwLock<Tables<T>>,
}

struct Tables<T> {
    objects: HashMap<Arc<str>, Arc<T>, RandomState>,
    indexes: Indexes,
}

#[derive(Default)]
struct Indexes {
    namespaces: Index,
    values: Index,
}

impl<T, M: Meta<T>> MutexStore<T, M> {
    /// Creates an empty store.
    #[must_use]
    pub fn new(keys: KeyFunc<T, M>) -> Self {
        Self::with(keys, None)
    }

    /// Creates an empty store with an index in which `value` computes the value of each object.
    #[must_use]
    pub fn indexed(
        keys: KeyFunc<T, M>,
        value: impl Fn(&T) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::with(keys, Some(Box::new(value)))
    }

    fn with(keys: KeyFunc<T, M>, value: Option<IndexFn<T>>) -> Self {
        let tables = Tables { objects: HashMap::default(), indexes: Indexes::default() };
        Self { keys: Arc::new(keys), value, tables: RwLock::new(tables) }
    }

    /// Stores an object under its key, and returns the object that it replaces.
    ///
    /// # Errors
    /// If the object has no key.
    pub fn add(&self, object: Arc<T>) -> Result<Option<Arc<T>>, KeyError> {
        let key = self.keys.key(&object)?;
        Ok(self.put(&key.into(), object))
    }

    /// Removes a key, and returns its object.
    pub fn remove(&self, key: &str) -> Option<Arc<T>> {
        let mut tables = self.tables.write();
        let (key, old) = tables.objects.remove_entry(key)?;
        self.reindex(&mut tables.indexes, &key, Some(&old), None);
        Some(old)
    }

    /// Applies the deltas in order, oldest first, and calls the handler after each. No lock of the
    /// store is held during the call (client-go `processDeltas`).
    pub fn apply(&self, item: &Popped<T>, mut handler: impl FnMut(Change<'_, T>)) {
        for delta in item.deltas() {
            match (delta.kind, &delta.object) {
                (kind, DeltaObject::Object(new)) if kind != DeltaType::Deleted => {
                    match self.put(&item.key, new.clone()) {
                        Some(old) => handler(Change::Updated { old: &old, new }),
                        None => handler(Change::Added {
                            new,
                            is_in_initial_list: item.is_in_initial_list,
                        }),
                    }
                }
                // A tombstone deletes, whatever the type of its delta. Only a caller of
                // `add_if_not_present` can create a tombstone whose type is not Deleted.
                (_, object) => {
                    let old = self.remove(&item.key);
                    handler(Change::Deleted { old: old.as_ref(), object });
                }
            }
        }
    }

    /// Returns the object of a key.
    pub fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.tables.read().objects.get(key).cloned()
    }

    /// Returns whether the store has a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.tables.read().objects.contains_key(key)
    }

    /// Returns every object, in no particular order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.tables.read().objects.values().cloned().collect()
    }

    /// Returns every key, in no particular order.
    pub fn list_keys(&self) -> Vec<String> {
        self.tables.read().objects.keys().map(|key| String::from(&**key)).collect()
    }

    /// Returns the objects of a namespace, in no particular order. Objects of cluster scope have
    /// the empty namespace.
    pub fn by_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let tables = self.tables.read();
        tables.objects_of(tables.indexes.namespaces.keys(namespace))
    }

    /// Returns the objects that have a value in the custom index, in no particular order.
    pub fn by_index(&self, value: &str) -> Vec<Arc<T>> {
        let tables = self.tables.read();
        tables.objects_of(tables.indexes.values.keys(value))
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.tables.read().objects.len()
    }

    /// Returns whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key function.
    pub fn keys(&self) -> &Arc<KeyFunc<T, M>> {
        &self.keys
    }

    /// Reserves room for this many objects, so that the table does not grow during a relist.
    pub(super) fn reserve(&self, objects: usize) {
        let table = &mut self.tables.write().objects;
        table.reserve(objects.saturating_sub(table.len()));
    }

    /// Returns the keys that `wanted` accepts, with their objects.
    pub(super) fn select(&self, wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Option<Arc<T>>)> {
        let tables = self.tables.read();
        let selected = tables.objects.iter().filter(|(key, _)| wanted(key));
        selected.map(|(key, object)| (key.clone(), Some(object.clone()))).collect()
    }

    fn put(&self, key: &Arc<str>, object: Arc<T>) -> Option<Arc<T>> {
        let tables = &mut *self.tables.write();
        let (old, new) = match tables.objects.entry_ref(&**key) {
            EntryRef::Occupied(mut entry) => {
                let old = std::mem::replace(entry.get_mut(), object);
                (Some(old), entry.into_mut())
            }
            EntryRef::Vacant(entry) => (None, entry.insert_with_key(key.clone(), object)),
        };
        self.reindex(&mut tables.indexes, key, old.as_deref(), Some(new));
        old
    }

    /// Moves a key in the indexes from the values of the old object to those of the new one.
    fn reindex(&self, indexes: &mut Indexes, key: &Arc<str>, old: Option<&T>, new: Option<&T>) {
        let namespace = |object| self.keys.meta().namespace(object).unwrap_or_default();
        indexes.namespaces.update(key, old.map(namespace), new.map(namespace));
        if let Some(value) = &self.value {
            indexes.values.update(key, old.map(value).as_deref(), new.map(value).as_deref());
        }
    }
}

impl<T> Tables<T> {
    /// Returns the objects of these keys.
    fn objects_of<'a>(&self, keys: impl ExactSizeIterator<Item = &'a Arc<str>>) -> Vec<Arc<T>> {
        let mut objects = Vec::with_capacity(keys.len());
        objects.extend(keys.filter_map(|key| self.objects.get(key).cloned()));
        objects
    }
}
