//! An informer that contains the objects of some shards only, which change while it runs.
//!
//! * `mod.rs`: the selection of shards, as the driver of a group sets it.
//! * `filter.rs`: a lister-watcher of the selected objects.
//! * `listed.rs`: the keys of the lists of added shards.
//! * `feeder.rs`: the task that lists and watches, and follows changes of the selection.

mod feeder;
mod filter;
mod listed;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo::{KeyFunc, Meta};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::group::ShardGroup;
use super::hash::ShardBy;
use super::metrics::Metrics;
use super::participants::{Participant, Participants};
use super::shards::{ShardCount, ShardSet};
use crate::lister_watcher::KubeListerWatcher;
use crate::metrics::Named;
use crate::reflector::{Decodable, Decoding, ReflectorBuilder, Sharded};
use crate::shared_informer::{SharedInformer, SharedInformerBuilder};
use crate::{KubeMeta, ListerWatcher};
pub(crate) use feeder::ShardFeeder;
use filter::Filter;

/// The number of objects per page, unless the user sets another. Work on shards that move waits for
/// their list, and the round trips of small pages can take longer than the objects. A page is read
/// in pieces, so its size does not decide the memory that a list takes.
const PAGE_SIZE: u32 = 10_000;

/// The shards of which an informer contains the objects: none at first. Cheap to clone: all clones
/// are the same selection. Each informer needs one of its own.
#[derive(Clone)]
pub(crate) struct Selection {
    by: ShardBy,
    count: ShardCount,
    wanted: Arc<watch::Sender<Wanted>>,
    /// The number of the last change that is complete. `None` until the informer has found that it
    /// can list.
    complete: Arc<watch::Sender<Option<u64>>>,
    /// The number of objects of each shard in the last complete list, if that had the objects of
    /// all shards. It stays the same until the next list, also if shards leave before.
    counts: Arc<Mutex<Option<Vec<usize>>>>,
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
        let (wanted, complete, counts) = (Arc::default(), Arc::default(), Arc::default());
        Self { by, count, wanted, complete, counts }
    }

    /// Returns the number of objects of each shard in the last list of the informer, or `None` if
    /// that had only the objects of selected shards. While all shards are selected, a server that
    /// selects sends all objects, so the numbers of others may be out of date after shards have
    /// left.
    #[cfg(feature = "runtime")]
    pub(crate) fn counts(&self) -> Option<Vec<usize>> {
        self.counts.lock().clone()
    }

    /// Replaces the selected shards by those that `change` returns for them.
    fn change(&self, change: impl FnOnce(ShardSet) -> ShardSet) {
        self.wanted.send_if_modified(|wanted| {
            let shards = change(wanted.shards);
            if shards == wanted.shards {
                return false;
            }
            wanted.number += 1;
            wanted.fresh = wanted.fresh.or(shards.without(wanted.shards)).and(shards);
            wanted.shards = shards;
            true
        });
    }

    /// Returns a future that resolves when the store of the informer has a consistent list of each
    /// selected shard, begun after the shard was selected: every listed object in the listed
    /// version or a later one, and no other object of the shard from before the list. It also has
    /// no objects of other shards then. If the selection changes before, the future resolves when
    /// the later selection is complete. A failed list is reported to the error handler of the
    /// informer, and is repeated.
    pub(crate) fn filled(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let number = self.wanted.borrow().number;
        let mut complete = self.complete.subscribe();
        let sender = Arc::clone(&self.complete);
        async move {
            // Never an error: the future owns the sender.
            let _ = complete.wait_for(|complete| *complete >= Some(number)).await;
            drop(sender);
        }
    }

    /// Returns a future that resolves when the server has answered a list of the informer for the
    /// first time.
    fn ready(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut complete = self.complete.subscribe();
        let sender = Arc::clone(&self.complete);
        async move {
            // Never an error: the future owns the sender.
            let _ = complete.wait_for(Option::is_some).await;
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

/// An informer of the objects of the shards that its member holds.
struct ShardsOfMember {
    /// The kind of the objects.
    title: String,
    selection: Selection,
}

impl Participant for ShardsOfMember {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn fill(&self, shards: ShardSet) -> BoxFuture<'static, ()> {
        self.selection.change(|held| held.or(shards));
        self.selection.filled().boxed()
    }

    /// Waits until the informer has found that it can list. A member without the permission would
    /// claim shards that it cannot fill.
    fn ready(&self) -> BoxFuture<'static, ()> {
        self.selection.ready().boxed()
    }

    /// Removes the shards. Without this, objects that the store still has when a shard is claimed
    /// again would count as filled.
    fn release(&self, shards: ShardSet) {
        self.selection.change(|held| held.without(shards));
    }
}

/// The source of an informer of selected shards that is not built yet.
pub(crate) struct ShardPlan {
    selection: Selection,
    filter: Arc<Filter>,
    participants: Participants,
}

impl ShardPlan {
    /// Creates the source of an informer with this selection. From its build until it ends, the
    /// selection is that of the participants.
    fn new(
        selection: Selection,
        source: KubeListerWatcher,
        participants: Participants,
        metrics: Arc<Named<Metrics>>,
    ) -> Self {
        let filter = Arc::new(Filter::new(source, selection.by, selection.count, metrics));
        Self { selection, filter, participants }
    }

    /// Returns the resource and the namespace, in the form of [`ListerWatcher::scope`].
    pub(crate) fn scope(&self) -> (&str, &str) {
        self.filter.scope()
    }

    /// Returns the feeder of `queue`. `configure` sets the options of its reflector.
    pub(crate) fn into_feeder<K: Send + Sync + 'static>(
        self,
        queue: Arc<dyn Sharded<K>>,
        decoding: Decoding<K>,
        configure: impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K>,
    ) -> ShardFeeder<K> {
        let source = Box::new(Arc::clone(&self.filter));
        let reflector = ReflectorBuilder::new(source, queue.clone(), decoding);
        let reflector = configure(reflector.page_size(PAGE_SIZE));
        let (title, selection) = (self.scope().0.to_owned(), self.selection.clone());
        let participation = self.participants.join(|held| {
            selection.change(|_| held);
            Arc::new(ShardsOfMember { title, selection })
        });
        ShardFeeder::new(self, queue, reflector, participation)
    }
}

impl<K: Decodable> SharedInformer<K>
where
    KubeMeta: Meta<K>,
{
    /// Returns a builder of an informer in *split mode*: it contains only the objects of `source`
    /// in the shards that this member of `group` holds. These are the shards that it owns, those
    /// that it has claimed and lists, and those whose work it ends before it releases them. So the
    /// replicas share the memory, and the work of decoding. Use it with a
    /// [sharded](crate::Controller::sharded) controller:
    ///
    /// ```no_run
    /// use std::{convert::Infallible, sync::Arc};
    /// use deltafifo_informer::runtime::{Controller, controller::Action};
    /// use deltafifo_informer::sharding::ShardGroup;
    /// use deltafifo_informer::{KubeListerWatcher, SharedInformer};
    /// use futures_util::StreamExt;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let group = ShardGroup::builder(client.clone(), "shop", "counter")
    ///     .identity(std::env::var("POD_NAME")?)
    ///     .build()?;
    /// let source = KubeListerWatcher::new::<ConfigMap>(client, &(), None);
    /// let maps = SharedInformer::<ConfigMap>::in_shards(&group, source).build()?;
    /// let running = tokio::spawn({
    ///     let maps = maps.clone();
    ///     async move { maps.run().await }
    /// });
    /// let controller = Controller::from_informer(&maps)
    ///     .sharded(&group)
    ///     .run(
    ///         |_map, _| async { Ok::<_, Infallible>(Action::await_change()) },
    ///         |_, _, _| Action::await_change(),
    ///         Arc::new(()),
    ///     )
    ///     .for_each(|_| async {});
    /// let member = tokio::spawn(group.run_until(async { drop(tokio::signal::ctrl_c().await) }));
    /// tokio::select! {
    ///     ended = member => ended??,
    ///     () = controller => {}
    /// }
    /// maps.stop().await;
    /// # drop(running);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The informer takes part in the hand-overs of the group from [its
    /// build](SharedInformerBuilder::build) until it ends. Run it: the replica joins the group only
    /// when the server has answered a list of each informer in split mode. A member that has
    /// claimed a shard owns it only when all of these informers have the objects of the shard, from
    /// a consistent list that began after the claim. While a shard waits for the informer for
    /// longer than a minute, the group reports
    /// [`GroupError::NotFilled`](crate::sharding::GroupError::NotFilled).
    ///
    /// If a list fails, the error handler gets the error, and the list is repeated, even if the
    /// server does not have the kind. So do not use this informer for an
    /// [optional](crate::Controller::optional) relation.
    ///
    /// When the member has released a shard, or has lost it, the objects of the shard leave the
    /// store. They may still exist, so handlers are notified with
    /// [`Cause::ShardMoved`](crate::shared_informer::Cause::ShardMoved), and a controller does not
    /// reconcile, and does not call [`on_deleted`](crate::Controller::on_deleted). If the member
    /// loses its Lease, or the run of its group ends, the store becomes empty. While the member
    /// holds no shard, the informer counts as synced with an empty store. It then sends only one
    /// request, when it starts: a list of one object, which shows that the member may list.
    ///
    /// # Requests
    ///
    /// If the group shards [by uid or by namespace](crate::sharding::ShardBy), requests have a
    /// `shardSelector`. A server with the feature gate `ShardedListAndWatch` (KEP-5866, alpha in
    /// Kubernetes 1.36) then sends only the objects of these shards. Any other server ignores the
    /// selector and sends all objects. So the informer also checks each object, in its JSON text,
    /// and drops objects of other shards before it decodes them.
    ///
    /// When shards are added, the informer lists their objects. If the server does not select, the
    /// informer receives all objects, and decodes those of the added shards. Shards that leave cost
    /// no list. After each change a new watch continues where the last one ended.
    ///
    /// No watch is open during the list, so changes in the other shards arrive after it. If the
    /// list fails, the informer watches the other shards until the next attempt, and the objects of
    /// the failed list leave the store again. During a change,
    /// [`applied_version`](deltafifo::IndexReader::applied_version) is `None`.
    ///
    /// If the server refuses the selector (400, 414, 422 or 431), the informer requests all objects
    /// from then on. If the server fails (500), the informer repeats this one request without the
    /// selector. It logs the first refusal and the first failure.
    ///
    /// Lists of added shards are requested in pages, and never as [streamed
    /// lists](crate::reflector::ReflectorBuilder::watch_list). A page has 10,000 objects, unless
    /// [another size](crate::reflector::ReflectorBuilder::page_size) is chosen. It is received in
    /// pieces, of which at most 12 MiB wait to be decoded, for any size of the page. If the token
    /// of a page expires (410), the objects are listed again in a single page. An informer of
    /// [namespaces](SharedInformer::in_namespaces), and a
    /// [factory](crate::shared_informer::SharedInformerFactory), have no split mode.
    ///
    /// # Related objects
    ///
    /// A reconciler finds only the objects of its member's shards in the store. For other objects
    /// that it reads, and for [owned](crate::Controller::owns_informer) and
    /// [watched](crate::Controller::watches_informer) objects, use an informer of all objects. Use
    /// an informer in split mode for them only if each of these objects is in the same shard as its
    /// main object. With [`ShardBy::Namespace`] this is the case if both are in one namespace, and
    /// with [`ShardBy::Key`] if they also have the same name.
    ///
    /// # Errors
    ///
    /// The queue is by key: [`build`](SharedInformerBuilder::build) refuses [an in-order
    /// queue](SharedInformerBuilder::in_order). With `ShardBy::Namespace`, a list or a watch of
    /// cluster-scoped objects fails, and with `ShardBy::Uid` one of objects without a uid, which
    /// some aggregated API servers have. If a [transform](SharedInformerBuilder::transform) drops
    /// the uid or the namespace by which the group shards, the objects stay in the store when their
    /// shard leaves, and [`ReflectorError::NoShard`](crate::ReflectorError::NoShard) is reported.
    pub fn in_shards(
        group: &ShardGroup,
        source: KubeListerWatcher,
    ) -> SharedInformerBuilder<K, KubeMeta> {
        let selection = Selection::new(group.by(), group.count());
        Self::selecting(selection, source, group.participants().clone(), group.metrics().clone())
    }

    fn selecting(
        selection: Selection,
        source: KubeListerWatcher,
        participants: Participants,
        metrics: Arc<Named<Metrics>>,
    ) -> SharedInformerBuilder<K, KubeMeta> {
        let plan = ShardPlan::new(selection, source, participants, metrics);
        let keys = KeyFunc::meta_namespace(KubeMeta);
        SharedInformerBuilder::of_shards(plan, Box::new(K::decoder), keys)
    }
}
