//! The models of deltafifo's protocol, and the deliberate defects that show what they can see. `ci/models.sh` builds and
//! runs it; see `explore` for what one model is, `mutants` for how the defects are tried. Built for shuttle
//! (`ci/shuttle.sh`) it is another program, `runs`, with more threads and random schedules: of the queue (`schedules`) and of an
//! informer's handlers (`handlers`).

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

#[cfg(deltafifo_loom)]
use loom as checker;
#[cfg(deltafifo_shuttle)]
use shuttle as checker;

#[cfg(not(any(deltafifo_loom, deltafifo_shuttle)))]
fn main() {
    eprintln!(
        "without --cfg deltafifo_loom or deltafifo_shuttle there is nothing here: run ci/models.sh or ci/shuttle.sh"
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

/// Explores models of deltafifo on the real code.
#[cfg(deltafifo_loom)]
#[derive(clap::Parser)]
pub struct Arguments {
    /// Tries every mutant, and fails if one survives all models
    #[arg(long)]
    mutants: bool,
    /// Explores with this deliberate defect
    #[arg(long, conflicts_with = "mutants")]
    mutant: Option<String>,
    /// Only the models of exactly these names
    #[arg(long)]
    exact: bool,
    /// Without their bounds, up to many more iterations: to see whether a model still needs its own
    #[arg(long)]
    unbounded: bool,
    /// Only models whose name contains one of these
    models: Vec<String>,
}
