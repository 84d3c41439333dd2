//! The events that lead from one world to the next.

use std::fmt;
use std::time::Duration;

use super::world::{Content, Message, Process, World, is_anothers};
use super::{Fault, IDENTITIES, Lease, STRANGER, Search};
use crate::lease::explored::{NOW, TICK, WALL_STEP, past};
use crate::lease::protocol::mutants::Mutant;
use crate::lease::protocol::{
    Answer, CandidateStep, Clocks, FormerTerm, LeaseRequest, Protocol, Purpose, Record, State,
    Timing,
};

/// An event that leads from one world to the next, with the process that it concerns.
#[derive(Clone, Copy)]
pub(super) enum Event {
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

impl Search<'_> {
    /// Returns the world in which every history begins.
    pub(super) fn start(&self) -> World {
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
    pub(super) fn restart(&self, world: &mut World, index: usize, former: Option<FormerTerm<u8>>) {
        let process = &mut world.processes[index];
        let before = process.candidate.identity;
        process.candidate = self.candidate(index, before + IDENTITIES, former);
        (process.works_until, process.term, process.must_read) = (None, None, false);
        world.messages.retain(|message| {
            message.process != index || matches!(message.content, Content::Request(_))
        });
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
}
