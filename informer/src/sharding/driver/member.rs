//! The run of one membership.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::Stop;
use super::fills::FillOrders;
use super::requests::Answered;
use crate::lease::Clocks;
use crate::sharding::drains::Drains;
use crate::sharding::error::RunError;
use crate::sharding::gate::ShardTerm;
use crate::sharding::group::GroupContext;
use crate::sharding::known::KnownLeases;
use crate::sharding::object::LeaseName;
use crate::sharding::protocol::{MemberEnd, MemberStep, Protocol};
use crate::sharding::shards::ShardSet;
use crate::sharding::stated::StatedReadiness;

/// A membership of the group, under one identity.
pub(super) struct Member<'g> {
    pub(super) context: &'g GroupContext,
    pub(super) identity: Arc<str>,
    pub(super) protocol: Protocol<Arc<str>>,
    /// The requests in flight: one for each Lease, and those that the protocol has abandoned.
    pub(super) requests: FuturesUnordered<BoxFuture<'static, Answered>>,
    pub(super) known: KnownLeases,
    fills: FillOrders<'g>,
    /// Whether the Leases have been listed.
    pub(super) has_listed: bool,
    /// The shards whose gate is open.
    open: ShardSet,
    /// The shards whose gate was closed, and whose work has not ended.
    pub(super) drains: Drains,
    /// The time of the monotonic clock since which the members of this process have Leases and none
    /// of them was live.
    pub(super) not_live_since: Option<Duration>,
    /// The last deadline of the member.
    pub(super) deadline: Option<Clocks>,
    /// Whether the deletion of the member's own Lease was requested, so all shards are released.
    pub(super) has_deleted: bool,
    pub(super) mismatch: Option<RunError>,
    pub(super) stated: StatedReadiness,
    /// The next pause of each Lease that the server has without the label of the group.
    pub(super) unlabelled: HashMap<LeaseName, Duration>,
    /// The next pause of each Lease of a shard that the server has refused to change.
    pub(super) refused: HashMap<LeaseName, Duration>,
    /// The next pause after the deletion of a former member's Lease has failed.
    pub(super) deletion_pause: Duration,
    /// Whether the size of the group was logged.
    pub(super) has_warned: bool,
}

impl<'g> Member<'g> {
    pub(super) fn new(
        context: &'g GroupContext,
        identity: Arc<str>,
        not_live_since: Option<Duration>,
    ) -> Self {
        let shards = context.format.shards;
        Self {
            context,
            protocol: Protocol::new(context.timing, Arc::clone(&identity), shards),
            identity,
            requests: FuturesUnordered::new(),
            known: KnownLeases::default(),
            fills: FillOrders::new(context),
            has_listed: false,
            open: ShardSet::default(),
            drains: Drains::default(),
            not_live_since,
            deadline: None,
            has_deleted: false,
            mismatch: None,
            stated: StatedReadiness::default(),
            unlabelled: HashMap::new(),
            refused: HashMap::new(),
            deletion_pause: context.timing.retry_period,
            has_warned: false,
        }
    }

    pub(super) async fn run(&mut self, stop: &mut Stop<'_>) -> MemberEnd {
        let context = self.context;
        let mut watched = pin!(context.api.watch());
        let (clock, tick) = (context.clock, context.timing.retry_period);
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
                () = self.fills.wait() => self.filled(),
                () = clock.sleep_until(Some(wake)) => {}
            }
            self.publish();
        }
    }

    /// Waits for the answers to requests in flight, for at most some retry periods, and reports
    /// their errors: one of them may be the cause of the end. An answer that shows a Lease without
    /// the label also causes its deletion.
    pub(super) async fn last_answers(&mut self) {
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
                MemberStep::Fill { shard, number } => self.fills.order(shard, number),
                MemberStep::Enqueue { shard } => enqueued.insert(shard),
                MemberStep::Drop { shard } => context.gate.revoke(shard),
                MemberStep::Wait(until) => {
                    if !enqueued.is_empty() {
                        context.participants.enqueue(enqueued);
                    }
                    let fills_at = self.fills.begin(|| self.protocol.expects_shard());
                    return Ok(until.into_iter().chain(fills_at).min());
                }
                MemberStep::Ended(end) => return Err(end),
            }
        }
    }

    /// Records that the fill in progress has ended.
    fn filled(&mut self) {
        for (shard, number) in self.fills.end() {
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
        self.fills.release(|shard| self.protocol.holds(shard));
    }
}

impl Drop for Member<'_> {
    /// Ends the work of a member whose run was dropped. At the end of a membership there is none.
    fn drop(&mut self) {
        self.context.format.shards.all().for_each(|shard| self.context.gate.revoke(shard));
        self.fills.release(|_| false);
        // Work that does not notice that its permit is lost may continue.
        self.context.publish(ShardSet::default(), self.deadline);
        self.context.metrics.record(|metrics| {
            metrics.is_member(false);
            // Nothing would lower it before another run of the group.
            metrics.drains(0);
        });
    }
}
