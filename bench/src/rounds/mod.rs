//! The rounds of a run: in each, every engine has its turn in a process of its own, so that a slow spell of the machine
//! meets all alike.

mod guess;
mod need;
mod said;
mod turns;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::engines::EngineName;
use crate::protocol::{ChildFailed, GoPeer, Interrupt, Line, Row, run_child};
use crate::report::{Machine, Missed};
use crate::warm;
use crate::workloads::{ChildArgs, Workload};
pub use need::TooLarge;
use said::Said;
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
pub struct Measured<E = EngineName> {
    /// The engine, or the client of a server,
    pub engine: E,
    /// with so many objects.
    pub objects: usize,
    /// The figure.
    pub row: Row,
}

/// What a run brought.
#[derive(Debug)]
pub struct Outcome<E = EngineName> {
    /// All rows, also those of turns that ended before their time: a row that was told is complete.
    pub measured: Vec<Measured<E>>,
    /// What the engines say they are, by their names.
    pub engines: BTreeMap<String, String>,
    /// The turns that failed, and why.
    pub failed: Vec<Missed>,
    /// The turns that did not come to their end because this process was asked to end.
    pub not_run: Vec<Missed>,
    /// How far it came, if this process was asked to end.
    pub interrupted: Option<Interrupted>,
}

impl<E> Outcome<E> {
    /// Whether everything was measured.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.interrupted.is_none()
    }
}

impl<E> Default for Outcome<E> {
    fn default() -> Self {
        let (measured, engines, interrupted) = (Vec::new(), BTreeMap::new(), None);
        Self { measured, engines, failed: Vec::new(), not_run: Vec::new(), interrupted }
    }
}

/// This process was asked to end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted; {done} of {of} turns were done, and only what was measured by then is reported")]
pub struct Interrupted {
    pub(crate) done: usize,
    pub(crate) of: usize,
}

/// Runs all children. One that fails costs its turn, and nothing else.
#[must_use]
pub fn run(plan: &Plan, go: Option<&GoPeer>, interrupt: &Interrupt) -> Outcome {
    let all = Turn::all(plan);
    let mut turns = Turns::new(&all, plan);
    let (mut outcome, mut said) = (Outcome::default(), Said::default());
    for (done, turn) in all.iter().enumerate() {
        turns.begin(turn, &all[done..]);
        match take(plan, turn, go, interrupt, &turns, &mut outcome.measured) {
            Ok(version) => said.note(turn, version),
            Err(ChildFailed::Interrupted) => {
                outcome.interrupted = Some(Interrupted { done, of: all.len() });
                outcome.not_run = all[done..].iter().map(|turn| missed(plan, turn, &turn.to_string())).collect();
                break;
            }
            Err(why) => {
                let failed = format!("{turn}: {why}");
                turns.failed(&failed);
                outcome.failed.push(missed(plan, turn, &failed));
            }
        }
        turns.end(turn);
    }
    outcome.engines = said.descriptions();
    outcome
}

fn missed(plan: &Plan, turn: &Turn, said: &str) -> Missed {
    let workloads = turn.workloads(plan).iter().map(ToString::to_string).collect();
    Missed::new(turn.engine.to_string(), turn.objects, workloads, said)
}

fn take(
    plan: &Plan,
    turn: &Turn,
    go: Option<&GoPeer>,
    interrupt: &Interrupt,
    turns: &Turns,
    measured: &mut Vec<Measured>,
) -> Result<String, ChildFailed> {
    let Turn { engine, objects, memory, .. } = *turn;
    warm::before_process(engine, objects, Machine::available_bytes(), || !interrupt.asked());
    let command = match go.filter(|_| engine.is_go()) {
        // Memory is measured with what everybody has.
        Some(go) if memory => go.as_it_is(),
        Some(go) => go.at_its_best(),
        None => own_child(memory)?,
    };
    let (input, length) = (plan.input.clone(), plan.length);
    let args = ChildArgs { engine, workloads: turn.workloads(plan), objects, input, length };
    run_child(command, &args, interrupt, |line| match line {
        Line::Progress(at) => turns.at(turn, &at),
        Line::Row(row) => measured.push(Measured { engine, objects, row }),
        Line::Done(_) | Line::Version(_) => {}
    })
}

/// What starts this binary as an engine's child.
fn own_child(memory: bool) -> Result<Command, ChildFailed> {
    let own = std::env::current_exe()
        .map_err(|source| ChildFailed::Start { program: "the program itself".into(), source })?;
    let mut command = Command::new(own);
    command.arg("--child");
    if memory {
        // What is free is given back at once, so that what is resident is in use.
        command.env("MIMALLOC_PURGE_DELAY", "0");
    }
    Ok(command)
}
