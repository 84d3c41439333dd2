//! Runs schedules on shuttle: random ones, and those of PCT, a scheduler that finds faults that
//! need a few preemptions at unlikely places. A failing schedule is printed, and `--replay` runs
//! it again.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use deltafifo_informer::shared_informer::mutants as of_handlers;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use crate::cores::{on_every_core, this_program};
use crate::{handlers, rig, schedules};

/// The number of preemptions that PCT places in a schedule.
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
    /// informer/src/shared_informer/sync/mutants.rs)
    #[arg(long)]
    mutant: Option<String>,
    /// Try every deliberate defect of the handlers, and fail if one is not found
    #[arg(long)]
    mutants: bool,
    /// Replay a failed schedule, as it was printed
    #[arg(long)]
    replay: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// A queue with its store, under offers and relists
    Queue,
    /// The handlers of an informer, with its workers and its walks
    Handlers,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.mutants {
        return try_mutants(arguments.schedules);
    }
    if arguments.mutant.as_deref().is_some_and(|name| !choose(arguments.subject, name)) {
        eprintln!("unknown mutant; the help of --mutant names the files that list them");
        return ExitCode::from(2);
    }
    let everything = match arguments.subject {
        Subject::Queue => schedules::everything,
        Subject::Handlers => handlers::everything,
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
        Subject::Handlers => {
            let found = of_handlers::ALL.iter().find(|(mutant, _)| format!("{mutant:?}") == name);
            found.inspect(|(mutant, _)| of_handlers::choose(Some(*mutant))).is_some()
        }
    }
}

/// Tries each mutant in a process of its own, because a process chooses its defect once and the
/// defect ends the process.
fn try_mutants(schedules: usize) -> ExitCode {
    let found = Mutex::new(0);
    on_every_core(of_handlers::ALL.iter(), |(mutant, what)| {
        let began = Instant::now();
        let report = report(&format!("{mutant:?}"), schedules);
        let seconds = began.elapsed().as_secs_f64();
        let mut found = found.lock().unwrap();
        *found += usize::from(report.is_some());
        println!(
            "{mutant:?}: {what}\n    {}, {seconds:.1} s",
            report.as_deref().unwrap_or("NOT FOUND")
        );
    });
    let found = found.into_inner().unwrap();
    println!("{found} of {} mutants found", of_handlers::ALL.len());
    if found == of_handlers::ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the schedules with a mutant. Returns the message of the first schedule that fails; a
/// schedule that does not end is not counted.
fn report(mutant: &str, schedules: usize) -> Option<String> {
    let schedules = schedules.to_string();
    let output =
        this_program().args(["handlers", "--mutant", mutant, "--schedules", &schedules]).output();
    let output = output.expect("this program can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (_, after) = stderr.split_once("panicked at ")?;
    let why = after.lines().nth(1)?.chars().take(160).collect::<String>();
    (!output.status.success() && stderr.contains("failing schedule") && !why.contains("max_steps"))
        .then_some(why)
}
