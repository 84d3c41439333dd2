//! The tool `relist`. It runs the selected workloads on the selected engines, and writes the
//! report.

use std::path::Path;
#[cfg(feature = "peers")]
use std::path::PathBuf;
use std::process::ExitCode;

use crate::causes::with_causes;
use crate::cli::Cli;
#[cfg(feature = "peers")]
use crate::data::{ListFiles, ListFilesError, Pods};
use crate::machine::Machine;
use crate::names::{EngineName, Workload};
use crate::protocol::{ChildArgs, GoPeer, Interrupt, Settings};
use crate::report::{Outputs, Report, Run, Summary, Unwritable, Verdict, join, meaning};
use crate::rounds::{self, FIRST_RUN, Go, Interrupted, Outcome, Plan};
#[cfg(feature = "peers")]
use crate::server;
use crate::workloads;

/// Runs the tool with the arguments of this process.
#[must_use]
pub fn run_tool() -> ExitCode {
    let run = |cli: Cli| if cli.child { child(&cli) } else { parent(&cli) };
    match Cli::read().map_err(Error::from).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relist: {}", with_causes(&*error));
            if error.is::<Interrupted>() { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

type Error = Box<dyn std::error::Error>;

/// The exit status that shells return for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn child(cli: &Cli) -> Result<(), Error> {
    let objects = cli.most_objects();
    #[cfg(feature = "peers")]
    if let Some(kubeconfig) = &cli.server {
        let client = *cli.client.first().ok_or("a child needs its --client")?;
        return server::run_client(client, kubeconfig, objects).map_err(|error| -> Error { error });
    }
    let engine = *cli.engines().first().ok_or("a child needs its --engine")?;
    workloads::run(&ChildArgs { engine, objects, settings: settings(cli) })
}

/// Returns the settings that all child processes of a run share.
fn settings(cli: &Cli) -> Settings {
    Settings {
        workloads: cli.workloads(),
        input: cli.input.clone(),
        second_list: cli.second_list.clone(),
        length: cli.seconds,
        owned: !cli.without_owned,
    }
}

/// Reads a report that an earlier run wrote, and returns it with the name of its file.
fn earlier(path: &Path) -> Result<(String, Report), Error> {
    let name = path.display().to_string();
    let report = Report::read(path).map_err(|error| format!("{name} {}", with_causes(&error)))?;
    Ok((name, report))
}

fn outputs(cli: &Cli) -> Result<Outputs, Unwritable> {
    Outputs::open(cli.json.as_deref(), cli.report.as_deref())
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
    check_separate(cli)?;
    let outputs = outputs(cli)?;
    let (engines, go, skipped) = engines(cli, &cli.workloads())?;
    let objects = cli.objects().into_iter().collect();
    let plan =
        Plan { engines, objects, rounds: cli.rounds(), settings: settings(cli), limit: None };
    let plan = if cli.is_first_run() { plan.first_run() } else { plan };
    plan.check_memory(Machine::available_bytes())?;
    #[cfg(feature = "peers")]
    let lists = list_files(cli)?;
    #[cfg(feature = "peers")]
    let plan = match &lists {
        Some(lists) => plan.with_lists(lists),
        None => plan,
    };
    // Not earlier: Ctrl-C while Go compiles has nothing to keep.
    let interrupt = Interrupt::catch()?;
    let mut run = Run::begins("relist", plan.rounds);
    let mut outcome = rounds::run(&plan, go, &interrupt);
    outcome.skipped.extend(skipped);
    run.verdict = Verdict::of(&outcome.measured);
    if cli.is_first_run() {
        outcome.measured.sort_by_key(|measured| EngineName::named(&measured.engine));
    }
    report(run, outcome, &outputs, cli.is_first_run())
}

/// Checks that a workload that must be run by itself is not combined with others.
fn check_separate(cli: &Cli) -> Result<(), Error> {
    let workloads = cli.workloads();
    match workloads.iter().find(|workload| workload.is_separate()) {
        Some(one) if workloads.len() > 1 => {
            Err(format!("{one} has a run of its own: pass --workload {one} alone").into())
        }
        Some(one) if cli.input.is_none() => Err(format!("{one} needs --input").into()),
        Some(one) if cli.objects.len() > 1 => {
            Err(format!("{one} takes one number of --objects").into())
        }
        _ => Ok(()),
    }
}

/// Writes the lists of the workload `cache`, if it is measured.
#[cfg(feature = "peers")]
fn list_files(cli: &Cli) -> Result<Option<ListFiles>, ListFilesError> {
    let input = cli.input.as_ref().filter(|_| cli.workloads().contains(&Workload::Cache));
    let replicas = (!cli.as_is).then_some(cli.replicas);
    let write = |input: &PathBuf| {
        eprintln!("writing the lists");
        ListFiles::write(input, cli.most_objects(), replicas)
    };
    input.map(write).transpose()
}

/// Measures clients of an API server.
#[cfg(feature = "peers")]
fn clients(cli: &Cli, kubeconfig: PathBuf) -> Result<(), Error> {
    if cli.objects.len() > 1 {
        return Err("--server takes one number of --objects".into());
    }
    let outputs = outputs(cli)?;
    let (objects, rounds) = (cli.most_objects(), cli.rounds());
    let chosen = server::ChosenClients::of(cli.client.clone(), &kubeconfig)?;
    let plan = server::ServerPlan { kubeconfig, chosen, objects, rounds };
    let mut run = Run::begins("relist", plan.rounds);
    let mut outcome = server::run(&plan)?;
    // A client that did not get all objects has failed its turn.
    let verdict = if outcome.measured.is_empty() { Verdict::Unknown } else { Verdict::Agree };
    (outcome.skipped, run.verdict) = (plan.chosen.skipped, verdict);
    report(run, outcome, &outputs, false)
}

/// Writes the report of a run. After a run without options, an explanation follows.
fn report(
    mut run: Run,
    outcome: Outcome,
    outputs: &Outputs,
    is_first_run: bool,
) -> Result<(), Error> {
    let mut machine = Machine::here();
    run.complete = outcome.is_complete();
    (run.failed, run.unfinished, run.skipped) =
        (outcome.failed, outcome.unfinished, outcome.skipped);
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

/// Returns the selected engines, or all engines if none is selected; the state of the peer in Go;
/// and notes about engines that cannot be run here, with the reason. Leaves out engines that can
/// run none of the selected workloads.
fn engines(cli: &Cli, workloads: &[Workload]) -> Result<(Vec<EngineName>, Go, Vec<String>), Error> {
    let (mut go, mut skipped) = (Go::Absent, Vec::new());
    let mut engines = cli.engines();
    let are_named = !engines.is_empty();
    if !are_named {
        let all = if cli.is_first_run() { FIRST_RUN } else { EngineName::ALL };
        engines.extend(all.iter().filter(|engine| engine.is_built()));
    }
    let is_go = engines.iter().any(|engine| engine.is_go());
    match GoPeer::find() {
        _ if !is_go => {}
        Ok(_) if !are_named => go = Go::Unbuilt,
        Err(error) if !are_named => {
            let why = with_causes(&error);
            eprintln!("skipping the engines of client-go: {why}");
            skipped.push(format!("The engines of client-go were left out: {why}."));
            engines.retain(|engine| !engine.is_go());
        }
        // If an engine is named, its failure is an error. If not, the other engines are measured
        // without it.
        _ => {
            eprintln!("building client-go with Go");
            go = Go::Built(GoPeer::build()?);
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
        return Err("nothing to run: --help lists the engines and workloads".into());
    }
    Ok((engines, go, skipped))
}
