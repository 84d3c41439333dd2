//! The models of deltafifo's protocol, and the deliberate defects that show that the models can
//! fail.
//!
//! `ci/models.sh` builds and runs them. `explore` explains what a model is, and `mutants` how the
//! defects are tried. If the crate is built for shuttle (`ci/shuttle.sh`), its program is `runs`
//! instead: random schedules of more threads, over a queue (`schedules`), over the handlers of an
//! informer (`handlers`), over compact objects (`compact`) and over a work queue (`work_queue`).

#[cfg(deltafifo_shuttle)]
mod compact;
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod cores;
#[cfg(deltafifo_loom)]
mod explore;
#[cfg(deltafifo_shuttle)]
mod handlers;
#[cfg(deltafifo_loom)]
mod models;
#[cfg(deltafifo_loom)]
mod mutants;
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod rig;
#[cfg(deltafifo_shuttle)]
mod runs;
#[cfg(deltafifo_shuttle)]
mod schedules;
#[cfg(deltafifo_shuttle)]
mod work_queue;

#[cfg(deltafifo_loom)]
use loom as checker;
#[cfg(deltafifo_shuttle)]
use shuttle as checker;

#[cfg(not(any(deltafifo_loom, deltafifo_shuttle)))]
fn main() {
    eprintln!(
        "loom-tests is empty without --cfg deltafifo_loom or deltafifo_shuttle; run ci/models.sh or ci/shuttle.sh"
    );
    std::process::exit(2);
}

#[cfg(deltafifo_shuttle)]
fn main() -> std::process::ExitCode {
    runs::run(&clap::Parser::parse())
}

#[cfg(deltafifo_loom)]
fn main() -> std::process::ExitCode {
    use clap::Parser;

    let arguments = Arguments::parse();
    if arguments.mutants { mutants::run() } else { explore::run(&arguments) }
}

/// Explores models of deltafifo by running the shipped code under loom.
#[cfg(deltafifo_loom)]
#[derive(clap::Parser)]
pub struct Arguments {
    /// Try every mutant, and fail if one survives all models
    #[arg(long)]
    mutants: bool,
    /// Explore with this deliberate defect
    #[arg(long, conflicts_with = "mutants")]
    mutant: Option<String>,
    /// Select only models with exactly these names
    #[arg(long)]
    exact: bool,
    /// Leave out the models with a minimum of more iterations than this
    #[arg(long)]
    at_most: Option<usize>,
    /// Ignore the bounds, with many more iterations, to check whether a model still needs its
    /// bound
    #[arg(long)]
    unbounded: bool,
    /// Select models whose name contains one of these
    models: Vec<String>,
}
