//! The store: client-go's `ThreadSafeStore` with its namespace index, and how popped deltas are applied to it.

use std::sync::Arc;

use deltafifo::{DeltaObject, DeltaType, KeyError, KeyFunc, Meta};
use foldhash::fast::RandomState;
use hashbrown::hash_map::EntryRef;
use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;

use super::Popped;

/// What applying one delta did to the store.
pub enum Change<'a, T> {
    /// The store did not have the key.
    Added {
        /// What it has now.
        new: &'a Arc<T>,
        /// Whether the delta was popped before the queue had synced.
        is_in_initial_list: bool,
    },
    /// The store had the key.
    Updated {
        /// What it had.
        old: &'a Arc<T>,
        /// What it has now.
        new: &'a Arc<T>,
    },
    /// The key is gone, if it was there.
    Deleted {
        /// What the store had.
        old: Option<&'a Arc<T>>,
        /// What the delta said.
        object: &'a DeltaObject<T>,
    },
}

/// Objects by key and by namespace, behind one reader-writer lock.
pub struct MutexStore<T, M> {
    keys: Arc<KeyFunc<T, M>>,
    tables: RwLock<Tables<T>>,
}

struct Tables<T> {
    objects: HashMap<Arc<str>, Arc<T>, RandomState>,
    namespaces: Namespaces,
}

/// The keys of each namespace. Holds no empty set.
type Namespaces = HashMap<String, HashSet<Arc<str>, RandomState>, RandomState>;

impl<T, M: Meta<T>> MutexStore<T, M> {
    /// An empty store.
    #[must_use]
    pub fn new(keys: KeyFunc<T, M>) -> Self {
        let tables = Tables { objects: HashMap::default(), namespaces: HashMap::default() };
        Self { keys: Arc::new(keys), tables: RwLock::new(tables) }
    }

    /// Stores an object under its key, and returns the one it takes the place of.
    ///
    /// # Errors
    /// When the object has no key.
    pub fn add(&self, object: Arc<T>) -> Result<Option<Arc<T>>, KeyError> {
        let key = self.keys.key(&object)?;
        Ok(self.put(&key.into(), object))
    }

    /// Forgets a key, and returns what it had.
    pub fn remove(&self, key: &str) -> Option<Arc<T>> {
        self.tables.write().remove(key, self.keys.meta())
    }

    /// Does to the store what the deltas say, oldest first, and tells the handler after each, with no lock of the store
    /// held (client-go `processDeltas`).
    pub fn apply(&self, item: &Popped<T>, mut handler: impl FnMut(Change<'_, T>)) {
        for delta in item.deltas() {
            match (delta.kind, &delta.object) {
                (kind, DeltaObject::Object(new)) if kind != DeltaType::Deleted => {
                    match self.put(&item.key, new.clone()) {
                        Some(old) => handler(Change::Updated { old: &old, new }),
                        None => handler(Change::Added { new, is_in_initial_list: item.is_in_initial_list }),
                    }
                }
                // A tombstone of another kind, which only a caller of add_if_not_present can make, says the same.
                (_, object) => {
                    let old = self.remove(&item.key);
                    handler(Change::Deleted { old: old.as_ref(), object });
                }
            }
        }
    }

    /// The object of a key.
    pub fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.tables.read().objects.get(key).cloned()
    }

    /// Whether there is one.
    pub fn contains_key(&self, key: &str) -> bool {
        self.tables.read().objects.contains_key(key)
    }

    /// Every object, in no order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.tables.read().objects.values().cloned().collect()
    }

    /// Every key, in no order.
    pub fn list_keys(&self) -> Vec<String> {
        self.tables.read().objects.keys().map(|key| String::from(&**key)).collect()
    }

    /// The objects of a namespace, in no order; those of cluster scope have the empty one.
    pub fn by_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let tables = self.tables.read();
        let keys = tables.namespaces.get(namespace).into_iter().flatten();
        keys.filter_map(|key| tables.objects.get(key).cloned()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.tables.read().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn keys(&self) -> &Arc<KeyFunc<T, M>> {
        &self.keys
    }

    /// Makes room for as many objects, so that what a relist brings does not rehash the table on its way.
    pub(super) fn reserve(&self, objects: usize) {
        let table = &mut self.tables.write().objects;
        table.reserve(objects.saturating_sub(table.len()));
    }

    /// The keys for which `wanted` holds, with their objects.
    pub(super) fn select(&self, wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Option<Arc<T>>)> {
        let tables = self.tables.read();
        let selected = tables.objects.iter().filter(|(key, _)| wanted(key));
        selected.map(|(key, object)| (key.clone(), Some(object.clone()))).collect()
    }

    fn put(&self, key: &Arc<str>, object: Arc<T>) -> Option<Arc<T>> {
        self.tables.write().put(key, object, self.keys.meta())
    }
}

impl<T> Tables<T> {
    fn put(&mut self, key: &Arc<str>, object: Arc<T>, meta: &impl Meta<T>) -> Option<Arc<T>> {
        match self.objects.entry_ref(&**key) {
            EntryRef::Occupied(mut entry) => {
                let stored = entry.get_mut();
                let old = std::mem::replace(stored, object);
                let (from, to) = (namespace(meta, &old), namespace(meta, stored));
                if from != to {
                    unindex(&mut self.namespaces, from, key);
                    index(&mut self.namespaces, to, key);
                }
                Some(old)
            }
            EntryRef::Vacant(entry) => {
                let stored = entry.insert_with_key(key.clone(), object);
                index(&mut self.namespaces, namespace(meta, stored), key);
                None
            }
        }
    }

    fn remove(&mut self, key: &str, meta: &impl Meta<T>) -> Option<Arc<T>> {
        let old = self.objects.remove(key)?;
        unindex(&mut self.namespaces, namespace(meta, &old), key);
        Some(old)
    }
}

fn namespace<'a, T>(meta: &impl Meta<T>, object: &'a T) -> &'a str {
    meta.namespace(object).unwrap_or_default()
}

fn index(namespaces: &mut Namespaces, namespace: &str, key: &Arc<str>) {
    namespaces.entry_ref(namespace).or_default().insert(key.clone());
}

fn unindex(namespaces: &mut Namespaces, namespace: &str, key: &str) {
    if let Some(keys) = namespaces.get_mut(namespace) {
        keys.remove(key);
        if keys.is_empty() {
            namespaces.remove(namespace);
        }
    }
}
