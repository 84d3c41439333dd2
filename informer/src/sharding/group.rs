//! A group, as the program sees it.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::panics::ignore_panic;
use kube::{Client, Resource};
use tokio::sync::watch;

use super::api::GroupApi;
use super::builder::ShardGroupBuilder;
use super::driver::{self, Stop};
use super::error::{BuildError, CheckError, GroupError, RunError};
use super::gate::Gate;
use super::hash::{ObjectId, ShardBy};
use super::metrics::Metrics;
use super::object::GroupFormat;
use super::participants::{Announcement, Participant, Participants, Participation};
use super::permit::Permit;
use super::protocol::GroupTiming;
use super::shards::{ShardCount, ShardSet};
use crate::lease::{Clock, Clocks, REPORT_EVERY};
use crate::meta::object_key;
use crate::metrics::Named;
use crate::util::random::random_for;

pub(super) type GroupOnError = dyn Fn(&GroupError) + Send + Sync;

/// A member of a group of replicas that share the objects of a cluster. Clones are cheap, and all
/// clones are the same member.
#[derive(Clone)]
pub struct ShardGroup(Arc<GroupContext>);

/// Decides when errors that may repeat at any rate are reported: one of each kind in a minute.
#[derive(Default)]
pub(super) struct OncePerMinute(Mutex<HashMap<Discriminant<GroupError>, Duration>>);

impl OncePerMinute {
    /// Returns whether an error is to be reported at this time of the monotonic clock: not within a
    /// minute after the last one of its kind.
    pub(super) fn is_due(&self, error: &GroupError, now: Duration) -> bool {
        let kind = discriminant(error);
        let mut reported = self.0.lock();
        let last = reported.get(&kind);
        let is_due = last.is_none_or(|last| now.saturating_sub(*last) >= REPORT_EVERY);
        if is_due {
            reported.insert(kind, now);
        }
        is_due
    }
}

/// The part of a group that its members share, one after another.
pub(super) struct GroupContext {
    /// Sends the requests of all members, so that it knows which errors were reported.
    pub(super) api: Arc<GroupApi>,
    pub(super) format: GroupFormat,
    pub(super) timing: GroupTiming,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Named<Metrics>>,
    pub(super) gate: Gate,
    pub(super) participants: Participants,
    /// The name of the pod, with which the identities of the members begin.
    pod: String,
    on_error: Arc<GroupOnError>,
    owned: watch::Sender<ShardSet>,
    /// The deadline of the last member, at least while its work has not ended.
    working_until: Mutex<Option<Clocks>>,
    /// Limits the reports of errors that may repeat at any rate, for all members that follow one
    /// another.
    pub(super) once_per_minute: OncePerMinute,
    /// Locked while the group runs, so that there is one run at a time.
    running: tokio::sync::Mutex<()>,
    _process: Option<OnlyGroup>,
}

impl GroupContext {
    /// Returns the namespace and the name of the group.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.format.namespace, self.format.group)
    }

    /// Returns the identity of a new member. No member had it before.
    pub(super) fn new_identity(&self) -> String {
        format!("{}_{:08x}", self.pod, random_for("identity").u32(..))
    }

    pub(super) fn report(&self, error: &GroupError) {
        // The function is user code.
        if ignore_panic(|| (self.on_error)(error)).is_none() {
            tracing::error!(%error, "error handler panicked; the group continues");
        }
    }

    pub(super) fn publish(&self, owned: ShardSet, working_until: Option<Clocks>) {
        *self.working_until.lock() = working_until;
        let is_new = self.owned.send_if_modified(|known| {
            let is_new = *known != owned;
            *known = owned;
            is_new
        });
        if is_new {
            self.metrics.record(|metrics| metrics.owns(owned.len()));
        }
    }
}

impl ShardGroup {
    /// Returns a builder of the group `name`, whose Leases are in `namespace`. The group and every
    /// [`Permit::client`] send their requests through `client`. If its connection may be busy, set
    /// [another client](ShardGroupBuilder::lease_client) for the Leases, so that other requests do
    /// not delay the renewals.
    pub fn builder(
        client: Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> ShardGroupBuilder {
        ShardGroupBuilder::new(client, namespace.into(), name.into())
    }

    pub(super) fn new(builder: ShardGroupBuilder, format: GroupFormat) -> Result<Self, BuildError> {
        let ShardGroupBuilder { client, lease_client, identity, timing, .. } = builder;
        let ShardGroupBuilder { on_error, is_only, .. } = builder;
        let process = is_only.then(OnlyGroup::claim).transpose()?;
        let clock = Clock::new();
        let lease_client = lease_client.unwrap_or_else(|| client.clone());
        let api = GroupApi::new(lease_client, format.clone(), timing);
        let gate = Gate::new(format.shards, format.by, client, clock, timing.retry_period);
        Ok(Self(Arc::new(GroupContext {
            metrics: Arc::new(Metrics::of(&format.namespace, &format.group)),
            api: Arc::new(api),
            format,
            timing,
            clock,
            gate,
            participants: Participants::default(),
            pod: identity,
            on_error,
            owned: watch::Sender::default(),
            working_until: Mutex::default(),
            once_per_minute: OncePerMinute::default(),
            running: tokio::sync::Mutex::default(),
            _process: process,
        })))
    }

    /// Joins the group, takes a share of its shards, and releases the shards when `stop` resolves.
    ///
    /// Before it joins, it waits until the [sharded](crate::Controller::sharded) controllers are
    /// polled and their informers have synced. Until then other members own all shards, and
    /// [`GroupError::NotSynced`] is reported each minute. Create the streams of the controllers,
    /// and build the [informers in split mode](crate::SharedInformer::in_shards), before you first
    /// poll this future. A controller that is created while the member is live does not end the
    /// membership. Until that controller is polled, it does not delay a later membership either.
    ///
    /// When `stop` resolves, no more work is admitted. Running work may continue until the [drain
    /// timeout](ShardGroupBuilder::drain_timeout). Then the Lease of this member is deleted.
    ///
    /// If the member loses its Lease, its permits are lost. Once all of its work has ended, it
    /// joins again under another identity.
    ///
    /// If this future is dropped, all permits are lost, and the shards are not released: others
    /// take them after the lease duration.
    ///
    /// # Errors
    /// [`RunError::Mismatch`] if a Lease of the group has other settings than this member. The
    /// group then reconciles nothing in this process, so end the process with the error.
    /// [`RunError::Running`] if the group runs already.
    ///
    /// # Panics
    /// If the future is polled outside of a tokio runtime with timers (`enable_time`).
    pub fn run_until<F>(
        &self,
        stop: F,
    ) -> impl Future<Output = Result<(), RunError>> + Send + use<F>
    where
        F: Future<Output = ()> + Send,
    {
        let context = Arc::clone(&self.0);
        async move {
            let _running = context.running.try_lock().map_err(|_| RunError::Running)?;
            let stop = pin!(stop);
            driver::run(&context, Stop::on(stop)).await
        }
    }

    /// Returns a receiver of the shards that this process owns. Use it for display only, and call
    /// [`admit`](Self::admit) to decide whether to work on an object.
    #[must_use]
    pub fn owned(&self) -> watch::Receiver<ShardSet> {
        self.0.owned.subscribe()
    }

    /// Returns a permit to work on an object, or `None` if this process does not own its shard.
    /// Hold the permit until the work has ended. A
    /// [sharded](crate::Controller::sharded) controller does this for each reconcile.
    ///
    /// An object without the [property](ShardBy) of the group, for example a cluster-scoped one in
    /// a group by namespace, has no shard: no member gets a permit, and [`GroupError::NoShard`] is
    /// reported, at most once a minute.
    #[must_use]
    pub fn admit<K: Resource>(&self, object: &K) -> Option<Permit> {
        let metadata = object.meta();
        let GroupContext { gate, clock, once_per_minute, .. } = &*self.0;
        let id = ObjectId {
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
        };
        let Some(shard) = gate.shard_of(id) else {
            let error = GroupError::NoShard {
                object: object_key(Some(id.namespace), id.name).into_owned(),
                property: gate.by().as_str(),
                group: self.0.title(),
            };
            if once_per_minute.is_due(&error, clock.now().monotonic) {
                self.0.report(&error);
            }
            return None;
        };
        gate.admit(shard)
    }

    /// Returns an error if work continues although the Lease of this member has expired. Use it in
    /// a liveness probe. This can happen because the group cannot drop some work: work that blocks
    /// its thread, holds a clone of a permit, or waits for the answer to a request of the permit's
    /// client. A member without work on shards is healthy, if the future of
    /// [`run_until`](Self::run_until) is polled or was dropped.
    ///
    /// # Errors
    /// [`CheckError`] if, `tolerance` after the Lease has expired, a permit still exists or a
    /// request of its client is not answered. Also if the future of `run_until` is not polled while
    /// the member owns shards.
    pub fn check(&self, tolerance: Duration) -> Result<(), CheckError> {
        let GroupContext { timing, clock, gate, working_until, .. } = &*self.0;
        // By the monotonic clock alone, so that a step of the wall clock does not end a process.
        let expires_after = timing.lease_duration.saturating_sub(timing.renew_deadline);
        let expires_at = working_until.lock().map(|until| until.after(expires_after).monotonic);
        let overdue = expires_at.and_then(|at| clock.now().monotonic.checked_sub(at));
        match overdue.filter(|overdue| *overdue >= tolerance && !gate.working().is_empty()) {
            Some(overdue) => Err(CheckError { group: self.0.title(), overdue }),
            None => Ok(()),
        }
    }

    /// Announces a controller that will [join](Self::join) the group, until the guard is dropped.
    /// The replica becomes a member only once the controller has joined and is ready, or the guard
    /// is dropped.
    pub(crate) fn announce(&self) -> Announcement {
        self.0.participants.announce()
    }

    /// Adds a controller to the group, until the guard is dropped. Call it before the controller
    /// gets objects: from here on the controller takes part in fills, and the controller
    /// must enqueue the objects of shards that are already owned.
    pub(crate) fn join(&self, participant: Arc<dyn Participant>) -> Participation {
        self.0.participants.join(|_held| participant)
    }

    /// Returns the controllers and informers that take part in hand-overs.
    pub(super) fn participants(&self) -> &Participants {
        &self.0.participants
    }

    pub(super) fn metrics(&self) -> &Arc<Named<Metrics>> {
        &self.0.metrics
    }

    /// Returns the property that decides to which shard an object belongs.
    pub(super) fn by(&self) -> ShardBy {
        self.0.format.by
    }

    /// Returns the number of shards.
    pub(super) fn count(&self) -> ShardCount {
        self.0.format.shards
    }

    /// Returns the gate in front of the work.
    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }
}

/// Whether this process has a group.
static HAS_GROUP: AtomicBool = AtomicBool::new(false);

/// The only group of a process.
struct OnlyGroup;

impl OnlyGroup {
    fn claim() -> Result<Self, BuildError> {
        // Relaxed: the flag guards no other data.
        let had_group = HAS_GROUP.swap(true, Ordering::Relaxed);
        if had_group { Err(BuildError::Exists) } else { Ok(Self) }
    }
}

impl Drop for OnlyGroup {
    fn drop(&mut self) {
        // Relaxed: the flag guards no other data.
        HAS_GROUP.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::panic::AssertUnwindSafe;

    use deltafifo_testkit::ApiServer;
    use futures_util::FutureExt;

    use super::ShardGroup;

    #[test]
    fn run_that_is_polled_outside_of_a_runtime_panics() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // The client of the server needs a runtime.
        let client = runtime.block_on(async { ApiServer::builder().build().client() });
        let group = ShardGroup::builder(client, "shop", "counter").identity("a").beside_others();
        let group = group.build().unwrap();
        let run = AssertUnwindSafe(|| group.run_until(pending()).now_or_never());
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
