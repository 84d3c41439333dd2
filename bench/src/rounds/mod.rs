//! The rounds of a run. In each round every engine has a turn for its lists, and one for each other
//! workload. Each turn has a process of its own. The turns of a workload follow one another, so
//! that a slow period of the machine affects all engines alike.

mod estimate;
mod first_run;
mod need;
mod outcome;
mod plan;
mod progress;
mod turn;

use std::process::Command;

use crate::causes::with_causes;
use crate::machine::Machine;
use crate::names::Workload;
use crate::protocol::{
    ChildArgs, ChildFailed, GoPeer, Interrupt, Line, Measured, Settings, run_child,
};
use crate::report::Missed;
use crate::warm;
pub use first_run::FIRST_RUN;
use first_run::fewer;
pub use outcome::{Interrupted, Outcome};
pub use plan::Plan;
use progress::RunProgress;
use turn::Turn;
#[cfg(feature = "peers")]
pub(crate) use turn::order;

/// The state of the peer in Go, the program with the engines of client-go (`protocol/go.rs`).
#[derive(Debug)]
pub enum Go {
    /// Go is installed, but the peer is not built yet.
    Unbuilt,
    /// The peer is built.
    Built(GoPeer),
    /// No turn needs the peer, or it cannot be built.
    Absent,
}

/// Runs all child processes. If a child fails, its turn has no result, and the others still run.
pub fn run(plan: &Plan, mut go: Go, interrupt: &Interrupt) -> Outcome {
    let all = Turn::all(plan);
    let mut progress = RunProgress::new(all.len(), plan);
    let mut outcome = Outcome::default();
    if let Some(first) = all.first().filter(|_| plan.limit.is_some()) {
        // Once: each of these short turns reuses the memory that the one before has freed.
        progress.print("making memory ready");
        touch_memory(first, interrupt);
    }
    for (done, turn) in all.iter().enumerate() {
        if turn.engine.is_go() && matches!(go, Go::Unbuilt) {
            go = build(&progress, interrupt, &mut outcome);
        }
        if turn.engine.is_go() && matches!(go, Go::Absent) {
            progress.count();
            continue;
        }
        progress.begin(turn, &all[done..]);
        match run_turn(plan, turn, &go, interrupt, &progress, &mut outcome.measured) {
            Ok(version) => {
                let go = turn.engine.is_go().then(|| turn.engine.description() + ": ");
                let description = go.unwrap_or_default() + &version;
                outcome.describe(turn.engine.to_string(), &description);
                progress.record(turn);
            }
            Err(ChildFailed::Interrupted) => {
                outcome.interrupted = Some(Interrupted { done, of: all.len() });
                let missed = |turn: &Turn| missed_turn(plan, turn, &turn.to_string());
                outcome.unfinished = all[done..].iter().map(missed).collect();
                break;
            }
            Err(why) => {
                let failed = format!("{turn}: {}", with_causes(&why));
                progress.print(&format!("FAILED: {failed}; continuing with the other turns"));
                outcome.failed.push(missed_turn(plan, turn, &failed));
            }
        }
        progress.count();
        if let Some(limit) = plan.limit.filter(|_| done == 0)
            && let (spent, ahead) = (progress.elapsed(), progress.remaining(&all[1..]))
            && let Some(objects) = fewer(turn.objects, limit, spent, ahead)
        {
            let seconds = (spent + ahead).as_secs();
            eprintln!(
                "{} objects would take about {seconds} s here: measuring {objects} instead",
                turn.objects
            );
            let smaller = Plan { objects: vec![objects], limit: None, ..plan.clone() };
            return run(&smaller, go, interrupt);
        }
    }
    outcome
}

/// Builds the peer in Go. If that fails, its turns are skipped.
fn build(progress: &RunProgress<'_>, interrupt: &Interrupt, outcome: &mut Outcome) -> Go {
    progress.print(
        "building client-go with Go: up to a minute the first time, which the estimate leaves out",
    );
    match GoPeer::build() {
        Ok(peer) => Go::Built(peer),
        // Ctrl-C ends Go, too. The current turn is then the interrupted one.
        Err(_) if interrupt.is_requested_soon() => Go::Unbuilt,
        Err(why) => {
            let why = with_causes(&why);
            progress.print(&format!("skipping the engines of client-go: {why}"));
            outcome.skipped.push(format!("The engines of client-go were left out: {why}."));
            Go::Absent
        }
    }
}

fn missed_turn(plan: &Plan, turn: &Turn, message: &str) -> Missed {
    let workloads = turn.workloads(plan).iter().map(ToString::to_string).collect();
    Missed::new(turn.engine.to_string(), turn.objects, workloads, message)
}

fn run_turn(
    plan: &Plan,
    turn: &Turn,
    go: &Go,
    interrupt: &Interrupt,
    progress: &RunProgress<'_>,
    measured: &mut Vec<Measured>,
) -> Result<String, ChildFailed> {
    let Turn { engine, objects, .. } = *turn;
    let settings = Settings { workloads: turn.workloads(plan), ..plan.settings.clone() };
    if settings.owned {
        touch_memory(turn, interrupt);
    }
    let command = match go {
        // Memory is measured with Go's default settings.
        Go::Built(go) if engine.is_go() && settings.includes(Workload::Memory) => {
            go.with_defaults()
        }
        Go::Built(go) if engine.is_go() => go.with_tuning(),
        _ => own_child(&settings)?,
    };
    let args = ChildArgs { engine, objects, settings };
    run_child(command, &args, interrupt, |line| match line {
        Line::Progress(at) => progress.update(turn, &at),
        Line::Row(row) => {
            progress.print_figure(turn, &row);
            measured.push(Measured { engine: engine.to_string(), objects, row });
        }
        Line::Done { .. } => {}
    })
}

/// Touches and frees as much memory as the turn's process will use, before that process starts.
/// Otherwise the process would wait for the host to return memory to the virtual machine (see
/// [`warm`]).
fn touch_memory(turn: &Turn, interrupt: &Interrupt) {
    warm::before_process(turn.engine, turn.objects, Machine::available_bytes(), || {
        !interrupt.is_requested()
    });
}

/// Returns a command that starts this binary as the child process of an engine.
fn own_child(settings: &Settings) -> Result<Command, ChildFailed> {
    let own = std::env::current_exe()
        .map_err(|source| ChildFailed::Start { program: "the program itself".into(), source })?;
    let mut command = Command::new(own);
    command.arg("--child");
    if !settings.owned {
        command.arg("--without-owned");
    }
    if settings.includes(Workload::Memory) {
        // mimalloc then returns free pages at once, so that resident memory is memory in use.
        command.env("MIMALLOC_PURGE_DELAY", "0");
    }
    if settings.includes(Workload::Cache) {
        // A huge page is resident as a whole, with its 2 MiB, even if only one object is in it.
        command.env("MIMALLOC_ALLOW_THP", "0");
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::EngineName;

    #[test]
    fn each_workload_has_the_allocator_that_it_measures() {
        let engines = [EngineName::DeltaFifo];
        for (workload, expected) in [
            (Workload::Relist, &[][..]),
            (Workload::Memory, &[("MIMALLOC_PURGE_DELAY", "0")]),
            (Workload::Cache, &[("MIMALLOC_ALLOW_THP", "0")]),
        ] {
            let command = own_child(&Plan::of(&engines, &[workload], 10).settings).unwrap();
            let set: Vec<_> = command
                .get_envs()
                .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
                .collect();
            assert_eq!(set, expected, "{workload}");
        }
    }
}
