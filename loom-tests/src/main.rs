//! The models of deltafifo's protocol, and the deliberate defects that show what they can see. `ci/models.sh` builds and
//! runs it; see `explore` for what one model is, `mutants` for how the defects are tried.

#[cfg(deltafifo_loom)]
mod explore;
#[cfg(deltafifo_loom)]
mod models;
#[cfg(deltafifo_loom)]
mod mutants;
#[cfg(deltafifo_loom)]
mod rig;

#[cfg(not(deltafifo_loom))]
fn main() {
    eprintln!("built without --cfg deltafifo_loom there are no models: run ci/models.sh");
    std::process::exit(2);
}

#[cfg(deltafifo_loom)]
fn main() -> std::process::ExitCode {
    use clap::Parser;

    let arguments = Arguments::parse();
    if arguments.mutants {
        mutants::run()
    } else {
        explore::run(arguments.mutant.as_deref(), &arguments.models, arguments.exact)
    }
}

/// Explores models of deltafifo on the real code.
#[cfg(deltafifo_loom)]
#[derive(clap::Parser)]
struct Arguments {
    /// Tries every mutant, and fails if one survives all models
    #[arg(long)]
    mutants: bool,
    /// Explores with this deliberate defect
    #[arg(long, conflicts_with = "mutants")]
    mutant: Option<String>,
    /// Only the models of exactly these names
    #[arg(long)]
    exact: bool,
    /// Only models whose name contains one of these
    models: Vec<String>,
}
