//! Reconciles that are held back until the stores show what the earlier reconciles of the same
//! object wrote.

use std::sync::Arc;

use deltafifo::{IndexReader, Meta};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::key::StoreKey;
use crate::KubeMeta;
use crate::runtime::form::Form;
use crate::runtime::own_writes::{NotSeen, ObservedStores, OwnWrites, Writer};
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

    /// Returns the author of the writes of a reconcile, or `None` if they are not noted.
    pub(super) fn writer(&self, key: &StoreKey, uid: Option<&str>) -> Option<Writer> {
        self.writes.as_ref().map(|writes| Writer::new(writes, key, uid.unwrap_or_default()))
    }

    /// Returns the item if its work may begin. Otherwise keeps it, for [`next`](Self::next).
    pub(super) fn admit<F: Form>(
        &mut self,
        item: Item<StoreKey>,
        store: &IndexReader<F, KubeMeta>,
    ) -> Option<Item<StoreKey>>
    where
        KubeMeta: Meta<F>,
    {
        let Some(writes) = &self.writes else { return Some(item) };
        if writes.are_seen(item.key()) {
            return Some(item);
        }
        // A new object may have the name of the one that wrote. If there is none, there is nothing
        // to reconcile.
        let object = store.get_by_key(item.key());
        let uid = object.as_deref().map(|object| KubeMeta.written_uid(object).unwrap_or_default());
        if !writes.keep_of(item.key(), uid.as_deref()) {
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
