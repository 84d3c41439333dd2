//! The events that lead from one world to the next.

use std::fmt;
use std::time::Duration;

use super::objects::{Change, Object, Reconciler};
use super::world::{Content, IDENTITIES, Id, Message, Process, Work, World};
use super::{Config, Fault, Mutant, Search, UNCLEAR};
use crate::lease::Clocks;
use crate::lease::explored::{NOW, TICK, WALL_STEP, past};
use crate::sharding::protocol::{
    Answer, LeaseName, Phase, Protocol, Readiness, Record, Request, ShardCount, Write,
};

/// The deadline of a steady member.
pub(super) const ALWAYS: Clocks = Clocks { monotonic: Duration::MAX, wall: Duration::MAX };

/// The version of a list. It is later than every change, because versions are numbered from 1.
const LISTED: u64 = 40;

/// An event that leads from one world to the next, with the process that it concerns.
#[derive(Clone, Copy)]
pub(super) enum Event {
    Tick,
    /// A process writes its own Lease.
    Own(usize),
    /// A process takes a step with a shard, which is or is not assigned to it.
    Shard(usize, u8, bool),
    /// A process writes the Lease of another member.
    Peer(usize, Id),
    Watch(usize, LeaseName<Id>),
    /// A process lists all Leases, instead of the changes that its watch has not shown.
    List(usize),
    GiveUp(usize, LeaseName<Id>),
    WorkEnds(usize, u8),
    /// A request, or the copy of one, arrives.
    Arrive(usize, LeaseName<Id>, bool),
    Deliver(usize, LeaseName<Id>),
    Object(usize, usize, Change),
    Fault(Fault, usize),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick => write!(f, "a tick"),
            Self::Own(process) => write!(f, "{process} writes its Lease"),
            Self::Shard(process, shard, true) => write!(f, "{process} wants shard {shard}"),
            Self::Shard(process, shard, false) => write!(f, "{process} gives up shard {shard}"),
            Self::Peer(process, id) => write!(f, "{process} writes the Lease of {}", id.0),
            Self::Watch(process, name) => write!(f, "{process} sees {name:?}"),
            Self::List(process) => write!(f, "{process} lists all Leases"),
            Self::GiveUp(process, name) => write!(f, "{process} gives its write of {name:?} up"),
            Self::WorkEnds(process, shard) => write!(f, "the work of {process} on {shard} ends"),
            Self::Arrive(process, name, is_copy) => {
                let what = if *is_copy { "a copy of the" } else { "the" };
                write!(f, "{what} write of {name:?} by {process} arrives")
            }
            Self::Deliver(process, name) => write!(f, "{process} gets the answer for {name:?}"),
            Self::Object(process, shard, change) => write!(f, "{change:?} {shard} of {process}"),
            Self::Fault(fault, of) => write!(f, "{fault:?} of {of}"),
        }
    }
}

impl Config {
    /// Returns the Lease of a steady member.
    fn record(&self, identity: Id) -> Record<Id> {
        let duration = Duration::from_millis(self.lease * TICK);
        let holder = Some(identity);
        Record {
            version: 1,
            uid: Id(0),
            holder,
            transitions: 0,
            duration,
            readiness: Readiness::Settled,
        }
    }
}

impl Search<'_> {
    /// Returns the world in which every history begins.
    pub(super) fn start(&self) -> World {
        let record = Record {
            version: 1,
            uid: Id(0),
            holder: None,
            transitions: 0,
            duration: Duration::ZERO,
            readiness: Readiness::Unready,
        };
        let shards = vec![self.bounds.has_leases.then_some(record); self.bounds.shards as usize];
        let mut world = World {
            group: self.bounds.has_group.then_some(record),
            members: Vec::new(),
            objects: vec![Object::default(); self.bounds.writes.map_or(0, |_| shards.len())],
            shards,
            processes: Vec::new(),
            messages: Vec::new(),
            faults: 0,
            is_stale: false,
        };
        let identities = (0..).map(Id).zip(self.bounds.processes);
        let steady = identities.filter(|(_, config)| config.is_steady);
        world.members = steady.map(|(id, config)| (id, config.record(id))).collect();
        for (index, config) in self.bounds.processes.iter().enumerate() {
            let identity = Id(u8::try_from(index).expect("few processes"));
            let mut member = self.member(&world, index, identity);
            if config.is_steady {
                member.own.record = Some(config.record(identity));
                member.phase = Phase::Live(ALWAYS);
            }
            let process = Process {
                member: Some(member),
                identities: 1,
                unseen: Vec::new(),
                works: vec![Work::default(); world.shards.len()],
                reconcilers: vec![Reconciler::default(); world.objects.len()],
            };
            world.processes.push(process);
        }
        world
    }

    /// Returns a member that has seen a list of all Leases.
    fn member(&self, world: &World, index: usize, identity: Id) -> Protocol<Id> {
        let count = ShardCount::new(self.bounds.shards).expect("a power of two");
        let mut member = Protocol::new(self.timing(index), identity, count);
        member.mutant = self.mutant;
        member.view.has_group = world.group.is_some();
        for (id, record) in &world.members {
            member.observed(NOW, &LeaseName::Member(*id), record.version, Some(record));
        }
        for (shard, record) in (0..).zip(&world.shards) {
            if let Some(record) = record {
                member.observed(NOW, &LeaseName::Shard(shard), record.version, Some(record));
            }
        }
        member.view.complete(NOW);
        member
    }

    /// Starts another member in the place of one that has ended, if the bounds allow one more
    /// identity.
    pub(super) fn restart(&self, world: &mut World, index: usize) {
        let before = world.processes[index].member.as_ref().map(|member| member.identity);
        let is_last = world.processes[index].identities == self.bounds.most_identities;
        let keeps = self.mutant == Some(Mutant::KeepsIdentity);
        let member = before.filter(|_| !is_last).map(|Id(before)| {
            let identity = Id(if keeps { before } else { before + IDENTITIES });
            self.member(world, index, identity)
        });
        let process = &mut world.processes[index];
        process.identities += u8::from(member.is_some());
        process.member = member;
        process.unseen.clear();
        for (object, reconciler) in world.objects.iter_mut().zip(&mut process.reconcilers) {
            object.orphans += u8::from(reconciler.is_writing);
            *reconciler = Reconciler { stored: reconciler.stored, ..Reconciler::default() };
        }
        world.messages.retain(|message| {
            message.process != index || matches!(message.content, Content::Request(_))
        });
        let own = world.messages.iter_mut().filter(|message| message.process == index);
        own.for_each(|message| message.number = 0);
    }

    /// Calls `next` with every world that can follow.
    pub(super) fn successors(&self, world: &World, next: &mut impl FnMut(Event, World)) {
        let mut after = |event, change: &dyn Fn(&mut World)| {
            let mut world = world.clone();
            change(&mut world);
            next(event, world);
        };
        after(Event::Tick, &|world| self.tick(world, None));
        for (index, process) in world.processes.iter().enumerate() {
            if let Some(member) = &process.member {
                self.steps(world, index, member, &mut after);
                Self::inputs(index, process, member, &mut after);
            }
        }
        for (at, message) in world.messages.iter().enumerate() {
            let Message { process, name, is_copy, .. } = *message;
            match &message.content {
                Content::Request(write) => {
                    if self.is_applied(world, message.identity, name, write) {
                        let event = Event::Arrive(process, name, is_copy);
                        after(event, &|world| self.arrive(world, at));
                    }
                }
                Content::Written(_) => {
                    after(Event::Deliver(process, name), &|world| Self::deliver(world, at));
                }
            }
        }
        if let Some(most) = self.bounds.writes {
            world.changes(most, &mut |index, shard, change| {
                after(Event::Object(index, shard, change), &|world| {
                    world.change(index, shard, change);
                });
            });
        }
        if world.faults < self.bounds.most_faults {
            for fault in self.bounds.faults {
                self.fault(world, *fault, &mut |event, change| {
                    after(event, &|world| {
                        world.faults += 1;
                        change(world);
                    });
                });
            }
        }
    }

    /// Calls `after` with each step of a member.
    fn steps(
        &self,
        world: &World,
        index: usize,
        member: &Protocol<Id>,
        after: &mut impl FnMut(Event, &dyn Fn(&mut World)),
    ) {
        let mut step = |event, member: Protocol<Id>, request: Option<Request<Id>>| {
            let is_applied = request.as_ref().is_none_or(|request| {
                self.is_possible(world, member.identity, request.name, &request.write)
            });
            if is_applied {
                after(event, &|world| {
                    world.processes[index].member = Some(member.clone());
                    if let Some(request) = request {
                        self.send(world, index, request);
                    }
                });
            }
        };
        let mut own = member.clone();
        let is_steady = member.phase == Phase::Live(ALWAYS) && !member.is_stopping;
        let may_renew = !is_steady && member.own.unseen.len() < self.bounds.most_unseen;
        if let (true, Some(request)) = (may_renew, own.next_own(NOW)) {
            step(Event::Own(index), own, Some(request));
        }
        for shard in 0..member.shard_count() {
            for is_assigned in [true, false] {
                let mut owner = member.clone();
                owner.assigned = [shard].into_iter().filter(|_| is_assigned).collect();
                owner.advance(NOW, shard);
                let request = owner.next_of_shard(NOW, shard);
                if request.is_some() || owner.shards != member.shards {
                    step(Event::Shard(index, shard, is_assigned), owner, request);
                }
            }
        }
        for peer in 0..member.view.peers.len() {
            let mut observer = member.clone();
            if let Some(request) = observer.next_fence(NOW, peer) {
                step(Event::Peer(index, member.view.peers[peer].name), observer, Some(request));
            }
        }
        let mut observer = member.clone();
        if let Some(request) = observer.next_deletion(NOW)
            && let LeaseName::Member(name) = request.name
        {
            step(Event::Peer(index, name), observer, Some(request));
        }
    }

    /// Calls `after` with each input of a member that is not an answer.
    fn inputs(
        index: usize,
        process: &Process,
        member: &Protocol<Id>,
        after: &mut impl FnMut(Event, &dyn Fn(&mut World)),
    ) {
        if let Some((name, version, record)) = process.unseen.first() {
            after(Event::Watch(index, *name), &|world| {
                let process = &mut world.processes[index];
                process.unseen.remove(0);
                let member = process.member.as_mut().expect("a member");
                member.observed(NOW, name, *version, record.as_ref());
            });
        }
        // A list in place of one change differs from it in nothing.
        if process.unseen.len() > 1 {
            after(Event::List(index), &|world| {
                let leases = world.leases();
                let process = &mut world.processes[index];
                process.unseen.clear();
                let member = process.member.as_mut().expect("a member");
                member.listed(NOW, LISTED, &leases);
            });
        }
        for (name, number) in flights(member) {
            after(Event::GiveUp(index, name), &|world| {
                let member = world.processes[index].member.as_mut().expect("a member");
                member.answered(NOW, &name, number, &UNCLEAR);
            });
        }
        for (shard, work) in (0..).zip(&process.works) {
            let at = usize::from(shard);
            let is_busy = member.shards[at].is_working || work.has_former;
            let is_idle = process.reconcilers.get(at).is_none_or(Reconciler::is_idle);
            if is_busy && is_idle && member.admits(shard).is_none() {
                after(Event::WorkEnds(index, shard), &|world| {
                    let process = &mut world.processes[index];
                    process.works[at] = Work::default();
                    process.member.as_mut().expect("a member").idle(shard);
                });
            }
        }
    }

    /// Sends a request.
    pub(super) fn send(&self, world: &mut World, index: usize, request: Request<Id>) {
        let Request { name, number, write } = request;
        let process = &mut world.processes[index];
        let identity = process.member.as_ref().expect("a member").identity;
        if let LeaseName::Shard(shard) = name
            && let Some(object) = world.objects.get(usize::from(shard))
        {
            process.reconcilers[usize::from(shard)].before_claim = object.version;
        }
        let content = Content::Request(write);
        let is_copy = false;
        world.messages.push(Message { process: index, identity, name, number, content, is_copy });
        // A fence that arrives late has the effect of one that is sent late.
        let is_peer = matches!(name, LeaseName::Member(id) if id != identity);
        let is_fence = is_peer && self.mutant != Some(Mutant::FencesWithoutVersion);
        let is_prompt = self.bounds.processes[index].is_prompt;
        if (is_fence || is_prompt) && self.is_applied(world, identity, name, &write) {
            let at = world.messages.len() - 1;
            self.arrive(world, at);
            if world.messages.len() > at {
                Self::deliver(world, at);
            }
        }
    }

    /// Returns whether the server would apply a write now.
    pub(super) fn is_applied(
        &self,
        world: &World,
        sender: Id,
        name: LeaseName<Id>,
        write: &Write<Id>,
    ) -> bool {
        match (write, world.lease(name)) {
            (Write::Create { .. }, lease) => lease.is_none(),
            (Write::Replace { base, holder, .. }, Some(lease)) => {
                let is_claim = matches!(name, LeaseName::Shard(_)) && holder.is_some();
                let is_fence =
                    name != LeaseName::Member(sender) && !matches!(name, LeaseName::Shard(_));
                lease.version == base.version
                    || self.mutant == Some(Mutant::ClaimsWithoutVersion) && is_claim
                    || self.mutant == Some(Mutant::FencesWithoutVersion) && is_fence
            }
            (Write::Delete { base }, Some(lease)) => lease.version == base.version,
            (Write::Replace { .. } | Write::Delete { .. }, None) => false,
        }
    }

    /// Returns whether the server may apply a write now or later.
    pub(super) fn is_possible(
        &self,
        world: &World,
        sender: Id,
        name: LeaseName<Id>,
        write: &Write<Id>,
    ) -> bool {
        let may_fail =
            |fault| world.faults < self.bounds.most_faults && self.bounds.faults.contains(&fault);
        let is_deletable = match name {
            LeaseName::Shard(_) => may_fail(Fault::DeleteShard),
            // Members delete their own Leases, and those that are fenced.
            LeaseName::Member(_) => true,
            LeaseName::Group => may_fail(Fault::DeleteGroup),
        };
        // Claims beyond the bounds are never sent.
        if let (LeaseName::Shard(_), Write::Replace { holder, transitions, .. }) = (name, write) {
            let process = i32::from(sender.0 % IDENTITIES);
            let is_turn = !self.bounds.takes_turns || *transitions == process + 1;
            if *transitions > self.bounds.most_claims || holder.is_some() && !is_turn {
                return false;
            }
        }
        let is_creation = matches!(write, Write::Create { .. });
        is_creation && is_deletable || self.is_applied(world, sender, name, write)
    }

    /// Applies a request at the server. The answer is sent to the process.
    pub(super) fn arrive(&self, world: &mut World, at: usize) {
        let Message { process, identity, name, number, content, is_copy } =
            world.messages.remove(at);
        let Content::Request(write) = content else { return };
        let lease_ticks = self.bounds.processes[process].lease;
        let duration = Duration::from_millis(lease_ticks * TICK);
        let record = match write {
            Write::Create { holder, readiness } => {
                let uid = world.new_uid(name);
                Some(Record { version: 0, uid, holder, transitions: 0, duration, readiness })
            }
            Write::Replace { holder, transitions, readiness, .. } => world
                .lease(name)
                .map(|lease| Record { holder, transitions, duration, readiness, ..*lease }),
            Write::Delete { .. } => None,
        };
        if let (LeaseName::Shard(shard), Some(Record { holder: Some(_), .. })) = (name, record)
            && let Some(object) = world.objects.get_mut(usize::from(shard))
        {
            object.at_claim = object.version;
        }
        let record = world.write(name, record);
        // A member learns about other members only from its view, so this answer need not be late.
        let is_peer = matches!(name, LeaseName::Member(id) if id != identity);
        let member = world.processes[process].member.as_mut();
        let Some(member) = member.filter(|member| member.identity == identity) else { return };
        if is_peer {
            member.answered(NOW, &name, number, &Answer::Written(record));
        } else {
            let content = Content::Written(record);
            world.messages.push(Message { process, identity, name, number, content, is_copy });
        }
    }

    fn deliver(world: &mut World, at: usize) {
        let Message { process, name, number, content, .. } = world.messages.remove(at);
        let Content::Written(record) = content else { return };
        if let Some(member) = &mut world.processes[process].member {
            member.answered(NOW, &name, number, &Answer::Written(record));
        }
    }

    /// Delivers all events to steady members. Other members may see a deletion by hand late, since
    /// their deadline ends their work. A steady member has no deadline, so it must see it at once.
    fn show_steady(&self, world: &mut World) {
        for (config, process) in self.bounds.processes.iter().zip(&mut world.processes) {
            let Some(member) = process.member.as_mut().filter(|_| config.is_steady) else {
                continue;
            };
            for (name, version, record) in std::mem::take(&mut process.unseen) {
                member.observed(NOW, &name, version, record.as_ref());
            }
        }
    }

    /// Lets one tick pass. The monotonic clock of `suspended` does not count it.
    pub(super) fn tick(&self, world: &mut World, suspended: Option<usize>) {
        for (index, process) in world.processes.iter_mut().enumerate() {
            let rate = self.bounds.processes[index].rate;
            let elapsed = Duration::from_millis(TICK * rate / 100);
            let monotonic = if suspended == Some(index) { Duration::ZERO } else { elapsed };
            process.map_times(|time| Clocks {
                monotonic: past(time.monotonic, monotonic),
                wall: past(time.wall, elapsed),
            });
        }
    }

    fn fault(
        &self,
        world: &World,
        fault: Fault,
        after: &mut impl FnMut(Event, &dyn Fn(&mut World)),
    ) {
        let processes = 0..world.processes.len();
        let live = processes.filter(|index| world.processes[*index].member.is_some());
        match fault {
            Fault::Crash => live.for_each(|index| {
                after(Event::Fault(fault, index), &|world| {
                    world.processes[index].works.fill(Work::default());
                    self.restart(world, index);
                });
            }),
            Fault::Stop => live.for_each(|index| {
                after(Event::Fault(fault, index), &|world| {
                    world.processes[index].member.iter_mut().for_each(Protocol::stop);
                });
            }),
            Fault::Mismatch => live.for_each(|index| {
                after(Event::Fault(fault, index), &|world| {
                    let member = world.processes[index].member.as_mut();
                    member.into_iter().for_each(Protocol::mismatched);
                });
            }),
            Fault::Duplicate => {
                // The copy of another write would be refused, because its version was replaced.
                let is_creation = |message: &&Message| {
                    matches!(message.content, Content::Request(Write::Create { .. }))
                };
                for message in world.messages.iter().filter(is_creation) {
                    // The answer to the copy does not count: it is like no answer.
                    let copy = Message { number: 0, is_copy: true, ..message.clone() };
                    after(Event::Fault(fault, message.process), &|world| {
                        world.messages.push(copy.clone());
                    });
                }
            }
            Fault::WallStep => live.for_each(|index| {
                let steps: [fn(Duration) -> Duration; 2] =
                    [|time| past(time, WALL_STEP), |time| time.saturating_add(WALL_STEP)];
                for step in steps {
                    after(Event::Fault(fault, index), &|world| {
                        let change = |time: Clocks| Clocks { wall: step(time.wall), ..time };
                        world.processes[index].map_times(change);
                    });
                }
            }),
            Fault::Suspend => live.for_each(|index| {
                after(Event::Fault(fault, index), &|world| self.tick(world, Some(index)));
            }),
            Fault::DeleteShard | Fault::DeleteMember | Fault::DeleteGroup | Fault::Touch => {
                let group = world.group.map(|_| LeaseName::Group);
                let members = world.members.iter().map(|(id, _)| LeaseName::Member(*id));
                let shards = (0..).map(LeaseName::Shard).zip(&world.shards);
                let shards = shards.filter(|(_, lease)| lease.is_some()).map(|(name, _)| name);
                for name in members.chain(shards).chain(group) {
                    let lease = match (fault, name) {
                        (Fault::DeleteShard, LeaseName::Shard(_))
                        | (Fault::DeleteMember, LeaseName::Member(_))
                        | (Fault::DeleteGroup, LeaseName::Group) => None,
                        (Fault::Touch, LeaseName::Shard(_) | LeaseName::Member(_)) => {
                            world.lease(name).copied()
                        }
                        _ => continue,
                    };
                    after(Event::Fault(fault, 0), &|world| {
                        _ = world.write(name, lease);
                        self.show_steady(world);
                    });
                }
            }
        }
    }
}

/// Returns the names and numbers of the attempts in progress.
pub(super) fn flights(member: &Protocol<Id>) -> Vec<(LeaseName<Id>, u64)> {
    let own = (LeaseName::Member(member.identity), member.own.attempts.flight);
    let shards = (0..).map(LeaseName::Shard).zip(&member.shards);
    let shards = shards.map(|(name, shard)| (name, shard.attempts.flight));
    let peers = member.view.peers.iter();
    let peers = peers.map(|peer| (LeaseName::Member(peer.name), peer.attempts.flight));
    let attempts = [own].into_iter().chain(shards).chain(peers);
    attempts.filter_map(|(name, flight)| Some((name, flight?.number))).collect()
}
