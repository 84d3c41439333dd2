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

/// A deletion that has not been handled yet.
pub(super) struct Deletion<K> {
    pub(super) last: DeltaObject<K>,
    /// The state that the controller was notified of before, if it is another one. It takes the
    /// place of a last state that cannot be decoded.
    before: Option<Arc<K>>,
    /// The shard of the object, in a sharded controller.
    pub(super) shard: Option<u8>,
}

impl<K> Deletion<K> {
    pub(super) fn new(old: &Arc<K>, last: &DeltaObject<K>, shard: Option<u8>) -> Self {
        let is_last = last.object().is_some_and(|last| Arc::ptr_eq(old, last));
        Self { last: last.clone(), before: (!is_last).then(|| old.clone()), shard }
    }
}

impl<F: Form> Deletion<F> {
    /// Returns whether a state that may have to be decoded is [large](Form::is_large).
    pub(super) fn is_large(&self) -> bool {
        let states = [self.last.object(), self.before.as_ref()];
        states.into_iter().flatten().any(|state| state.is_large())
    }
}

/// Deletions that have not been handled yet, by key and in order of arrival.
pub(super) struct Deletions<K> {
    by_key: Mutex<HashMap<StoreKey, Vec<Deletion<K>>, foldhash::fast::RandomState>>,
}

impl<K> Deletions<K> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { by_key: Mutex::default() })
    }

    pub(super) fn push(&self, key: StoreKey, deletion: Deletion<K>) {
        self.by_key.lock().entry(key).or_default().push(deletion);
    }

    pub(super) fn take(&self, key: &StoreKey) -> Vec<Deletion<K>> {
        let mut by_key = self.by_key.lock();
        let deletions = by_key.remove(key).unwrap_or_default();
        if let Some(room) = less_room(by_key.len(), by_key.capacity()) {
            by_key.shrink_to(room);
        }
        deletions
    }
}

/// Decodes the last state of a deleted object. If it cannot be decoded, the result is a tombstone
/// with the state before it, or without a state if that one cannot be decoded either.
pub(super) fn decoded<F: Form>(
    key: &StoreKey,
    Deletion { last, before, shard }: Deletion<F>,
) -> Deletion<F::Object> {
    let decode = |object: Arc<F>| {
        let warn = |error: &BoxError| {
            let error = error_chain(&**error);
            tracing::warn!(
                error,
                "state of a deleted object cannot be decoded; the deletion handler is called \
                 without it"
            );
        };
        object.decoded().inspect_err(warn).ok()
    };
    let last = match last {
        DeltaObject::Object(object) => match decode(object) {
            Some(object) => DeltaObject::Object(object),
            None => DeletedFinalStateUnknown::new(&**key, before.and_then(decode)).into(),
        },
        DeltaObject::Tombstone(tombstone) => {
            let DeletedFinalStateUnknown { key, obj, scope_removed } = *tombstone;
            let obj = obj.and_then(|last| decode(last).or_else(|| before.and_then(decode)));
            DeletedFinalStateUnknown { key, obj, scope_removed }.into()
        }
    };
    Deletion { last, before: None, shard }
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
            deletions
                .push(key.clone(), Deletion::new(&last, &DeltaObject::Object(last.clone()), None));
        }
        for key in &keys {
            assert_eq!(deletions.take(key).len(), 1);
        }
        assert!(deletions.by_key.lock().capacity() <= 2 * LEAST_ROOM);
    }

    #[cfg(feature = "compact")]
    #[test]
    fn last_state_that_does_not_decode_is_replaced_by_the_state_before_it() {
        use k8s_openapi::api::core::v1::ConfigMap;

        use crate::compact::Compactor;

        let maps = Compactor::<ConfigMap>::builder().build();
        let pack = |data| maps.pack(format!(r#"{{"data":{data}}}"#).as_bytes()).unwrap();
        let (good, bad) = (pack(r#"{"a":"1"}"#), pack("7"));
        let key = StoreKey::from("shop/a");
        let tombstone = |last| DeltaObject::from(DeletedFinalStateUnknown::new(&*key, Some(last)));
        for last in [DeltaObject::from(bad.clone()), tombstone(bad.clone())] {
            for (old, has_state) in [(&good, true), (&bad, false)] {
                let last = decoded(&key, Deletion::new(old, &last, None)).last;
                assert!(last.is_tombstone());
                assert_eq!(last.object().is_some(), has_state);
            }
        }
        let last = decoded(&key, Deletion::new(&bad, &good.into(), None)).last;
        assert!(!last.is_tombstone());
    }

    #[cfg(feature = "compact")]
    #[test]
    fn deletion_is_large_if_one_of_its_states_is() {
        use k8s_openapi::api::core::v1::ConfigMap;

        use crate::compact::Compactor;
        use crate::wire::LARGE;

        let maps = Compactor::<ConfigMap>::builder().build();
        let pack = |text: &str| maps.pack(format!(r#"{{"data":{{"a":"{text}"}}}}"#).as_bytes());
        let (small, large) = (pack("b").unwrap(), pack(&"b".repeat(LARGE)).unwrap());
        for (old, last, is_large) in
            [(&small, &small, false), (&large, &small, true), (&small, &large, true)]
        {
            let deletion = Deletion::new(old, &DeltaObject::from(last.clone()), None);
            assert_eq!(deletion.is_large(), is_large);
        }
    }
}
