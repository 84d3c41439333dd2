//! The state of the server, the processes and the messages between them.

use std::mem;
use std::rc::Rc;
use std::time::Duration;

use super::objects::{Object, Reconciler};
use crate::lease::Clocks;
use crate::lease::explored::NOW;
use crate::sharding::protocol::shard::ShardState;
use crate::sharding::protocol::{LeaseName, Phase, Protocol, Record, Write};
use crate::util::search::{Parts, fingerprint};

/// An identity of a process, or a uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(pub(super) u8);

/// The difference between an identity of a process and its next one. The first identity of a
/// process is its index: 0, 1 or 2.
pub(super) const IDENTITIES: u8 = 4;

impl AsRef<str> for Id {
    fn as_ref(&self) -> &str {
        const NAMES: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
        let at = usize::from(self.0);
        &NAMES[at..=at]
    }
}

#[derive(Clone, Hash)]
pub(super) struct World {
    /// The Lease of the group on the server.
    pub(super) group: Option<Record<Id>>,
    /// The Leases of members on the server.
    pub(super) members: Vec<(Id, Record<Id>)>,
    /// The Leases of shards on the server.
    pub(super) shards: Vec<Option<Record<Id>>>,
    pub(super) objects: Vec<Object>,
    pub(super) processes: Vec<Process>,
    pub(super) messages: Vec<Message>,
    pub(super) faults: u8,
    /// Set if a reconcile has begun from a state that lacks a write from before the claim.
    pub(super) is_stale: bool,
}

#[derive(Clone, Hash)]
pub(super) struct Process {
    /// `None` if the process has ended and no other has started in its place.
    pub(super) member: Option<Protocol<Id>>,
    /// The number of identities that the process has had.
    pub(super) identities: u8,
    /// The events that the watch has not delivered, in their order.
    pub(super) unseen: Vec<WatchEvent>,
    pub(super) works: Vec<Work>,
    pub(super) reconcilers: Vec<Reconciler>,
}

pub(super) type WatchEvent = (LeaseName<Id>, u64, Option<Record<Id>>);

/// The work of a process on a shard. Work that continues after its deadline counts only for the
/// process itself: no other member can know of it.
#[derive(Clone, Copy, Default, Hash)]
pub(super) struct Work {
    /// The deadline of the work of the present term.
    pub(super) current: Option<Clocks>,
    /// The deadline of the work of an earlier term, if it has not passed.
    pub(super) former: Option<Clocks>,
    /// Whether the work of an earlier term has not ended.
    pub(super) has_former: bool,
}

#[derive(Clone, Hash)]
pub(super) struct Message {
    pub(super) process: usize,
    /// The identity of the sender.
    pub(super) identity: Id,
    pub(super) name: LeaseName<Id>,
    pub(super) number: u64,
    pub(super) content: Content,
    /// Whether this is the copy of a request, or the answer to that.
    pub(super) is_copy: bool,
}

#[derive(Clone, Hash)]
pub(super) enum Content {
    Request(Write<Id>),
    /// The answer to a write that was applied. Other answers need no message: the sender learns at
    /// once that its write is refused, and may give up an attempt at any time.
    Written(Option<Record<Id>>),
}

/// A state that no history may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// Two members, or two terms of one member, work on this shard.
    TwoAtWork(usize),
    /// A reconcile has begun from a state that lacks a write from before the claim.
    StaleReconcile,
    /// The owner of this shard has a state in its store that it has not reconciled, and will not.
    MissedKey(usize),
    /// This shard has no owner although nothing fails any more.
    NoOwner(usize),
    /// Nothing fails any more, but this process has a member that was stopped or lost, and does not
    /// end.
    NeverEnds(usize),
    /// Nothing fails any more, but this process has a member that does not become live.
    NeverJoins(usize),
    /// Nothing fails any more, but one member owns two shards more than another.
    Unbalanced,
}

impl World {
    pub(super) fn violation(&self) -> Option<Violation> {
        if self.is_stale {
            return Some(Violation::StaleReconcile);
        }
        for shard in 0..self.shards.len() {
            let works = self.processes.iter().map(|process| process.works[shard]);
            let at_work = works.clone().flat_map(|work| [work.current, work.former]).flatten();
            if at_work.count() > 1
                || works.into_iter().any(|work| work.current.is_some() && work.has_former)
            {
                return Some(Violation::TwoAtWork(shard));
            }
            let misses = |process: &Process| {
                let is_owner = process.member.as_ref().is_some_and(|member| owns(member, shard));
                is_owner && process.reconcilers[shard].misses_key()
            };
            if !self.objects.is_empty() && self.processes.iter().any(misses) {
                return Some(Violation::MissedKey(shard));
            }
        }
        None
    }

    pub(super) fn lease(&self, name: LeaseName<Id>) -> Option<&Record<Id>> {
        match name {
            LeaseName::Group => self.group.as_ref(),
            LeaseName::Member(id) => {
                self.members.iter().find(|(name, _)| *name == id).map(|(_, record)| record)
            }
            LeaseName::Shard(shard) => self.shards[usize::from(shard)].as_ref(),
        }
    }

    /// Returns all Leases on the server.
    pub(super) fn leases(&self) -> Vec<(LeaseName<Id>, Record<Id>)> {
        let group = self.group.iter().map(|record| (LeaseName::Group, *record));
        let members = self.members.iter().map(|(id, record)| (LeaseName::Member(*id), *record));
        let shards = (0..).map(LeaseName::Shard).zip(&self.shards);
        let shards = shards.filter_map(|(name, record)| Some((name, (*record)?)));
        group.chain(members).chain(shards).collect()
    }

    /// Writes or deletes a Lease. Every watch gets an event. Returns the new state.
    pub(super) fn write(
        &mut self,
        name: LeaseName<Id>,
        record: Option<Record<Id>>,
    ) -> Option<Record<Id>> {
        let mut version = 0;
        self.each_version(&mut |of, known| {
            if *of == name {
                version = version.max(*known);
            }
        });
        version += 1;
        let record = record.map(|record| Record { version, ..record });
        match name {
            LeaseName::Group => self.group = record,
            LeaseName::Member(id) => {
                self.members.retain(|(name, _)| *name != id);
                self.members.extend(record.map(|record| (id, record)));
                self.members.sort_unstable_by_key(|(name, _)| *name);
            }
            LeaseName::Shard(shard) => self.shards[usize::from(shard)] = record,
        }
        for process in self.processes.iter_mut().filter(|process| process.member.is_some()) {
            process.watch(name, version, record);
        }
        record
    }

    /// Returns a uid that no known state of the Lease has.
    pub(super) fn new_uid(&mut self, name: LeaseName<Id>) -> Id {
        let mut next = 0;
        self.each_record(&mut |of, record| {
            if of == name {
                next = next.max(record.uid.0 + 1);
            }
        });
        Id(next)
    }

    /// Calls `change` with every state of a Lease that is known anywhere, and the Lease's name.
    pub(super) fn each_record(&mut self, change: &mut impl FnMut(LeaseName<Id>, &mut Record<Id>)) {
        if let Some(record) = &mut self.group {
            change(LeaseName::Group, record);
        }
        for (id, record) in &mut self.members {
            change(LeaseName::Member(*id), record);
        }
        for (shard, record) in (0..).zip(&mut self.shards) {
            if let Some(record) = record {
                change(LeaseName::Shard(shard), record);
            }
        }
        for Message { name, content, .. } in &mut self.messages {
            match content {
                Content::Request(Write::Replace { base, .. } | Write::Delete { base }) => {
                    change(*name, base);
                }
                Content::Written(Some(record)) => change(*name, record),
                Content::Request(Write::Create { .. }) | Content::Written(None) => {}
            }
        }
        for process in &mut self.processes {
            for (name, _, record) in &mut process.unseen {
                if let Some(record) = record {
                    change(*name, record);
                }
            }
            let Some(member) = &mut process.member else { continue };
            if let Some(record) = &mut member.own.record {
                change(LeaseName::Member(member.identity), record);
            }
            for peer in &mut member.view.peers {
                if let Some(record) = &mut peer.seen.record {
                    change(LeaseName::Member(peer.name), record);
                }
            }
            for (shard, seen) in (0..).zip(&mut member.view.shards) {
                if let Some(record) = &mut seen.record {
                    change(LeaseName::Shard(shard), record);
                }
            }
            for (index, shard) in (0..).zip(&mut member.shards) {
                if let Some(record) = shard.state.claim_mut() {
                    change(LeaseName::Shard(index), record);
                }
            }
        }
    }

    /// Calls `change` with every version that is known anywhere, and the Lease's name.
    pub(super) fn each_version(&mut self, change: &mut impl FnMut(&LeaseName<Id>, &mut u64)) {
        self.each_record(&mut |name, record| change(&name, &mut record.version));
        for process in &mut self.processes {
            for (name, version, _) in &mut process.unseen {
                change(name, version);
            }
            let Some(member) = &mut process.member else { continue };
            for renewal in &mut member.own.unseen {
                change(&LeaseName::Member(member.identity), &mut renewal.version);
            }
            for peer in &mut member.view.peers {
                change(&LeaseName::Member(peer.name), &mut peer.seen.version);
            }
            for (shard, seen) in (0..).zip(&mut member.view.shards) {
                change(&LeaseName::Shard(shard), &mut seen.version);
            }
        }
    }

    /// Calls `change` with every identity that is known anywhere.
    pub(super) fn each_identity(&mut self, change: &mut impl FnMut(&mut Id)) {
        self.each_record(&mut |_, record| record.holder.iter_mut().for_each(&mut *change));
        self.members.iter_mut().for_each(|(id, _)| change(id));
        for message in &mut self.messages {
            change(&mut message.identity);
            in_name(&mut message.name, change);
            if let Content::Request(
                Write::Create { holder: Some(holder), .. }
                | Write::Replace { holder: Some(holder), .. },
            ) = &mut message.content
            {
                change(holder);
            }
        }
        for process in &mut self.processes {
            process.unseen.iter_mut().for_each(|(name, ..)| in_name(name, change));
            let Some(member) = &mut process.member else { continue };
            change(&mut member.identity);
            member.view.peers.iter_mut().for_each(|peer| change(&mut peer.name));
        }
    }
}

/// A world that shares its parts with other worlds.
#[derive(Clone)]
pub(super) struct Packed {
    /// A hash of the world that does not depend on the order of messages.
    pub(super) fingerprint: u128,
    /// The world without its messages and processes.
    rest: Rc<World>,
    messages: Rc<Vec<Message>>,
    processes: Box<[Rc<Process>]>,
}

/// The parts of packed worlds.
#[derive(Default)]
pub(super) struct WorldParts {
    rests: Parts<World>,
    messages: Parts<Vec<Message>>,
    processes: Parts<Process>,
}

impl World {
    pub(super) fn pack(mut self, parts: &mut WorldParts) -> Packed {
        let processes = mem::take(&mut self.processes).into_iter();
        let (processes, shared): (Vec<_>, Vec<_>) =
            processes.map(|process| parts.processes.share(process)).unzip();
        let messages = mem::take(&mut self.messages);
        let all_messages = messages.iter().map(fingerprint).fold(0, u128::wrapping_add);
        let (rest_hash, rest) = parts.rests.share(self);
        Packed {
            fingerprint: fingerprint(&(rest_hash, all_messages, processes)),
            rest,
            messages: parts.messages.share(messages).1,
            processes: shared.into(),
        }
    }
}

impl Packed {
    pub(super) fn unpack(&self) -> World {
        let processes = self.processes.iter().map(|process| Process::clone(process)).collect();
        World { processes, messages: self.messages.to_vec(), ..World::clone(&self.rest) }
    }
}

/// Calls `change` with the identity in the name of a Lease.
fn in_name(name: &mut LeaseName<Id>, change: &mut impl FnMut(&mut Id)) {
    if let LeaseName::Member(id) = name {
        change(id);
    }
}

/// Returns whether the member owns the shard, and has enqueued its keys.
pub(super) fn owns(member: &Protocol<Id>, shard: usize) -> bool {
    matches!(member.phase, Phase::Live(_))
        && matches!(member.shards[shard].state, ShardState::Owned { must_enqueue: false, .. })
}

impl Process {
    /// Adds an event to those that the watch has not delivered. Of several renewals of a Lease that
    /// follow each other only the last remains: the member might have seen each of the others when
    /// the last was not applied yet, and seeing it later has no other effect.
    fn watch(&mut self, name: LeaseName<Id>, version: u64, record: Option<Record<Id>>) {
        let is_of = |(of, ..): &&WatchEvent| *of == name;
        let mut unseen = self.unseen.iter().filter(is_of).rev().map(|(.., record)| *record);
        if let (Some(last), LeaseName::Member(id)) = (unseen.next(), name) {
            let peer = self.member.as_ref().and_then(|member| member.view.peer(&id));
            let before = unseen.next().unwrap_or(peer.and_then(|peer| peer.seen.record));
            let meaning =
                |record: Option<Record<Id>>| record.map(|record| Record { version: 0, ..record });
            if meaning(before) == meaning(last) && meaning(last) == meaning(record) {
                let at = self.unseen.iter().rposition(|(of, ..)| *of == name);
                self.unseen.remove(at.expect("an event"));
            }
        }
        self.unseen.push((name, version, record));
    }

    /// Changes all times that the process knows.
    pub(super) fn map_times(&mut self, change: impl Fn(Clocks) -> Clocks) {
        let monotonic =
            |time: &mut Duration| *time = change(Clocks { monotonic: *time, ..NOW }).monotonic;
        for work in &mut self.works {
            for deadline in [&mut work.current, &mut work.former].into_iter().flatten() {
                *deadline = change(*deadline);
            }
        }
        let Some(member) = &mut self.member else { return };
        let flight = |attempts: &mut super::super::Attempts| {
            monotonic(&mut attempts.not_before);
            if let Some(flight) = &mut attempts.flight {
                flight.sent = change(flight.sent);
            }
        };
        if let Phase::Live(deadline) = &mut member.phase {
            *deadline = change(*deadline);
        }
        for renewal in &mut member.own.unseen {
            renewal.deadline = change(renewal.deadline);
        }
        monotonic(&mut member.own.written);
        flight(&mut member.own.attempts);
        for peer in &mut member.view.peers {
            peer.seen.since = change(peer.seen.since);
            flight(&mut peer.attempts);
        }
        member.view.shards.iter_mut().for_each(|seen| seen.since = change(seen.since));
        for shard in &mut member.shards {
            flight(&mut shard.attempts);
            if let ShardState::Draining { since, .. } = &mut shard.state {
                monotonic(since);
            }
        }
    }
}
