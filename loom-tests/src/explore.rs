//! What a model is, and its exploration: every schedule of its threads, and every value a load may see.
//!
//! A model that explores nothing would pass, so each says how many iterations it takes at least and exactly which
//! outcomes they have. loom's own limits on permutations and time are off: it calls a truncated exploration a success.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use deltafifo::mutants;

use crate::models;
use crate::rig::mutant;

/// A model.
pub struct Model {
    /// `file::what`.
    pub name: &'static str,
    /// How often a schedule may preempt a thread that could go on. `None`: as often as there is a step. Where there is a
    /// bound it is because without one the model was not over after 30 s (an access is two steps, see `sync/gated.rs`, and
    /// an offer some forty): 4 or 5 with two threads, 3 or 4 with three, as much as ends within half a minute. Each run
    /// prints its times.
    pub bound: Option<usize>,
    /// Fewer iterations mean that it no longer explores what it did.
    pub at_least: usize,
    /// All outcomes, no more and no fewer.
    pub outcomes: &'static [&'static str],
    /// One iteration. What it returns is its outcome.
    pub body: fn() -> String,
}

/// A model takes about as many iterations as it must. One that takes so many times more, with a mutant, has no end.
const ENDLESS: usize = 20;

/// Explores the models that were asked for.
pub fn run(mutant_name: Option<&str>, names: &[String], exact: bool) -> ExitCode {
    let chosen = mutant_name.map(mutant);
    if chosen == Some(None) {
        eprintln!("no such mutant; they stand in core/src/sync/mutants.rs");
        return ExitCode::from(2);
    }
    mutants::choose(chosen.flatten());
    let matches = |model: &Model, name: &str| if exact { model.name == name } else { model.name.contains(name) };
    let asked = |model: &&Model| names.is_empty() || names.iter().any(|name| matches(model, name));
    let mut failed = Vec::new();
    let mut count = 0;
    for model in models::all().into_iter().filter(asked) {
        count += 1;
        if let Err(why) = explore(model) {
            println!("{:44} FAILED: {why}", model.name);
            failed.push(model.name);
        }
    }
    println!("{} of {count} models hold", count - failed.len());
    if failed.is_empty() && count > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn explore(model: &'static Model) -> Result<(), String> {
    let iterations = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let start = Instant::now();

    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = model.bound;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.max_branches = 5_000;
    let (counted, noted) = (iterations.clone(), seen.clone());
    let check = move || {
        let count = counted.fetch_add(1, Ordering::Relaxed);
        assert!(count < model.at_least * ENDLESS, "it has no end");
        let outcome = (model.body)();
        noted.lock().unwrap().insert(outcome);
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.check(check)))
        .map_err(|_| format!("a schedule broke it, number {}", iterations.load(Ordering::Relaxed)))?;

    let iterations = iterations.load(Ordering::Relaxed);
    let bound = model.bound.map_or("none".to_owned(), |bound| bound.to_string());
    println!("{:44} {iterations:8} iterations, bound {bound:4}, {:6.1} s", model.name, start.elapsed().as_secs_f64());
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let expected: BTreeSet<_> = model.outcomes.iter().map(|outcome| (*outcome).to_owned()).collect();
    if seen != expected {
        let new: Vec<_> = seen.difference(&expected).collect();
        let missing: Vec<_> = expected.difference(&seen).collect();
        return Err(format!("outcomes that were not expected: {new:?}; expected, and not seen: {missing:?}"));
    }
    if iterations < model.at_least {
        return Err(format!("at least {} iterations were expected", model.at_least));
    }
    Ok(())
}
