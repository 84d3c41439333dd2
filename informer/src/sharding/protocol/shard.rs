//! A shard, as one member sees it.

use std::time::Duration;

use super::view::Seen;
use super::{
    Answer, Attempts, Clocks, Flight, LeaseName, MemberStep, Phase, Protocol, Purpose, Readiness,
    Record, Request, Write, mutant,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shard<T> {
    pub(super) state: ShardState<T>,
    /// Whether work may be in progress: of this term, or of an earlier one.
    pub(super) is_working: bool,
    /// Whether the futures of the work must be dropped.
    pub(super) must_drop: bool,
    pub(super) attempts: Attempts,
}

/// The state of a shard. `claim` is the newest known state of its Lease since this member's claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ShardState<T> {
    Foreign,
    Claiming,
    Filling {
        claim: Record<T>,
        /// The number of the fill in progress.
        fill: Option<u64>,
    },
    Owned {
        claim: Record<T>,
        must_enqueue: bool,
    },
    Draining {
        claim: Record<T>,
        /// The time of the monotonic clock when draining began.
        since: Duration,
        /// Whether the order to drop the work was given.
        is_dropped: bool,
    },
    Releasing {
        claim: Record<T>,
    },
}

impl<T> Default for Shard<T> {
    fn default() -> Self {
        Self {
            state: ShardState::Foreign,
            is_working: false,
            must_drop: false,
            attempts: Attempts::default(),
        }
    }
}

impl<T> ShardState<T> {
    /// Returns the claim by which the member holds the shard.
    pub(super) fn claim_mut(&mut self) -> Option<&mut Record<T>> {
        match self {
            Self::Foreign | Self::Claiming => None,
            Self::Filling { claim, .. }
            | Self::Owned { claim, .. }
            | Self::Draining { claim, .. }
            | Self::Releasing { claim } => Some(claim),
        }
    }

    /// Returns the time of the monotonic clock when the work is dropped.
    pub(super) fn drained_at(&self, timeout: Duration) -> Option<Duration> {
        match self {
            Self::Draining { since, is_dropped: false, .. } => Some(since.saturating_add(timeout)),
            _ => None,
        }
    }
}

impl<T> Shard<T> {
    /// Ends the member's hold on the shard without a release.
    pub(super) fn forget(&mut self) {
        self.state = ShardState::Foreign;
        self.must_drop = self.is_working;
        self.attempts.abandon();
    }
}

impl<T: Clone> Shard<T> {
    pub(super) fn filled(&mut self, number: u64) {
        if let ShardState::Filling { claim, fill } = &self.state
            && *fill == Some(number)
        {
            let claim = claim.clone();
            // Work is admitted from here on, so it counts from here on.
            self.is_working = true;
            self.state = ShardState::Owned { claim, must_enqueue: true };
        }
    }
}

impl<T: Clone + Ord + AsRef<str>> Protocol<T> {
    /// Moves a shard between the states that need no request.
    pub(super) fn advance(&mut self, now: Clocks, index: u8) {
        let is_assigned = self.is_assigned(index);
        let shard = &mut self.shards[usize::from(index)];
        match &shard.state {
            ShardState::Filling { claim, .. } if !is_assigned => {
                shard.state = ShardState::Releasing { claim: claim.clone() };
            }
            ShardState::Owned { claim, .. } if !is_assigned => {
                let (claim, since) = (claim.clone(), now.monotonic);
                shard.state = ShardState::Draining { claim, since, is_dropped: false };
            }
            ShardState::Draining { claim, .. } if is_assigned => {
                // Requests were refused, and work may have been dropped, since draining began.
                let must_enqueue = true;
                mutant!(self, OwnsAgainWithoutEnqueue => let must_enqueue = false);
                shard.is_working = true;
                shard.state = ShardState::Owned { claim: claim.clone(), must_enqueue };
            }
            ShardState::Draining { claim, .. } => {
                let is_idle = !shard.is_working;
                mutant!(self, ReleasesBeforeIdle => let is_idle = true);
                mutant!(self, ReleasesDroppedWork => let is_idle =
                    is_idle || shard.state.is_dropped());
                if is_idle {
                    shard.state = ShardState::Releasing { claim: claim.clone() };
                }
            }
            _ => {}
        }
    }

    /// Returns the next order for the work of a shard.
    pub(super) fn order(&mut self, now: Clocks, index: u8) -> Option<MemberStep<T>> {
        let timeout = self.timing.drain_timeout;
        let shard = &mut self.shards[usize::from(index)];
        if shard.must_drop {
            shard.must_drop = false;
            return Some(MemberStep::Drop { shard: index });
        }
        let is_drained = shard.state.drained_at(timeout).is_some_and(|at| at <= now.monotonic);
        match &mut shard.state {
            ShardState::Filling { fill: fill @ None, .. } => {
                self.last_number += 1;
                *fill = Some(self.last_number);
                Some(MemberStep::Fill { shard: index, number: self.last_number })
            }
            ShardState::Owned { must_enqueue, .. } if *must_enqueue => {
                *must_enqueue = false;
                mutant!(self, KeysNotEnqueued => return None);
                Some(MemberStep::Enqueue { shard: index })
            }
            ShardState::Draining { is_dropped, .. } if is_drained => {
                *is_dropped = true;
                Some(MemberStep::Drop { shard: index })
            }
            _ => None,
        }
    }

    /// Returns the next request for the Lease of a shard.
    pub(super) fn next_of_shard(&mut self, now: Clocks, index: u8) -> Option<Request<T>> {
        let Phase::Live(_) = self.phase else { return None };
        if !self.view.is_complete {
            return None;
        }
        let seen = &self.view.shards[usize::from(index)];
        let shard = &self.shards[usize::from(index)];
        let is_assigned = self.is_assigned(index);
        let holder = Some(self.identity.clone());
        let release = |claim: &Record<T>| Write::Replace {
            base: claim.clone(),
            holder: None,
            transitions: claim.transitions,
            readiness: Readiness::Unready,
        };
        let is_working = shard.is_working;
        mutant!(self, ClaimsWhileWorking => let is_working = false);
        let (purpose, base, write) = match (&shard.state, &seen.record) {
            (ShardState::Releasing { claim }, _) => {
                (Purpose::Release, claim.version, release(claim))
            }
            (ShardState::Foreign, _) if is_working => return None,
            (ShardState::Foreign, None) if is_assigned => {
                let write = Write::Create { holder, readiness: Readiness::Unready };
                (Purpose::Create, seen.version, write)
            }
            (ShardState::Foreign, Some(record)) if is_assigned && self.is_free(now, index) => {
                let transitions = record.transitions.max(0).saturating_add(1);
                let write = Write::Replace {
                    base: record.clone(),
                    holder,
                    transitions,
                    readiness: Readiness::Unready,
                };
                (Purpose::Claim, record.version, write)
            }
            // A claim that was answered too late.
            (ShardState::Foreign, Some(record))
                if !is_assigned && record.holder == holder && !record.is_created() =>
            {
                (Purpose::Release, record.version, release(record))
            }
            _ => return None,
        };
        if !shard.attempts.may_send(now, base) {
            return None;
        }
        let number = self.number();
        let shard = &mut self.shards[usize::from(index)];
        if let Purpose::Claim = purpose {
            shard.state = ShardState::Claiming;
        }
        shard.attempts.flight = Some(Flight { number, purpose, base, sent: now });
        Some(Request { name: LeaseName::Shard(index), number, write })
    }

    /// Returns whether the shard is assigned to this member, and the member is not stopping.
    pub(super) fn is_assigned(&self, shard: u8) -> bool {
        !self.is_stopping && self.assigned.contains(shard)
    }

    /// Returns whether this member may claim a shard that it does not hold.
    fn is_free(&self, now: Clocks, shard: u8) -> bool {
        let seen = &self.view.shards[usize::from(shard)];
        let Some(record) = &seen.record else { return false };
        let is_created = record.is_created();
        mutant!(self, CreatedShardIsFree => let is_created = false);
        if is_created {
            return self.frees_at(seen) <= now.monotonic;
        }
        match &record.holder {
            Some(holder) => *holder == self.identity || self.is_dead(now, holder),
            None => true,
        }
    }

    /// Returns the time of the monotonic clock when a Lease of a shard that a member has created is
    /// free. Any member may be at work by a Lease that was deleted.
    pub(super) fn frees_at(&self, seen: &Seen<T>) -> Duration {
        seen.expires_at(self.timing.lease_duration.max(self.view.longest_duration()))
    }

    pub(super) fn answered_shard(&mut self, index: u8, flight: Flight, answer: &Answer<T>) {
        let seen = &self.view.shards[usize::from(index)];
        let shard = &mut self.shards[usize::from(index)];
        let is_claim = flight.purpose == Purpose::Claim;
        mutant!(self, AbsentShardIsFree => let is_claim =
            is_claim || flight.purpose == Purpose::Create);
        if is_claim {
            shard.state = match answer {
                Answer::Written(Some(claim)) => {
                    // The view may contain a deletion that came after the claim, or a later state
                    // of the claim, whose version the release must contain.
                    let is_later = seen.version > claim.version;
                    let of_claim = seen.record.as_ref().filter(|record| record.is_of(claim));
                    let is_over = is_later && of_claim.is_none();
                    mutant!(self, ClaimOverridesView => let is_over = false);
                    if is_over {
                        ShardState::Foreign
                    } else {
                        let claim = of_claim.filter(|_| is_later).unwrap_or(claim).clone();
                        ShardState::Filling { claim, fill: None }
                    }
                }
                _ => ShardState::Foreign,
            };
        } else if let (ShardState::Releasing { .. }, Answer::Written(_)) = (&shard.state, answer) {
            shard.state = ShardState::Foreign;
        }
    }

    /// Takes the state of a shard's Lease in the view.
    pub(super) fn observed_shard(&mut self, index: u8) {
        let seen = &self.view.shards[usize::from(index)];
        let shard = &mut self.shards[usize::from(index)];
        let Some(claim) = shard.state.claim_mut() else { return };
        if seen.version <= claim.version {
            return;
        }
        match &seen.record {
            Some(record) if record.is_of(claim) => *claim = record.clone(),
            _ => {
                mutant!(self, ReleasesAnothersShard => if shard.state.adopts(seen.record.as_ref()) {
                    return;
                });
                mutant!(self, KeepsShardOfAnother => return);
                shard.forget();
            }
        }
    }
}
