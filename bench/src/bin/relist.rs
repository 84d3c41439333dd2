//! Compares deltafifo with its peers on the same data in one run: see the package's documentation.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, value_parser};
use deltafifo_bench::data::Pods;
use deltafifo_bench::engines::EngineName;
use deltafifo_bench::protocol::{GoPeer, Interrupt};
use deltafifo_bench::report::{Machine, Outputs, Report, Run, Summary, Verdict, join};
use deltafifo_bench::rounds::{self, Interrupted, Outcome, Plan};
use deltafifo_bench::server::{self, ClientName};
use deltafifo_bench::workloads::{self, ChildArgs, Workload};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures relists of a million objects on deltafifo, on the classic designs and on the real client-go.
#[derive(Parser)]
#[command(name = "relist", version)]
struct Cli {
    /// How many objects: 1000000 otherwise, or 50000 with --input, since a decoded pod takes 50 kB and is in every list, or
    /// 100000 with --server. Several, as in 10000,100000,1000000, show how the time grows
    #[arg(long, value_name = "N,M", value_delimiter = ',')]
    objects: Vec<NonZero<usize>>,
    /// A LIST response of pods, JSON or gzipped JSON, repeated under new names up to N; generated objects otherwise
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Workloads, separated by commas: initial, relist, churn, events, stall, readers, queries, slow-handler, workqueue,
    /// memory, or all
    #[arg(long, value_name = "A,B", default_value = "initial,relist", value_parser = workloads_named)]
    workload: Named<Workload>,
    /// Engines, separated by commas: deltafifo, deltafifo-skip, deltafifo-1-thread, deltafifo-lane, deltafifo-single, mutex,
    /// dashmap, floor, kube-writer, kube-writer-arc, client-go-deltafifo, client-go-realfifo, client-go-informer; all that are there otherwise
    #[arg(long, value_name = "A,B", value_parser = engines_named)]
    engine: Option<Named<EngineName>>,
    /// How often everything is measured: 3 times otherwise, or 5 with --server
    #[arg(long, value_name = "R", value_parser = value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// How long the stall workload offers, and readers read
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Measure clients of a real API server instead: from their start until a handler was told of all config maps, and then
    /// a relist of which 1 % has changed. The config maps, 1 kB each, are made in the namespace deltafifo-bench-N, if they
    /// are not there, and stay; whose server it is must allow that
    #[arg(
        long,
        value_name = "KUBECONFIG",
        conflicts_with_all = ["input", "workload", "engine", "seconds", "from"]
    )]
    server: Option<PathBuf>,
    /// Clients of the server, separated by commas; all that are there otherwise
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "server")]
    client: Vec<ClientName>,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write the report: a page with plots, index.html, and the plots as SVG files
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Measure nothing, but take the figures that an earlier run wrote with --json
    /// (several such files are joined)
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["objects", "input", "workload", "engine", "rounds", "seconds"]
    )]
    from: Vec<PathBuf>,
    /// Measure one engine here and print the protocol: what each engine's own process is started with
    #[arg(long, hide = true)]
    child: bool,
}

impl Cli {
    /// Each number once, the least first.
    fn objects(&self) -> BTreeSet<usize> {
        self.objects.iter().map(|objects| objects.get()).chain([self.most_objects()]).collect()
    }

    fn most_objects(&self) -> usize {
        let usual = match (&self.server, &self.input) {
            (Some(_), _) => 100_000,
            (_, Some(_)) => 50_000,
            _ => 1_000_000,
        };
        self.objects.iter().max().map_or(usual, |most| most.get())
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.server.is_some() { 5 } else { 3 }).into()
    }
}

/// What was chosen of a list of names.
#[derive(Clone)]
struct Named<T>(Vec<T>);

fn workloads_named(text: &str) -> Result<Named<Workload>, String> {
    // The others must be names all the same.
    let (all, others): (Vec<_>, Vec<_>) = text.split(',').partition(|name| name.trim() == "all");
    if !all.is_empty() {
        if !others.is_empty() {
            choose("workload", &others.join(","), &Workload::ALL, |workload| workload.name())?;
        }
        return Ok(Named(Workload::ALL.to_vec()));
    }
    choose("workload", text, &Workload::ALL, |workload| workload.name())
}

fn engines_named(text: &str) -> Result<Named<EngineName>, String> {
    choose("engine", text, &EngineName::ALL, |engine| engine.name())
}

fn choose<T: Copy>(what: &str, text: &str, all: &[T], name: impl Fn(&T) -> &'static str) -> Result<Named<T>, String> {
    let mut names: Vec<&str> = Vec::new();
    let mut chosen = Vec::new();
    for wanted in text.split(',').map(str::trim) {
        let Some(one) = all.iter().find(|one| name(one) == wanted) else {
            let known: Vec<_> = all.iter().map(&name).collect();
            return Err(format!("unknown {what} {wanted:?}, known are {}", known.join(", ")));
        };
        if !names.contains(&wanted) {
            names.push(wanted);
            chosen.push(*one);
        }
    }
    Ok(Named(chosen))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err("must be from 0.001 to 3600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let run = if cli.child { child(cli) } else { parent(cli) };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relist: {error}");
            if error.is::<Interrupted>() { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

type Error = Box<dyn std::error::Error>;

/// What a shell says of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn child(cli: Cli) -> Result<(), Error> {
    let objects = cli.most_objects();
    if let Some(kubeconfig) = cli.server {
        let client = *cli.client.first().ok_or("a child needs its --client")?;
        return server::run_client(client, &kubeconfig, objects).map_err(|error| -> Error { error });
    }
    let engine = cli.engine.and_then(|engines| engines.0.first().copied()).ok_or("a child needs its --engine")?;
    workloads::run(&ChildArgs { engine, workloads: cli.workload.0, objects, input: cli.input, length: cli.seconds })
}

/// A report with the name of its file.
fn earlier(path: &Path) -> Result<(String, Report), Error> {
    let name = path.display().to_string();
    let report = Report::read(path).map_err(|error| format!("{name} {error}"))?;
    Ok((name, report))
}

fn parent(cli: Cli) -> Result<(), Error> {
    if let Some(report) = join(cli.from.iter().map(|path| earlier(path)).collect::<Result<_, _>>()?)? {
        Outputs::open(cli.json.as_deref(), cli.report.as_deref())?.write(&report)?;
        return Ok(report.sound()?);
    }
    if let Some(kubeconfig) = cli.server.clone() {
        return clients(cli, kubeconfig);
    }
    if let Some(input) = &cli.input {
        Pods::read(input)?; // here, so that it is said once and at once
    }
    let outputs = Outputs::open(cli.json.as_deref(), cli.report.as_deref())?;
    let (objects, rounds) = (cli.objects().into_iter().collect(), cli.rounds());
    let Chosen { engines, go, skipped } = engines(cli.engine, &cli.workload.0)?;
    let plan = Plan { engines, workloads: cli.workload.0, objects, input: cli.input, rounds, length: cli.seconds };
    plan.check_memory(Machine::available_bytes())?;
    // Not before: while Go builds, Ctrl-C has nothing to keep.
    let interrupt = Interrupt::catch()?;
    let mut run = Run::begins(plan.rounds);
    let outcome = rounds::run(&plan, go.as_ref(), &interrupt);
    (run.skipped, run.verdict) = (skipped, Verdict::of(&outcome.measured));
    tell(run, outcome, &outputs)
}

/// Measures clients of an API server.
fn clients(cli: Cli, kubeconfig: PathBuf) -> Result<(), Error> {
    if cli.objects.len() > 1 {
        return Err("--server takes one number of --objects".into());
    }
    let outputs = Outputs::open(cli.json.as_deref(), cli.report.as_deref())?;
    let (objects, rounds) = (cli.most_objects(), cli.rounds());
    let chosen = server::Chosen::of(cli.client, &kubeconfig)?;
    let plan = server::Plan { kubeconfig, chosen, objects, rounds };
    let mut run = Run::begins(plan.rounds);
    let outcome = server::run(&plan)?;
    // Who did not have all objects has failed its turn.
    let verdict = if outcome.measured.is_empty() { Verdict::Unknown } else { Verdict::Agree };
    (run.skipped, run.verdict) = (plan.chosen.skipped, verdict);
    tell(run, outcome, &outputs)
}

/// Reports what a run brought.
fn tell<E: Display + PartialEq>(mut run: Run, outcome: Outcome<E>, outputs: &Outputs) -> Result<(), Error> {
    let mut machine = Machine::here();
    (run.complete, run.failed, run.not_run) = (outcome.is_complete(), outcome.failed, outcome.not_run);
    machine.engines = outcome.engines;
    let rows = Summary::of(&outcome.measured, run.rounds);
    let report = Report::of(run, machine, rows);
    // Who asks for the end before there is anything keeps what was written before.
    if !report.rows.is_empty() || outcome.interrupted.is_none() {
        outputs.write(&report)?;
    }
    // Last, so that a person sees what was measured.
    match outcome.interrupted {
        Some(interrupted) => Err(interrupted.into()),
        None => Ok(report.sound()?),
    }
}

/// The engines of a run.
struct Chosen {
    engines: Vec<EngineName>,
    go: Option<GoPeer>,
    /// What cannot be run here, and why.
    skipped: Vec<String>,
}

/// Those that are asked for, or all, as far as they can do any of the workloads here.
fn engines(named: Option<Named<EngineName>>, workloads: &[Workload]) -> Result<Chosen, Error> {
    let is_named = named.is_some();
    let mut engines = named.map_or_else(|| EngineName::ALL.to_vec(), |engines| engines.0);
    let (mut go, mut skipped) = (None, Vec::new());
    if engines.iter().any(|engine| engine.is_go()) {
        eprintln!("building the peer in Go");
        match GoPeer::build() {
            Ok(peer) => go = Some(peer),
            // Who names an engine wants its figures; who does not gets those of the others.
            Err(error) if is_named => return Err(format!("the engines of client-go cannot be run: {error}").into()),
            Err(error) => {
                eprintln!("skipping the engines of client-go: {error}");
                skipped.push(format!("The engines of client-go were left out: {error}."));
                engines.retain(|engine| !engine.is_go());
            }
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
        return Err("there is nothing to run: --help says which engines and workloads there are".into());
    }
    Ok(Chosen { engines, go, skipped })
}
