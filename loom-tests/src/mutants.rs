//! Every mutant against the models, each in a process of its own, since a defect is chosen once and may end the process.
//!
//! A mutant is killed by the first model that fails with it: one that panics, that deadlocks, whose outcomes are others,
//! or that has no end. The subjects that are to see it are tried first.

use std::collections::VecDeque;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;

use deltafifo::mutants::{ALL, Mutant};

use crate::explore::Model;
use crate::models;

/// Tries all of them, on every core.
pub fn run() -> ExitCode {
    let waiting: Mutex<VecDeque<_>> = Mutex::new(ALL.iter().enumerate().collect());
    let killers = Mutex::new(vec![None; ALL.len()]);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((place, (mutant, _))) = next(&waiting) {
                    let killer = killer(*mutant);
                    eprintln!("{mutant:?}: {}", killer.unwrap_or("SURVIVED"));
                    killers.lock().unwrap()[place] = killer;
                }
            });
        }
    });
    let killers = killers.into_inner().unwrap();
    println!("\n{:24} {:36} what is wrong", "mutant", "killed by");
    for ((mutant, what), killer) in ALL.iter().zip(&killers) {
        println!("{:24} {:36} {what}", format!("{mutant:?}"), killer.unwrap_or("SURVIVED"));
    }
    let killed = killers.iter().flatten().count();
    println!("{killed} of {} mutants killed", ALL.len());
    if killed == ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn next<I>(waiting: &Mutex<VecDeque<I>>) -> Option<I> {
    waiting.lock().unwrap().pop_front()
}

/// The first model that fails with the mutant.
fn killer(mutant: Mutant) -> Option<&'static str> {
    let mut models = models::all();
    let wanted = seen_by(mutant);
    models.sort_by_key(|model| !wanted.iter().any(|subject| model.name.starts_with(subject)));
    models.into_iter().find(|model| !holds(model, mutant)).map(|model| model.name)
}

/// Subjects that are to see it. Only their order in the search: any model may kill.
fn seen_by(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::WordWithoutRelease | Mutant::WordWithoutAcquire => &["two_consumers", "push_take"],
        Mutant::WordLooksRelaxed => &["running", "two_consumers"],
        Mutant::KnownWithoutRelease
        | Mutant::KnownWithoutAcquire
        | Mutant::KnownReadUnlocked
        | Mutant::OldValuesLeftLate => &["store"],
        Mutant::StampIsStored
        | Mutant::OffersDoNotStamp
        | Mutant::OldPageGoesOn
        | Mutant::SweepNeverLooks
        | Mutant::BeginPassesNoLock
        | Mutant::SkipIgnoresTheHandler
        | Mutant::RunWakesOne
        | Mutant::RunPublishedLate => &["relist"],
        Mutant::JoinedIsQueuedToo => &["push_take", "two_consumers"],
        Mutant::IdleIsStored => &["push_settle"],
        Mutant::PeekIsATake | Mutant::KnownIsReadAfterThePeek => &["peek"],
        Mutant::RunningDecidesNothing | Mutant::RunningIsDecidedAtOnce => &["running"],
        Mutant::RetireFromEmpty => &["retire"],
        Mutant::PutBackBehind | Mutant::CancelledIsLost => &["requeue"],
        Mutant::QueuedAfterUnlock => &["order"],
        Mutant::SettleDoesNotWake
        | Mutant::OfferDoesNotWake
        | Mutant::NoSecondLook
        | Mutant::AsyncNoSecondLook
        | Mutant::PlainNotify
        | Mutant::CloseWakesNobody
        | Mutant::ClosedIsLookedAtLast => &["sleep"],
        Mutant::MarksEndBeforeCommit
        | Mutant::DrainedIsAskedOnce
        | Mutant::TakesAreCounted
        | Mutant::MarksEndAtTake => &["synced"],
        Mutant::GivenBackWakesNobody | Mutant::GivenBackBehind => &["batch"],
        Mutant::SweepLooksUnlocked => &["elsewhere"],
        Mutant::DroppedQueueForgets => &["handles"],
    }
}

/// Whether a model holds with the mutant.
fn holds(model: &Model, mutant: Mutant) -> bool {
    let program = std::env::current_exe().expect("the path of this program");
    let status = Command::new(program)
        .args(["--mutant", &format!("{mutant:?}"), "--exact", model.name])
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("this program can be started");
    status.success()
}
