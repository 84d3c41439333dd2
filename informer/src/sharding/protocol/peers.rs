//! The other members of a group.

use std::time::Duration;

#[cfg(not(test))]
use super::mutant;
#[cfg(test)]
use super::mutants::mutant;
use super::view::Peer;
use super::{
    Clocks, Flight, LeaseName, Phase, Protocol, Purpose, Readiness, Record, Request, ShardState,
    Write,
};
use crate::sharding::assign::{ReadyMember, assign, score, seed};

impl<T: Clone + Ord + AsRef<str>> Protocol<T> {
    /// Computes the shards that are assigned to this member. Until it is live, none are.
    pub(super) fn reassign(&mut self) {
        let Phase::Live(_) = self.phase else { return };
        let ready = self.view.peers.iter().filter_map(|peer| {
            let record = peer.seen.record.as_ref()?;
            let is_settled = record.readiness == Readiness::Settled;
            let is_able = record.is_ready() && record.holder.is_some();
            is_able.then(|| ReadyMember { name: peer.name.as_ref(), is_settled })
        });
        let identity = self.identity.as_ref();
        let holders =
            self.shards.iter().zip(&self.view.shards).map(|(shard, seen)| match shard.state {
                ShardState::Foreign => seen.record.as_ref()?.holder.as_ref().map(T::as_ref),
                ShardState::Releasing { .. } => None,
                _ => Some(identity),
            });
        let (ready, holders) = (ready.collect::<Vec<_>>(), holders.collect::<Vec<_>>());
        let assigned = assign(self.count, &ready, &holders);
        let own = (0..).zip(assigned).filter(|(_, member)| *member == Some(identity));
        self.assigned = own.map(|(shard, _)| shard).collect();
    }

    /// Returns the number of members that are ready to hold shards, as far as the view shows.
    pub(crate) fn ready_members(&self) -> usize {
        self.view.peers.iter().filter(|peer| peer.is_ready()).count()
    }

    /// Returns the next request for the Lease of another member.
    pub(super) fn next_of_peer(&mut self, now: Clocks, index: usize) -> Option<Request<T>> {
        let Phase::Live(_) = self.phase else { return None };
        let peer = &self.view.peers[index];
        let record = peer.seen.record.clone()?;
        if peer.name == self.identity || !peer.attempts.may_send(now, record.version) {
            return None;
        }
        let base = record.version;
        let (purpose, write) = match &record.holder {
            Some(_) => {
                let has_expired = self.fences_at(now, peer) <= now.monotonic;
                mutant!(self, ObserverUsesWallClock => let has_expired =
                    super::defects::has_passed_by_wall(peer.seen.since, self.fences_at(now, peer), now));
                if !has_expired {
                    return None;
                }
                let (holder, transitions) = (None, record.transitions);
                (
                    Purpose::Fence,
                    Write::Replace {
                        base: record,
                        holder,
                        transitions,
                        readiness: Readiness::Unready,
                    },
                )
            }
            None if self.is_next_to_delete(now, peer) => {
                (Purpose::Delete, Write::Delete { base: record })
            }
            None => return None,
        };
        let number = self.number();
        let peer = &mut self.view.peers[index];
        peer.attempts.flight = Some(Flight { number, purpose, base, sent: now });
        Some(Request { name: LeaseName::Member(peer.name.clone()), number, write })
    }

    /// Returns whether the Lease of this member is the next one to delete: it is fenced, and no
    /// shard names it. These Leases are deleted one after another, and none is while a pause after
    /// a failure lasts. So a member that may delete none sends one request a pause, however many
    /// there are.
    fn is_next_to_delete(&self, now: Clocks, peer: &Peer<T>) -> bool {
        let is_deletable = |peer: &&Peer<T>| {
            let may_delete = |record: &Record<T>| {
                record.holder.is_none() && peer.attempts.may_send(now, record.version)
            };
            peer.seen.record.as_ref().is_some_and(may_delete)
                && peer.name != self.identity
                && !self.view.is_named(&peer.name)
        };
        let waits = |other: &Peer<T>| {
            let is_deleted = |flight: Flight| flight.purpose == Purpose::Delete;
            other.attempts.flight.is_some_and(is_deleted)
                || other.attempts.not_before > now.monotonic
        };
        let first = || {
            let deletable = self.view.peers.iter().filter(is_deletable);
            deletable.min_by_key(|peer| peer.attempts.not_before)
        };
        !self.view.peers.iter().any(waits) && first().is_some_and(|first| first.name == peer.name)
    }

    /// Returns whether a member works no longer, and will not work again.
    pub(super) fn is_dead(&self, now: Clocks, name: &T) -> bool {
        let Some(peer) = self.view.peer(name) else { return false };
        match &peer.seen.record {
            Some(record) => {
                mutant!(self, TakesWithoutFence => if self.fences_at(now, peer) <= now.monotonic {
                    return true;
                });
                record.holder.is_none()
            }
            None => self.dies_at(peer).is_some_and(|dies_at| dies_at <= now.monotonic),
        }
    }

    /// Returns the time of the monotonic clock when a member that has no Lease is dead.
    pub(super) fn dies_at(&self, peer: &Peer<T>) -> Option<Duration> {
        mutant!(self, AbsentMemberIsDead => return Some(peer.seen.since.monotonic));
        // The Lease may never have been seen, but those of the member's shards have its duration.
        let duration = self.timing.lease_duration.max(self.view.duration_of_claims(&peer.name));
        peer.seen.record.is_none().then(|| peer.seen.expires_at(duration))
    }

    /// Returns the time of the monotonic clock when this member fences another one. Of the members
    /// whose Leases have not expired, the one with the highest rendezvous score fences first.
    pub(super) fn fences_at(&self, now: Clocks, peer: &Peer<T>) -> Duration {
        let duration = self.timing.lease_duration;
        mutant!(self, FencesLiveMember => return Duration::ZERO);
        let expires_at = peer.seen.expires_at(duration);
        mutant!(self, ObserverUsesOwnDuration => let expires_at =
            peer.seen.since.monotonic.saturating_add(duration));
        if self.timing.fence_stagger.is_zero() {
            return expires_at;
        }
        let subject = seed(peer.name.as_ref());
        let score = |member: &T| score(seed(member.as_ref()), subject);
        let mine = score(&self.identity);
        let is_before = |other: &&Peer<T>| {
            let is_live = other.seen.expires_at(duration) > now.monotonic;
            mutant!(self, StaggersBehindExpired => let is_live = true);
            let is_able = other.is_ready() && is_live;
            is_able && other.name != peer.name && score(&other.name) > mine
        };
        let before = u32::try_from(self.view.peers.iter().filter(is_before).count());
        let stagger = self.timing.fence_stagger.saturating_mul(before.unwrap_or(u32::MAX));
        expires_at.saturating_add(stagger)
    }
}
