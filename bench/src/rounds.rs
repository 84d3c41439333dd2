//! The rounds of a run: in each, every engine has its turn in a process of its own, so that a slow spell of the machine
//! meets all alike.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::engines::EngineName;
use crate::protocol::{ChildFailed, GoPeer, Progress, Row, run_child};
use crate::report::Machine;
use crate::warm;
use crate::workloads::{ChildArgs, Workload};

/// What a run is to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// These engines, in this order,
    pub engines: Vec<EngineName>,
    /// these workloads,
    pub workloads: Vec<Workload>,
    /// with this many objects,
    pub objects: usize,
    /// made from this list response, or generated,
    pub input: Option<PathBuf>,
    /// so many times;
    pub rounds: usize,
    /// this is how long a stall run offers, and readers read.
    pub length: Duration,
}

/// Runs all children, and writes down in `machine` what they say they are.
///
/// # Errors
/// The first child's that fails.
pub fn run(plan: &Plan, go: Option<&GoPeer>, machine: &mut Machine) -> Result<Vec<(EngineName, Row)>, ChildFailed> {
    let own = std::env::current_exe()
        .map_err(|source| ChildFailed::Start { program: "the program itself".into(), source })?;
    let child = |engine: EngineName, workloads: Vec<Workload>, progress: &mut dyn FnMut(&Progress)| {
        let program = if engine.is_go() { go.map_or(&own, |go| &go.program) } else { &own };
        let (objects, input, length) = (plan.objects, plan.input.clone(), plan.length);
        run_child(program, &ChildArgs { engine, workloads, objects, input, length }, progress)
    };
    let mut rows = Vec::new();
    let turns = Turns::new(plan);
    for round in 1..=plan.rounds {
        let round = format!("round {round}/{}", plan.rounds);
        for engine in plan.engines.iter().copied() {
            let can = plan.workloads.iter().copied().filter(|workload| engine.can(*workload));
            // Memory is measured in a process that has done nothing else.
            let (alone, together): (Vec<_>, Vec<_>) = can.partition(|workload| *workload == Workload::Memory);
            for workloads in [together, alone].into_iter().filter(|workloads| !workloads.is_empty()) {
                turns.begin(&round, engine);
                // Not for the peers in Go: they take their memory over many seconds, in which it would be given away.
                if !engine.is_go() {
                    warm::before_process(plan.objects, Machine::available_bytes());
                }
                let (measured, version) = child(engine, workloads, &mut |at| turns.at(&round, engine, at))?;
                rows.extend(measured.into_iter().map(|row| (engine, row)));
                let description = if engine.is_go() { format!("{}: {version}", engine.description()) } else { version };
                machine.engines.insert(engine.name(), description);
            }
            turns.end();
        }
    }
    Ok(rows)
}

/// Progress on standard error: a bar on a terminal, else one line a turn.
struct Turns {
    bar: ProgressBar,
}

impl Turns {
    fn new(plan: &Plan) -> Self {
        let bar = ProgressBar::new((plan.rounds * plan.engines.len()) as u64);
        let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    fn begin(&self, round: &str, engine: EngineName) {
        if self.bar.is_hidden() {
            eprintln!("{round}: {engine} ({:.0} s so far)", self.bar.elapsed().as_secs_f64());
        }
    }

    fn at(&self, round: &str, engine: EngineName, at: &Progress) {
        let of = if at.total > 0 { format!(" {}/{}", at.done, at.total) } else { String::new() };
        self.bar.set_message(format!("{round}: {engine}: {}{of}", at.what));
    }

    fn end(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
