//! The rounds of a run. In each round every engine has a turn in a process of its own, so that a
//! slow period of the machine affects all of them alike.

mod first_run;
mod guess;
mod need;
mod outcome;
mod plan;
mod said;
mod turn;
mod turns;

use std::process::Command;

use crate::machine::Machine;
use crate::protocol::{ChildArgs, ChildFailed, GoPeer, Interrupt, Line, Measured, run_child};
use crate::report::Missed;
use crate::warm;
pub use first_run::FIRST_RUN;
use first_run::fewer;
pub use need::TooLarge;
pub use outcome::{Interrupted, Outcome};
pub use plan::Plan;
use said::Said;
use turn::Turn;
use turns::Turns;

/// The state of the peer in Go.
#[derive(Debug)]
pub enum Go {
    /// Go is installed, and builds the peer before its first turn.
    Unbuilt,
    /// The peer is built.
    Built(GoPeer),
    /// No turn needs the peer, or it cannot be built.
    Absent,
}

/// Runs all child processes. A child that fails loses its turn; the others run.
#[must_use]
pub fn run(plan: &Plan, mut go: Go, interrupt: &Interrupt) -> Outcome {
    let all = Turn::all(plan);
    let mut turns = Turns::new(&all, plan);
    let (mut outcome, mut said) = (Outcome::default(), Said::default());
    if let Some(first) = all.first().filter(|_| plan.limit.is_some()) {
        // Once: each of these short turns reuses the memory that the one before has freed.
        turns.say("making memory ready");
        make_ready(first, interrupt);
    }
    for (done, turn) in all.iter().enumerate() {
        if turn.engine.is_go() && matches!(go, Go::Unbuilt) {
            go = build(&turns, interrupt, &mut outcome);
        }
        if turn.engine.is_go() && matches!(go, Go::Absent) {
            turns.skip();
            continue;
        }
        turns.begin(turn, &all[done..]);
        match take(plan, turn, &go, interrupt, &turns, &mut outcome.measured) {
            Ok(version) => said.note(turn, version),
            Err(ChildFailed::Interrupted) => {
                outcome.interrupted = Some(Interrupted { done, of: all.len() });
                outcome.not_run =
                    all[done..].iter().map(|turn| missed(plan, turn, &turn.to_string())).collect();
                break;
            }
            Err(why) => {
                let failed = format!("{turn}: {why}");
                turns.failed(&failed);
                outcome.failed.push(missed(plan, turn, &failed));
            }
        }
        turns.end(turn);
        if let Some(limit) = plan.limit.filter(|_| done == 0)
            && let (spent, ahead) = (turns.elapsed(), turns.left(&all[1..]))
            && let Some(objects) = fewer(turn.objects, limit, spent, ahead)
        {
            let seconds = (spent + ahead).as_secs();
            eprintln!(
                "{} objects would take about {seconds} s here: measuring {objects} instead",
                turn.objects
            );
            return run(
                &Plan { objects: vec![objects], limit: None, ..plan.clone() },
                go,
                interrupt,
            );
        }
    }
    outcome.engines = said.descriptions();
    outcome
}

/// Builds the peer in Go. If that fails, its turns are skipped.
fn build(turns: &Turns, interrupt: &Interrupt, outcome: &mut Outcome) -> Go {
    turns.say(
        "building client-go with Go: up to a minute the first time, which the estimate leaves out",
    );
    match GoPeer::build() {
        Ok(peer) => Go::Built(peer),
        // Ctrl-C ends Go, too. The current turn is then the interrupted one.
        Err(_) if interrupt.asked_soon() => Go::Unbuilt,
        Err(why) => {
            turns.say(&format!("skipping the engines of client-go: {why}"));
            outcome.skipped.push(format!("The engines of client-go were left out: {why}."));
            Go::Absent
        }
    }
}

fn missed(plan: &Plan, turn: &Turn, said: &str) -> Missed {
    let workloads = turn.workloads(plan).iter().map(ToString::to_string).collect();
    Missed::new(turn.engine.to_string(), turn.objects, workloads, said)
}

fn take(
    plan: &Plan,
    turn: &Turn,
    go: &Go,
    interrupt: &Interrupt,
    turns: &Turns,
    measured: &mut Vec<Measured>,
) -> Result<String, ChildFailed> {
    let Turn { engine, objects, memory, .. } = *turn;
    if plan.owned {
        make_ready(turn, interrupt);
    }
    let command = match go {
        // Memory is measured with Go's default settings.
        Go::Built(go) if engine.is_go() && memory => go.as_it_is(),
        Go::Built(go) if engine.is_go() => go.at_its_best(),
        _ => own_child(memory, plan.owned)?,
    };
    let (input, length, owned) = (plan.input.clone(), plan.length, plan.owned);
    let args = ChildArgs { engine, workloads: turn.workloads(plan), objects, input, length, owned };
    run_child(command, &args, interrupt, |line| match line {
        Line::Progress(at) => turns.at(turn, &at),
        Line::Row(row) => {
            turns.figure(turn, &row);
            measured.push(Measured { engine, objects, row });
        }
        Line::Done(_) | Line::Version(_) => {}
    })
}

/// Touches the memory of a turn's process.
fn make_ready(turn: &Turn, interrupt: &Interrupt) {
    warm::before_process(turn.engine, turn.objects, Machine::available_bytes(), || {
        !interrupt.asked()
    });
}

/// Returns a command that starts this binary as the child of an engine.
fn own_child(memory: bool, owned: bool) -> Result<Command, ChildFailed> {
    let own = std::env::current_exe()
        .map_err(|source| ChildFailed::Start { program: "the program itself".into(), source })?;
    let mut command = Command::new(own);
    command.arg("--child");
    if !owned {
        command.arg("--without-owned");
    }
    if memory {
        // mimalloc then returns free pages at once, so that resident memory is memory in use.
        command.env("MIMALLOC_PURGE_DELAY", "0");
    }
    Ok(command)
}
