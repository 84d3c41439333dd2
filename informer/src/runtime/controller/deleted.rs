//! Deletions that wait for [`on_deleted`](super::Controller::on_deleted). They go through the
//! work queue under their object's key, so a deletion handler and a reconcile of the same key
//! never run at the same time.

use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo::room::less_room;
use deltafifo::{BoxError, DeletedFinalStateUnknown, DeltaObject, error_chain};
use futures_util::future::BoxFuture;
use hashbrown::HashMap;

use super::key::StoreKey;
use crate::runtime::form::Form;

/// The user's function, which is called for each deletion.
pub(super) type OnDeleted<K> = Box<dyn FnMut(DeltaObject<K>) -> BoxFuture<'static, ()> + Send>;

/// Deletions that have not been handled yet, by key and in order of arrival.
pub(super) struct Deletions<K> {
    by_key: Mutex<HashMap<StoreKey, Vec<DeltaObject<K>>, foldhash::fast::RandomState>>,
}

impl<K> Deletions<K> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { by_key: Mutex::default() })
    }

    pub(super) fn push(&self, key: StoreKey, last: DeltaObject<K>) {
        self.by_key.lock().entry(key).or_default().push(last);
    }

    pub(super) fn take(&self, key: &StoreKey) -> Vec<DeltaObject<K>> {
        let mut by_key = self.by_key.lock();
        let deletions = by_key.remove(key).unwrap_or_default();
        if let Some(room) = less_room(by_key.len(), by_key.capacity()) {
            by_key.shrink_to(room);
        }
        deletions
    }
}

/// Returns the last state of a deleted object, or a tombstone without it if it cannot be decoded.
pub(super) fn decoded<F: Form>(key: &StoreKey, last: DeltaObject<F>) -> DeltaObject<F::Object> {
    let decode = |object: Arc<F>| {
        let warn = |error: &BoxError| {
            let error = error_chain(&**error);
            tracing::warn!(
                error,
                "last state of a deleted object cannot be decoded; the deletion handler is called \
                 without it"
            );
        };
        object.decoded().inspect_err(warn).ok()
    };
    match last {
        DeltaObject::Object(object) => match decode(object) {
            Some(object) => DeltaObject::Object(object),
            None => DeletedFinalStateUnknown::new(&**key, None).into(),
        },
        DeltaObject::Tombstone(tombstone) => {
            let DeletedFinalStateUnknown { key, obj, scope_removed } = *tombstone;
            let obj = obj.and_then(decode);
            DeletedFinalStateUnknown { key, obj, scope_removed }.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use deltafifo::room::LEAST_ROOM;

    use super::*;

    #[test]
    fn taken_deletions_keep_no_memory() {
        let (deletions, last) = (Deletions::new(), Arc::new(()));
        let keys: Vec<_> = (0..10_000).map(|number| StoreKey::from(number.to_string())).collect();
        for key in &keys {
            deletions.push(key.clone(), DeltaObject::Object(last.clone()));
        }
        for key in &keys {
            assert_eq!(deletions.take(key).len(), 1);
        }
        assert!(deletions.by_key.lock().capacity() <= 2 * LEAST_ROOM);
    }
}
