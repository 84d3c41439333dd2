//! What a model is, and its exploration: every schedule of its threads, and every value a load may see.
//!
//! A model that explores nothing would pass, so each says how many iterations it takes at least and exactly which
//! outcomes they have. loom's own limits on permutations and time are off: it calls a truncated exploration a success.

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

/// A model.
pub struct Model {
    /// `file::what`.
    pub name: &'static str,
    /// How often a schedule may preempt a thread that could go on. `None`: as often as there is a step. Where there is a
    /// bound it is because without one (`--unbounded`) the model took more than 30 s, most far more: an access is two steps
    /// (`sync/gated.rs`), and an offer some forty. It is as high as lets all of them together end within some minutes; the time
    /// that it took, on a busy machine with two cores, stands beside it.
    pub bound: Option<usize>,
    /// Fewer iterations mean that it no longer explores what it did: what it took when it was last measured, rounded down.
    /// A change that takes steps out of a path lowers it, and so does a defect that does.
    pub at_least: usize,
    /// All outcomes, no more and no fewer.
    pub outcomes: &'static [&'static str],
    /// One iteration. What it returns is its outcome.
    pub body: fn() -> String,
}

/// A model that took so many iterations more than its floor would have no end.
const ENDLESS: usize = 300_000;
const NO_END: &str = "it has no end";

/// What loom itself says when a model breaks a rule; the last, when an `Arc` is made of a pointer whose object is gone. Any
/// other panic of its code is its own failure.
const REPORTS: [&str; 5] = ["deadlock", "Causality violation", "leaked", "oncurrent", "no entry found for key"];

/// Why a model does not hold.
enum Failure {
    /// A schedule broke it, by an assertion or one of loom's reports, or its outcomes are others.
    Broken(String),
    /// It explored less than it did, or would have no end, or loom failed: nothing is known.
    NoVerdict(String),
}

/// Exit codes: with a mutant, only the first is a kill.
pub const BROKEN: u8 = 1;
pub const NO_VERDICT: u8 = 3;

/// Begins the line that a panic prints.
pub const PANICKED: &str = "panicked: ";
/// In the line of a model that does not hold, before the reason.
pub const FAILED: &str = "FAILED: ";

/// What the model's first panic said. The others follow from it.
static FIRST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Notes what is said of a panic, in a line.
fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no text").lines().collect::<Vec<_>>().join(" ");
        let place = panic.location().map_or_else(String::new, |place| format!("{}:{}", place.file(), place.line()));
        let said = format!("{message} ({place})");
        eprintln!("{PANICKED}{said}");
        FIRST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(said);
    }));
}

/// Whether a panic says something of the model, and not of loom.
pub fn is_of_the_model(said: &str) -> bool {
    let of_loom = said.contains("/loom-0.") && !REPORTS.iter().any(|report| said.contains(report));
    !of_loom && !said.starts_with(NO_END)
}

/// Explores the models that were asked for: one in this process, several in one each, on every core.
pub fn run(arguments: &Arguments) -> ExitCode {
    let names = &arguments.models;
    let chosen = arguments.mutant.as_deref().map(mutant);
    if chosen == Some(None) {
        eprintln!("no such mutant; they stand in core/src/engine/sync/mutants.rs");
        return ExitCode::from(2);
    }
    mutants::choose(chosen.flatten());
    let matches =
        |model: &Model, name: &str| if arguments.exact { model.name == name } else { model.name.contains(name) };
    let asked = |model: &&Model| names.is_empty() || names.iter().any(|name| matches(model, name));
    let models: Vec<_> = models::all().into_iter().filter(asked).collect();
    match models.as_slice() {
        [] => ExitCode::from(2),
        [model] => here(model, arguments.unbounded),
        models => side_by_side(models, arguments),
    }
}

fn here(model: &'static Model, unbounded: bool) -> ExitCode {
    note_panics();
    let Err(failure) = explore(model, unbounded) else { return ExitCode::SUCCESS };
    let (code, why) = match failure {
        Failure::Broken(why) => (BROKEN, why),
        Failure::NoVerdict(why) => (NO_VERDICT, why),
    };
    println!("{:44} {FAILED}{why}", model.name);
    ExitCode::from(code)
}

/// Each in a process of its own, so that no panic of one is another's.
fn side_by_side(models: &[&Model], arguments: &Arguments) -> ExitCode {
    let (holding, stdout) = (AtomicUsize::new(0), Mutex::new(io::stdout()));
    on_every_core(models.iter(), |model| {
        let mut command = this_program();
        command.args(["--exact", model.name]);
        command.args(arguments.mutant.iter().flat_map(|mutant| ["--mutant", mutant]));
        command.args(arguments.unbounded.then_some("--unbounded"));
        let output = command.output().expect("this program can be started");
        // Relaxed: a count, read when the threads have ended.
        holding.fetch_add(usize::from(output.status.success()), Ordering::Relaxed);
        let mut stdout = stdout.lock().unwrap();
        io::stderr().write_all(&output.stderr).and_then(|()| stdout.write_all(&output.stdout)).unwrap();
    });
    let holding = holding.into_inner();
    println!("{holding} of {} models hold", models.len());
    if holding == models.len() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) }
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
    let (counted, noted) = (iterations.clone(), seen.clone());
    let check = move || {
        // Relaxed: a count, on one thread of the system.
        let count = counted.fetch_add(1, Ordering::Relaxed);
        assert!(count < 3 * model.at_least + ENDLESS, "{NO_END}");
        let outcome = (model.body)();
        assert!(model.outcomes.contains(&outcome.as_str()), "{outcome:?} is none of its outcomes");
        noted.lock().unwrap().insert(outcome);
    };
    *FIRST_PANIC.lock().unwrap() = None;
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.check(check))).is_err() {
        let said = FIRST_PANIC.lock().unwrap().take().unwrap_or_default();
        let why = format!("schedule {}: {said}", iterations.load(Ordering::Relaxed));
        return Err(if is_of_the_model(&said) { Failure::Broken(why) } else { Failure::NoVerdict(why) });
    }

    let iterations = iterations.load(Ordering::Relaxed);
    let bound = bound.map_or("none".to_owned(), |bound| bound.to_string());
    println!("{:44} {iterations:8} iterations, bound {bound:4}, {:6.1} s", model.name, start.elapsed().as_secs_f64());
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let expected: BTreeSet<_> = model.outcomes.iter().map(|outcome| (*outcome).to_owned()).collect();
    let missing: Vec<_> = expected.difference(&seen).collect();
    if !missing.is_empty() {
        return Err(Failure::Broken(format!("outcomes that no schedule had: {missing:?}")));
    }
    if iterations < model.at_least {
        return Err(Failure::NoVerdict(format!("at least {} iterations were expected", model.at_least)));
    }
    Ok(())
}
