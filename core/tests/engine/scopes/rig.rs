//! A queue of objects by namespace, and an external store for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deltafifo::{
    BoxError, Delta, DeltaFifo, DeltaObject, DeltaType, Deltas, Indexer, KeyFunc, KeyScope,
    KnownObjects, Meta, ScopeId,
};

/// An object that consists of its metadata.
#[derive(Debug)]
pub struct Object {
    pub namespace: &'static str,
    pub name: &'static str,
    pub version: String,
}

#[derive(Clone, Copy)]
pub struct Names;

impl Meta<Object> for Names {
    fn namespace<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.namespace)
    }
    fn name<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(object.name)
    }
    fn version<'a>(&self, object: &'a Object) -> Option<&'a str> {
        Some(&object.version)
    }
}

pub type Fifo = DeltaFifo<Object, Names>;

pub fn object(namespace: &'static str, name: &'static str, version: u64) -> Arc<Object> {
    Arc::new(Object { namespace, name, version: version.to_string() })
}

pub fn store() -> Indexer<Object, Names> {
    Indexer::builder(KeyFunc::meta_namespace(Names)).build().unwrap()
}

/// Returns a queue without a store, over an external store.
pub fn over(known: Arc<dyn KnownObjects<Object>>) -> Fifo {
    DeltaFifo::builder(KeyFunc::meta_namespace(Names)).known_objects(known).build()
}

pub fn fused() -> Fifo {
    DeltaFifo::over(store()).track_applied(true).skip_unchanged(true).ordered_walks(true).build()
}

pub fn two_scopes(fifo: &Fifo) -> [ScopeId; 2] {
    ["blue", "green"].map(|name| fifo.add_scope(KeyScope::namespace(name)).unwrap())
}

/// Runs a relist of one page. Returns the number of deleted keys.
pub fn list(fifo: &Fifo, scope: &ScopeId, objects: &[Arc<Object>], version: &str) -> usize {
    let mut relist = fifo.begin_replace_in(scope);
    assert!(relist.offer(objects.to_vec()).unwrap().is_empty());
    relist.commit(version).unwrap().deleted
}

pub fn drain(fifo: &Fifo) {
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
}

pub fn stored(fifo: &Fifo) -> Vec<String> {
    let mut keys = fifo.store().list_keys();
    keys.sort();
    keys
}

/// An external store that the handler writes.
#[derive(Default)]
pub struct Elsewhere(pub Mutex<HashMap<String, Arc<Object>>>);

impl Elsewhere {
    pub fn apply(&self, key: &str, deltas: &Deltas<Object>) {
        let mut known = self.0.lock().unwrap();
        match deltas.newest() {
            Some(Delta { kind, object: DeltaObject::Object(object), .. })
                if *kind != DeltaType::Deleted =>
            {
                known.insert(key.to_owned(), object.clone());
            }
            _ => drop(known.remove(key)),
        }
    }
}

impl KnownObjects<Object> for Elsewhere {
    fn list_keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.0.lock().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Object>>, BoxError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }
}
