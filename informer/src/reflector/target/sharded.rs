//! A queue of deltas as the target of a source whose selection of shards changes at run time.

use std::sync::Arc;

use deltafifo::{DeletedFinalStateUnknown, DeltaFifo, Meta, StoreError, WaitError};
use futures_util::future::BoxFuture;

use super::Target;
use crate::sharding::ObjectId;

/// A queue from which objects can be removed that still exist, because their shard was moved.
pub(crate) trait Sharded<K>: Target<K> {
    /// Queues the removal of every known object that `leaves` accepts. The tombstones say that the
    /// scope was removed. Returns whether there is one. An object that is pending, or that a
    /// handler has in hand, is not found: call this only when everything [is
    /// handled](Self::handled). May block for a long time.
    fn remove(self: Arc<Self>, leaves: &dyn Fn(ObjectId<'_>) -> bool) -> Result<bool, StoreError>;

    /// Declares that everything up to `version` has been offered. The returned future resolves when
    /// everything that was offered before this call is handled.
    fn handled(&self, version: &str) -> BoxFuture<'static, Result<(), WaitError>>;
}

impl<K: Send + Sync + 'static, M: Meta<K>> Sharded<K> for DeltaFifo<K, M> {
    fn remove(self: Arc<Self>, leaves: &dyn Fn(ObjectId<'_>) -> bool) -> Result<bool, StoreError> {
        let store = self.store();
        let meta = store.keys().meta();
        let mut leaving = Vec::new();
        store.for_each(|object| {
            if ObjectId::of_object(meta, &**object, leaves) {
                leaving.push(object.clone());
            }
        });
        let removes = !leaving.is_empty();
        // A deletion that is part of a relist does not populate the queue, and neither does a
        // relist that is abandoned.
        let mut relist = Self::begin_replace_owned(&self);
        for object in leaving {
            let tombstone = DeletedFinalStateUnknown::new(store.keys().key(&object)?, Some(object));
            relist.delete(DeletedFinalStateUnknown { scope_removed: true, ..tombstone })?;
        }
        Ok(removes)
    }

    fn handled(&self, version: &str) -> BoxFuture<'static, Result<(), WaitError>> {
        // Before the initial list there is no version, and some API servers have versions that are
        // no numbers. Version 0 names no state.
        match self.handled(version).or_else(|_| self.handled("0")) {
            Ok(handled) => Box::pin(handled),
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        }
    }
}
