//! Runs reflectors and informers against a real API server and etcd that are killed, stopped or
//! compacted, that refuse requests, or that have many objects. `ci/e2e.sh` builds the servers and
//! runs this program.
//!
//! Each scenario has its own servers, on loopback, in its own directory, and a time limit. A
//! reflector feeds a `DeltaFifo` over an `Indexer`, a consumer applies every item, and an oracle
//! checks every notification: see `oracle`, and `scenarios/`, with one file per scenario. Most
//! scenarios also run shared informers, this project's and client-go's, with a handler that sleeps
//! and one that panics: see `informers/`. One oracle judges all of them. One scenario compares
//! controllers, this project's and kube's: see `controllers/`. Others elect leaders or share
//! objects, in processes of their own: see `election/` and `replicas/`.

#![allow(clippy::duplicate_mod)] // Each controller is compiled with two runtimes.

mod churn;
mod controllers;
mod conversions;
mod election;
mod fault;
mod fill;
mod gate;
mod history;
mod informers;
mod oracle;
mod process;
mod proxy;
mod replicas;
mod rig;
mod scenarios;
mod serve;
mod servers;
mod testkit;
mod times;
mod timing;
mod wait;
mod writer;
mod written;

use std::env;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, value_parser};
use deltafifo::BoxError;
use deltafifo_informer::error_chain;
use futures_util::FutureExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout};

use election::candidate::Candidate;
use replicas::replica::Replica;
use scenarios::{Outcome, Scenario, Setting};

/// Runs reflectors and informers against a real API server and etcd.
#[derive(Parser)]
#[command(name = "e2e", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// The scenarios to run; all but the long ones by default
    scenarios: Vec<Scenario>,
    /// Run the four scenarios that every change must pass, with few objects
    #[arg(long, conflicts_with = "scenarios")]
    smoke: bool,
    /// Run only the servers: print a kubeconfig, and end when the standard input ends. With
    /// --objects, create these objects and print how many there are
    #[arg(long, conflicts_with_all = ["scenarios", "smoke", "trials", "candidate"])]
    serve: bool,
    /// Record the requests of kubectl and kube-rs to the test kit in this file, and run nothing
    /// else: see e2e/src/testkit/traffic.rs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenarios", "smoke", "serve"])]
    record: Option<PathBuf>,
    /// The number of objects in the scenarios churn and large, 10000 and 100000 by default; with
    /// --serve, the number of objects to create
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(100..=1_000_000))]
    objects: Option<u32>,
    /// The number of leaders or replicas that each fault of election-full, replicas-full and
    /// election-handovers strikes; 100, 100 and 50 by default
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    trials: Option<u16>,
    /// Another program for the candidates of elections: see ci/rivals.sh. Its faults are counted,
    /// and do not fail the scenario
    #[arg(long, value_name = "PROGRAM")]
    candidate: Option<PathBuf>,
    /// The directory in which e2e/build.sh has put kube-apiserver, etcd and client-go
    #[arg(long, value_name = "DIR", default_value = "target/e2e/bin")]
    binaries: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Campaign for a lease, as a process of a scenario
    #[command(hide = true)]
    Candidate(Candidate),
    /// Reconcile the objects of shards, as a process of a scenario
    #[command(hide = true)]
    Replica(Replica),
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match &cli.command {
        Some(Command::Candidate(candidate)) => return candidate.run().await,
        Some(Command::Replica(replica)) => return replica.run().await,
        None => {}
    }
    // The servers are child processes, so a signal must end them, too.
    tokio::select! {
        code = run(&cli) => code,
        ended = shutdown_signal() => {
            eprintln!("e2e: {}", ended.map_or_else(|error| error.to_string(), |()| "interrupted".to_owned()));
            ExitCode::FAILURE
        }
    }
}

async fn shutdown_signal() -> io::Result<()> {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn run(cli: &Cli) -> ExitCode {
    let other = if cli.serve {
        Some(serve::serve(&cli.binaries, cli.objects.map(|objects| objects as usize)).await)
    } else if let Some(file) = &cli.record {
        Some(testkit::record(&cli.binaries.join(testkit::KUBECTL), file).await)
    } else {
        None
    };
    if let Some(ended) = other {
        return match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("e2e: {}", error_chain(&*error));
                ExitCode::FAILURE
            }
        };
    }
    let chosen = match cli.scenarios.as_slice() {
        _ if cli.smoke => Scenario::SMOKE.into(),
        [] => Scenario::by_default().collect(),
        chosen => chosen.to_vec(),
    };
    let (mut held, mut skipped, mut failed) = (0, 0, 0);
    for scenario in chosen {
        let from = Instant::now();
        let outcome = try_one(cli, scenario).await;
        let (verdict, summary) = match outcome {
            Ok(Outcome::Held(summary)) => {
                held += 1;
                ("held", summary)
            }
            Ok(Outcome::Skipped(why)) => {
                skipped += 1;
                ("skipped", why)
            }
            Err(error) => {
                failed += 1;
                ("FAILED", error_chain(&*error))
            }
        };
        println!(
            "{:<20} {verdict:<8} {:>6.1} s  {summary}",
            scenario.name(),
            from.elapsed().as_secs_f64()
        );
    }
    let verdict = if failed == 0 { "ok" } else { "failed" };
    println!("{verdict}: {held} scenarios held, {skipped} were skipped, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one scenario in its own directory. After a failure, prints the ends of the servers' logs
/// and keeps the logs.
async fn try_one(cli: &Cli, scenario: Scenario) -> Result<Outcome, BoxError> {
    let dir = tempfile::Builder::new().prefix("deltafifo-e2e-").tempdir()?;
    let setting = Setting {
        binaries: cli.binaries.clone(),
        dir: dir.path().to_owned(),
        smoke: cli.smoke,
        objects: cli.objects.map(|objects| objects as usize),
        trials: cli.trials.map(usize::from),
        candidate: cli.candidate.clone(),
        etcd34: env::var_os("DELTAFIFO_ETCD34").filter(|path| !path.is_empty()).map(PathBuf::from),
    };
    let ended =
        AssertUnwindSafe(timeout(scenario.limit(), scenario.run(&setting))).catch_unwind().await;
    let outcome = match ended {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(format!("the scenario did not end within {:?}", scenario.limit()).into()),
        Err(_) => Err("the scenario panicked, see above".into()),
    };
    if outcome.is_err() {
        eprint!("{}", servers::logs(&setting.dir));
        servers::tidy(&setting.dir);
        eprintln!("-- the logs are kept in {}", dir.keep().display());
    }
    outcome
}
