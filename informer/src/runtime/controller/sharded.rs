//! Controllers that reconcile the objects of the shards that their replica owns (feature
//! `leader-election`).

use std::sync::Arc;

use deltafifo::{IndexReader, Meta};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::api::DynamicObject;
use tokio::sync::mpsc;

use super::Controller;
use super::error::RunnerError;
use super::fill::Fills;
use super::key::StoreKey;
use super::reason::Reason;
use super::schedule::{MOVED, Schedule};
use super::start::Started;
use super::stored::for_each_stored;
use crate::KubeMeta;
use crate::SharedInformer;
use crate::meta::split_key;
use crate::runtime::form::Form;
use crate::runtime::reflector::ObjectRef;
use crate::runtime::watcher;
use crate::sharding::{
    ObjectId, Participant, Permit, Selection, ShardBy, ShardGroup, ShardSet, Spread,
};

impl<F: Form> Controller<F>
where
    KubeMeta: Meta<F>,
{
    /// Reconciles only the objects of the shards that this member of `group` owns.
    ///
    /// Each reconcile and each deletion handler has a [`Permit`] of its shard. Call
    /// [`Permit::current`] in it, and send all requests through the [client of the
    /// permit](Permit::client), which refuses writes once the permit is lost.
    ///
    /// When the shard is assigned to another member, the controller starts no more reconciles of
    /// the shard. Running reconciles continue until the drain timeout. Then, or when the member
    /// loses its Lease, they are cancelled at their next await. Retries and requeues of the shard
    /// are dropped, and the policy of [`retry`](Self::retry) forgets its failures. The new owner
    /// reconciles every object of the shard, after objects with watch events and before lists and
    /// resyncs. A request of [`reconcile_on`](Self::reconcile_on) for an object of another member
    /// is dropped, and is not forwarded to that member.
    ///
    /// Informers hold all objects, so that a reconciler can read any of them. Only informers [in
    /// split mode](crate::SharedInformer::in_shards) hold just the objects of the member's shards.
    /// Before the member owns a shard, it lists the metadata of the main objects and of all objects
    /// that the controller watches, except kinds that are [optional](Self::optional) and refused.
    /// Then it waits until the stores hold these lists. (An informer in split mode lists the
    /// objects themselves.) So a reconcile at a new owner sees the last write of the former owner.
    /// An object that cannot be decoded delays the first reconciles until the watch shows a later
    /// version, for a minute or two.
    ///
    /// With [`Config::wait_for_related(false)`](super::Config::wait_for_related), the member does
    /// not wait for related informers that have not synced. Until their initial list, a reconcile
    /// may miss related objects, also those that the former owner wrote.
    ///
    /// Poll the stream while the group runs: the replica joins the group only when all of its
    /// sharded controllers are polled, and the informers that reconciles wait for have synced. If
    /// the stream ends, or if the reconciler panics outside of its future and so ends the task that
    /// polls the stream, the member keeps its shards, and no replica reconciles their objects. In
    /// this case end the process, or the [run](ShardGroup::run_until) of the group.
    ///
    /// [`on_deleted`](Self::on_deleted) is not called for an object that is deleted while no member
    /// owns its shard. If an object is deleted while its shard moves, both members may call it, or
    /// none. For work that must be done, use a [`finalizer`](crate::runtime::finalizer()).
    ///
    /// The informers must be able to list. The stream yields [`RunnerError::NotListable`] and ends
    /// if an informer is [fed by a stream](crate::SharedInformer::for_stream), or has custom keys
    /// or an in-order queue. It also does so if the controller has a stream of objects instead of
    /// an informer ([`for_stream`](Self::for_stream), [`owns_stream`](Self::owns_stream),
    /// [`watches_stream`](Self::watches_stream) and the methods for shared streams). A controller
    /// cannot be both sharded and [led](Self::while_leading).
    ///
    /// A group with [`ShardBy::Namespace`] cannot shard a cluster-scoped kind, because all objects
    /// would be in one shard. As soon as such an object is among the main objects of the controller
    /// in a replica, the stream of that replica yields [`RunnerError::NotNamespaced`] and ends.
    /// This may happen long after the start, when the kind is defined or gets its first object.
    /// With [`ShardBy::Uid`], a main object without a uid ends the stream with
    /// [`RunnerError::NoUid`]. With an informer [in split mode](crate::SharedInformer::in_shards),
    /// the lists and watches of a kind without the property fail, and the stream does not end.
    ///
    /// ```
    /// # use std::{convert::Infallible, sync::Arc};
    /// # use deltafifo_informer::runtime::{Controller, controller::Action, watcher};
    /// # use deltafifo_informer::sharding::{Permit, ShardGroup};
    /// # use futures_util::StreamExt;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::Api;
    /// async fn reconcile(map: Arc<ConfigMap>, _: Arc<()>) -> Result<Action, Infallible> {
    ///     if let Some(permit) = Permit::current() {
    ///         let _client = permit.client(); // for writes
    ///     }
    ///     Ok(Action::await_change())
    /// }
    ///
    /// # async fn example(maps: Api<ConfigMap>, group: ShardGroup) {
    /// Controller::new(maps, watcher::Config::default())
    ///     .sharded(&group)
    ///     .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()))
    ///     .for_each(|_| async {})
    ///     .await;
    /// # }
    /// ```
    pub fn sharded(mut self, group: &ShardGroup) -> Self {
        self.announcement = Some(group.announce());
        self.sharding = Some(Sharding(group.clone()));
        self
    }
}

/// Returns whether the informer contains only the objects of some shards.
pub(super) fn is_in_shards<K: Send + Sync + 'static, M: Meta<K>>(
    informer: &SharedInformer<K, M>,
) -> bool {
    informer.selection().is_some()
}

/// The group whose shards a controller reconciles.
#[derive(Clone)]
pub(super) struct Sharding(ShardGroup);

impl Sharding {
    /// Returns the shard of an object, or `None` if the object does not have the property that
    /// decides it.
    pub(super) fn shard_of(&self, object: ObjectId<'_>) -> Option<u8> {
        self.0.gate().shard_of(object)
    }

    /// Returns the shard of an object as [`shard_of`](Self::shard_of) does.
    pub(super) fn shard_of_object<K, M: Meta<K>>(&self, meta: &M, object: &K) -> Option<u8> {
        ObjectId::of_object(meta, object, |id| self.shard_of(id))
    }

    /// Returns a permit for work on an object of the shard, or `None` if this member may not
    /// start it.
    pub(super) fn admit(&self, shard: u8) -> Option<Permit> {
        self.0.gate().admit(shard)
    }

    /// Returns the shard of the object with this key, or `None` if the key does not decide it.
    pub(super) fn shard_of_key(&self, key: &str) -> Option<u8> {
        let (namespace, name) = split_key(key);
        self.shard_of(ObjectId { namespace, name, uid: "" })
    }

    /// Returns the error of a controller that has an object without a shard.
    pub(super) fn without_shard(&self, object: ObjectRef<DynamicObject>) -> RunnerError {
        let object = Box::new(object);
        match self.0.gate().by() {
            ShardBy::Uid => RunnerError::NoUid { object },
            // Each object has a key.
            ShardBy::Namespace | ShardBy::Key => RunnerError::NotNamespaced { object },
        }
    }

    fn spread(&self) -> Spread {
        let gate = self.0.gate();
        Spread::new(gate.by(), gate.shards().len())
    }

    /// Returns the informers of a controller, none so far.
    pub(super) fn fills(&self, errors: &mpsc::Sender<watcher::Error>) -> Fills {
        Fills::new(self.clone(), errors.clone())
    }

    /// Makes a controller that is starting take part in hand-overs. No reconcile may start
    /// before this call. The reconciles wait until the stores hold a list that begins now,
    /// because shards may have been claimed before.
    pub(super) fn join<F: Form>(&self, started: &mut Started, store: IndexReader<F, KubeMeta>)
    where
        KubeMeta: Meta<F>,
    {
        let Some(fills) = started.fills.take() else { return };
        let (sender, shards) = mpsc::unbounded_channel();
        let schedule = Arc::clone(&started.schedule);
        let (main, all) = (fills.main().to_owned(), self.0.gate().shards());
        let selection = fills.selection().cloned();
        started.spawn(enqueue(shards, store, schedule, self.clone(), main.clone(), selection));
        started.syncs.push(fills.fill_awaited(all).map(Ok).boxed());
        let participant = Arc::new(ControllerShards { main, fills, shards: sender });
        started.participation = Some(self.0.join(participant));
    }
}

/// A controller that takes part in the hand-overs of its group.
struct ControllerShards {
    /// The kind of the main objects.
    main: String,
    fills: Fills,
    /// The shards whose keys are to be enqueued.
    shards: mpsc::UnboundedSender<ShardSet>,
}

impl Participant for ControllerShards {
    fn title(&self) -> String {
        format!("the controller of {}", self.main)
    }

    fn fill(&self, shards: ShardSet) -> BoxFuture<'static, ()> {
        self.fills.fill(shards)
    }

    fn ready(&self) -> BoxFuture<'static, ()> {
        self.fills.synced_awaited()
    }

    fn enqueue(&self, shards: ShardSet) {
        // Fails if the controller is ending.
        let _ = self.shards.send(shards);
    }
}

/// Requests reconciles of the objects of the shards that are received. Logs once that a shard has
/// far more objects than others. The store has the objects of the `selection`, or all objects if
/// that is `None`.
async fn enqueue<F: Form>(
    mut received: mpsc::UnboundedReceiver<ShardSet>,
    store: IndexReader<F, KubeMeta>,
    schedule: Arc<Schedule>,
    sharding: Sharding,
    kind: String,
    selection: Option<Selection>,
) where
    KubeMeta: Meta<F>,
{
    let mut spread = sharding.spread();
    while let Some(mut shards) = received.recv().await {
        // One pass serves all shards that have arrived.
        while let Ok(others) = received.try_recv() {
            shards = shards.or(others);
        }
        let owned = *sharding.0.owned().borrow();
        spread.begin();
        for_each_stored(&store, |key, object| {
            // The event of an object without a shard has requested its reconcile.
            let Some(shard) = sharding.shard_of_object(&KubeMeta, &*object) else { return };
            spread.count(shard);
            if shards.contains(shard) {
                let key = StoreKey::from(key);
                // Those of an earlier ownership, whose retries come to nothing.
                schedule.forget(&key);
                schedule.request(key, MOVED, Reason::ShardAssigned);
            }
        })
        .await;
        let all = sharding.0.gate().shards();
        let known = match selection.as_ref().map(Selection::counts) {
            None => all,
            Some(Some(listed)) => {
                let others = all.without(owned);
                others.iter().for_each(|shard| spread.set(shard, listed[usize::from(shard)]));
                all
            }
            // The server selects, so nothing is known of other shards.
            Some(None) => owned,
        };
        spread.warn_of_large_shard(&kind, owned, known);
    }
}
