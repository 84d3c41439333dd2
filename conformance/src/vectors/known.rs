//! A set of known objects for the tests, which implements the trait `KnownObjects`. It is
//! independent of every engine. It lists its keys in byte order, as client-go's side did when the
//! answers were recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltafifo::{BoxError, Delta, DeltaObject, DeltaType, KeyError, KeyFunc, KnownObjects};
use parking_lot::Mutex;

use super::Obj;
use super::subject::ObjMeta;

/// The known objects by key.
pub(super) struct KnownSet(Mutex<BTreeMap<String, Arc<Obj>>>);

impl KnownSet {
    pub(super) fn new(objects: &[Obj]) -> Result<Self, KeyError> {
        let keys = KeyFunc::meta_namespace(ObjMeta);
        let keyed = objects.iter().map(|object| Ok((keys.key(object)?, Arc::new(object.clone()))));
        Ok(Self(Mutex::new(keyed.collect::<Result<_, KeyError>>()?)))
    }

    /// Applies the deltas of a popped key.
    pub(super) fn apply(&self, key: &str, deltas: &[Delta<Obj>]) {
        let mut objects = self.0.lock();
        for delta in deltas {
            match &delta.object {
                DeltaObject::Object(object) if delta.kind != DeltaType::Deleted => {
                    objects.insert(key.to_owned(), object.clone());
                }
                _ => {
                    objects.remove(key);
                }
            }
        }
    }
}

impl KnownObjects<Obj> for KnownSet {
    fn list_keys(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Obj>>, BoxError> {
        Ok(self.0.lock().get(key).cloned())
    }
}
