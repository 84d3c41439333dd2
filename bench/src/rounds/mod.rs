//! The rounds of a run: in each, every engine has its turn in a process of its own, so that a slow spell of the machine
//! meets all alike.

mod turns;

use std::path::PathBuf;
use std::time::Duration;

use crate::engines::EngineName;
use crate::protocol::{ChildFailed, GoPeer, Interrupt, Row, run_child};
use crate::report::Machine;
use crate::warm;
use crate::workloads::{ChildArgs, Workload};
use turns::{Turn, Turns};

/// What a run is to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// These engines, in this order,
    pub engines: Vec<EngineName>,
    /// these workloads,
    pub workloads: Vec<Workload>,
    /// with each of these numbers of objects,
    pub objects: Vec<usize>,
    /// made from this list response, or generated,
    pub input: Option<PathBuf>,
    /// so many times;
    pub rounds: usize,
    /// this is how long a stall run offers, and readers read.
    pub length: Duration,
}

/// A row, and of what it is.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The engine,
    pub engine: EngineName,
    /// with so many objects.
    pub objects: usize,
    /// The figure.
    pub row: Row,
}

/// A run that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("{why}; {done} of {of} turns were done, and only those are reported")]
pub struct Unfinished {
    /// What ended it.
    pub why: ChildFailed,
    done: usize,
    of: usize,
}

/// Runs all children. Writes down in `machine` what they say they are, and in `measured` what the finished turns brought,
/// also when not all of them can be had.
///
/// # Errors
/// At the first child that fails, and when this process is asked to end.
pub fn run(
    plan: &Plan,
    go: Option<&GoPeer>,
    interrupt: &Interrupt,
    machine: &mut Machine,
    measured: &mut Vec<Measured>,
) -> Result<(), Unfinished> {
    let all = Turn::all(plan);
    let mut turns = Turns::new(&all);
    for (done, turn) in all.iter().enumerate() {
        turns.begin(turn, &all[done..]);
        let (rows, version) =
            take(plan, turn, go, interrupt, &turns).map_err(|why| Unfinished { why, done, of: all.len() })?;
        turns.end(turn);
        let Turn { engine, objects, .. } = *turn;
        measured.extend(rows.into_iter().map(|row| Measured { engine, objects, row }));
        let description = if engine.is_go() { format!("{}: {version}", engine.description()) } else { version };
        machine.engines.insert(engine.to_string(), description);
    }
    Ok(())
}

fn take(
    plan: &Plan,
    turn: &Turn,
    go: Option<&GoPeer>,
    interrupt: &Interrupt,
    turns: &Turns,
) -> Result<(Vec<Row>, String), ChildFailed> {
    let Turn { engine, objects, .. } = *turn;
    let own = std::env::current_exe()
        .map_err(|source| ChildFailed::Start { program: "the program itself".into(), source })?;
    warm::before_process(engine, objects, Machine::available_bytes(), || !interrupt.asked());
    let program = go.filter(|_| engine.is_go()).map_or(&own, |go| &go.program);
    let (input, length) = (plan.input.clone(), plan.length);
    let args = ChildArgs { engine, workloads: turn.workloads(plan), objects, input, length };
    run_child(program, &args, interrupt, |at| turns.at(turn, at))
}
