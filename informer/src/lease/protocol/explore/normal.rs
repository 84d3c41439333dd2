//! The normal form of a world.

use std::time::Duration;

use super::world::{Content, Message, Process, World};
use super::{Fault, IDENTITIES, Search};
use crate::lease::explored::{NOW, TICK};
use crate::lease::protocol::mutants::Mutant;
use crate::lease::protocol::{Clocks, FormerTerm, LeaseRequest, Purpose, Seen, State};

impl Search<'_> {
    /// Makes worlds equal that differ only in details without an effect on what can follow. Also
    /// starts another process, or another campaign, in the place of one that has ended.
    pub(super) fn normalise(&self, world: &mut World) {
        self.restart_ended(world);
        for process in &mut world.processes {
            self.normalise_times(process);
        }
        number_attempts(world);
        self.drop_messages_without_effect(world);
        world.renumber();
    }

    /// Starts another process, or another campaign, in the place of one that has ended.
    fn restart_ended(&self, world: &mut World) {
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
    }

    /// Removes messages that cannot have an effect, and the oldest messages of a process that has
    /// too many.
    fn drop_messages_without_effect(&self, world: &mut World) {
        let World { lease, processes, messages, faults, .. } = world;
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

/// Gives the attempt in progress the number 1, and all earlier ones the number 0.
fn number_attempts(world: &mut World) {
    let World { processes, messages, .. } = world;
    for (index, process) in processes.iter_mut().enumerate() {
        let candidate = &mut process.candidate;
        let current = candidate.flight.map(|flight| flight.number);
        for message in messages.iter_mut().filter(|message| message.process == index) {
            message.number = u64::from(Some(message.number) == current);
        }
        candidate.attempts = u64::from(current.is_some());
        if let Some(flight) = &mut candidate.flight {
            flight.number = 1;
        }
    }
}

impl World {
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
    pub(super) fn mirrored(&self) -> Self {
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
}

/// Returns the new number of `number` when the known numbers are numbered again without gaps.
/// `known` has a bit for each known number. The known numbers that are equal modulo `classes` stay
/// equal modulo `classes`, and keep their order.
fn rank(number: u8, known: u64, classes: u8) -> u8 {
    let below = (number % classes..number).step_by(classes.into());
    let known_below = below.filter(|below| known & (1 << below) != 0).count();
    number % classes + classes * u8::try_from(known_below).expect("at most 64")
}
