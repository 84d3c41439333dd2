//! Compares deltafifo with its peers on the same data, in one run. See BENCHMARKS.md.

mod cli;

use std::fmt::Display;
use std::path::Path;
#[cfg(feature = "peers")]
use std::path::PathBuf;
use std::process::ExitCode;

use cli::Cli;
#[cfg(feature = "peers")]
use deltafifo_bench::data::Pods;
use deltafifo_bench::machine::Machine;
use deltafifo_bench::names::{EngineName, Workload};
use deltafifo_bench::protocol::{ChildArgs, GoPeer, Interrupt};
use deltafifo_bench::report::{Outputs, Report, Run, Summary, Unwritable, Verdict, join, meaning};
use deltafifo_bench::rounds::{self, FIRST_RUN, Go, Interrupted, Outcome, Plan};
#[cfg(feature = "peers")]
use deltafifo_bench::server;
use deltafifo_bench::workloads;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let run = |cli: Cli| if cli.child { child(&cli) } else { parent(&cli) };
    match Cli::read().map_err(Error::from).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relist: {error}");
            if error.is::<Interrupted>() { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

type Error = Box<dyn std::error::Error>;

/// The exit status by which a shell reports a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn child(cli: &Cli) -> Result<(), Error> {
    let objects = cli.most_objects();
    #[cfg(feature = "peers")]
    if let Some(kubeconfig) = &cli.server {
        let client = *cli.client.first().ok_or("a child needs its --client")?;
        return server::run_client(client, kubeconfig, objects).map_err(|error| -> Error { error });
    }
    let engine = cli
        .engines()
        .and_then(|engines| engines.first().copied())
        .ok_or("a child needs its --engine")?;
    let (workloads, input) = (cli.workloads(), cli.input.clone());
    workloads::run(&ChildArgs {
        engine,
        workloads,
        objects,
        input,
        length: cli.seconds,
        owned: !cli.without_owned,
    })
}

/// Reads a report, and returns it with the name of its file.
fn earlier(path: &Path) -> Result<(String, Report), Error> {
    let name = path.display().to_string();
    let report = Report::read(path).map_err(|error| format!("{name} {error}"))?;
    Ok((name, report))
}

fn outputs(cli: &Cli) -> Result<Outputs, Unwritable> {
    let outputs = Outputs::open(cli.json.as_deref())?;
    #[cfg(feature = "peers")]
    let outputs = outputs.with_report(cli.report.as_deref())?;
    Ok(outputs)
}

fn parent(cli: &Cli) -> Result<(), Error> {
    if let Some(report) =
        join(cli.from.iter().map(|path| earlier(path)).collect::<Result<_, _>>()?)?
    {
        outputs(cli)?.write(&report, "")?;
        return Ok(report.sound()?);
    }
    #[cfg(feature = "peers")]
    if let Some(kubeconfig) = cli.server.clone() {
        return clients(cli, kubeconfig);
    }
    #[cfg(feature = "peers")]
    if let Some(input) = &cli.input {
        Pods::read(input)?; // only for the error, before any child starts
    }
    let outputs = outputs(cli)?;
    let (workloads, input) = (cli.workloads(), cli.input.clone());
    let (objects, rounds) = (cli.objects().into_iter().collect(), cli.rounds());
    let Chosen { engines, go, skipped } = engines(cli, &workloads)?;
    let plan = if cli.is_first_run() {
        Plan::first_run(engines, cli.most_objects(), cli.seconds)
    } else {
        Plan {
            engines,
            workloads,
            objects,
            input,
            rounds,
            length: cli.seconds,
            owned: true,
            limit: None,
        }
    };
    plan.check_memory(Machine::available_bytes())?;
    // Not earlier: Ctrl-C while Go compiles has nothing to keep.
    let interrupt = Interrupt::catch()?;
    let mut run = Run::begins(plan.rounds);
    let mut outcome = rounds::run(&plan, go, &interrupt);
    outcome.skipped.extend(skipped);
    run.verdict = Verdict::of(&outcome.measured);
    if cli.is_first_run() {
        outcome.measured.sort_by_key(|measured| {
            EngineName::ALL.iter().position(|engine| *engine == measured.engine)
        });
    }
    tell(run, outcome, &outputs, cli.is_first_run())
}

/// Measures clients of an API server.
#[cfg(feature = "peers")]
fn clients(cli: &Cli, kubeconfig: PathBuf) -> Result<(), Error> {
    if cli.objects.len() > 1 {
        return Err("--server takes one number of --objects".into());
    }
    let outputs = outputs(cli)?;
    let (objects, rounds) = (cli.most_objects(), cli.rounds());
    let chosen = server::Chosen::of(cli.client.clone(), &kubeconfig)?;
    let plan = server::Plan { kubeconfig, chosen, objects, rounds };
    let mut run = Run::begins(plan.rounds);
    let mut outcome = server::run(&plan)?;
    // A client that did not get all objects has failed its turn.
    let verdict = if outcome.measured.is_empty() { Verdict::Unknown } else { Verdict::Agree };
    (outcome.skipped, run.verdict) = (plan.chosen.skipped, verdict);
    tell(run, outcome, &outputs, false)
}

/// Writes the report of a run; after the first run with an explanation.
fn tell<E: Display + PartialEq>(
    mut run: Run,
    outcome: Outcome<E>,
    outputs: &Outputs,
    is_first_run: bool,
) -> Result<(), Error> {
    let mut machine = Machine::here();
    run.complete = outcome.is_complete();
    (run.failed, run.not_run, run.skipped) = (outcome.failed, outcome.not_run, outcome.skipped);
    machine.engines = outcome.engines;
    let rows = Summary::of(&outcome.measured, run.rounds);
    let report = Report::of(run, machine, rows);
    // If the run was interrupted before the first row, the files of earlier runs are kept.
    if !report.rows.is_empty() || outcome.interrupted.is_none() {
        outputs.write(&report, &if is_first_run { meaning(&report) } else { String::new() })?;
    }
    // Last, so that the error does not hide the figures.
    match outcome.interrupted {
        Some(interrupted) => Err(interrupted.into()),
        None => Ok(report.sound()?),
    }
}

/// The selected engines of a run.
struct Chosen {
    engines: Vec<EngineName>,
    go: Go,
    /// Engines that cannot be run here, with the reason.
    skipped: Vec<String>,
}

/// Returns the selected engines, or all, without those that can run none of the workloads here.
fn engines(cli: &Cli, workloads: &[Workload]) -> Result<Chosen, Error> {
    let (mut go, mut skipped) = (Go::Absent, Vec::new());
    let all: &[_] = if cli.is_first_run() { &FIRST_RUN } else { &EngineName::ALL };
    let built = || all.iter().copied().filter(|engine| engine.is_built()).collect();
    let mut engines: Vec<_> = cli.engines().unwrap_or_else(built);
    let is_go = engines.iter().any(|engine| engine.is_go());
    match GoPeer::find() {
        _ if !is_go => {}
        Ok(_) if cli.engines().is_none() => go = Go::Unbuilt,
        Err(error) if cli.engines().is_none() => {
            eprintln!("skipping the engines of client-go: {error}");
            skipped.push(format!("The engines of client-go were left out: {error}."));
            engines.retain(|engine| !engine.is_go());
        }
        // If an engine is named, its failure is an error. If not, the other engines are measured
        // without it.
        _ => {
            eprintln!("building client-go with Go");
            let peer = GoPeer::build();
            go = Go::Built(
                peer.map_err(|error| format!("the engines of client-go cannot be run: {error}"))?,
            );
        }
    }
    engines.retain(|engine| {
        let can = workloads.iter().any(|workload| engine.can(*workload));
        if !can {
            eprintln!("skipping {engine}: it has none of these workloads");
        }
        can
    });
    if engines.is_empty() {
        return Err(
            "there is nothing to run: --help says which engines and workloads there are".into()
        );
    }
    Ok(Chosen { engines, go, skipped })
}
