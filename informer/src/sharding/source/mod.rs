//! An informer that contains the objects of some shards only, which change while it runs.
//!
//! * `mod.rs`: the selection of shards, as the driver of a group sets it.
//! * `filter.rs`: a lister-watcher of the selected objects.
//! * `feeder.rs`: the task that lists and watches, and follows changes of the selection.

mod feeder;
mod filter;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use deltafifo::{KeyFunc, Meta};
use tokio::sync::watch;

use super::hash::ShardBy;
use super::shards::{ShardCount, ShardSet};
use crate::lister_watcher::KubeListerWatcher;
use crate::reflector::{Decodable, Decoding, ReflectorBuilder, Sharded};
use crate::shared_informer::{SharedInformer, SharedInformerBuilder};
use crate::{KubeMeta, ListerWatcher};
pub(crate) use feeder::ShardFeeder;
use filter::Filter;

/// The shards of which an informer contains the objects: none at first. Cheap to clone: all clones
/// are the same selection. Each informer needs one of its own.
#[derive(Clone)]
pub(crate) struct Selection {
    by: ShardBy,
    count: ShardCount,
    wanted: Arc<watch::Sender<Wanted>>,
    /// The number of the last change that is complete.
    complete: Arc<watch::Sender<u64>>,
}

/// The shards that an informer is to contain.
#[derive(Clone, Copy, Default)]
struct Wanted {
    /// The number of the last change.
    number: u64,
    shards: ShardSet,
    /// The shards that were added since the informer last read this value. The informer may still
    /// have objects of them, from before a removal that it has not seen.
    fresh: ShardSet,
}

impl Selection {
    pub(crate) fn new(by: ShardBy, count: ShardCount) -> Self {
        Self { by, count, wanted: Arc::default(), complete: Arc::default() }
    }

    /// Replaces the selection. The returned future resolves when the store of the informer has a
    /// consistent list of each shard that this call has added, begun after the call: every listed
    /// object in the listed version or a later one, and no other object of the shard from before
    /// the list. It also has no objects of other shards then. If the selection is replaced again,
    /// the future resolves when the later selection is complete.
    ///
    /// Objects that leave the store because their shard was removed from the selection are not
    /// deleted: handlers are notified with
    /// [`Cause::ShardMoved`](crate::shared_informer::Cause::ShardMoved). A failed list is reported
    /// to the error handler of the informer, and is repeated.
    pub(crate) fn replace(
        &self,
        shards: ShardSet,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut number = 0;
        self.wanted.send_modify(|wanted| {
            wanted.number += 1;
            wanted.fresh = wanted.fresh.or(shards.without(wanted.shards)).and(shards);
            wanted.shards = shards;
            number = wanted.number;
        });
        let mut complete = self.complete.subscribe();
        let sender = Arc::clone(&self.complete);
        async move {
            // Never an error: the future owns the sender.
            let _ = complete.wait_for(|complete| *complete >= number).await;
            drop(sender);
        }
    }

    /// Reads the wanted shards. Those that were added since the last call are `fresh`.
    fn take(&self) -> Wanted {
        let mut taken = Wanted::default();
        // No change that waits for this one: `fresh` is for the caller only.
        self.wanted.send_if_modified(|wanted| {
            taken = *wanted;
            wanted.fresh = ShardSet::default();
            false
        });
        taken
    }
}

/// The source of an informer of selected shards that is not built yet.
pub(crate) struct ShardPlan {
    selection: Selection,
    filter: Arc<Filter>,
}

impl ShardPlan {
    /// Returns the resource and the namespace, in the form of [`ListerWatcher::scope`].
    pub(crate) fn scope(&self) -> (&str, &str) {
        self.filter.scope()
    }

    /// Returns the feeder of `queue`. `choose` sets the options of its reflector.
    pub(crate) fn into_feeder<K: Send + Sync + 'static>(
        self,
        queue: Arc<dyn Sharded<K>>,
        decoding: Decoding<K>,
        choose: impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K>,
    ) -> ShardFeeder<K> {
        let source = Box::new(Arc::clone(&self.filter));
        let reflector = choose(ReflectorBuilder::new(source, queue.clone(), decoding));
        ShardFeeder::new(self, queue, reflector)
    }
}

impl<K: Decodable> SharedInformer<K>
where
    KubeMeta: Meta<K>,
{
    /// Returns a builder of an informer of the objects of `source` that are in the selected shards.
    /// The selection is that of a group of replicas, which each select other shards.
    ///
    /// The queue is by key: [`build`](SharedInformerBuilder::build) refuses an in-order queue.
    pub(crate) fn in_shards(
        selection: &Selection,
        source: KubeListerWatcher,
    ) -> SharedInformerBuilder<K, KubeMeta> {
        let filter = Arc::new(Filter::new(source, selection.by, selection.count));
        let plan = ShardPlan { selection: selection.clone(), filter };
        let keys = KeyFunc::meta_namespace(KubeMeta);
        SharedInformerBuilder::of_shards(plan, Box::new(K::decoder), keys)
    }
}
