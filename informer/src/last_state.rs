//! The last state of a deleted object, as handlers receive it.

use std::sync::Arc;

use deltafifo::{DeletedFinalStateUnknown, DeltaObject};

/// Returns `last`. If it is a tombstone without an object, the result is a tombstone with the
/// object that was stored.
pub(crate) fn last_state<K>(last: &DeltaObject<K>, stored: Option<&Arc<K>>) -> DeltaObject<K> {
    match (last, stored) {
        (DeltaObject::Tombstone(tombstone), Some(stored)) if tombstone.obj.is_none() => {
            DeletedFinalStateUnknown { key: tombstone.key.clone(), obj: Some(Arc::clone(stored)) }
                .into()
        }
        (last, _) => last.clone(),
    }
}
