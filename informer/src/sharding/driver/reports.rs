//! The errors and warnings of a membership.

use std::sync::Arc;
use std::time::Duration;

use super::member::Member;
use crate::lease::REPORT_EVERY;
use crate::sharding::error::GroupError;
use crate::sharding::object::{LeaseName, annotation_of};

/// The number of members up to which a group works well. Each member receives every write of all
/// others.
const MOST_MEMBERS: usize = 50;

impl Member<'_> {
    /// Reports an error of a request, unless one like it was reported within a minute, or since the
    /// last request with its verb that succeeded. Reports one error of each other kind in a minute.
    pub(super) fn report(&self, error: &GroupError) {
        let is_due = if let GroupError::Lease(error) = error {
            self.context.api.must_report(error)
        } else {
            let now = self.context.clock.now().monotonic;
            self.context.once_per_minute.is_due(error, now)
        };
        if is_due {
            self.context.report(error);
        }
    }

    /// Reports the shards whose work continues after the drain timeout, once a minute.
    pub(super) fn report_drains(&mut self, now: Duration) {
        if let Some((shards, waited)) = self.drains.overdue(now) {
            let group = self.context.title();
            self.context.report(&GroupError::NotDrained { group, shards, waited });
        }
    }

    /// Reports once a minute that no member of this process has become live since one had a Lease.
    /// The others fence a member that cannot renew its Lease, so a process may have many.
    pub(super) fn report_not_live(&mut self, now: Duration) {
        if self.protocol.works_until().is_some() {
            self.not_live_since = None;
        } else if self.protocol.is_joining() {
            let waited = now.saturating_sub(*self.not_live_since.get_or_insert(now));
            if waited >= REPORT_EVERY {
                self.report(&GroupError::NotLive { group: self.context.title(), waited });
            }
        }
    }

    /// Reports that the member's own Lease no longer has the readiness that was written into it.
    /// That of a lost member may be a new one, from a creation that was not answered.
    pub(super) fn report_lost_readiness(&mut self) {
        let is_member = self.protocol.works_until().is_some() || self.protocol.is_joining();
        if !is_member {
            return;
        }
        if let Some(written) = self.stated.lost() {
            let name = LeaseName::Member(Arc::clone(&self.identity));
            let object = self.context.format.name_of(&name);
            let lease = format!("{}/{object}", self.context.format.namespace);
            self.report(&GroupError::Unannotated { lease, annotation: annotation_of(written) });
        }
    }

    pub(super) fn record_drains(&self) {
        self.context.metrics.record(|metrics| metrics.drains(self.drains.len()));
    }

    /// Logs once that the group has more members than it is made for.
    pub(super) fn warn_of_size(&mut self) {
        let ready = self.protocol.ready_members();
        if ready > MOST_MEMBERS && !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                group = self.context.title(),
                ready,
                "the group has more than {MOST_MEMBERS} members; each of them receives every write \
                 of a lease, and moves of shards may take long; use fewer replicas"
            );
        }
    }
}
