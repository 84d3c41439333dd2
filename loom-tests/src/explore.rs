//! Explores models: every schedule of a model's threads, and every value that a load may return.
//!
//! A model that explored nothing would pass. Each model therefore states the minimum number of
//! iterations, and the exact set of outcomes. loom's own limits on permutations and time are off,
//! because loom reports a truncated exploration as a success.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use deltafifo::mutants;

use crate::cores::{on_every_core, this_program};
use crate::rig::mutant;
use crate::{Arguments, models};

/// A model: a small program of a few threads, with the outcomes that it may have.
pub struct Model {
    /// The name, `file::subject`.
    pub name: &'static str,
    /// The largest number of preemptions in a schedule. A preemption is a switch away from a
    /// thread that could continue. `None` means no limit.
    ///
    /// A model has a limit only if it takes more than 30 s without one (`--unbounded`). Most would
    /// take far longer, because an access is two steps (`sync/gated.rs`) and an offer is about
    /// forty. The limits are as high as they can be if all models together are to end within some
    /// minutes. The comment next to a limit is the time that the model took on a busy machine with
    /// two cores.
    pub bound: Option<usize>,
    /// The minimum number of iterations: the last measured number, rounded down. A lower number
    /// means that the model explores less than before. A change or a defect that removes steps
    /// from a path lowers the number.
    pub at_least: usize,
    /// The exact set of outcomes.
    pub outcomes: &'static [&'static str],
    /// The function that runs one iteration and returns its outcome.
    pub body: fn() -> String,
}

/// The number of iterations, beyond three times [`Model::at_least`], after which a model is assumed
/// never to end.
const ENDLESS: usize = 300_000;
/// The panic message of a model that is assumed never to end.
const NO_END: &str = "it has no end";

/// The messages with which loom reports that a model breaks a rule. The last one appears when an
/// `Arc` is made from a pointer to a freed object. Any other panic inside loom is a failure of
/// loom.
const REPORTS: [&str; 5] =
    ["deadlock", "Causality violation", "leaked", "oncurrent", "no entry found for key"];

/// The reason why the exploration of a model failed.
enum Failure {
    /// A schedule violated an assertion or one of loom's rules, or the outcomes are not the
    /// expected ones.
    Broken(String),
    /// No verdict: the model explored too few schedules, does not end, or loom itself failed.
    NoVerdict(String),
}

/// The exit code for a model that does not hold. Only a model with this exit code kills a mutant.
pub const BROKEN: u8 = 1;
/// The exit code if there is no verdict on a model (see `Failure`).
pub const NO_VERDICT: u8 = 3;

/// The start of the line that a panic prints.
pub const PANICKED: &str = "panicked: ";
/// The text before the reason, in the line that is printed if the exploration of a model failed.
pub const FAILED: &str = "FAILED: ";

/// The message of the model's first panic. Later panics follow from it.
static FIRST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Installs a panic hook that prints the message of a panic in one line and records the first.
fn record_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message =
            panic.payload_as_str().unwrap_or("no text").lines().collect::<Vec<_>>().join(" ");
        let place = panic
            .location()
            .map_or_else(String::new, |place| format!("{}:{}", place.file(), place.line()));
        let line = format!("{message} ({place})");
        eprintln!("{PANICKED}{line}");
        FIRST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(line);
    }));
}

/// Returns whether a panic comes from the model, and not from loom itself.
pub fn is_model_failure(message: &str) -> bool {
    let of_loom =
        message.contains("/loom-0.") && !REPORTS.iter().any(|report| message.contains(report));
    !of_loom && !message.starts_with(NO_END)
}

/// Explores the selected models. A single model runs in this process. Several models run each in a
/// process of its own, as many at a time as there are cores.
pub fn run(arguments: &Arguments) -> ExitCode {
    let names = &arguments.models;
    let chosen = arguments.mutant.as_deref().map(mutant);
    if chosen == Some(None) {
        eprintln!("unknown mutant; core/src/engine/sync/mutants.rs lists the names");
        return ExitCode::from(2);
    }
    mutants::choose(chosen.flatten());
    let matches = |model: &Model, name: &str| {
        if arguments.exact { model.name == name } else { model.name.contains(name) }
    };
    let is_selected =
        |model: &&Model| names.is_empty() || names.iter().any(|name| matches(model, name));
    let is_small = |model: &&Model| arguments.at_most.is_none_or(|most| model.at_least <= most);
    let models: Vec<_> = models::all().into_iter().filter(is_selected).filter(is_small).collect();
    match models.as_slice() {
        [] => ExitCode::from(2),
        [model] => run_here(model, arguments.unbounded),
        models => run_each(models, arguments),
    }
}

fn run_here(model: &'static Model, unbounded: bool) -> ExitCode {
    record_panics();
    let Err(failure) = explore(model, unbounded) else { return ExitCode::SUCCESS };
    let (code, why) = match failure {
        Failure::Broken(why) => (BROKEN, why),
        Failure::NoVerdict(why) => (NO_VERDICT, why),
    };
    println!("{:44} {FAILED}{why}", model.name);
    ExitCode::from(code)
}

/// Runs each model in a process of its own, so that a panic is attributed to the right model.
fn run_each(models: &[&Model], arguments: &Arguments) -> ExitCode {
    let (held, stdout) = (AtomicUsize::new(0), Mutex::new(io::stdout()));
    on_every_core(models.iter(), |model| {
        let mut command = this_program();
        command.args(["--exact", model.name]);
        command.args(arguments.mutant.iter().flat_map(|mutant| ["--mutant", mutant]));
        command.args(arguments.unbounded.then_some("--unbounded"));
        let output = command.output().expect("this program can be started");
        // Relaxed: a counter that is read when the threads have ended.
        held.fetch_add(usize::from(output.status.success()), Ordering::Relaxed);
        let mut stdout = stdout.lock().unwrap();
        io::stderr()
            .write_all(&output.stderr)
            .and_then(|()| stdout.write_all(&output.stdout))
            .unwrap();
    });
    let held = held.into_inner();
    println!("{held} of {} models hold", models.len());
    if held == models.len() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
}

fn explore(model: &'static Model, unbounded: bool) -> Result<(), Failure> {
    let iterations = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let start = Instant::now();

    let mut builder = loom::model::Builder::new();
    let bound = if unbounded { None } else { model.bound };
    builder.preemption_bound = bound;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.max_branches = 5_000;
    let (counted, outcomes) = (iterations.clone(), seen.clone());
    let check = move || {
        // Relaxed: a counter, on one system thread.
        let count = counted.fetch_add(1, Ordering::Relaxed);
        assert!(count < 3 * model.at_least + ENDLESS, "{NO_END}");
        let outcome = (model.body)();
        assert!(
            model.outcomes.contains(&outcome.as_str()),
            "{outcome:?} is not an outcome of this model"
        );
        outcomes.lock().unwrap().insert(outcome);
    };
    *FIRST_PANIC.lock().unwrap() = None;
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.check(check))).is_err() {
        let message = FIRST_PANIC.lock().unwrap().take().unwrap_or_default();
        let why = format!("schedule {}: {message}", iterations.load(Ordering::Relaxed));
        return Err(if is_model_failure(&message) {
            Failure::Broken(why)
        } else {
            Failure::NoVerdict(why)
        });
    }

    let iterations = iterations.load(Ordering::Relaxed);
    let bound = bound.map_or("none".to_owned(), |bound| bound.to_string());
    println!(
        "{:44} {iterations:8} iterations, bound {bound:4}, {:6.1} s",
        model.name,
        start.elapsed().as_secs_f64()
    );
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let expected: BTreeSet<_> =
        model.outcomes.iter().map(|outcome| (*outcome).to_owned()).collect();
    let missing: Vec<_> = expected.difference(&seen).collect();
    if !missing.is_empty() {
        return Err(Failure::Broken(format!("outcomes that no schedule had: {missing:?}")));
    }
    if iterations < model.at_least {
        return Err(Failure::NoVerdict(format!(
            "at least {} iterations were expected",
            model.at_least
        )));
    }
    Ok(())
}
