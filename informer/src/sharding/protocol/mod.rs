//! The protocol of a member of a group, without I/O: time and inputs go in, requests and orders
//! come out.
//!
//! A group has one Lease for each member, one for each shard, and one for itself. Members renew
//! their own Lease; a shard's Lease names the member that holds the shard, and is never renewed.
//! All of them come to a member by one list and one watch, so in one order.
//!
//! ```text
//! member:   Joining --its renewal is seen--> Live --deadline, or no Lease--> Lost --> Ended
//!                                              |                                        ^
//!                                              +--stopped, and all shards are released--+
//!
//! shard:              free             written           the store holds a new list
//!            Foreign ------> Claiming --------> Filling -------------> Owned <---+
//!               ^                                  | assigned to another |       | assigned to
//!               |                                  v                     v       | this one
//!               +-------------- written ------ Releasing <--idle-- Draining -----+
//! ```
//!
//! | state of a shard | new work is admitted | next request or order |
//! | --- | --- | --- |
//! | `Foreign` | no | a claim, a creation, or the release of a late claim (rules 3, 6, 7) |
//! | `Claiming` | no | none: the claim is in flight |
//! | `Filling` | no | [`Fill`](MemberStep::Fill): list the objects of the shard |
//! | `Owned` | until the deadline | [`Enqueue`](MemberStep::Enqueue) all keys |
//! | `Draining` | no | [`Drop`](MemberStep::Drop) the work, after the drain timeout |
//! | `Releasing` | no: all work has ended | the release |
//!
//! # Rules
//!
//! 1. Every write contains the version that it replaces, or creates a Lease that must not exist.
//!    So the holders of a Lease form one sequence. There are no reads: the watch shows the version
//!    that made the server refuse a write, and whether an unanswered write was applied.
//! 2. A member works until its *deadline*: the time when it sent a renewal, plus the renew
//!    deadline. A renewal counts when it was answered *and* the view contains its version. So the
//!    view of a member that works is never older than the renew deadline.
//! 3. A member holds a shard only by an answer to its own claim. If the Lease of a shard names the
//!    member because of a claim that was answered too late, the member claims the shard again, or
//!    releases it. For a Lease that the member has created, see rule 7.
//! 4. An answer counts only for the attempt in progress, and a list only for the claim before it.
//! 5. Another member is dead once its Lease has been *fenced*: an observer has removed its name
//!    by a write that contains a version which has not changed for the lease duration since the
//!    observer first saw it. The observer takes the larger of its own lease duration and the
//!    one in the Lease, by its monotonic clock. A member without a Lease is dead if it has had
//!    none for the lease duration: the largest of the observer's own, the one in the deleted
//!    Lease, and those in the Leases of the member's shards.
//! 6. A shard is free if no member holds it, or its holder is dead. It is released only after all
//!    work has ended, and is claimed only when no work of an earlier term is in progress here.
//! 7. A member that is assigned a shard without a Lease creates one, which has its name and no
//!    claim. The shard is free when this Lease has not changed for the longest lease duration that
//!    the view has of a member, of the deleted Lease or of the creator. That also holds for the
//!    creator: the owner of a Lease that was deleted may be at work until it sees the deletion or
//!    reaches its deadline, and a creation may have been delayed until after the deletion.
//! 8. An owner that sees its shard's Lease gone, made anew or held by another forgets the shard.
//! 9. A member that has lost its Lease fences that Lease itself once no work is in progress, and
//!    joins again under another identity.
//! 10. Shards are assigned to members whose Leases say that they are *ready*. A member says so
//!     while it is live and not asked to stop. While it joins, it says so in its first renewal
//!     only, and only if its view contains the creation. The others would wait for a member that
//!     stays ready and is never live, because its view or the answers are late. A member that is
//!     live, and has been ready for a time, says that it is *settled*. Each member says that of
//!     itself, so that all members agree on it as soon as their views agree. An owner that is not
//!     asked to stop counts itself as ready even if its Lease was edited, and keeps its shards.
//! 11. A live member deletes the Lease of a fenced member once no shard names that member. While a
//!     shard names it, the fenced Lease shows that the holder of the shard is dead (5): without the
//!     Lease, the others would wait for the lease duration. A member deletes one such Lease at a
//!     time. After a failure it pauses, and tries the Lease that has failed last after the others.
//!
//! # Why no two members work on a shard
//!
//! By rule 1 the holder of a shard changes by a conditional write. Its own write comes after its
//! work (6). Another's comes after the holder is dead (5): the observer has waited for a lease
//! duration since it *saw* a renewal, and the holder has counted a shorter time since it *sent* it.
//! The version in the write that fences shows that there was no later renewal. If the Lease of the
//! shard was deleted by hand, the owner's deadline comes from a renewal before the deletion, or the
//! owner has seen the deletion (2, 8); another has waited for a lease duration since it saw the new
//! Lease (7). All of this holds while the rates of the clocks differ by a factor of less than the
//! lease duration divided by the renew deadline.
//!
//! # Why no object is missed
//!
//! The list of rule 4 begins after the claim, so it has every write that the former owner knows to
//! have succeeded, and lacks every object that it knows to be deleted. Before the first reconcile,
//! the store has all of that list and no other object of the shard, except for later changes. Every
//! key of the shard is enqueued; also when a member becomes the owner again without a release.
//!
//! # Limits
//!
//! A shard whose Lease is deleted by hand, and applied again without a holder as in a manifest, is
//! free at once. Its former owner may still be at work: it stops when it sees the deletion, at the
//! latest at its deadline. That is also true of a Lease whose holder is removed by hand.

mod attempts;
#[cfg(test)]
mod defects;
#[cfg(test)]
mod explore;
mod member;
#[cfg(test)]
mod mutants;
mod peers;
mod shard;
#[cfg(test)]
mod tests;
mod types;
mod view;

use std::time::Duration;

use super::shards::{ShardCount, ShardSet};
use crate::lease::Clocks;
use attempts::{Attempts, Flight, Purpose};
use member::OwnLease;
#[cfg(test)]
pub(super) use mutants::{CHOSEN_MUTANT, Mutant};
use shard::{Shard, ShardState};
pub(crate) use types::{Answer, GroupTiming, MemberEnd, MemberStep, Request, Write};
use view::View;
pub(crate) use view::{LeaseName, Readiness, Record};

/// A [`mutant!`] line marks the place of a deliberate defect, and expands to nothing outside of
/// tests. Skip these lines when you read the code.
macro_rules! mutant {
    ($($defect:tt)*) => {
        $crate::util::mutant::mutant_of!([$crate::sharding::protocol::mutants] $($defect)*);
    };
}
use mutant;

/// A member of a group: a state machine that takes inputs and the time, and returns the next
/// [`MemberStep`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Protocol<T> {
    timing: GroupTiming,
    identity: T,
    count: ShardCount,
    phase: Phase,
    /// Whether the member was asked to stop.
    is_stopping: bool,
    own: OwnLease<T>,
    view: View<T>,
    shards: Vec<Shard<T>>,
    /// The shards that are assigned to this member.
    assigned: ShardSet,
    /// The number of the last attempt or fill.
    last_number: u64,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The member has no deadline yet.
    Joining,
    /// The member works until this deadline.
    Live(Clocks),
    /// The member does not work. It fences its own Lease when no work is in progress.
    Lost(MemberEnd),
    Ended(MemberEnd),
}

impl<T: Clone + Ord + AsRef<str>> Protocol<T> {
    /// Creates a member that joins a group. No member may have had the identity before.
    pub(crate) fn new(timing: GroupTiming, identity: T, shards: ShardCount) -> Self {
        Self {
            timing,
            identity,
            count: shards,
            phase: Phase::Joining,
            is_stopping: false,
            own: OwnLease::default(),
            view: View::new(shards.get()),
            shards: vec![Shard::default(); shards.get()],
            assigned: ShardSet::default(),
            last_number: 0,
            #[cfg(test)]
            mutant: CHOSEN_MUTANT.get(),
        }
    }

    /// Returns the time until which the work of a shard is admitted, or `None` if it is not.
    pub(crate) fn admits(&self, shard: u8) -> Option<Clocks> {
        match (self.phase, &self.shards[usize::from(shard)].state) {
            (Phase::Live(deadline), ShardState::Owned { .. }) => Some(deadline),
            _ => None,
        }
    }

    /// Returns the time until which the member works, or `None` if it is not live.
    pub(crate) fn works_until(&self) -> Option<Clocks> {
        match self.phase {
            Phase::Live(deadline) => Some(deadline),
            Phase::Joining | Phase::Lost(_) | Phase::Ended(_) => None,
        }
    }

    /// Returns whether the member has a Lease and is not live yet.
    pub(crate) fn is_joining(&self) -> bool {
        self.phase == Phase::Joining && self.own.record.is_some()
    }

    /// Returns the state of a shard's Lease since the claim by which this member owns the shard, or
    /// `None` if it does not own the shard.
    pub(crate) fn claim(&self, shard: u8) -> Option<&Record<T>> {
        match &self.shards[usize::from(shard)].state {
            ShardState::Owned { claim, .. } => Some(claim),
            _ => None,
        }
    }

    /// Returns whether the member may soon hold a further shard: a claim is in flight, or the
    /// member claims a shard as soon as its owner releases it, or its Lease allows that.
    pub(crate) fn expects_shard(&self) -> bool {
        let Phase::Live(_) = self.phase else { return false };
        (0..).zip(&self.shards).any(|(index, shard)| match shard.state {
            ShardState::Claiming => true,
            ShardState::Foreign => !shard.is_working && self.is_assigned(index),
            _ => false,
        })
    }

    /// Returns whether the member holds a shard by its claim: it fills, owns, drains or releases
    /// the shard.
    pub(crate) fn holds(&self, shard: u8) -> bool {
        !matches!(self.shards[usize::from(shard)].state, ShardState::Foreign | ShardState::Claiming)
    }

    /// Returns whether work of any shard may be in progress.
    pub(crate) fn is_working(&self) -> bool {
        self.shards.iter().any(|shard| shard.is_working)
    }

    /// Returns the next step. Call it after each input, and at the time that the last
    /// [`MemberStep::Wait`] contains.
    pub(crate) fn next(&mut self, now: Clocks) -> MemberStep<T> {
        // This check comes first: after the deadline, a member sends only the fence of its own
        // Lease.
        self.check_deadline(now);
        self.reassign();
        for shard in 0..self.shard_count() {
            self.advance(now, shard);
            if let Some(order) = self.order(now, shard) {
                return order;
            }
        }
        if let Some(request) = self.next_own(now) {
            return MemberStep::Send(request);
        }
        if let Phase::Ended(end) = self.phase {
            return MemberStep::Ended(end);
        }
        for shard in 0..self.shard_count() {
            if let Some(request) = self.next_of_shard(now, shard) {
                return MemberStep::Send(request);
            }
        }
        for peer in 0..self.view.peers.len() {
            if let Some(request) = self.next_fence(now, peer) {
                return MemberStep::Send(request);
            }
        }
        if let Some(request) = self.next_deletion(now) {
            return MemberStep::Send(request);
        }
        MemberStep::Wait(self.wakes_at(now))
    }

    /// Takes the answer to an attempt. Ignores it if the attempt is no longer in progress.
    pub(crate) fn answered(
        &mut self,
        now: Clocks,
        name: &LeaseName<T>,
        number: u64,
        answer: &Answer<T>,
    ) {
        mutant!(self, OldAnswersCount => let number =
            self.number_in_flight(name).unwrap_or(number));
        // A renewal or claim that is answered after the deadline comes too late.
        self.check_deadline(now);
        let timing = self.timing;
        match name {
            LeaseName::Shard(shard) => {
                let attempts = &mut self.shards[usize::from(*shard)].attempts;
                if let Some(flight) = attempts.end(now, number, answer, timing) {
                    self.answered_shard(*shard, flight, answer);
                }
            }
            LeaseName::Member(name) if *name != self.identity => {
                // The view shows what a write has changed.
                if let Some(peer) = self.view.peers.iter_mut().find(|peer| peer.name == *name) {
                    peer.attempts.end(now, number, answer, timing);
                }
            }
            LeaseName::Member(_) | LeaseName::Group => {
                if let Some(flight) = self.own.attempts.end(now, number, answer, timing) {
                    // The next attempt is the creation of the member's own Lease, which need not
                    // wait until the view contains the group's.
                    self.view.has_group |=
                        *name == LeaseName::Group && matches!(answer, Answer::Written(_));
                    self.answered_own(now, flight, answer);
                }
            }
        }
    }

    /// Takes a state of a Lease from the watch, or its deletion (`None`) with the version of that.
    pub(crate) fn observed(
        &mut self,
        now: Clocks,
        name: &LeaseName<T>,
        version: u64,
        record: Option<&Record<T>>,
    ) {
        // A renewal that is seen after the deadline comes too late.
        self.check_deadline(now);
        if self.view.update(now, name, version, record) {
            match name {
                LeaseName::Member(name) if *name == self.identity => self.observed_own(now),
                LeaseName::Shard(shard) => self.observed_shard(*shard),
                LeaseName::Member(_) | LeaseName::Group => {}
            }
        }
        self.view.prune();
    }

    /// Takes a consistent list of all Leases of the group, with its version.
    pub(crate) fn listed(
        &mut self,
        now: Clocks,
        version: u64,
        leases: &[(LeaseName<T>, Record<T>)],
    ) {
        self.check_deadline(now);
        let is_listed = |name: &LeaseName<T>| leases.iter().any(|(listed, _)| listed == name);
        let peers = self.view.peers.iter().map(|peer| &peer.name);
        // The member's own Lease may have been created and deleted without having been seen.
        let own = self.own.record.as_ref().filter(|record| record.version <= version);
        let members = peers.chain(own.map(|_| &self.identity)).cloned().map(LeaseName::Member);
        let shards = (0..self.shard_count()).map(LeaseName::Shard);
        let known = members.chain(shards).chain([LeaseName::Group]);
        let gone: Vec<LeaseName<T>> = known.filter(|name| !is_listed(name)).collect();
        mutant!(self, ListKeepsGone => let gone = Vec::new());
        for name in &gone {
            self.observed(now, name, version, None);
        }
        for (name, record) in leases {
            self.observed(now, name, record.version, Some(record));
        }
        self.view.complete(now);
    }

    /// Records that the store holds the list of [`MemberStep::Fill`] with this number.
    pub(crate) fn filled(&mut self, shard: u8, number: u64) {
        mutant!(self, OldFillsCount => let number = self.fill_in_progress(shard).unwrap_or(number));
        self.shards[usize::from(shard)].filled(number);
    }

    /// Records that no work of the shard is in progress: no permit is out, and every request of
    /// its work is answered. Does nothing while work is admitted.
    pub(crate) fn idle(&mut self, shard: u8) {
        if self.admits(shard).is_none() {
            self.shards[usize::from(shard)].is_working = false;
        }
    }

    /// Stops the member. It drains its shards, and renews its Lease until they are released.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        if let Phase::Joining = self.phase {
            self.lose(MemberEnd::Stopped);
        }
    }

    /// Records that work has found the deadline passed. It is possible that neither clock shows
    /// that any more: the wall clock may have been set back.
    pub(crate) fn expired(&mut self) {
        if let Phase::Live(_) = self.phase {
            self.lose(MemberEnd::Deadline);
        }
    }

    /// Records that a Lease of the group has other settings than this member.
    pub(crate) fn mismatched(&mut self) {
        self.lose(MemberEnd::Mismatch);
    }

    /// Ends the member's hold on its shards, if it has a deadline and that has passed.
    fn check_deadline(&mut self, now: Clocks) {
        if let Phase::Live(deadline) = self.phase
            && deadline.has_passed(now)
        {
            self.lose(MemberEnd::Deadline);
        }
    }

    /// Ends the member's hold on its shards.
    fn lose(&mut self, end: MemberEnd) {
        if let Phase::Lost(_) | Phase::Ended(_) = self.phase {
            return;
        }
        self.phase = Phase::Lost(end);
        self.own.attempts = Attempts::default();
        self.own.unseen.clear();
        self.shards.iter_mut().for_each(Shard::forget);
    }

    fn shard_count(&self) -> u8 {
        u8::try_from(self.shards.len()).expect("there are at most 128 shards")
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the first time of the monotonic clock after `now` at which something may be due.
    fn wakes_at(&self, now: Clocks) -> Option<Duration> {
        let deadline = match self.phase {
            Phase::Live(deadline) => Some(deadline.monotonic),
            _ => None,
        };
        let own = [Some(self.renews_at()), self.changes_at(), deadline].into_iter();
        let own = own.chain(self.own.attempts.wakes_at());
        let shards = self.shards.iter().zip(&self.view.shards).flat_map(|(shard, seen)| {
            let frees_at = Some(self.frees_at(seen));
            let drained_at = shard.state.drained_at(self.timing.drain_timeout);
            [frees_at, drained_at].into_iter().chain(shard.attempts.wakes_at())
        });
        let peers = self.view.peers.iter().flat_map(|peer| {
            let fences_at = Some(self.fences_at(now, peer));
            // Others fence later than a member that has not expired.
            let expires_at = Some(peer.seen.expires_at(self.timing.lease_duration));
            let times = [self.dies_at(peer), expires_at, fences_at].into_iter();
            times.chain(peer.attempts.wakes_at())
        });
        let times = own.chain(shards).chain(peers).flatten();
        times.filter(|time| *time > now.monotonic).min()
    }
}
