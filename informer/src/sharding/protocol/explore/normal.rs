//! The normal form of a world.

use std::hash::BuildHasher;
use std::time::Duration;

use super::events::ALWAYS;
use super::objects::exists_in;
use super::world::{Content, IDENTITIES, Id, Message, Process, WatchEvent, World};
use super::{Fault, Mutant, Search};
use crate::lease::Clocks;
use crate::lease::explored::{NOW, TICK};
use crate::sharding::protocol::member::OwnLease;
use crate::sharding::protocol::shard::ShardState;
use crate::sharding::protocol::{
    Answer, Attempts, LeaseName, MemberStep, Phase, Protocol, Purpose, Readiness,
};
use crate::sharding::shards::ShardSet;

impl Search<'_> {
    /// Makes worlds equal that differ only in details without an effect on what can follow. Also
    /// carries out the orders of members, and starts another member in the place of one that has
    /// ended.
    pub(super) fn normalise(&self, world: &mut World) {
        for index in 0..world.processes.len() {
            self.carry_out(world, index);
        }
        self.refuse(world);
        let World { processes, messages, .. } = world;
        for process in processes {
            self.normalise_times(process);
            let Some(member) = &mut process.member else { continue };
            for message in messages.iter_mut().filter(|message| message.number != 0) {
                if message.identity == member.identity {
                    let current =
                        attempts(member, message.name).and_then(|attempts| attempts.flight);
                    message.number =
                        u64::from(current.is_some_and(|flight| flight.number == message.number));
                }
            }
            for (shard, reconciler) in member.shards.iter().zip(&mut process.reconcilers) {
                let fill = match shard.state {
                    ShardState::Filling { fill, .. } => fill,
                    _ => None,
                };
                let is_current = |number: &u64| Some(*number) == fill;
                reconciler.lists.iter_mut().for_each(|(number, _)| {
                    *number = u64::from(is_current(number));
                });
                if self.mutant != Some(Mutant::OldFillsCount) {
                    reconciler.lists.retain(|(number, _)| *number != 0);
                }
                reconciler.lists.dedup();
            }
            renumber_attempts(member);
        }
        world.messages.retain(|message| {
            message.number != 0
                || matches!(message.content, Content::Request(_))
                || self.mutant == Some(Mutant::OldAnswersCount)
        });
        let mut at = 0;
        while let Some(Message { process, name, is_copy, .. }) = world.messages.get(at) {
            let later = &world.messages[at + 1..];
            let is_like = |message: &&Message| {
                message.process == *process && message.name == *name && !message.is_copy
            };
            if *is_copy || later.iter().filter(is_like).count() < self.bounds.most_messages {
                at += 1;
            } else {
                world.messages.remove(at);
            }
        }
        world.renumber();
        if self.bounds.writes.is_none() {
            world.sort_shards();
        }
    }

    /// Carries out what a member orders, ends the membership if it is over, and notes which work is
    /// in progress.
    fn carry_out(&self, world: &mut World, index: usize) {
        let Process { member: Some(member), unseen, .. } = &mut world.processes[index] else {
            return;
        };
        // The watch of a member is late with the member's own renewal only if that has an effect:
        // otherwise it just shortens the time in which the member works. A creation may be late,
        // because the member notices that its Lease is gone only once its view has contained it.
        let identity = member.identity;
        let is_own = |event: &WatchEvent| event.0 == LeaseName::Member(identity);
        let is_renewal = |event: &WatchEvent| {
            is_own(event) && event.2.is_some_and(|record| record.holder == Some(identity))
        };
        if member.sees_own() && !self.bounds.faults.contains(&Fault::DeleteShard) {
            while unseen.first().is_some_and(is_renewal) {
                let (name, version, record) = unseen.remove(0);
                member.observed(NOW, &name, version, record.as_ref());
            }
        }
        member.check_deadline(NOW);
        if let Phase::Lost(_) = member.phase {
            // Only its own Lease has an effect on a member that is lost.
            unseen.retain(is_own);
            member.view.peers.retain(|peer| peer.name == identity);
            member.view.shards.iter_mut().for_each(|seen| (seen.version, seen.record) = (0, None));
        }
        let is_idle = member.shards.iter().all(|shard| !shard.is_working);
        let is_over = match member.phase {
            Phase::Ended(_) => true,
            Phase::Lost(_) => {
                let is_gone = member.own.record.is_none() && is_idle;
                is_gone || self.mutant == Some(Mutant::KeepsIdentity)
            }
            Phase::Joining | Phase::Live(_) => false,
        };
        Self::sync(&mut world.processes[index]);
        if is_over {
            self.restart(world, index);
            return;
        }
        let process = &mut world.processes[index];
        let Some(member) = &mut process.member else { return };
        let keeps = |state: &ShardState<Id>| {
            matches!(
                state,
                ShardState::Claiming | ShardState::Filling { .. } | ShardState::Owned { .. }
            )
        };
        let kept = (0..).zip(&member.shards).filter(|(_, shard)| keeps(&shard.state));
        member.assigned = kept.map(|(shard, _)| shard).collect();
        for shard in 0..member.shard_count() {
            let at = usize::from(shard);
            member.advance(NOW, shard);
            while let Some(order) = member.order(NOW, shard) {
                let reconciler = process.reconcilers.get_mut(at);
                match (order, reconciler) {
                    (MemberStep::Fill { number, .. }, None) => member.filled(shard, number),
                    (MemberStep::Fill { number, .. }, Some(reconciler)) => {
                        let mut listed = world.objects[at].version;
                        match self.mutant {
                            Some(Mutant::ListsBeforeClaim) => listed = reconciler.before_claim,
                            Some(Mutant::StoreLacksList) => listed = 0,
                            Some(Mutant::StoreKeepsDeleted) if !exists_in(listed) => listed = 0,
                            _ => {}
                        }
                        reconciler.reconciled = None;
                        reconciler.lists.push((number, listed));
                    }
                    (MemberStep::Enqueue { .. }, Some(reconciler)) => reconciler.is_queued = true,
                    _ => {}
                }
                member.advance(NOW, shard);
            }
        }
        member.assigned = ShardSet::default();
        Self::sync(process);
    }

    /// Notes which work of a process is in progress, and until when it counts.
    fn sync(process: &mut Process) {
        let Some(member) = &process.member else { return };
        for (shard, work) in (0..).zip(&mut process.works) {
            let state = &member.shards[usize::from(shard)].state;
            let is_current =
                matches!(state, ShardState::Owned { .. } | ShardState::Draining { .. });
            match member.phase {
                Phase::Live(deadline) if member.admits(shard).is_some() => {
                    work.current = Some(deadline);
                }
                Phase::Live(deadline) if is_current => {
                    work.current = work.current.map(|_| deadline);
                }
                _ => {
                    work.has_former |= work.current.is_some();
                    // A steady member has a deadline after all when its work must end.
                    let latest = NOW.after(member.timing.renew_deadline);
                    let ending = work.current.take();
                    let ending = ending.map(|at| if at == ALWAYS { latest } else { at });
                    work.former = ending.or(work.former);
                }
            }
            for deadline in [&mut work.current, &mut work.former] {
                deadline.take_if(|deadline| deadline.has_passed(NOW));
            }
            let Some(reconciler) = process.reconcilers.get_mut(usize::from(shard)) else {
                continue;
            };
            if member.admits(shard).is_none() {
                // Keys in the queue are dropped, and so is a reconcile sooner or later.
                (reconciler.is_queued, reconciler.reconciled) = (false, None);
            }
        }
    }

    /// Removes requests that the server will refuse. Their senders learn that at once: until they
    /// do, they can do less.
    fn refuse(&self, world: &mut World) {
        let mut at = 0;
        while let Some(message) = world.messages.get(at) {
            let Message { process, identity, name, number, ref content, .. } = *message;
            let is_refused = match content {
                Content::Request(write) => !self.is_possible(world, identity, name, write),
                Content::Written(_) => false,
            };
            if !is_refused {
                at += 1;
                continue;
            }
            world.messages.remove(at);
            let member = world.processes[process].member.as_mut();
            for member in member.into_iter().filter(|member| member.identity == identity) {
                member.answered(NOW, &name, number, &Answer::Conflict);
            }
        }
    }

    fn normalise_times(&self, process: &mut Process) {
        let longest = self.bounds.processes.iter().map(|config| config.lease * TICK).max();
        let oldest = Duration::from_millis(longest.unwrap_or_default());
        let keeps_wall = self.mutant == Some(Mutant::ObserverUsesWallClock);
        let Some(member) = &mut process.member else { return };
        let clamp = |time: &mut Clocks| {
            time.monotonic = time.monotonic.max(NOW.monotonic.saturating_sub(oldest));
            time.wall = time.wall.max(NOW.wall.saturating_sub(oldest));
        };
        if member.own.attempts.flight.is_some_and(|flight| {
            flight.purpose == Purpose::Renew && member.deadline(flight).has_passed(NOW)
        }) && self.mutant != Some(Mutant::DeadlineFromAnswer)
        {
            // The answer would come too late.
            member.own.attempts.abandon();
        }
        let OwnLease { unseen, attempts, written, stated, ready_since, .. } = &mut member.own;
        // A renewal may be sent at any time.
        *written = Duration::ZERO;
        // The times of renewals depend on these, and members settle only in a calm.
        (*stated, *ready_since) = (Readiness::Unready, None);
        unseen.retain(|renewal| !renewal.deadline.has_passed(NOW));
        normalise_attempts(attempts);
        match &mut attempts.flight {
            Some(flight) if matches!(flight.purpose, Purpose::Create | Purpose::Renew) => {
                clamp(&mut flight.sent);
            }
            Some(flight) => flight.sent = NOW,
            None => {}
        }
        for peer in &mut member.view.peers {
            normalise_attempts(&mut peer.attempts);
            peer.attempts.flight.iter_mut().for_each(|flight| flight.sent = NOW);
            let is_fenced = peer.seen.record.as_ref().is_some_and(|record| record.holder.is_none());
            let config = self.bounds.processes[usize::from(peer.name.0 % IDENTITIES)];
            if is_fenced || peer.name == member.identity || config.is_steady {
                peer.seen.since = NOW;
            }
            clamp(&mut peer.seen.since);
            if !keeps_wall {
                peer.seen.since.wall = NOW.wall;
            }
        }
        for seen in &mut member.view.shards {
            if !seen.record.as_ref().is_some_and(super::super::Record::is_created) {
                seen.since = NOW;
            }
            clamp(&mut seen.since);
            seen.since.wall = NOW.wall;
        }
        for shard in &mut member.shards {
            normalise_attempts(&mut shard.attempts);
            shard.attempts.flight.iter_mut().for_each(|flight| flight.sent = NOW);
            if let ShardState::Draining { since, .. } = &mut shard.state {
                // Once the timeout has passed, its age has no effect.
                *since = (*since).max(NOW.monotonic.saturating_sub(self.drain_timeout()));
            }
        }
    }
}

/// Forgets pauses: a pause is like a delay.
fn normalise_attempts(attempts: &mut Attempts) {
    (attempts.not_before, attempts.replaced) = (NOW.monotonic, None);
    attempts.flight.iter_mut().for_each(|flight| flight.base = 0);
}

fn attempts(member: &Protocol<Id>, name: LeaseName<Id>) -> Option<&Attempts> {
    match name {
        LeaseName::Shard(shard) => Some(&member.shards[usize::from(shard)].attempts),
        LeaseName::Member(id) if id != member.identity => {
            member.view.peer(&id).map(|peer| &peer.attempts)
        }
        LeaseName::Member(_) | LeaseName::Group => Some(&member.own.attempts),
    }
}

/// Numbers the attempts and fills in progress 1. All earlier ones have the number 0.
fn renumber_attempts(member: &mut Protocol<Id>) {
    let shards = member.shards.iter_mut().map(|shard| &mut shard.attempts);
    let peers = member.view.peers.iter_mut().map(|peer| &mut peer.attempts);
    for attempts in shards.chain(peers).chain([&mut member.own.attempts]) {
        attempts.flight.iter_mut().for_each(|flight| flight.number = 1);
    }
    for shard in &mut member.shards {
        if let ShardState::Filling { fill: Some(fill), .. } = &mut shard.state {
            *fill = 1;
        }
    }
    member.last_number = 1;
}

impl World {
    /// Exchanges two shards if they are not in order. Then worlds that differ only in the numbers
    /// of their shards are one world, except for some in which both shards are in the same state. A
    /// member may claim or give up any shard, so the numbers have no effect outside of a calm.
    fn sort_shards(&mut self) {
        let [_, _] = self.shards[..] else { return };
        let hasher = foldhash::fast::FixedState::default();
        let order = |shard: usize| {
            let members = self.processes.iter().map(|process| {
                let member = process.member.as_ref()?;
                Some((&member.shards[shard], &member.view.shards[shard]))
            });
            let works = self.processes.iter().map(|process| &process.works[shard]);
            let seen: Vec<_> = members.zip(works).collect();
            hasher.hash_one((&self.shards[shard], seen))
        };
        if order(0) <= order(1) {
            return;
        }
        self.shards.reverse();
        let exchange = |name: &mut LeaseName<Id>| {
            if let LeaseName::Shard(shard) = name {
                *shard = 1 - *shard;
            }
        };
        self.messages.iter_mut().for_each(|message| exchange(&mut message.name));
        for process in &mut self.processes {
            process.works.reverse();
            process.unseen.iter_mut().for_each(|(name, ..)| exchange(name));
            if let Some(member) = &mut process.member {
                member.shards.reverse();
                member.view.shards.reverse();
            }
        }
    }

    /// Numbers the known versions and uids of each Lease, and the known identities of each process,
    /// in their order.
    fn renumber(&mut self) {
        let mut versions = [0_u64; 80];
        self.each_version(&mut |name, version| versions[slot(*name)] |= 1 << *version);
        self.each_version(&mut |name, version| {
            // 0 is the version of a Lease that was never seen.
            if *version != 0 {
                *version = 1 + rank(*version, versions[slot(*name)] & !1);
            }
        });
        let mut uids = [0_u64; 80];
        self.each_record(&mut |name, record| uids[slot(name)] |= 1 << record.uid.0);
        self.each_record(&mut |name, record| {
            let rank = rank(record.uid.0.into(), uids[slot(name)]);
            record.uid = Id(u8::try_from(rank).expect("at most 64"));
        });
        let mut identities = 0_u64;
        self.each_identity(&mut |identity| identities |= 1 << identity.0);
        let classes = [0x1111_1111_1111_1111_u64; 4];
        let is_normal = (0..IDENTITIES).all(|class| {
            let known = (identities & classes[usize::from(class)] << class).count_ones();
            let last = identities & classes[usize::from(class)] << class;
            known == 0
                || (u64::BITS - 1 - last.leading_zeros()) / u32::from(IDENTITIES) + 1 == known
        });
        if is_normal {
            return;
        }
        self.each_identity(&mut |Id(identity)| {
            let class = *identity % IDENTITIES;
            let known = identities & classes[usize::from(class)] << class;
            let rank = u8::try_from(rank((*identity).into(), known)).expect("at most 16");
            *identity = class + IDENTITIES * rank;
        });
        self.members.sort_unstable_by_key(|(id, _)| *id);
        for process in &mut self.processes {
            let members = process.member.iter_mut();
            members.for_each(|member| member.view.peers.sort_unstable_by_key(|peer| peer.name));
        }
    }
}

/// Returns the index of a Lease among those that a world can have.
fn slot(name: LeaseName<Id>) -> usize {
    match name {
        LeaseName::Group => 79,
        LeaseName::Shard(shard) => usize::from(shard),
        LeaseName::Member(id) => 8 + usize::from(id.0),
    }
}

/// Returns how many known numbers are smaller. `known` has a bit for each known number.
fn rank(number: u64, known: u64) -> u64 {
    (known & !(u64::MAX << number)).count_ones().into()
}
