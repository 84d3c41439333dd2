//! The requests of a member, their answers, and the watch of the Leases of the group.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::LONGEST_PAUSE;
use super::member::Member;
use crate::sharding::api::{DELETE, Sent, Watched, verb_of};
use crate::sharding::error::GroupError;
use crate::sharding::metrics::Metrics;
use crate::sharding::object::{GroupLease, LeaseName};
use crate::sharding::protocol::{Answer, Request, Write};

/// A write of the Lease of a shard.
#[derive(Clone, Copy)]
pub(super) enum ShardWrite {
    Create,
    Claim,
    Release,
}

impl ShardWrite {
    /// Returns what a write does, or `None` if its Lease is not of a shard.
    fn of<T>(name: &LeaseName, write: &Write<T>) -> Option<Self> {
        match (name, write) {
            (LeaseName::Shard(_), Write::Create { .. }) => Some(Self::Create),
            (LeaseName::Shard(_), Write::Replace { holder: Some(_), .. }) => Some(Self::Claim),
            (LeaseName::Shard(_), Write::Replace { holder: None, .. }) => Some(Self::Release),
            _ => None,
        }
    }
}

/// The answer to a request.
pub(super) struct Answered {
    pub(super) name: LeaseName,
    pub(super) number: u64,
    pub(super) verb: &'static str,
    pub(super) of_shard: Option<ShardWrite>,
    pub(super) sent: Result<Sent, GroupError>,
}

impl Member<'_> {
    pub(super) fn send(&mut self, request: Request<Arc<str>>) {
        let Request { name, number, write } = request;
        let of_shard = ShardWrite::of(&name, &write);
        let is_own = self.is_own(&name);
        self.has_deleted |= is_own && matches!(write, Write::Delete { .. });
        if let Write::Create { readiness, .. } | Write::Replace { readiness, .. } = write
            && is_own
        {
            self.stated.sent(number, readiness);
        }
        let known = self.known.get(&self.context.format.name_of(&name));
        let (api, verb) = (Arc::clone(&self.context.api), verb_of(&write));
        let answered = async move {
            let sent = api.send(name.clone(), write, known).await;
            Answered { name, number, verb, of_shard, sent }
        };
        self.requests.push(answered.boxed());
    }

    pub(super) fn is_own(&self, name: &LeaseName) -> bool {
        matches!(name, LeaseName::Member(identity) if *identity == self.identity)
    }

    pub(super) fn answered(&mut self, answered: Answered) {
        let Answered { name, number, verb, of_shard, sent } = answered;
        let answer = match sent {
            // A finalizer keeps the Lease, a webhook refuses, or another member was faster.
            Ok(Sent::Written(Some(_)) | Sent::Conflict)
                if verb == DELETE && !self.is_own(&name) =>
            {
                Answer::Unclear { pause: self.pause(&name, verb, of_shard, None) }
            }
            Ok(Sent::Written(lease)) => {
                match of_shard {
                    Some(ShardWrite::Claim) => self.context.metrics.record(Metrics::claimed),
                    Some(ShardWrite::Release) => self.context.metrics.record(Metrics::released),
                    Some(ShardWrite::Create) | None => {}
                }
                self.refused.remove(&name);
                if self.is_own(&name) {
                    self.stated.applied(number);
                }
                if let Some(lease) = &lease {
                    let object = self.context.format.name_of(&lease.name);
                    self.known.written(object, lease.record.version, &lease.object);
                    self.learn(lease);
                }
                Answer::Written(lease.map(|lease| lease.record))
            }
            Ok(Sent::Conflict) => Answer::Conflict,
            Err(error) => {
                self.report(&error);
                Answer::Unclear { pause: self.pause(&name, verb, of_shard, Some(&error)) }
            }
        };
        self.protocol.answered(self.context.clock.now(), &name, number, &answer);
        self.report_lost_readiness();
    }

    /// Returns the time until the next request for a Lease whose last one has failed. It doubles
    ///
    /// - while the server has the Lease without the label.
    /// - while the server refuses that a shard is claimed, or its Lease created: a group has many
    ///   shards. Releases are repeated each retry period, because other members wait for them.
    /// - while deletions of Leases of former members fail, and the watch shows that none is
    ///   deleted. A deletion can fail without an error.
    fn pause(
        &mut self,
        name: &LeaseName,
        verb: &str,
        of_shard: Option<ShardWrite>,
        error: Option<&GroupError>,
    ) -> Duration {
        let retry_period = self.context.timing.retry_period;
        let next = match (of_shard, error) {
            (_, Some(GroupError::Foreign { .. } | GroupError::Unlabelled { .. })) => {
                self.unlabelled.entry(name.clone()).or_insert(retry_period)
            }
            (Some(ShardWrite::Create | ShardWrite::Claim), Some(GroupError::Lease(error)))
                if error.is_refused() =>
            {
                self.refused.entry(name.clone()).or_insert(retry_period)
            }
            _ if verb == DELETE && !self.is_own(name) => &mut self.deletion_pause,
            _ => return retry_period,
        };
        let doubled = next.saturating_mul(2).min(LONGEST_PAUSE.max(retry_period));
        std::mem::replace(next, doubled)
    }

    pub(super) fn watched(&mut self, event: Watched) {
        let now = self.context.clock.now();
        match event {
            Watched::Listed(version, leases) => {
                self.log_wait(&leases);
                let format = &self.context.format;
                let states = leases.iter().map(|GroupLease { name, record, object }| {
                    (format.name_of(name), record.version, object)
                });
                self.known.listed(version, states);
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
                let GroupLease { name, record, object } = lease;
                self.known.observed(self.context.format.name_of(&name), record.version, &object);
                self.protocol.observed(now, &name, record.version, Some(&record));
            }
            Watched::Deleted(GroupLease { name, record, .. }) => {
                if let LeaseName::Member(_) = name {
                    self.deletion_pause = self.context.timing.retry_period;
                }
                self.unlabelled.remove(&name);
                self.known.deleted(&self.context.format.name_of(&name), record.version);
                self.protocol.observed(now, &name, record.version, None);
            }
            Watched::Mismatched(mismatch) => {
                self.mismatch.get_or_insert(mismatch);
                self.protocol.mismatched();
            }
            Watched::Failed(error) => self.report(&error),
        }
        self.report_lost_readiness();
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

    /// Records what a state of a Lease says about earlier writes: it has the label.
    fn learn(&mut self, lease: &GroupLease) {
        let GroupLease { name, record, .. } = lease;
        self.unlabelled.remove(name);
        if self.is_own(name) {
            // A member that fences the Lease takes the holder out.
            if record.holder.as_ref() == Some(&self.identity) {
                self.stated.seen(record.version, record.readiness);
            } else {
                self.stated.seen_of_another();
            }
        }
    }
}
