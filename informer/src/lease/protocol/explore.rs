//! An exhaustive search of the protocol for a state with two leaders, or with a leader that ignores
//! another one. Such a leader continues after it has read that another candidate holds the lease;
//! or it writes the lease without a read, after a watch has shown that it may have been replaced.
//!
//! A *world* is an API server with one lease, two or three processes that are candidates, and the
//! messages between them. Its next worlds are all that can happen next: time passes, a process
//! takes its next step, a request arrives, an answer or a watch event is delivered, an attempt is
//! given up, a leader is stopped, its work ends. Nothing has to happen at once, so every request,
//! answer, watch event and process may be delayed for any time or for ever. This covers lost
//! messages, cut connections and paused processes. Crashes, duplicated requests, steps of a wall
//! clock, suspended machines (whose monotonic clocks stop), and changes by hand are *faults*. A
//! history has a limited number of them.
//!
//! The present is always [`NOW`]: when time passes, all other times move into the past. Versions
//! are renumbered, in their order. So worlds that differ only in their age are one world. The
//! search visits every world that can be reached within its bounds, or the mirror image of that
//! world. It remembers worlds by hashes of 128 bits: among 10 million worlds, two share one with a
//! probability of about 10⁻²⁵.

use std::fmt;
use std::time::{Duration, Instant};

use super::mutants::Mutant;
use super::{
    Answer, CandidateStep, Clocks, FormerTerm, LeaseRequest, Protocol, Purpose, Record, Seen,
    State, Timing,
};
use crate::util::search::{SearchResult, breadth_first, fingerprint};

type Lease = Record<u8, ()>;

/// The length of a tick, in milliseconds, by a clock with a rate of 100 %.
const TICK: u64 = 100;

/// The present, by every clock.
const NOW: Clocks = Clocks { monotonic: Duration::from_secs(100), wall: Duration::from_secs(100) };

/// A step of a wall clock, longer than any lease.
const WALL_STEP: Duration = Duration::from_millis(20 * TICK);

/// The difference between an identity of a process and its next one. The first identity of a
/// process is its index: 0, 1 or 2.
const IDENTITIES: u8 = 4;

/// A holder that is none of the processes.
const STRANGER: u8 = 3;

/// The bounds of a search.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    /// For each process, its lease duration in ticks and the rate of its clocks in percent. The
    /// renew deadline is two thirds of the lease duration, and the retry period one tick.
    processes: &'a [(u64, u64)],
    /// The kinds of faults, and how many of them a history may have.
    faults: &'a [Fault],
    most_faults: u8,
    /// The largest number of claims of one lease in a history.
    most_claims: i32,
    /// The largest number of messages in flight of one process.
    most_messages: usize,
    /// Whether a history begins with a free lease. If not, it begins without a lease.
    has_lease: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A process ends without a word, and another one starts in its place.
    Crash,
    /// A request arrives twice.
    Duplicate,
    /// A wall clock is set forward or back.
    WallStep,
    /// A tick passes that a monotonic clock does not count.
    Suspend,
    /// The lease is deleted by hand.
    Delete,
    /// The lease is written by hand: unchanged, or with a duration that is not valid.
    Touch,
    /// The lease gets another holder by hand: a stranger or one of the processes.
    Edit,
}

/// An event that leads from one world to the next, with the process that it concerns.
#[derive(Clone, Copy)]
enum Event {
    Tick,
    Step(usize),
    Watch(usize),
    OldWatch(usize),
    GiveUp(usize),
    Stop(usize),
    WorkEnds(usize),
    Arrive(usize),
    Deliver(usize),
    Fault(Fault, usize),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick => write!(f, "a tick"),
            Self::Step(process) => write!(f, "{process} sends a request"),
            Self::Watch(process) => write!(f, "{process} sees the lease"),
            Self::OldWatch(process) => write!(f, "{process} sees an old state"),
            Self::GiveUp(process) => write!(f, "{process} gives its request up"),
            Self::Stop(process) => write!(f, "{process} is stopped"),
            Self::WorkEnds(process) => write!(f, "the work of {process} ends"),
            Self::Arrive(process) => write!(f, "a request of {process} arrives"),
            Self::Deliver(process) => write!(f, "{process} gets an answer"),
            Self::Fault(fault, process) => write!(f, "{fault:?} of {process}"),
        }
    }
}

#[derive(Clone)]
struct World {
    lease: Option<Lease>,
    versions: u8,
    uids: u8,
    processes: Vec<Process>,
    messages: Vec<Message>,
    faults: u8,
    /// Set if a leader goes on after it has read that another holds the lease, or writes the lease
    /// while it must read it (`Process::must_read`).
    ignores_another: bool,
}

#[derive(Clone, Hash)]
struct Process {
    candidate: Protocol<u8, ()>,
    /// The deadline of the work of a leader.
    works_until: Option<Clocks>,
    /// The uid and the transitions of the lease in the last term of this process.
    term: Option<(u8, i32)>,
    /// Whether a watch has shown a leader that it may have been replaced, and no read was sent
    /// since.
    must_read: bool,
}

#[derive(Clone, Hash)]
struct Message {
    process: usize,
    number: u64,
    content: Content,
}

#[derive(Clone, Copy, Hash, PartialEq, Eq)]
enum Content {
    Request(LeaseRequest<u8, ()>),
    Answer(Answer<u8, ()>),
}

struct Search<'a> {
    bounds: Bounds<'a>,
    mutant: Option<Mutant>,
}

impl<'a> Search<'a> {
    fn run(bounds: Bounds<'a>, mutant: Option<Mutant>) -> SearchResult<Event, ()> {
        let search = Self { bounds, mutant };
        let mut start = search.start();
        search.normalise(&mut start);
        let successors = |world: &World, visit: &mut dyn FnMut(Event, World)| {
            search.successors(world, &mut |event, mut world| {
                search.normalise(&mut world);
                visit(event, world);
            });
        };
        let violation =
            |world: &World, _| (world.leaders() > 1 || world.ignores_another).then_some(());
        breadth_first(start, |world| search.fingerprint(world), successors, violation)
    }

    /// Returns the hash of a world. A world has the same hash as its mirror image if processes 1
    /// and 2 are configured equally.
    fn fingerprint(&self, world: &World) -> u128 {
        let hash = world.fingerprint();
        match self.bounds.processes {
            [_, second, third] if second == third => hash.min(world.mirrored().fingerprint()),
            _ => hash,
        }
    }

    /// Returns the world in which every history begins.
    fn start(&self) -> World {
        let lease = Record {
            version: 1,
            uid: 1,
            holder: None,
            transitions: 0,
            duration: Duration::ZERO,
            body: (),
        };
        let process = |index| Process {
            candidate: self.candidate(index, u8::try_from(index).expect("few processes"), None),
            works_until: None,
            term: None,
            must_read: false,
        };
        World {
            lease: self.bounds.has_lease.then_some(lease),
            versions: 1,
            uids: 1,
            processes: (0..self.bounds.processes.len()).map(process).collect(),
            messages: Vec::new(),
            faults: 0,
            ignores_another: false,
        }
    }

    fn candidate(
        &self,
        index: usize,
        identity: u8,
        former: Option<FormerTerm<u8>>,
    ) -> Protocol<u8, ()> {
        let (lease_ticks, _) = self.bounds.processes[index];
        let timing = Timing {
            lease_duration: Duration::from_millis(lease_ticks * TICK),
            renew_deadline: Duration::from_millis(lease_ticks * TICK * 2 / 3),
            retry_period: Duration::from_millis(TICK),
        };
        let mut candidate = Protocol::new(timing, identity, former);
        candidate.set_watching(true);
        candidate.mutant = self.mutant;
        candidate
    }

    /// Starts another process in the place of one that has ended.
    fn restart(&self, world: &mut World, index: usize, former: Option<FormerTerm<u8>>) {
        let process = &mut world.processes[index];
        let before = process.candidate.identity;
        process.candidate = self.candidate(index, before + IDENTITIES, former);
        (process.works_until, process.term, process.must_read) = (None, None, false);
        world.messages.retain(|message| {
            message.process != index || matches!(message.content, Content::Request(_))
        });
    }

    /// Calls `next` with every world that can follow.
    fn successors(&self, world: &World, next: &mut impl FnMut(Event, World)) {
        let mut after = |event, change: &dyn Fn(&mut World)| {
            let mut world = world.clone();
            change(&mut world);
            next(event, world);
        };
        after(Event::Tick, &|world| self.tick(world, None));
        for (index, process) in world.processes.iter().enumerate() {
            self.process_events(index, process, &mut after);
        }
        for (at, message) in world.messages.iter().enumerate() {
            match message.content {
                Content::Request(_) => {
                    after(Event::Arrive(message.process), &|world| self.arrive(world, at, false));
                }
                Content::Answer(_) => {
                    after(Event::Deliver(message.process), &|world| self.deliver(world, at));
                }
            }
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

    fn process_events(
        &self,
        index: usize,
        process: &Process,
        after: &mut impl FnMut(Event, &dyn Fn(&mut World)),
    ) {
        match process.candidate.clone().next(NOW) {
            CandidateStep::Send { number, request } => after(Event::Step(index), &|world| {
                let process = &mut world.processes[index];
                let _ = process.candidate.next(NOW);
                let writes = request != LeaseRequest::Read;
                world.ignores_another |= process.must_read && writes;
                process.must_read &= writes;
                // A read that arrives late has the effect of one that is sent late.
                let content = match request {
                    LeaseRequest::Read => Content::Answer(Answer::State(world.lease)),
                    request => Content::Request(request),
                };
                world.messages.push(Message { process: index, number, content });
            }),
            CandidateStep::Wait(_) | CandidateStep::Lost(_) | CandidateStep::Gone => {}
        }
        let watch = |world: &mut World, state: Option<Lease>| {
            let process = &mut world.processes[index];
            let candidate = &process.candidate;
            let reads = candidate.flight.is_some_and(|flight| flight.purpose == Purpose::Read);
            if candidate.held().is_some() && !reads {
                process.must_read |= is_anothers(state, candidate.identity);
            }
            process.candidate.observed(NOW, state);
            self.sync(process);
        };
        after(Event::Watch(index), &|world| watch(world, world.lease));
        // A holder may see a state from before its claim. An observer gets old states by reads.
        if process.candidate.held().is_some() {
            after(Event::OldWatch(index), &|world| watch(world, None));
        }
        if let Some(flight) = process.candidate.flight {
            after(Event::GiveUp(index), &|world| {
                let process = &mut world.processes[index];
                process.candidate.answered(NOW, flight.number, Answer::Unclear);
                self.sync(process);
            });
        }
        if matches!(process.candidate.state, State::Live(_)) {
            after(Event::Stop(index), &|world| {
                let process = &mut world.processes[index];
                process.candidate.stop();
                if self.mutant == Some(Mutant::ReleasesBeforeWorkHasEnded) {
                    process.candidate.work_ended(NOW);
                }
                self.sync(process);
            });
        }
        let has_stopped = matches!(
            process.candidate.state,
            State::Draining(_) | State::Releasing(_) | State::Gone
        );
        if has_stopped && process.works_until.is_some() {
            after(Event::WorkEnds(index), &|world| {
                let process = &mut world.processes[index];
                process.candidate.work_ended(NOW);
                process.works_until = None;
            });
        }
    }

    /// Gives a leader its deadline, and takes the work from a process that does not lead.
    fn sync(&self, process: &mut Process) {
        let released_early = self.mutant == Some(Mutant::ReleasesBeforeWorkHasEnded)
            && matches!(process.candidate.state, State::Releasing(_) | State::Gone);
        match process.candidate.held() {
            Some((deadline, lease)) => {
                process.works_until = Some(deadline);
                process.term = Some((lease.uid, lease.transitions));
                return;
            }
            None if released_early => {}
            None => process.works_until = None,
        }
        process.must_read = false;
    }

    /// Lets one tick pass. The monotonic clock of `suspended` does not count it.
    fn tick(&self, world: &mut World, suspended: Option<usize>) {
        for (index, process) in world.processes.iter_mut().enumerate() {
            let (_, rate) = self.bounds.processes[index];
            let elapsed = Duration::from_millis(TICK * rate / 100);
            let monotonic = if suspended == Some(index) { Duration::ZERO } else { elapsed };
            process.map_times(|time| Clocks {
                monotonic: past(time.monotonic, monotonic),
                wall: past(time.wall, elapsed),
            });
        }
    }

    /// Applies a request at the server. Its answer is sent to the process.
    fn arrive(&self, world: &mut World, at: usize, is_duplicated: bool) {
        let Message { process, number, content } = world.messages[at].clone();
        let Content::Request(request) = content else { return };
        if !is_duplicated {
            world.messages.remove(at);
        }
        let (lease_ticks, _) = self.bounds.processes[process];
        let duration = Duration::from_millis(lease_ticks * TICK);
        let is_forced = self.mutant == Some(Mutant::WritesWithoutVersion);
        let answer = match (request, world.lease) {
            (LeaseRequest::Create { holder }, None) => {
                world.uids += 1;
                let (uid, holder) = (world.uids, Some(holder));
                world.write(Record { version: 0, uid, holder, transitions: 0, duration, body: () })
            }
            (LeaseRequest::Replace { base, holder, transitions }, Some(lease))
                if base.version == lease.version || (is_forced && base.uid == lease.uid) =>
            {
                world.write(Record { holder, transitions, duration, ..lease })
            }
            (_, _) => Answer::Conflict,
        };
        world.messages.push(Message { process, number, content: Content::Answer(answer) });
    }

    fn deliver(&self, world: &mut World, at: usize) {
        let Message { process, number, content } = world.messages.remove(at);
        let Content::Answer(answer) = content else { return };
        let process = &mut world.processes[process];
        let flight = process.candidate.flight;
        let leads = process.works_until.is_some();
        process.candidate.answered(NOW, number, answer);
        self.sync(process);
        let reads =
            flight.is_some_and(|flight| flight.number == number && flight.purpose == Purpose::Read);
        let is_anothers = match answer {
            Answer::State(lease) => is_anothers(lease, process.candidate.identity),
            Answer::Conflict | Answer::Unclear => false,
        };
        let goes_on = matches!(process.candidate.state, State::Live(_) | State::Draining(_));
        world.ignores_another |= leads && reads && is_anothers && goes_on;
    }

    fn fault(
        &self,
        world: &World,
        fault: Fault,
        after: &mut impl FnMut(Event, &dyn Fn(&mut World)),
    ) {
        let processes = 0..world.processes.len();
        match (fault, world.lease) {
            (Fault::Crash, _) => {
                for index in processes {
                    after(Event::Fault(fault, index), &|world| self.restart(world, index, None));
                }
            }
            (Fault::Duplicate, _) => {
                for (at, message) in world.messages.iter().enumerate() {
                    if matches!(message.content, Content::Request(_)) {
                        after(Event::Fault(fault, message.process), &|world| {
                            self.arrive(world, at, true);
                        });
                    }
                }
            }
            (Fault::WallStep, _) => {
                for index in processes {
                    let steps: [fn(Duration) -> Duration; 2] =
                        [|time| past(time, WALL_STEP), |time| time.saturating_add(WALL_STEP)];
                    for step in steps {
                        after(Event::Fault(fault, index), &|world| {
                            let change = |time: Clocks| Clocks { wall: step(time.wall), ..time };
                            world.processes[index].map_times(change);
                        });
                    }
                }
            }
            (Fault::Suspend, _) => {
                for index in processes {
                    after(Event::Fault(fault, index), &|world| self.tick(world, Some(index)));
                }
            }
            (Fault::Delete, Some(_)) => after(Event::Fault(fault, 0), &|world| world.lease = None),
            (Fault::Touch | Fault::Edit, Some(lease)) => {
                for edited in Self::edits(world, fault, lease) {
                    after(Event::Fault(fault, 0), &|world| {
                        let _ = world.write(edited);
                    });
                }
            }
            (Fault::Delete | Fault::Touch | Fault::Edit, None) => {}
        }
    }

    /// Returns the states that a person may give to the lease.
    fn edits(world: &World, fault: Fault, lease: Lease) -> Vec<Lease> {
        if fault == Fault::Touch {
            return vec![lease, Record { duration: Duration::ZERO, ..lease }];
        }
        let of_process = |process: &Process| process.candidate.identity;
        let holders = world.processes.iter().map(of_process).chain([STRANGER]);
        let others = holders.filter(|holder| lease.holder != Some(*holder));
        others.map(|holder| Record { holder: Some(holder), ..lease }).collect()
    }

    /// Makes worlds equal that differ only in details without an effect on what can follow. Also
    /// starts another process, or another campaign, in the place of one that has ended.
    fn normalise(&self, world: &mut World) {
        for index in 0..world.processes.len() {
            let process = &mut world.processes[index];
            self.normalise_times(process);
            let candidate = &mut process.candidate;
            candidate.check_deadline(NOW);
            match candidate.state {
                // The process campaigns again: its work has ended.
                State::Lost(_) => {
                    let identity = candidate.identity;
                    let former = process.term.map(|(uid, transitions)| FormerTerm {
                        identity,
                        uid,
                        transitions,
                    });
                    self.restart(world, index, former);
                }
                // The process ends after its release, and another one starts.
                State::Gone if process.works_until.is_none() => self.restart(world, index, None),
                _ => {}
            }
        }
        let World { lease, processes, messages, faults, .. } = world;
        for (index, process) in processes.iter_mut().enumerate() {
            self.normalise_times(process);
            let candidate = &mut process.candidate;
            // The number of the attempt in progress is 1, and that of all earlier ones is 0.
            let current = candidate.flight.map(|flight| flight.number);
            for message in messages.iter_mut().filter(|message| message.process == index) {
                message.number = u64::from(Some(message.number) == current);
            }
            candidate.attempts = u64::from(current.is_some());
            if let Some(flight) = &mut candidate.flight {
                flight.number = 1;
            }
        }
        // Claims beyond the bound never arrive.
        messages.retain(|message| match message.content {
            Content::Request(LeaseRequest::Replace { transitions, .. }) => {
                transitions <= self.bounds.most_claims
            }
            _ => true,
        });
        let deletable = self.bounds.faults.contains(&Fault::Delete)
            && *faults < self.bounds.most_faults
            || lease.is_none();
        messages.retain(|message| match message.content {
            _ if message.number == 1 => true,
            Content::Answer(_) => self.mutant == Some(Mutant::OldAnswersCount),
            Content::Request(LeaseRequest::Read) => {
                unreachable!("a read is answered when it is sent")
            }
            Content::Request(LeaseRequest::Create { .. }) => deletable,
            Content::Request(LeaseRequest::Replace { base, .. }) => {
                self.mutant == Some(Mutant::WritesWithoutVersion)
                    || lease.is_some_and(|lease| lease.version == base.version)
            }
        });
        for index in 0..processes.len() {
            let count = |messages: &[Message]| {
                messages.iter().filter(|message| message.process == index).count()
            };
            while count(messages) > self.bounds.most_messages {
                let oldest = messages.iter().position(|message| message.process == index);
                messages.remove(oldest.expect("there are messages"));
            }
        }
        world.renumber();
    }

    fn normalise_times(&self, process: &mut Process) {
        let longest = self.bounds.processes.iter().map(|(ticks, _)| ticks * TICK).max();
        let oldest = Duration::from_millis(longest.unwrap_or_default());
        let candidate = &mut process.candidate;
        candidate.not_before = NOW.monotonic;
        if process.works_until.is_some_and(|deadline| deadline.has_passed(NOW)) {
            process.works_until = None;
        }
        let clamp = |time: &mut Clocks| {
            time.monotonic = time.monotonic.max(NOW.monotonic.saturating_sub(oldest));
            time.wall = time.wall.max(NOW.wall.saturating_sub(oldest));
        };
        if let Some(flight) = &mut candidate.flight {
            match flight.purpose {
                Purpose::Claim | Purpose::Renew => clamp(&mut flight.sent),
                Purpose::Read | Purpose::Create | Purpose::Release => flight.sent = NOW,
            }
        }
        if let State::Foreign(Seen::Known { record, since, checked }) = &mut candidate.state {
            if record.holder.is_none() {
                *since = NOW;
            }
            clamp(since);
            if self.mutant != Some(Mutant::ObserverUsesWallClock) {
                since.wall = NOW.wall;
            }
            *checked = NOW.monotonic;
        }
    }
}

impl World {
    fn leaders(&self) -> usize {
        self.processes.iter().filter(|process| process.works_until.is_some()).count()
    }

    /// Writes a new version of the lease.
    fn write(&mut self, lease: Lease) -> Answer<u8, ()> {
        self.versions += 1;
        self.lease = Some(Record { version: self.versions, ..lease });
        Answer::State(self.lease)
    }

    /// Calls `change` with every state of the lease that is known anywhere.
    fn each_lease(&mut self, mut change: impl FnMut(&mut Lease)) {
        self.lease.iter_mut().for_each(&mut change);
        for process in &mut self.processes {
            match &mut process.candidate.state {
                State::Foreign(Seen::Known { record, .. }) => change(record),
                State::Live(held) | State::Draining(held) | State::Releasing(held) => {
                    change(&mut held.record);
                }
                _ => {}
            }
        }
        for message in &mut self.messages {
            match &mut message.content {
                Content::Request(LeaseRequest::Replace { base, .. }) => change(base),
                Content::Answer(Answer::State(Some(lease))) => change(lease),
                _ => {}
            }
        }
    }

    /// Calls `change` with every identity that is known anywhere.
    fn each_identity(&mut self, mut change: impl FnMut(&mut u8)) {
        self.each_lease(|lease| lease.holder.iter_mut().for_each(&mut change));
        for message in &mut self.messages {
            if let Content::Request(
                LeaseRequest::Replace { holder: Some(holder), .. }
                | LeaseRequest::Create { holder },
            ) = &mut message.content
            {
                change(holder);
            }
        }
        for process in &mut self.processes {
            change(&mut process.candidate.identity);
            process.candidate.former.iter_mut().for_each(|former| change(&mut former.identity));
        }
    }

    /// Numbers the known versions, and the known identities of each process, in their order.
    fn renumber(&mut self) {
        let mut known = 0_u64;
        self.each_lease(|lease| known |= 1 << lease.version);
        self.each_lease(|lease| lease.version = rank(lease.version, known, 1));
        self.versions = u8::try_from(known.count_ones()).expect("at most 64");
        let mut known = 0_u64;
        self.each_identity(|identity| known |= 1 << *identity);
        self.each_identity(|identity| *identity = rank(*identity, known, IDENTITIES));
    }

    /// Returns the world in which processes 1 and 2 have changed places.
    fn mirrored(&self) -> Self {
        let mut world = self.clone();
        world.processes.swap(1, 2);
        for message in &mut world.messages {
            message.process = match message.process {
                1 => 2,
                2 => 1,
                other => other,
            };
        }
        world.each_identity(|identity| match *identity % IDENTITIES {
            1 => *identity += 1,
            2 => *identity -= 1,
            _ => {}
        });
        world
    }

    /// Returns a hash that does not depend on the order of messages.
    fn fingerprint(&self) -> u128 {
        let Self { lease, versions, uids, processes, messages, faults, ignores_another } = self;
        let messages = messages.iter().map(fingerprint).fold(0, u128::wrapping_add);
        fingerprint(&(lease, versions, uids, processes, messages, faults, ignores_another))
    }
}

/// Returns whether this state of the lease shows that `identity` does not hold it.
fn is_anothers(lease: Option<Lease>, identity: u8) -> bool {
    lease.is_none_or(|lease| lease.holder != Some(identity))
}

/// Returns the new number of `number` when the known numbers are numbered again without gaps.
/// `known` has a bit for each known number. The known numbers that are equal modulo `classes` stay
/// equal modulo `classes`, and keep their order.
fn rank(number: u8, known: u64, classes: u8) -> u8 {
    let below = (number % classes..number).step_by(classes.into());
    let known_below = below.filter(|below| known & (1 << below) != 0).count();
    number % classes + classes * u8::try_from(known_below).expect("at most 64")
}

impl Process {
    /// Changes all times that the process knows.
    fn map_times(&mut self, change: impl Fn(Clocks) -> Clocks) {
        let monotonic =
            |time: &mut Duration| *time = change(Clocks { monotonic: *time, ..NOW }).monotonic;
        let candidate = &mut self.candidate;
        monotonic(&mut candidate.not_before);
        if let Some(flight) = &mut candidate.flight {
            flight.sent = change(flight.sent);
        }
        if let Some(deadline) = &mut self.works_until {
            *deadline = change(*deadline);
        }
        match &mut candidate.state {
            State::Foreign(Seen::Known { since, checked, .. }) => {
                *since = change(*since);
                monotonic(checked);
            }
            State::Live(held) | State::Draining(held) | State::Releasing(held) => {
                held.deadline = change(held.deadline);
            }
            _ => {}
        }
    }
}

/// Returns `time` moved into the past by `elapsed`, since a clock has advanced by that, and [`NOW`]
/// stays. `Duration::MAX` stays: it is the deadline of a mutant that ignores the clock.
fn past(time: Duration, elapsed: Duration) -> Duration {
    if time == Duration::MAX { time } else { time.saturating_sub(elapsed) }
}

/// Two processes whose clocks run at rates that differ by a factor of 1.5, the most that is safe.
const RATES: &[(u64, u64)] = &[(3, 100), (3, 150)];

/// Two processes with different lease durations. The process with the shorter one must wait for the
/// longer one.
const DURATIONS: &[(u64, u64)] = &[(6, 100), (3, 150)];

/// Three processes. The second and the third one are equal.
const THREE: &[(u64, u64)] = &[(3, 100), (3, 150), (3, 150)];

/// The bounds of two processes whose clocks differ, without faults.
const TWO: Bounds<'_> = Bounds {
    processes: RATES,
    faults: &[],
    most_faults: 1,
    most_claims: 2,
    most_messages: 2,
    has_lease: true,
};

/// The bounds of three processes.
const OF_THREE: Bounds<'_> = Bounds { processes: THREE, most_messages: 1, ..TWO };

/// The bounds of two processes that must create the lease. In some histories the creation of an
/// earlier campaign arrives after the lease was deleted by hand.
const WITHOUT_LEASE: Bounds<'_> = Bounds { faults: &[Fault::Delete], has_lease: false, ..TWO };

/// Searches within bounds, prints the number of its worlds, and returns the first history with two
/// leaders, or with a leader that ignores another; `None` if there is none.
fn search(title: &str, bounds: Bounds<'_>, mutant: Option<Mutant>) -> Option<String> {
    let began = Instant::now();
    let SearchResult { states: worlds, violation } = Search::run(bounds, mutant);
    let seconds = began.elapsed().as_secs_f32();
    let found = if violation.is_some() { "two leaders" } else { "at most one leader" };
    println!("| {title} | {worlds} | {seconds:.1} | {found} |");
    violation.map(|((), events)| events.iter().map(Event::to_string).collect::<Vec<_>>().join(", "))
}

fn assert_safe(title: &str, bounds: Bounds<'_>) {
    if let Some(history) = search(&format!("{title}, faults: {:?}", bounds.faults), bounds, None) {
        panic!("two leaders, or a leader that ignores another: {history}");
    }
}

#[test]
fn no_history_without_faults_has_two_leaders() {
    assert_safe("two processes", TWO);
}

// The tests that a debug build ignores run in `ci/full.sh lease`.

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn no_history_with_a_fault_has_two_leaders() {
    use Fault::{Crash, Delete, Duplicate, Edit, Suspend, Touch, WallStep};
    for fault in [Crash, Duplicate, WallStep, Suspend, Delete, Touch, Edit] {
        assert_safe("two processes", Bounds { faults: &[fault], ..TWO });
    }
    assert_safe("two processes without a lease", WITHOUT_LEASE);
    // A lease that is deleted, or whose duration is removed, is safe only if all candidates have
    // equal durations.
    for fault in [Crash, Duplicate, Suspend] {
        let bounds = Bounds { processes: DURATIONS, faults: &[fault], ..TWO };
        assert_safe("two processes of different durations", bounds);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn no_history_of_three_processes_has_two_leaders() {
    assert_safe("three processes", OF_THREE);
}

#[test]
fn mutant_has_a_history_of_three_processes_with_two_leaders() {
    let mutant = Some(Mutant::TakesUnexpiredLease);
    assert!(search("three processes", OF_THREE, mutant).is_some());
}

#[test]
fn every_mutant_has_a_history_with_two_leaders() {
    use Fault::{Delete, Edit, Suspend, WallStep};
    for (mutant, defect) in Mutant::ALL {
        // To find a history of these two mutants takes minutes without optimisation.
        let is_long = matches!(mutant, Mutant::ReleasesAnothersLease | Mutant::FormerByNameAlone);
        if cfg!(debug_assertions) && is_long {
            continue;
        }
        let bounds = match mutant {
            Mutant::HolderIgnoresWallClock => Bounds { faults: &[Suspend], ..TWO },
            Mutant::HolderIgnoresMonotonicClock | Mutant::ObserverUsesWallClock => {
                Bounds { faults: &[WallStep], ..TWO }
            }
            Mutant::AbsentLeaseIsFree => Bounds { faults: &[Delete], ..TWO },
            Mutant::KeepsLeadingUnderAnother | Mutant::RenewalEndsDoubt => {
                Bounds { faults: &[Edit], ..TWO }
            }
            Mutant::ObserverUsesOwnDuration => Bounds { processes: DURATIONS, ..TWO },
            Mutant::ReleasesAnothersLease => Bounds { most_claims: 3, ..TWO },
            Mutant::FormerByNameAlone => WITHOUT_LEASE,
            _ => TWO,
        };
        assert!(search(defect, bounds, Some(mutant)).is_some(), "{mutant:?} survives");
    }
}
