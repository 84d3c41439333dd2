//! What handlers get of an object that is gone.

use std::sync::Arc;

use deltafifo::{DeletedFinalStateUnknown, DeltaObject};

/// `last`; a tombstone that was made where nothing but the key was known gets what was `stored`
/// until then.
pub(crate) fn last_state<K>(last: &DeltaObject<K>, stored: Option<&Arc<K>>) -> DeltaObject<K> {
    match (last, stored) {
        (DeltaObject::Tombstone(tombstone), Some(stored)) if tombstone.obj.is_none() => {
            DeletedFinalStateUnknown { key: tombstone.key.clone(), obj: Some(Arc::clone(stored)) }
                .into()
        }
        (last, _) => last.clone(),
    }
}
