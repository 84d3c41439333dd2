//! Deletions that wait for [`on_deleted`](super::Controller::on_deleted). They go through the
//! work queue under their object's key, so a deletion handler and a reconcile of the same key
//! never run at the same time.

use std::sync::Arc;

use deltafifo::DeltaObject;
use deltafifo::locks::Mutex;
use futures_util::future::BoxFuture;
use hashbrown::HashMap;

use super::key::Key;

/// The function of the user that is called for each deletion.
pub(super) type OnDeleted<K> = Box<dyn FnMut(DeltaObject<K>) -> BoxFuture<'static, ()> + Send>;

/// Deletions that were not handled yet, by key and in order of arrival.
pub(super) struct Deletions<K> {
    by_key: Mutex<HashMap<Key, Vec<DeltaObject<K>>, foldhash::fast::RandomState>>,
}

impl<K> Deletions<K> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { by_key: Mutex::default() })
    }

    pub(super) fn push(&self, key: Key, last: DeltaObject<K>) {
        self.by_key.lock().entry(key).or_default().push(last);
    }

    pub(super) fn take(&self, key: &Key) -> Vec<DeltaObject<K>> {
        self.by_key.lock().remove(key).unwrap_or_default()
    }
}
