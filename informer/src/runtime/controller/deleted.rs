//! Deletions that wait to be told to [`on_deleted`](super::Controller::on_deleted): in line with the reconciles of their keys, so
//! that neither runs beside the other.

use std::sync::Arc;

use deltafifo::DeltaObject;
use deltafifo::locks::Mutex;
use futures_util::future::BoxFuture;
use hashbrown::HashMap;

use super::key::Key;

/// What is called for a deletion.
pub(super) type OnDeleted<K> = Box<dyn FnMut(DeltaObject<K>) -> BoxFuture<'static, ()> + Send>;

/// Those of each key, in order.
pub(super) struct Deletions<K> {
    by_key: Mutex<HashMap<Key, Vec<DeltaObject<K>>, foldhash::fast::RandomState>>,
}

impl<K> Deletions<K> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { by_key: Mutex::default() })
    }

    pub(super) fn note(&self, key: Key, last: DeltaObject<K>) {
        self.by_key.lock().entry(key).or_default().push(last);
    }

    pub(super) fn take(&self, key: &Key) -> Vec<DeltaObject<K>> {
        self.by_key.lock().remove(key).unwrap_or_default()
    }
}
