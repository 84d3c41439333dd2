//! The run of a group: it drives the protocol of one member after another, sends their requests,
//! watches the Leases, and gives orders to the gate and the participants.

use std::collections::{BTreeSet, HashMap};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use super::api::{DELETE, GroupApi, Sent, Watched, verb_of};
use super::drains::Drains;
use super::error::{GroupError, RunError};
use super::gate::ShardTerm;
use super::group::GroupContext;
use super::known::KnownLeases;
use super::metrics::Metrics;
#[cfg(test)]
use super::mutants::TaskMutant;
use super::object::{GroupLease, LeaseName, annotation_of};
use super::participants::{REPORT_EVERY, reporting};
use super::protocol::{Answer, MemberEnd, MemberStep, Protocol, Request, Write};
use super::shards::ShardSet;
use super::stated::StatedReadiness;
use crate::lease::Clocks;

/// The shortest time for which a fill waits for further shards. The owners of shards that move to
/// one member at a time release them within milliseconds of each other, unless work continues.
const GATHERS_FOR: Duration = Duration::from_millis(100);

/// The number of members up to which a group works well. Each member receives every write of all
/// others.
const MAX_MEMBERS: usize = 50;

/// The longest pause between attempts to write a Lease that the server has without the label of the
/// group, between attempts to delete Leases of former members, and between the starts of members
/// that are never live. An attempt finds out whether that is still so. Leases without the label are
/// reported each minute, so a longer pause would make reports rarer, and a shorter one would not
/// make them more frequent.
const MAX_PAUSE: Duration = REPORT_EVERY;

/// The request to stop a group.
pub(super) struct Stop<'s> {
    requested: Pin<&'s mut (dyn Future<Output = ()> + Send)>,
    is_requested: bool,
}

impl<'s> Stop<'s> {
    pub(super) fn on(requested: Pin<&'s mut (dyn Future<Output = ()> + Send)>) -> Self {
        Self { requested, is_requested: false }
    }

    /// Waits until the group is asked to stop. Returns once.
    async fn requested(&mut self) {
        if self.is_requested {
            return std::future::pending().await;
        }
        self.requested.as_mut().await;
        self.is_requested = true;
    }
}

/// Runs one member after another until the group is asked to stop.
///
/// # Errors
/// [`RunError::Mismatch`] if a Lease of the group has other settings. Another member would find the
/// same settings, so none follows.
pub(super) async fn run(context: &GroupContext, mut stop: Stop<'_>) -> Result<(), RunError> {
    let mut is_first = true;
    let retry_period = context.timing.retry_period;
    let mut pause = retry_period;
    let mut not_live_since = None;
    loop {
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = ready(context, std::mem::take(&mut is_first)) => {}
        }
        let began = Instant::now();
        let identity: Arc<str> = context.new_identity().into();
        let span = tracing::info_span!("shard_group", group = context.title(), %identity);
        let mut member = Member::new(context, identity, not_live_since);
        let end = member.run(&mut stop).instrument(span).await;
        if let Some(mismatch) = member.mismatch.take() {
            return Err(mismatch);
        }
        if end != MemberEnd::Stopped {
            context.metrics.record(Metrics::lost);
            let consequence = if stop.is_requested {
                "other members take the shards that it has not released"
            } else {
                "it joins again under another identity"
            };
            tracing::warn!(
                group = context.title(),
                reason = match end {
                    MemberEnd::Deadline => {
                        "no renewal was answered and seen before the renew deadline, or the wall \
                         clock was set forward to it"
                    }
                    _ => "its lease was fenced, changed or deleted",
                },
                "this member has lost its lease and its shards; {consequence}"
            );
        }
        if stop.is_requested {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = member.last_answers() => {}
        }
        // A lease that is deleted again and again must not cause a flood of requests.
        if member.deadline.is_some() {
            pause = retry_period;
        }
        not_live_since = member.not_live_since;
        drop(member);
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = sleep(pause.saturating_sub(began.elapsed())) => {}
        }
        pause = pause.saturating_mul(2).min(MAX_PAUSE.max(retry_period));
    }
}

/// Waits until this replica can work on shards. A member that could not would keep its shards from
/// the others. Work of an earlier member, whose run was dropped, must have ended. The first member
/// of a run also waits until each announced controller has joined. A later one does not, because a
/// controller that is never polled would keep it out for good.
async fn ready(context: &GroupContext, is_first: bool) {
    let report = |waited| {
        let (group, shards) = (context.title(), context.gate.working());
        context.report(&GroupError::NotDrained { group, shards, waited });
    };
    context.metrics.record(|metrics| metrics.drains(context.gate.working().len()));
    reporting(context.gate.all_idle(), report).await;
    context.metrics.record(|metrics| {
        metrics.is_member(false);
        metrics.drains(0);
    });
    let ready = context.participants.clone().ready(is_first);
    let report = |waited| context.report(&GroupError::NotSynced { group: context.title(), waited });
    reporting(ready, report).await;
}

/// The answer to a request.
struct Answered {
    name: LeaseName,
    number: u64,
    verb: &'static str,
    /// Whether the request claims a shard, or releases one.
    effect: Option<fn(&Metrics)>,
    sent: Result<Sent, GroupError>,
}

/// A fill in progress: the shards with the numbers of their orders, without those that were
/// released since. There is at least one.
struct Fill<'g> {
    orders: Vec<(u8, u64)>,
    /// The time of the monotonic clock of the first order.
    ordered: Duration,
    began: Instant,
    filled: BoxFuture<'g, ()>,
}

/// A membership of the group, under one identity.
struct Member<'g> {
    context: &'g GroupContext,
    identity: Arc<str>,
    protocol: Protocol<Arc<str>>,
    api: Arc<GroupApi>,
    /// The requests in flight: one for each Lease, and those that the protocol has abandoned.
    requests: FuturesUnordered<BoxFuture<'static, Answered>>,
    known: KnownLeases,
    fill: Option<Fill<'g>>,
    /// The orders to fill that wait for the end of `fill`. One list serves all of them.
    unfilled: Vec<(u8, u64)>,
    /// The time of the monotonic clock of the first order in `unfilled`.
    unfilled_since: Duration,
    /// The duration of the last fill, without the wait before it.
    last_fill: Duration,
    /// The shards that the participants were ordered to fill, and that were not released since.
    held: ShardSet,
    /// Whether the Leases have been listed.
    has_listed: bool,
    /// The shards whose gate is open.
    open: ShardSet,
    /// The shards whose gate was closed, and whose work has not ended.
    drains: Drains,
    /// The time of the monotonic clock since which the members of this process have Leases and none
    /// of them was live.
    not_live_since: Option<Duration>,
    /// The last deadline of the member.
    deadline: Option<Clocks>,
    /// Whether the deletion of the member's own Lease was requested, so all shards are released.
    has_deleted: bool,
    mismatch: Option<RunError>,
    stated: StatedReadiness,
    /// The next pause before each Lease that the server has without the label of the group.
    pauses: HashMap<LeaseName, Duration>,
    /// The next pause after the deletion of a former member's Lease has failed.
    deletion_pause: Duration,
    /// The subjects of the reported errors that concern one Lease.
    reported: BTreeSet<String>,
}

impl<'g> Member<'g> {
    fn new(
        context: &'g GroupContext,
        identity: Arc<str>,
        not_live_since: Option<Duration>,
    ) -> Self {
        let api =
            GroupApi::new(context.lease_client.clone(), context.format.clone(), context.timing);
        let shards = context.format.shards;
        Self {
            context,
            protocol: Protocol::new(context.timing, Arc::clone(&identity), shards),
            identity,
            api: Arc::new(api),
            requests: FuturesUnordered::new(),
            known: KnownLeases::default(),
            fill: None,
            unfilled: Vec::new(),
            unfilled_since: Duration::ZERO,
            last_fill: Duration::ZERO,
            held: ShardSet::default(),
            has_listed: false,
            open: ShardSet::default(),
            drains: Drains::default(),
            not_live_since,
            deadline: None,
            has_deleted: false,
            mismatch: None,
            stated: StatedReadiness::default(),
            pauses: HashMap::new(),
            deletion_pause: context.timing.retry_period,
            reported: BTreeSet::new(),
        }
    }

    async fn run(&mut self, stop: &mut Stop<'_>) -> MemberEnd {
        let api = Arc::clone(&self.api);
        let mut watched = pin!(api.watch());
        let (clock, tick) = (self.context.clock, self.context.timing.retry_period);
        let mut gives_up_at = None;
        if stop.is_requested {
            self.protocol.stop();
        }
        loop {
            let wake = match self.steps() {
                Ok(wake) => wake,
                Err(MemberEnd::Stopped) if self.is_lost() => return MemberEnd::Replaced,
                Err(end) => return end,
            };
            let now = clock.now().monotonic;
            self.report_drains(now);
            self.report_not_live(now);
            // No timer follows the wall clock, so the protocol looks at it once per retry period.
            let tick = now.saturating_add(tick);
            let mut wake = wake.map_or(tick, |wake| wake.min(tick));
            let is_last = stop.is_requested || self.mismatch.is_some();
            if is_last && self.has_finished() {
                let gives_up_at = *gives_up_at.get_or_insert(tick);
                if gives_up_at <= now {
                    return if self.is_lost() { MemberEnd::Deadline } else { MemberEnd::Stopped };
                }
                wake = wake.min(gives_up_at);
            }
            // In a fixed order, so that a simulation can be repeated.
            tokio::select! {
                biased;
                () = stop.requested() => self.protocol.stop(),
                Some(answered) = self.requests.next() => self.answered(answered),
                Some(event) = watched.next() => self.watched(event),
                shard = self.context.gate.idle() => self.idle(shard),
                () = filled(&mut self.fill) => self.filled(),
                () = clock.sleep_until(Some(wake)) => {}
            }
            self.publish();
        }
    }

    /// Waits for the answers to requests in flight, for at most some retry periods, and reports
    /// their errors: one of them may be the cause of the end. An answer that shows a Lease without
    /// the label also causes its deletion.
    async fn last_answers(&mut self) {
        while let Some(Answered { sent, .. }) = self.requests.next().await {
            if let Err(error) = sent {
                self.report(&error);
            }
        }
    }

    /// Returns whether all that is left to do is to delete or fence the member's own Lease. Others
    /// do that as well, after the lease duration, so a member that stops does not insist.
    fn has_finished(&self) -> bool {
        let has_deadline = self.protocol.works_until().is_some();
        !self.protocol.is_working() && (!has_deadline || self.protocol.holds_nothing())
    }

    /// Returns whether the member was live, and has lost its Lease before it had released all of
    /// its shards. The protocol does not distinguish that from a stop if the Lease is gone, because
    /// the answer to the deletion of the Lease may have been lost.
    fn is_lost(&self) -> bool {
        let is_live = self.protocol.works_until().is_some();
        self.deadline.is_some() && !is_live && !self.has_deleted
    }

    /// Takes steps until the member must wait. Returns until when, or the end of the membership.
    fn steps(&mut self) -> Result<Option<Duration>, MemberEnd> {
        let context = self.context;
        // One walk of the stores serves all shards that are owned at a time.
        let mut enqueued = ShardSet::default();
        loop {
            let step = self.protocol.next(context.clock.now());
            // The gate is closed before a shard is drained, and opened before keys are enqueued.
            self.publish();
            match step {
                MemberStep::Send(request) => self.send(request),
                MemberStep::Fill { shard, number } => {
                    self.held.insert(shard);
                    if self.unfilled.is_empty() {
                        self.unfilled_since = context.clock.now().monotonic;
                    }
                    self.unfilled.push((shard, number));
                }
                MemberStep::Enqueue { shard } => enqueued.insert(shard),
                MemberStep::Drop { shard } => context.gate.revoke(shard),
                MemberStep::Wait(until) => {
                    if !enqueued.is_empty() {
                        context.participants.enqueue(enqueued);
                    }
                    let fills_at = self.begin_fill();
                    return Ok(until.into_iter().chain(fills_at).min());
                }
                MemberStep::Ended(end) => return Err(end),
            }
        }
    }

    fn send(&mut self, request: Request<Arc<str>>) {
        let Request { name, number, write } = request;
        let effect: Option<fn(&Metrics)> = match (&name, &write) {
            (LeaseName::Shard(_), Write::Replace { holder: Some(_), .. }) => Some(Metrics::claimed),
            (LeaseName::Shard(_), Write::Replace { holder: None, .. }) => Some(Metrics::released),
            _ => None,
        };
        let is_own = self.is_own(&name);
        self.has_deleted |= is_own && matches!(write, Write::Delete { .. });
        if let Write::Create { readiness, .. } | Write::Replace { readiness, .. } = write
            && is_own
        {
            self.stated.sent(number, readiness);
        }
        let known = self.known.get(&self.api.format.name_of(&name));
        let (api, verb) = (Arc::clone(&self.api), verb_of(&write));
        let answered = async move {
            let sent = api.send(name.clone(), write, known).await;
            Answered { name, number, verb, effect, sent }
        };
        self.requests.push(answered.boxed());
    }

    fn is_own(&self, name: &LeaseName) -> bool {
        matches!(name, LeaseName::Member(identity) if *identity == self.identity)
    }

    fn answered(&mut self, answered: Answered) {
        let Answered { name, number, verb, effect, sent } = answered;
        let answer = match sent {
            // A finalizer keeps the Lease, a webhook refuses, or another member was faster.
            Ok(Sent::Written(Some(_)) | Sent::Conflict)
                if verb == DELETE && !self.is_own(&name) =>
            {
                Answer::Unclear { pause: self.pause(&name, verb, None) }
            }
            Ok(Sent::Written(lease)) => {
                if let Some(effect) = effect {
                    self.context.metrics.record(effect);
                }
                if self.is_own(&name) {
                    self.stated.applied(number);
                }
                if let Some(lease) = &lease {
                    self.learn(lease);
                }
                Answer::Written(lease.map(|lease| lease.record))
            }
            Ok(Sent::Conflict) => Answer::Conflict,
            Err(error) => {
                self.report(&error);
                Answer::Unclear { pause: self.pause(&name, verb, Some(&error)) }
            }
        };
        self.protocol.answered(self.context.clock.now(), &name, number, &answer);
    }

    /// Returns the time until the next request for a Lease whose last one has failed. It doubles
    /// while the server has the Lease without the label. It also doubles while deletions of Leases
    /// of former members fail, and the watch shows that none is deleted. A deletion can fail
    /// without an error.
    fn pause(&mut self, name: &LeaseName, verb: &str, error: Option<&GroupError>) -> Duration {
        let retry_period = self.context.timing.retry_period;
        let next = match error {
            Some(GroupError::Foreign { .. } | GroupError::Unlabelled { .. }) => {
                self.pauses.entry(name.clone()).or_insert(retry_period)
            }
            _ if verb == DELETE && !self.is_own(name) => &mut self.deletion_pause,
            _ => return retry_period,
        };
        let doubled = next.saturating_mul(2).min(MAX_PAUSE.max(retry_period));
        std::mem::replace(next, doubled)
    }

    fn watched(&mut self, event: Watched) {
        let now = self.context.clock.now();
        match event {
            Watched::Listed(version, leases) => {
                self.log_wait(&leases);
                self.known.forget_all(version);
                for lease in &leases {
                    self.learn(lease);
                }
                let leases: Vec<_> =
                    leases.into_iter().map(|lease| (lease.name, lease.record)).collect();
                self.protocol.listed(now, version, &leases);
            }
            Watched::Open => {}
            Watched::Changed(lease) => {
                self.learn(&lease);
                let GroupLease { name, record, .. } = lease;
                self.protocol.observed(now, &name, record.version, Some(&record));
            }
            Watched::Deleted(GroupLease { name, record, .. }) => {
                if let LeaseName::Member(_) = name {
                    self.deletion_pause = self.context.timing.retry_period;
                }
                self.known.forget(&self.api.format.name_of(&name), record.version);
                self.protocol.observed(now, &name, record.version, None);
            }
            Watched::Mismatched(mismatch) => {
                self.mismatch.get_or_insert(mismatch);
                self.protocol.mismatched();
            }
            Watched::Failed(error) => self.report(&error),
        }
    }

    /// Logs once that shards have no Lease, and how long a member waits before it claims them.
    fn log_wait(&mut self, leases: &[GroupLease]) {
        if std::mem::replace(&mut self.has_listed, true) {
            return;
        }
        let is_shard = |lease: &&GroupLease| matches!(lease.name, LeaseName::Shard(_));
        let existing = leases.iter().filter(is_shard).count();
        let missing = self.context.format.shards.get() - existing;
        if missing > 0 {
            tracing::info!(
                missing,
                wait = ?self.context.timing.lease_duration,
                "shards have no lease; members create these leases, and hold no such shard before \
                 `wait` has passed"
            );
        }
    }

    /// Records a state of a Lease, which has the label. Reports that the member's own Lease no
    /// longer has the readiness that was written into it.
    fn learn(&mut self, lease: &GroupLease) {
        self.pauses.remove(&lease.name);
        let name = self.api.format.name_of(&lease.name);
        let GroupLease { record, .. } = lease;
        // Another member that fences the Lease takes the holder out.
        if self.is_own(&lease.name)
            && record.holder.as_ref() == Some(&self.identity)
            && let Some(written) = self.stated.lost(record.version, record.readiness)
        {
            let lease = format!("{}/{name}", self.api.format.namespace);
            self.report(&GroupError::Unannotated { lease, annotation: annotation_of(written) });
        }
        self.known.learn(name, lease.record.version, &lease.object);
    }

    /// Reports an error, unless a request with the same verb has failed in the same way and none
    /// has succeeded since. Of Leases without the label, reports one each minute. Also reports once
    /// a minute that the member is not live or its annotation is not kept, and once each other
    /// error.
    fn report(&mut self, error: &GroupError) {
        let is_due = match error {
            GroupError::Lease(error) => self.api.must_report(error),
            GroupError::Foreign { .. }
            | GroupError::Unlabelled { .. }
            | GroupError::Unannotated { .. }
            | GroupError::NotLive { .. } => {
                let now = self.context.clock.now().monotonic;
                self.context.once_per_minute.is_due(error, now)
            }
            _ => {
                let (kind, of) = error.subject();
                self.reported.insert(format!("{kind} {of}"))
            }
        };
        if is_due {
            self.context.report(error);
        }
    }

    /// Begins to fill the shards that wait for it, unless a fill is in progress, or further shards
    /// are expected. Returns the time of the monotonic clock until which it waits for these.
    ///
    /// One list serves all shards that were claimed before it. A shard that is claimed during a
    /// list waits for its end, and then for another one. So this wait may take as long as a list,
    /// but no longer, because work of an owner may continue for long.
    fn begin_fill(&mut self) -> Option<Duration> {
        if self.fill.is_some() || self.unfilled.is_empty() {
            return None;
        }
        let context = self.context;
        let waits_for = self.last_fill.max(GATHERS_FOR).min(context.timing.retry_period);
        let begins_at = self.unfilled_since.saturating_add(waits_for);
        if context.clock.now().monotonic < begins_at && self.protocol.expects_shard() {
            return Some(begins_at);
        }
        let (orders, ordered) = (std::mem::take(&mut self.unfilled), self.unfilled_since);
        let shards = orders.iter().map(|(shard, _)| *shard).collect();
        let report = move |participant, waited| {
            let group = context.title();
            context.report(&GroupError::NotFilled { group, participant, waited });
        };
        let filled = context.participants.fill(shards, report).boxed();
        #[cfg(test)]
        let filled = if TaskMutant::StoreIsNotFilled.is_chosen() {
            std::future::ready(()).boxed()
        } else {
            filled
        };
        self.fill = Some(Fill { orders, ordered, began: Instant::now(), filled });
        None
    }

    fn filled(&mut self) {
        let Some(Fill { orders, ordered, began, .. }) = self.fill.take() else { return };
        self.last_fill = began.elapsed();
        let delay = self.context.clock.now().monotonic.saturating_sub(ordered);
        self.context.metrics.record(|metrics| metrics.filled(delay));
        for (shard, number) in orders {
            self.protocol.filled(shard, number);
        }
    }

    /// Records that the work on a shard has ended.
    fn idle(&mut self, shard: u8) {
        if self.drains.remove(shard) {
            self.record_drains();
        }
        self.protocol.idle(shard);
    }

    /// Reports the shards whose work continues after the drain timeout, once a minute.
    fn report_drains(&mut self, now: Duration) {
        if let Some((shards, waited)) = self.drains.overdue(now) {
            let group = self.context.title();
            self.context.report(&GroupError::NotDrained { group, shards, waited });
        }
    }

    /// Reports once a minute that no member of this process has become live since one had a Lease.
    /// The others fence a member that cannot renew its Lease, so a process may have many.
    fn report_not_live(&mut self, now: Duration) {
        if self.protocol.works_until().is_some() {
            self.not_live_since = None;
        } else if self.protocol.is_joining() {
            let waited = now.saturating_sub(*self.not_live_since.get_or_insert(now));
            if waited >= REPORT_EVERY {
                self.report(&GroupError::NotLive { group: self.context.title(), waited });
            }
        }
    }

    fn record_drains(&self) {
        self.context.metrics.record(|metrics| metrics.drains(self.drains.len()));
    }

    /// Opens and closes the gate as the protocol says, and publishes the owned shards.
    fn publish(&mut self) {
        let gate = &self.context.gate;
        // A hold that work has found to be over never begins again. The member must not go on, or
        // nobody would work on the shard.
        if self.open.iter().any(|shard| gate.has_expired(shard)) {
            self.protocol.expired();
        }
        let deadline = self.protocol.works_until();
        self.context.metrics.record(|metrics| metrics.is_member(deadline.is_some()));
        if let Some(deadline) = deadline.filter(|deadline| self.deadline != Some(*deadline)) {
            self.deadline = Some(deadline);
            gate.extend(deadline);
        }
        for shard in self.context.format.shards.all() {
            let admits = self.protocol.admits(shard).zip(self.protocol.claim(shard));
            match admits {
                Some((deadline, claim)) if !self.open.contains(shard) => {
                    let lease = ShardTerm {
                        uid: Arc::clone(&claim.uid),
                        transitions: claim.transitions,
                        member: Arc::clone(&self.identity),
                    };
                    gate.open(shard, &lease, deadline);
                    self.open.insert(shard);
                    if self.drains.remove(shard) {
                        self.record_drains();
                    }
                }
                None if self.open.contains(shard) => {
                    gate.close(shard);
                    self.open.remove(shard);
                    let now = self.context.clock.now().monotonic;
                    self.drains
                        .insert(shard, now.saturating_add(self.context.timing.drain_timeout));
                    self.record_drains();
                }
                _ => {}
            }
        }
        let expires_at = self.deadline.filter(|_| self.protocol.is_working());
        self.context.publish(self.open, expires_at);
        self.warn_of_size();
        self.release();
    }

    /// Logs once that the group has more members than it is made for.
    fn warn_of_size(&mut self) {
        let ready = self.protocol.ready_members();
        if ready > MAX_MEMBERS && self.reported.insert("members".to_owned()) {
            tracing::warn!(
                group = self.context.title(),
                ready,
                "the group has more than {MAX_MEMBERS} members; each of them receives every write \
                 of a lease, and moves of shards may take long; use fewer replicas"
            );
        }
    }

    /// Releases the shards that the member no longer holds. This happens before a later claim, so
    /// that a fill after that lists again.
    fn release(&mut self) {
        let is_released = |shard: &u8| !self.protocol.holds(*shard);
        let released: ShardSet = self.held.iter().filter(is_released).collect();
        if !released.is_empty() {
            self.held = self.held.without(released);
            let is_held = |(shard, _): &(u8, u64)| !released.contains(*shard);
            self.unfilled.retain(is_held);
            if let Some(fill) = &mut self.fill {
                fill.orders.retain(is_held);
            }
            // Later orders would wait for a list that nobody needs.
            self.fill.take_if(|fill| fill.orders.is_empty());
            self.context.participants.release(released);
        }
    }
}

/// Waits until the fill in progress has ended, or for ever if there is none.
async fn filled(fill: &mut Option<Fill<'_>>) {
    match fill {
        Some(fill) => (&mut fill.filled).await,
        None => std::future::pending().await,
    }
}

impl Drop for Member<'_> {
    /// Ends the work of a member whose run was dropped. At the end of a membership there is none.
    fn drop(&mut self) {
        self.context.format.shards.all().for_each(|shard| self.context.gate.revoke(shard));
        self.context.participants.release(self.held);
        // Work that does not notice that its permit is lost may continue.
        self.context.publish(ShardSet::default(), self.deadline);
        self.context.metrics.record(|metrics| {
            metrics.is_member(false);
            // Nothing would lower it before another run of the group.
            metrics.drains(0);
        });
    }
}
