//! Reconciles that are held back until the stores show what the earlier reconciles of the same
//! object wrote.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::key::StoreKey;
use crate::runtime::own_writes::{NotSeen, ObservedStores, OwnWrites};
use crate::workqueue::Item;

/// The items whose reconciles are held back. While an item is here, the requests of its key are
/// merged, and no other reconcile of the key starts.
pub(super) struct HeldBack {
    /// `None` if the controller does not wait for its own writes.
    writes: Option<Arc<OwnWrites>>,
    waits: FuturesUnordered<BoxFuture<'static, Waited>>,
}

/// An item that was held back, and the result of its wait.
type Waited = (Item<StoreKey>, Result<(), NotSeen>);

impl HeldBack {
    pub(super) fn new(stores: Option<ObservedStores>) -> Self {
        Self { writes: stores.map(OwnWrites::new), waits: FuturesUnordered::new() }
    }

    pub(super) fn writes(&self) -> Option<&Arc<OwnWrites>> {
        self.writes.as_ref()
    }

    /// Returns the item if its work may begin. Otherwise keeps it, for [`next`](Self::next).
    pub(super) fn admit(
        &mut self,
        item: Item<StoreKey>,
        is_stored: impl FnOnce(&str) -> bool,
    ) -> Option<Item<StoreKey>> {
        let Some(writes) = &self.writes else { return Some(item) };
        if writes.are_seen(item.key()) {
            return Some(item);
        }
        if !is_stored(item.key()) {
            // There is nothing to reconcile.
            writes.forget(item.key());
            return Some(item);
        }
        let writes = Arc::clone(writes);
        let wait = async move {
            let seen = writes.seen(item.key()).await;
            (item, seen)
        };
        self.waits.push(wait.boxed());
        None
    }

    /// Waits for the end of a wait. Returns `None` if nothing is held back. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Waited> {
        self.waits.next().await
    }
}
