//! The other members of a group.

use std::time::Duration;

use super::view::Peer;
use super::{
    Clocks, Flight, LeaseName, Phase, Protocol, Purpose, Readiness, Request, ShardState, Write,
    mutant,
};
use crate::sharding::assign::{ReadyMember, assign, score, seed};

impl<T: Clone + Ord + AsRef<str>> Protocol<T> {
    /// Computes the shards that are assigned to this member. Until it is live, none are.
    pub(super) fn reassign(&mut self) {
        let Phase::Live(_) = self.phase else { return };
        let identity = self.identity.as_ref();
        let holders =
            self.shards.iter().zip(&self.view.shards).map(|(shard, seen)| match shard.state {
                ShardState::Foreign => seen.record.as_ref()?.holder.as_ref().map(T::as_ref),
                ShardState::Releasing { .. } => None,
                _ => Some(identity),
            });
        let holders: Vec<_> = holders.collect();
        // An owner whose Lease was edited would give up all its shards for nothing: its next
        // renewal says again that it is ready.
        let is_owner = holders.contains(&Some(identity));
        let ready = self.view.peers.iter().filter_map(|peer| {
            let record = peer.seen.record.as_ref()?;
            let is_settled = record.readiness == Readiness::Settled;
            let is_able = record.is_ready() && record.holder.is_some()
                || is_owner && peer.name == self.identity;
            is_able.then(|| ReadyMember { name: peer.name.as_ref(), is_settled })
        });
        let ready: Vec<_> = ready.collect();
        let assigned = assign(self.count, &ready, &holders);
        let own = (0..).zip(assigned).filter(|(_, member)| *member == Some(identity));
        self.assigned = own.map(|(shard, _)| shard).collect();
    }

    /// Returns the number of members that are ready to hold shards, as far as the view shows.
    pub(crate) fn ready_members(&self) -> usize {
        self.view.peers.iter().filter(|peer| peer.is_ready()).count()
    }

    /// Returns the fence of another member, if it is due.
    pub(super) fn next_fence(&mut self, now: Clocks, index: usize) -> Option<Request<T>> {
        let Phase::Live(_) = self.phase else { return None };
        let peer = &self.view.peers[index];
        let base = peer.seen.record.clone().filter(|record| record.holder.is_some())?;
        if peer.name == self.identity || !peer.attempts.may_send(now, base.version) {
            return None;
        }
        let has_expired = self.fences_at(now, peer) <= now.monotonic;
        mutant!(self, ObserverUsesWallClock => let has_expired =
            super::defects::has_passed_by_wall(peer.seen.since, self.fences_at(now, peer), now));
        if !has_expired {
            return None;
        }
        let (version, transitions) = (base.version, base.transitions);
        let readiness = Readiness::Unready;
        let write = Write::Replace { base, holder: None, transitions, readiness };
        Some(self.send_to_peer(now, index, Purpose::Fence, version, write))
    }

    /// Returns the deletion of the Lease of a member that is fenced and that no shard names. These
    /// Leases are deleted one after another. After a failure no deletion follows before a pause, so
    /// a member that may delete no Lease sends one request for each pause, however many there are.
    pub(super) fn next_deletion(&mut self, now: Clocks) -> Option<Request<T>> {
        let Phase::Live(_) = self.phase else { return None };
        let is_fenced = |(_, peer): &(usize, &Peer<T>)| {
            let record = peer.seen.record.as_ref();
            record.is_some_and(|record| record.holder.is_none()) && peer.name != self.identity
        };
        let fenced = || self.view.peers.iter().enumerate().filter(is_fenced);
        let waits = |(_, peer): (usize, &Peer<T>)| {
            peer.attempts.flight.is_some() || now.monotonic < peer.attempts.not_before
        };
        if fenced().any(waits) {
            return None;
        }
        let is_deletable = |(_, peer): &(usize, &Peer<T>)| {
            let version = peer.seen.record.as_ref().map_or(0, |record| record.version);
            peer.attempts.may_send(now, version) && !self.view.is_named(&peer.name)
        };
        // Of several, the one whose last failure is the longest ago.
        let deletable = fenced().filter(is_deletable);
        let (index, peer) = deletable.min_by_key(|(_, peer)| peer.attempts.not_before)?;
        let base = peer.seen.record.clone()?;
        let version = base.version;
        Some(self.send_to_peer(now, index, Purpose::Delete, version, Write::Delete { base }))
    }

    fn send_to_peer(
        &mut self,
        now: Clocks,
        index: usize,
        purpose: Purpose,
        base: u64,
        write: Write<T>,
    ) -> Request<T> {
        let number = self.number();
        let peer = &mut self.view.peers[index];
        peer.attempts.flight = Some(Flight { number, purpose, base, sent: now });
        Request { name: LeaseName::Member(peer.name.clone()), number, write }
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
