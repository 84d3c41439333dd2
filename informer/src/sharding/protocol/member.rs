//! The Lease of a member itself.

use std::time::Duration;

use super::{
    Answer, Attempts, Clocks, Flight, LeaseName, MemberEnd, Phase, Protocol, Purpose, Readiness,
    Record, Request, ShardState, Write, mutant,
};

/// The Lease of a member itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnLease<T> {
    /// The newest known state of the Lease in which it is this member's.
    pub(super) record: Option<Record<T>>,
    /// The renewals that were answered, and whose versions the view does not contain yet.
    pub(super) unseen: Vec<Renewal>,
    pub(super) attempts: Attempts,
    /// The time of the monotonic clock when the last write was sent that was answered.
    pub(super) written: Duration,
    /// Whether a renewal was sent.
    pub(super) has_renewed: bool,
    /// The readiness in the last write of the Lease that was sent.
    pub(super) stated: Readiness,
    /// The time of the monotonic clock since which the writes say that the member is ready.
    pub(super) ready_since: Option<Duration>,
}

/// A renewal that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) version: u64,
    /// The deadline of the member when this renewal counts.
    pub(super) deadline: Clocks,
}

impl<T> Default for OwnLease<T> {
    fn default() -> Self {
        Self {
            record: None,
            unseen: Vec::new(),
            attempts: Attempts::default(),
            written: Duration::ZERO,
            has_renewed: false,
            stated: Readiness::Unready,
            ready_since: None,
        }
    }
}

impl<T: Clone + Ord + AsRef<str>> Protocol<T> {
    /// Returns the next request for the member's own Lease, or for that of the group.
    pub(super) fn next_own(&mut self, now: Clocks) -> Option<Request<T>> {
        let is_idle = self.shards.iter().all(|shard| !shard.is_working);
        if let (Phase::Lost(end), None, true) = (self.phase, &self.own.record, is_idle) {
            // A creation in flight may still be applied. Others will fence that Lease.
            self.phase = Phase::Ended(end);
        }
        let base = self.own.record.as_ref().map_or(0, |record| record.version);
        if !self.view.is_complete || !self.own.attempts.may_send(now, base) {
            return None;
        }
        let holder = Some(self.identity.clone());
        let replace = |base: &Record<T>, holder, readiness| Write::Replace {
            base: base.clone(),
            holder,
            transitions: base.transitions,
            readiness,
        };
        let (purpose, write) = match (self.phase, &self.own.record) {
            (Phase::Joining, None) if !self.view.has_group => {
                mutant!(self, AwaitsGroup => return None);
                let write = Write::Create { holder: None, readiness: Readiness::Unready };
                return Some(self.send_own(now, LeaseName::Group, Purpose::Create, write));
            }
            // A member that may not write its Lease again must get no shard, so the Lease is ready
            // with its first renewal at the earliest.
            (Phase::Joining, None) => {
                (Purpose::Create, Write::Create { holder, readiness: Readiness::Unready })
            }
            (Phase::Live(_), Some(record)) if self.is_stopping && self.holds_nothing() => {
                (Purpose::Delete, Write::Delete { base: record.clone() })
            }
            (Phase::Joining | Phase::Live(_), Some(record)) => {
                // The first renewal follows the creation as soon as the view shows that. Before, a
                // conflict could mean that the Lease is gone or that another client wrote to it.
                let is_joining = self.phase == Phase::Joining;
                let is_first = is_joining && !self.own.has_renewed && self.sees_own();
                // The others assign shards to a ready member, so one that joins is ready for a
                // single attempt: if its view or the answers are late, it may never be live.
                let is_ready = !self.is_stopping && (!is_joining || is_first);
                let is_due = now.monotonic >= self.renews_at()
                    || is_first
                    || self.changes_at().is_some_and(|at| at <= now.monotonic);
                if !is_due {
                    return None;
                }
                (Purpose::Renew, replace(record, holder, self.readiness(now, is_ready)))
            }
            (Phase::Lost(_), Some(record)) => {
                mutant!(self, FencesItselfBeforeIdle => let is_idle = true);
                if !is_idle {
                    return None;
                }
                (Purpose::Fence, replace(record, None, Readiness::Unready))
            }
            (Phase::Live(_) | Phase::Ended(_), _) | (Phase::Lost(_), None) => return None,
        };
        Some(self.send_own(now, LeaseName::Member(self.identity.clone()), purpose, write))
    }

    /// Returns what a renewal that is sent now says.
    fn readiness(&self, now: Clocks, is_ready: bool) -> Readiness {
        let is_live = matches!(self.phase, Phase::Live(_));
        let since = self.own.ready_since.unwrap_or(now.monotonic);
        let has_settled = now.monotonic >= since.saturating_add(self.timing.settle);
        // A member that joins may never be live, so it must take no shards from others.
        match (is_ready, is_live && has_settled) {
            (false, _) => Readiness::Unready,
            (true, false) => Readiness::Ready,
            (true, true) => Readiness::Settled,
        }
    }

    /// Returns the time of the monotonic clock of the renewal that says that the member stops, or
    /// that it is settled. Returns `None` if its Lease says so already. The others assign shards to
    /// a member until they see that it stops, and fewer of them before they see that it is settled.
    pub(super) fn changes_at(&self) -> Option<Duration> {
        let Phase::Live(_) = self.phase else { return None };
        let readiness = self.own.record.as_ref()?.readiness;
        let (next, at) = match readiness {
            Readiness::Ready | Readiness::Settled if self.is_stopping => {
                (Readiness::Unready, Duration::ZERO)
            }
            Readiness::Ready => {
                (Readiness::Settled, self.own.ready_since?.saturating_add(self.timing.settle))
            }
            Readiness::Unready | Readiness::Settled => return None,
        };
        // The server may not have kept what the last renewal said.
        let repeated_at = self.own.written.saturating_add(self.timing.retry_period);
        Some(if self.own.stated == next { at.max(repeated_at) } else { at })
    }

    fn send_own(
        &mut self,
        now: Clocks,
        name: LeaseName<T>,
        purpose: Purpose,
        write: Write<T>,
    ) -> Request<T> {
        let number = self.number();
        let base = self.own.record.as_ref().map_or(0, |record| record.version);
        self.own.attempts.flight = Some(Flight { number, purpose, base, sent: now });
        self.own.has_renewed |= purpose == Purpose::Renew;
        self.own.stated = match write {
            Write::Create { readiness, .. } | Write::Replace { readiness, .. } => readiness,
            Write::Delete { .. } => Readiness::Unready,
        };
        if self.own.stated == Readiness::Unready {
            self.own.ready_since = None;
        } else {
            self.own.ready_since.get_or_insert(now.monotonic);
        }
        Request { name, number, write }
    }

    /// Returns the time of the monotonic clock of the next renewal. It comes sooner while the
    /// member joins or its view is late, because a renewal counts only once it has been seen, and
    /// while the Lease is not ready.
    pub(super) fn renews_at(&self) -> Duration {
        let is_ready = self.own.record.as_ref().is_some_and(Record::is_ready);
        let is_late = self.phase == Phase::Joining
            || !self.own.unseen.is_empty()
            || !is_ready && !self.is_stopping;
        let period = self.timing.renew_period();
        let period = if is_late { period.min(self.timing.retry_period) } else { period };
        self.own.written.saturating_add(period)
    }

    /// Returns whether this member holds, drains and claims no shard, and no Lease of a shard in
    /// the view names it.
    pub(crate) fn holds_nothing(&self) -> bool {
        let is_done = |shard: &super::Shard<T>| {
            matches!(shard.state, ShardState::Foreign)
                && !shard.is_working
                && shard.attempts.flight.is_none()
        };
        // A Lease that this member has created, and not claimed, gives it nothing to release.
        let is_claimed = |record: &Record<T>| {
            let is_created = record.is_created();
            mutant!(self, CreatorNeverEnds => let is_created = false);
            record.holder.as_ref() == Some(&self.identity) && !is_created
        };
        let mut records = self.view.shards.iter().filter_map(|seen| seen.record.as_ref());
        self.shards.iter().all(is_done) && !records.any(is_claimed)
    }

    pub(super) fn answered_own(&mut self, now: Clocks, flight: Flight, answer: &Answer<T>) {
        mutant!(self, DeadlineFromAnswer => let flight = Flight { sent: now, ..flight });
        if flight.purpose == Purpose::Create {
            // A creation contains no version, and that of the group's Lease precedes another one.
            self.own.attempts.replaced = None;
        }
        match (flight.purpose, answer) {
            (Purpose::Create | Purpose::Renew, Answer::Written(Some(record)))
                if record.holder.as_ref() == Some(&self.identity) =>
            {
                let (Phase::Joining | Phase::Live(_)) = self.phase else { return };
                self.own.learn(record);
                self.own.written = flight.sent.monotonic;
                if flight.purpose == Purpose::Renew {
                    self.renewed(now, flight, record.version);
                }
            }
            // The Lease exists: an earlier creation was applied, or another member has created the
            // Lease of the group. Attempts follow, with pauses, until the view shows that.
            (Purpose::Create, Answer::Conflict) => {
                let retry_at = now.monotonic.saturating_add(self.timing.retry_period);
                self.own.attempts.not_before = retry_at;
            }
            // A Lease that was gone before its creation was answered: the view shows nothing of it.
            // If the view is only late with the Lease, others will fence it.
            (Purpose::Renew | Purpose::Fence, Answer::Conflict) if !self.sees_own() => {
                mutant!(self, JoinsForever => return);
                self.own_is_gone();
            }
            (Purpose::Fence, Answer::Written(_)) => {
                if let Phase::Lost(end) = self.phase {
                    self.phase = Phase::Ended(end);
                }
            }
            (Purpose::Delete, Answer::Written(_)) => self.phase = Phase::Ended(MemberEnd::Stopped),
            _ => {}
        }
    }

    /// Records a renewal that was answered.
    fn renewed(&mut self, now: Clocks, flight: Flight, version: u64) {
        let renewal = Renewal { version, deadline: self.deadline(flight) };
        self.own.unseen.retain(|renewal| !renewal.deadline.has_passed(now));
        self.own.unseen.push(renewal);
        self.confirm(now);
    }

    /// Takes the state of the member's own Lease in the view.
    pub(super) fn observed_own(&mut self, now: Clocks) {
        let Some(seen) = self.view.peer(&self.identity).map(|peer| &peer.seen) else {
            // The Lease is gone. No shard names the member.
            return self.own_is_gone();
        };
        let is_mine = |record: &&Record<T>| {
            record.holder.as_ref() == Some(&self.identity)
                && self.own.record.as_ref().is_none_or(|known| known.uid == record.uid)
        };
        let Some(record) = seen.record.as_ref().filter(is_mine).cloned() else {
            return self.own_is_gone();
        };
        mutant!(self, ViewCountsAsRenewal => self.renew_at(now, record.version));
        self.own.learn(&record);
        self.confirm(now);
    }

    /// Returns whether the member's Lease exists in the view.
    pub(super) fn sees_own(&self) -> bool {
        self.view.peer(&self.identity).is_some_and(|peer| peer.seen.record.is_some())
    }

    /// Ends the membership, because the member's Lease is deleted or is no longer its own. A member
    /// that is stopping may have deleted it: the answer to that can be lost.
    fn own_is_gone(&mut self) {
        self.lose(if self.is_stopping { MemberEnd::Stopped } else { MemberEnd::Replaced });
        // There is nothing to fence. The membership ends as soon as no work is in progress.
        self.own.record = None;
    }

    /// Moves the deadline if the view contains the versions of renewals.
    fn confirm(&mut self, now: Clocks) {
        let seen = self.view.peer(&self.identity);
        let seen =
            seen.filter(|peer| peer.seen.record.is_some()).map_or(0, |peer| peer.seen.version);
        mutant!(self, RenewalCountsUnseen => let seen = u64::MAX);
        let counts = self.own.unseen.iter().rposition(|renewal| renewal.version <= seen);
        let Some(at) = counts else { return };
        let Renewal { deadline, .. } = self.own.unseen[at];
        self.own.unseen.drain(..=at);
        if let Phase::Joining | Phase::Live(_) = self.phase
            && !deadline.has_passed(now)
        {
            self.phase = Phase::Live(deadline);
        }
    }

    /// Returns the deadline of a member whose renewal counts.
    pub(super) fn deadline(&self, flight: Flight) -> Clocks {
        let works_for = self.timing.renew_deadline;
        mutant!(self, WorksForLeaseDuration => let works_for = self.timing.lease_duration);
        let deadline = flight.sent.after(works_for);
        mutant!(self, MemberIgnoresWallClock => let deadline =
            super::defects::without_wall(deadline));
        mutant!(self, MemberIgnoresMonotonicClock => let deadline =
            super::defects::without_monotonic(deadline));
        deadline
    }
}

impl<T: Clone> OwnLease<T> {
    /// Records a state of the Lease if it is newer than the known one. The Lease must be this
    /// member's in that state.
    pub(super) fn learn(&mut self, record: &Record<T>) {
        if self.record.as_ref().is_none_or(|known| known.version < record.version) {
            self.record = Some(record.clone());
        }
    }
}
