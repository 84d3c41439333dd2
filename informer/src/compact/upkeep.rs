//! The work on packed objects that is done in the background of an informer.

use std::sync::Arc;

use deltafifo::BoxError;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::compactor::Compactor;
use super::object::Compact;
use super::stats::CompactStats;
use super::sync::Ordering;
use crate::reflector::{Decodable, Decode};
use crate::wire::{Prune, Types};

/// The periodic work on packed objects of type `K`, for the informer that holds them.
pub trait Upkeep<K>: Send + Sync {
    /// Returns a receiver that changes when [`end_list`](Self::end_list) is due: at the end of each
    /// list, and when a later object makes a training due.
    fn lists(&self) -> watch::Receiver<u64>;

    /// Does the work that is due at the end of a list. Trains a dictionary if there is none, or if
    /// there are more than 48 groups, and more than 1.5 times as many as at the last training (a
    /// group is the objects of one workload). Blocks for about 100 ms if it trains.
    fn end_list(&self);

    /// Packs `object` again if its group has a newer base, if few objects still hold its base, or
    /// if its dictionary was replaced. Also packs its base again if the base's dictionary was
    /// replaced. Blocks.
    fn repack(&self, object: &Arc<K>);

    /// Ends a pass over all objects: counts the pass, and frees the memory that is still used for
    /// groups whose objects were all dropped. Blocks.
    fn end_pass(&self);

    /// Returns how much memory the objects take now.
    fn stats(&self) -> CompactStats;
}

impl<K: DeserializeOwned + 'static> Decodable for Compact<K> {
    fn decoder(
        prune: Arc<Prune>,
        types: Option<Types>,
        fields: &[String],
    ) -> Arc<dyn Decode<Self>> {
        Arc::new(Compactor::<K>::builder().build_for(&prune, types, fields))
    }
}

impl<K: DeserializeOwned + 'static> Decode<Compact<K>> for Compactor<K> {
    fn decode(&self, json: &[u8]) -> Result<Arc<Compact<K>>, BoxError> {
        Ok(self.pack(json)?)
    }

    fn end_list(&self) {
        self.lists.send_modify(|lists| *lists += 1);
    }

    fn upkeep(self: Arc<Self>) -> Option<Arc<dyn Upkeep<Compact<K>>>> {
        Some(self)
    }
}

impl<K: 'static> Upkeep<Compact<K>> for Compactor<K> {
    fn lists(&self) -> watch::Receiver<u64> {
        self.lists.subscribe()
    }

    fn end_list(&self) {
        Self::end_list(self);
    }

    fn repack(&self, object: &Arc<Compact<K>>) {
        Self::repack(self, object);
    }

    fn end_pass(&self) {
        self.groups.purge();
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    fn stats(&self) -> CompactStats {
        Self::stats(self)
    }
}
