//! The run of a group: it drives the protocol of one member after another, sends their requests,
//! watches the Leases, and gives orders to the gate and the participants.

// * `mod.rs`: the run of a group, which is one membership after another.
// * `member.rs`: the run of one membership.
// * `requests.rs`: its requests and their answers, and the watch of the Leases.
// * `fills.rs`: the orders to the participants to fill and to release shards.
// * `reports.rs`: the errors and warnings of the membership.

mod fills;
mod member;
mod reports;
mod requests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::Instrument;

use self::member::Member;
use super::error::{GroupError, RunError};
use super::group::GroupContext;
use super::metrics::Metrics;
use super::participants::reporting;
use super::protocol::MemberEnd;
use crate::lease::REPORT_EVERY;

/// The longest pause between attempts that fail again and again: to write a Lease that the server
/// has without the label of the group, to claim a shard, to delete the Lease of a former member, or
/// to become live. An attempt finds out whether it still fails. Leases without the label are
/// reported each minute, so a longer pause would make these reports rarer, and a shorter one would
/// not make them more frequent.
const LONGEST_PAUSE: Duration = REPORT_EVERY;

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
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE.max(retry_period));
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
