//! A calm after a history: nothing fails any more, and nothing is delayed.

use std::time::Duration;

use super::events::flights;
use super::world::{Content, Violation, World, owns};
use super::{Search, UNCLEAR};
use crate::lease::explored::NOW;
use crate::sharding::protocol::{Answer, MemberStep, Phase, Protocol};

/// The number of ticks in which every shard must find an owner. The longest lease has six ticks, by
/// the slowest clock; a Lease that is made anew must then expire as well.
const TICKS: usize = 24;

impl Search<'_> {
    /// Lets a world become calm, and returns what is wrong with it then.
    pub(super) fn calm_down(&self, world: &World) -> Option<Violation> {
        let mut world = world.clone();
        for _ in 0..TICKS {
            self.tick(&mut world, None);
            // A request may follow an answer several times, but not without end.
            for _ in 0..32 {
                if !self.progress(&mut world) {
                    break;
                }
            }
        }
        // A process that may have no further identity has no member after its last one has ended.
        for (index, process) in world.processes.iter().enumerate() {
            let Some(Protocol { phase, is_stopping, .. }) = process.member else { continue };
            match phase {
                _ if is_stopping => return Some(Violation::NeverEnds(index)),
                Phase::Lost(_) => return Some(Violation::NeverEnds(index)),
                Phase::Joining => return Some(Violation::NeverJoins(index)),
                Phase::Live(_) | Phase::Ended(_) => {}
            }
        }
        let live = world.processes.iter().filter_map(|process| process.member.as_ref());
        let numbers: Vec<usize> = live
            .map(|member| (0..world.shards.len()).filter(|shard| owns(member, *shard)).count())
            .collect();
        if numbers.is_empty() {
            return None;
        }
        let owners = world.processes.iter().filter_map(|process| process.member.as_ref());
        let is_owned = |shard: &usize| owners.clone().any(|member| owns(member, *shard));
        if let Some(shard) = (0..world.shards.len()).find(|shard| !is_owned(shard)) {
            return Some(Violation::NoOwner(shard));
        }
        let (most, least) = (numbers.iter().max()?, numbers.iter().min()?);
        (most - least > 1).then_some(Violation::Unbalanced)
    }

    /// Lets every process take its next steps, and delivers all messages and events. Returns
    /// whether something has happened.
    fn progress(&self, world: &mut World) -> bool {
        let mut has_changed = false;
        for index in 0..world.processes.len() {
            for (name, version, record) in std::mem::take(&mut world.processes[index].unseen) {
                has_changed = true;
                if let Some(member) = &mut world.processes[index].member {
                    member.observed(NOW, &name, version, record.as_ref());
                }
            }
            while let Some(member) = &mut world.processes[index].member {
                // Shards are divided equally among settled members.
                member.timing.settle = Duration::ZERO;
                for shard in 0..member.shard_count() {
                    member.idle(shard);
                    if let Some(number) = member.fill_in_progress(shard) {
                        member.filled(shard, number);
                    }
                }
                match member.next(NOW) {
                    MemberStep::Send(request) => self.send(world, index, request),
                    MemberStep::Fill { .. }
                    | MemberStep::Enqueue { .. }
                    | MemberStep::Drop { .. } => {}
                    MemberStep::Wait(_) => break,
                    MemberStep::Ended(_) => {
                        self.restart(world, index);
                    }
                }
                has_changed = true;
            }
        }
        while !world.messages.is_empty() {
            let message = world.messages.remove(0);
            has_changed = true;
            let (process, name, number) = (message.process, message.name, message.number);
            let answer = match &message.content {
                Content::Written(record) => Answer::Written(*record),
                Content::Request(write)
                    if self.is_applied(world, message.identity, name, write) =>
                {
                    world.messages.insert(0, message);
                    self.arrive(world, 0);
                    continue;
                }
                Content::Request(_) => Answer::Conflict,
            };
            if let Some(member) = &mut world.processes[process].member
                && member.identity == message.identity
            {
                member.answered(NOW, &name, number, &answer);
            }
        }
        // The attempts that are still in progress were lost before the calm.
        for member in world.processes.iter_mut().filter_map(|process| process.member.as_mut()) {
            for (name, number) in flights(member) {
                has_changed = true;
                member.answered(NOW, &name, number, &UNCLEAR);
            }
        }
        has_changed
    }
}
