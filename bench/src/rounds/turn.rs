//! The turns of a run.

use std::fmt;

use super::plan::Plan;
use crate::names::{EngineName, Workload};

/// A turn: the run of one child process.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    round: usize,
    rounds: usize,
    pub objects: usize,
    pub engine: EngineName,
    /// Whether the turn measures memory, which needs a process that has done nothing else.
    pub memory: bool,
}

impl Turn {
    /// Returns all turns in order: by round, then by number of objects, then by engine. The
    /// workload `memory` of an engine has a turn of its own, after that of its other workloads.
    pub fn all(plan: &Plan) -> Vec<Self> {
        let (mut all, rounds) = (Vec::new(), plan.rounds);
        for round in 1..=rounds {
            for objects in plan.objects.iter().copied() {
                for engine in order(&plan.engines, round) {
                    let turns =
                        [false, true].map(|memory| Self { round, rounds, objects, engine, memory });
                    let has_work = |turn: &Self| !turn.workloads(plan).is_empty();
                    all.extend(turns.into_iter().filter(has_work));
                }
            }
        }
        all
    }

    /// Returns the workloads of the turn.
    pub fn workloads(&self, plan: &Plan) -> Vec<Workload> {
        let mine = |workload: &Workload| {
            self.engine.can(*workload) && self.memory == (*workload == Workload::Memory)
        };
        plan.settings.workloads.iter().copied().filter(mine).collect()
    }
}

/// Returns the engines or clients in the order of round number `round`. Every second round has the
/// opposite order, so that none always runs after the same neighbour.
pub fn order<T: Copy>(all: &[T], round: usize) -> Vec<T> {
    let mut all = all.to_vec();
    if round.is_multiple_of(2) {
        all.reverse();
    }
    all
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, rounds, objects, engine, memory } = self;
        let what = if *memory { ", memory" } else { "" };
        write!(f, "round {round}/{rounds}: {engine}, {objects} objects{what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_round_has_the_opposite_order() {
        let plan = Plan::of(&[EngineName::Floor, EngineName::Mutex], &[Workload::Relist], 10);
        let order: Vec<_> = Turn::all(&plan).iter().map(|turn| turn.engine.name()).collect();
        assert_eq!(order, ["floor", "mutex", "mutex", "floor", "floor", "mutex"]);
    }
}
