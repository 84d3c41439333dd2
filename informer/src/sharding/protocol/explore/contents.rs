//! Counts of the faults and hand-overs that a search contains, so that a search whose bounds
//! exclude them is noticed.

use std::cell::RefCell;

use super::Fault;
use super::events::Event;
use super::world::{World, owns};

/// The numbers of events that a search contains.
#[derive(Default)]
pub(super) struct Contents(RefCell<Counts>);

#[derive(Default)]
struct Counts {
    faults: Vec<(Fault, usize)>,
    /// Copies of requests that were applied.
    copies: usize,
    released: usize,
    fenced: usize,
}

impl Contents {
    /// Counts an event that leads from one world to another.
    pub(super) fn count(&self, event: Event, before: &World, after: &World) {
        let counts = &mut *self.0.borrow_mut();
        match event {
            Event::Fault(fault, _) => {
                match counts.faults.iter_mut().find(|(counted, _)| *counted == fault) {
                    Some((_, count)) => *count += 1,
                    None => counts.faults.push((fault, 1)),
                }
            }
            Event::Arrive(_, _, true) => counts.copies += 1,
            _ => {}
        }
        if before.shards.len() > 1 {
            let moved = |world: &World| {
                let claims = world.shards.iter().flatten().filter(|record| record.transitions > 1);
                claims.count()
            };
            let holders = |world: &World| {
                world.shards.iter().flatten().filter(|record| record.holder.is_some()).count()
            };
            let is_owned = |shard| {
                let mut members =
                    before.processes.iter().filter_map(|process| process.member.as_ref());
                members.any(|member| owns(member, shard))
            };
            let is_beside = (0..before.shards.len()).any(is_owned);
            if moved(after) > moved(before) && is_beside {
                if holders(after) > holders(before) {
                    counts.released += 1;
                } else {
                    counts.fenced += 1;
                }
            }
        }
    }

    /// Returns the number of applied events of a fault: for duplicates, that of the copies.
    pub(super) fn faults(&self, fault: Fault) -> usize {
        let counts = self.0.borrow();
        if fault == Fault::Duplicate {
            return counts.copies;
        }
        counts.faults.iter().find(|(counted, _)| *counted == fault).map_or(0, |(_, count)| *count)
    }

    /// Returns the numbers of second claims of a shard while a member owns another one: those after
    /// a release, and those after the holder was fenced.
    pub(super) fn hand_overs(&self) -> (usize, usize) {
        let Counts { released, fenced, .. } = *self.0.borrow();
        (released, fenced)
    }
}
