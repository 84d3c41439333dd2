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
    /// The [process](Workload::process) of the turn's workloads.
    pub process: Workload,
}

impl Turn {
    /// Returns all turns in order: by round, by number of objects, by workload, and by engine. So
    /// the figures of a workload are measured one after another.
    pub fn all(plan: &Plan) -> Vec<Self> {
        let (mut all, rounds) = (Vec::new(), plan.rounds);
        for round in 1..=rounds {
            for objects in plan.objects.iter().copied() {
                for process in Workload::ALL.iter().copied() {
                    let turns = order(&plan.engines, round).into_iter().map(|engine| Self {
                        round,
                        rounds,
                        objects,
                        engine,
                        process,
                    });
                    all.extend(turns.filter(|turn| !turn.workloads(plan).is_empty()));
                }
            }
        }
        all
    }

    /// Returns the workloads of the turn.
    pub fn workloads(&self, plan: &Plan) -> Vec<Workload> {
        let is_mine =
            |workload: &Workload| self.engine.can(*workload) && workload.process() == self.process;
        plan.settings.workloads.iter().copied().filter(is_mine).collect()
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
        let Self { round, rounds, objects, engine, process } = self;
        write!(f, "round {round}/{rounds}: {engine}, {objects} objects")?;
        if process.is_list() { Ok(()) } else { write!(f, ", {process}") }
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

    #[test]
    fn lists_share_a_process_and_other_workloads_have_their_own() {
        let workloads = [Workload::Relist, Workload::Stall, Workload::Initial, Workload::Memory];
        let plan = Plan::of(&[EngineName::Floor, EngineName::Mutex], &workloads, 10);
        let turns: Vec<_> = Turn::all(&plan)
            .iter()
            .take(4)
            .map(|turn| (turn.to_string(), turn.workloads(&plan)))
            .collect();
        let lists = vec![Workload::Relist, Workload::Initial];
        assert_eq!(
            turns,
            [
                ("round 1/3: floor, 10 objects".to_owned(), lists.clone()),
                ("round 1/3: mutex, 10 objects".to_owned(), lists),
                ("round 1/3: mutex, 10 objects, stall".to_owned(), vec![Workload::Stall]),
                ("round 1/3: mutex, 10 objects, memory".to_owned(), vec![Workload::Memory]),
            ]
        );
    }
}
