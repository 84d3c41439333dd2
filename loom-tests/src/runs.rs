//! Runs schedules on shuttle: random ones, and those of PCT, a scheduler that finds faults that
//! need a few preemptions at unlikely places. A failing schedule is printed, and `--replay` runs
//! it again.

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use clap::ValueEnum;
use deltafifo_informer::compact::mutants as of_compact;
use deltafifo_informer::shared_informer::mutants as of_handlers;
use deltafifo_informer::workqueue::mutants as of_work_queue;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use crate::cores::{on_every_core, this_program};
use crate::{compact, handlers, rig, schedules, work_queue};

/// The depth of the faults that PCT searches for. PCT places one preemption fewer than this number
/// in a schedule.
const DEPTH: usize = 4;

/// Runs deltafifo's threads under random schedules.
#[derive(clap::Parser)]
pub struct Arguments {
    /// The subject whose threads run
    #[arg(value_enum, default_value = "queue")]
    subject: Subject,
    /// The number of schedules for each of the two schedulers, random and PCT
    #[arg(long, default_value_t = 2_000)]
    schedules: usize,
    /// Run with this deliberate defect (core/src/engine/sync/mutants.rs,
    /// informer/src/shared_informer/sync/mutants.rs, informer/src/compact/sync/mutants.rs,
    /// informer/src/workqueue/sync/mutants.rs)
    #[arg(long)]
    mutant: Option<String>,
    /// Try every deliberate defect of the subject, and fail if one is not found. (Those of the
    /// queue are for the models.)
    #[arg(long)]
    mutants: bool,
    /// Replay a failed schedule, as it was printed
    #[arg(long)]
    replay: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// A queue with its store, under offers and relists
    Queue,
    /// The handlers of an informer, with its workers and its walks
    Handlers,
    /// Compact objects, while bases and dictionaries change
    Compact,
    /// A work queue, under adds, reconcilers and a shutdown
    WorkQueue,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.mutants {
        return try_mutants(arguments.subject, arguments.schedules);
    }
    if arguments.mutant.as_deref().is_some_and(|name| !choose(arguments.subject, name)) {
        eprintln!("unknown mutant; the help of --mutant names the files that list them");
        return ExitCode::from(2);
    }
    let everything = match arguments.subject {
        Subject::Queue => schedules::everything,
        Subject::Handlers => handlers::everything,
        Subject::Compact => compact::everything,
        Subject::WorkQueue => work_queue::everything,
    };
    if let Some(schedule) = &arguments.replay {
        shuttle::replay(everything, schedule);
        return ExitCode::SUCCESS;
    }
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::Print;
    config.stack_size = 0x4_0000;
    for name in ["random", "pct"] {
        let start = Instant::now();
        // A failing schedule panics, which ends the program.
        let schedules = if name == "random" {
            Runner::new(RandomScheduler::new(arguments.schedules), config.clone()).run(everything)
        } else {
            Runner::new(PctScheduler::new(DEPTH, arguments.schedules), config.clone())
                .run(everything)
        };
        println!("{name}: {schedules} schedules hold, {:.0} s", start.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}

/// Chooses a mutant. Returns whether it exists.
fn choose(subject: Subject, name: &str) -> bool {
    match subject {
        Subject::Queue => {
            rig::mutant(name).inspect(|mutant| deltafifo::mutants::choose(Some(*mutant))).is_some()
        }
        Subject::Handlers => find(of_handlers::ALL, name)
            .inspect(|mutant| of_handlers::choose(Some(*mutant)))
            .is_some(),
        Subject::Compact => find(of_compact::ALL, name)
            .inspect(|mutant| of_compact::choose(Some(*mutant)))
            .is_some(),
        Subject::WorkQueue => find(of_work_queue::ALL, name)
            .inspect(|mutant| of_work_queue::choose(Some(*mutant)))
            .is_some(),
    }
}

fn find<M: Copy + Debug>(all: &[(M, &str)], name: &str) -> Option<M> {
    all.iter().map(|(mutant, _)| *mutant).find(|mutant| format!("{mutant:?}") == name)
}

/// Tries each mutant in a process of its own, because a process chooses its defect once and the
/// defect ends the process.
fn try_mutants(subject: Subject, schedules: usize) -> ExitCode {
    let mutants = match subject {
        Subject::Queue => named(deltafifo::mutants::ALL),
        Subject::Handlers => named(of_handlers::ALL),
        Subject::Compact => named(of_compact::ALL),
        Subject::WorkQueue => named(of_work_queue::ALL),
    };
    let found = Mutex::new(0);
    on_every_core(mutants.iter(), |(mutant, what)| {
        let began = Instant::now();
        let report = report(subject, mutant, schedules);
        let seconds = began.elapsed().as_secs_f64();
        let mut found = found.lock().unwrap();
        *found += usize::from(report.is_some());
        println!(
            "{mutant}: {what}\n    {}, {seconds:.1} s",
            report.as_deref().unwrap_or("NOT FOUND")
        );
    });
    let found = found.into_inner().unwrap();
    println!("{found} of {} mutants found", mutants.len());
    if found == mutants.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the names of the mutants, each with its description.
fn named<M: Debug>(all: &[(M, &'static str)]) -> Vec<(String, &'static str)> {
    all.iter().map(|(mutant, what)| (format!("{mutant:?}"), *what)).collect()
}

/// Runs the schedules with a mutant. Returns the message of the first schedule that fails, or
/// `None` if none fails. A schedule that does not end does not count as a failure.
fn report(subject: Subject, mutant: &str, schedules: usize) -> Option<String> {
    let subject = subject.to_possible_value()?;
    let schedules = schedules.to_string();
    let output = this_program()
        .args([subject.get_name(), "--mutant", mutant, "--schedules", &schedules])
        .output();
    let output = output.expect("this program can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (_, after) = stderr.split_once("panicked at ")?;
    let why = after.lines().nth(1)?.chars().take(160).collect::<String>();
    (!output.status.success() && stderr.contains("failing schedule") && !why.contains("max_steps"))
        .then_some(why)
}
