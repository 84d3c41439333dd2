//! Compares deltafifo with its peers on the same data in one run: see the package's documentation.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use deltafifo_bench::data::Pods;
use deltafifo_bench::engines::EngineName;
use deltafifo_bench::protocol::{ChildFailed, GoPeer, Interrupt};
use deltafifo_bench::report::{Directory, Machine, Report, Run, Summary, check, print};
use deltafifo_bench::rounds::{self, Plan, Unfinished};
use deltafifo_bench::workloads::{self, ChildArgs, Workload};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures relists of a million objects on deltafifo, on the classic designs and on the real client-go.
#[derive(Parser)]
struct Cli {
    /// How many objects: 1000000 otherwise, or 50000 with --input, since a decoded pod takes 50 kB and is in every list.
    /// Several, as in 10000,100000,1000000, show how the time grows
    #[arg(long, value_name = "N,M", value_delimiter = ',')]
    objects: Vec<NonZero<usize>>,
    /// A LIST response of pods, JSON or gzipped JSON, repeated under new names up to N; generated objects otherwise
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Workloads, separated by commas: initial, relist, churn, events, stall, readers, queries, slow-handler, workqueue, memory, or
    /// all
    #[arg(long, value_name = "A,B", default_value = "initial,relist", value_parser = workloads_named)]
    workload: Named<Workload>,
    /// Engines, separated by commas: deltafifo, deltafifo-skip, deltafifo-1-thread, deltafifo-lane, mutex, dashmap, floor,
    /// kube-writer, kube-writer-arc, client-go-deltafifo, client-go-realfifo, client-go-informer; all that are there otherwise
    #[arg(long, value_name = "A,B", value_parser = engines_named)]
    engine: Option<Named<EngineName>>,
    /// How often everything is measured
    #[arg(long, value_name = "R", default_value = "3")]
    rounds: NonZero<usize>,
    /// How long the stall workload offers, and readers read
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where to write the report: a page with plots, index.html, and the plots as SVG files
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Measure nothing, but take the figures that an earlier run wrote with --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["objects", "input", "workload", "engine", "rounds", "seconds"])]
    from: Option<PathBuf>,
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
        let usual = if self.input.is_some() { 50_000 } else { 1_000_000 };
        self.objects.iter().max().map_or(usual, |most| most.get())
    }
}

/// What was chosen of a list of names.
#[derive(Clone)]
struct Named<T>(Vec<T>);

fn workloads_named(text: &str) -> Result<Named<Workload>, String> {
    if text == "all" {
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
            let unfinished = error.downcast_ref::<Unfinished>();
            let interrupted = unfinished.is_some_and(|error| matches!(error.why, ChildFailed::Interrupted));
            if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

type Error = Box<dyn std::error::Error>;

/// What a shell says of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn child(cli: Cli) -> Result<(), Error> {
    let objects = cli.most_objects();
    let engine = cli.engine.and_then(|engines| engines.0.first().copied()).ok_or("a child needs its --engine")?;
    workloads::run(&ChildArgs { engine, workloads: cli.workload.0, objects, input: cli.input, length: cli.seconds })
}

/// Refuses to make more objects than there is memory for: the system would end some process, perhaps another one.
fn check_memory(objects: usize, are_pods: bool, lists: usize) -> Result<(), Error> {
    /// What a decoded pod takes (measured: most of it are its managed fields).
    const POD_BYTES: u64 = 51_000;
    /// What a generated object takes, with its share of an engine (measured: most in client-go).
    const GENERATED_BYTES: u64 = 1_200;
    let each = lists as u64 * if are_pods { POD_BYTES } else { GENERATED_BYTES };
    let most = Machine::available_bytes() / each;
    if objects as u64 > most {
        return Err(format!(
            "{objects} objects in {lists} lists take about {} GB, which this machine does not have free: pass --objects \
             {most} or fewer",
            u128::from(each) * objects as u128 / 1_000_000_000
        )
        .into());
    }
    Ok(())
}

/// Where the figures go, beside the terminal. Opened before anything is measured, so that what cannot be written is said
/// at once.
struct Outputs {
    json: Option<File>,
    report: Option<Directory>,
}

impl Outputs {
    fn open(json: Option<&Path>, report: Option<&Path>) -> Result<Self, Error> {
        let create = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(Self { json: json.map(create).transpose()?, report: report.map(Directory::make).transpose()? })
    }

    fn write(self, report: &Report) -> Result<(), Error> {
        println!("{}", print(report));
        if let Some(mut json) = self.json {
            json.write_all(report.json().as_bytes())?;
        }
        if let Some(directory) = self.report {
            directory.write(report)?;
        }
        Ok(())
    }
}

fn parent(cli: Cli) -> Result<(), Error> {
    if let Some(from) = &cli.from {
        let report = Report::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        return Outputs::open(cli.json.as_deref(), cli.report.as_deref())?.write(&report);
    }
    if let Some(input) = &cli.input {
        Pods::read(input)?; // here, so that it is said once and at once
    }
    check_memory(cli.most_objects(), cli.input.is_some(), cli.workload.0.len() + 1)?;
    let outputs = Outputs::open(cli.json.as_deref(), cli.report.as_deref())?;
    let objects = cli.objects().into_iter().collect();
    let (engines, go) = engines(cli.engine, &cli.workload.0)?;
    let plan = Plan {
        engines,
        workloads: cli.workload.0,
        objects,
        input: cli.input,
        rounds: cli.rounds.get(),
        length: cli.seconds,
    };
    // Not before: while Go builds, Ctrl-C has nothing to keep.
    let interrupt = Interrupt::catch()?;
    let (mut run, mut machine, mut measured) = (Run::begins(plan.rounds), Machine::here(), Vec::new());
    let ended = rounds::run(&plan, go.as_ref(), &interrupt, &mut machine, &mut measured);
    run.complete = ended.is_ok();
    outputs.write(&Report { run, machine, rows: Summary::of(&measured) })?;
    // Last, so that a person sees what was measured.
    ended?;
    Ok(check(&measured)?)
}

/// Those that are asked for, or all, as far as they can do any of the workloads here.
fn engines(
    named: Option<Named<EngineName>>,
    workloads: &[Workload],
) -> Result<(Vec<EngineName>, Option<GoPeer>), Error> {
    let is_named = named.is_some();
    let mut engines = named.map_or_else(|| EngineName::ALL.to_vec(), |engines| engines.0);
    let mut go = None;
    if engines.iter().any(|engine| engine.is_go()) {
        eprintln!("building the peer in Go");
        match GoPeer::build() {
            Ok(peer) => go = Some(peer),
            // Who names an engine wants its figures; who does not gets those of the others.
            Err(error) if is_named => return Err(format!("the engines of client-go cannot be run: {error}").into()),
            Err(error) => {
                eprintln!("skipping the engines of client-go: {error}");
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
    Ok((engines, go))
}
