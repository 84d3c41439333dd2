//! The command line.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, value_parser};
use deltafifo_bench::names::{EngineName, Workload};
use deltafifo_bench::peers::NeedsPeers;
#[cfg(feature = "peers")]
use deltafifo_bench::server::ClientName;

/// A placeholder: without the feature, `--client` is rejected.
#[cfg(not(feature = "peers"))]
type ClientName = String;

/// Measures relists of a million objects on deltafifo, on the classic designs and on the real
/// client-go.
///
/// Without options it compares the main engines once, which takes about a minute.
#[derive(Parser)]
#[command(name = "relist", version)]
pub struct Cli {
    /// Number of objects; several numbers, as in 10000,100000,1000000, show how the time grows.
    /// Default: 1000000, or 50000 with --input, because each list holds decoded pods of 50 kB, or
    /// 100000 with --server
    #[arg(long, value_name = "N,M", value_delimiter = ',')]
    pub objects: Vec<NonZero<usize>>,
    /// A LIST response of pods, JSON or gzipped JSON, repeated under new names up to N objects.
    /// Default: generated objects (needs peers)
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Workloads, separated by commas: initial, relist, churn, events, stall, readers, queries,
    /// slow-handler, workqueue (needs peers), memory, or all. Default: initial,relist
    #[arg(long, value_name = "A,B", value_parser = workloads_named)]
    workload: Option<Named<Workload>>,
    /// Engines, separated by commas: deltafifo, deltafifo-skip, deltafifo-1-thread, deltafifo-lane,
    /// deltafifo-single, mutex, dashmap, floor, kube-writer (needs peers), kube-writer-arc (needs
    /// peers), client-go-deltafifo, client-go-realfifo, client-go-informer. Default: all that can
    /// be run here
    #[arg(long, value_name = "A,B", value_parser = engines_named)]
    engine: Option<Named<EngineName>>,
    /// Number of rounds. Default: 3, or 5 with --server, or 1 without any option
    #[arg(long, value_name = "R", value_parser = value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Seconds for which the stall workload offers and the readers read
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub seconds: Duration,
    /// Measure clients of a real API server instead: from their start until a handler was notified
    /// of all config maps, and then a relist with 1 % changed objects. Creates the config maps, 1
    /// kB each, in the namespace deltafifo-bench-N, and keeps them there; the user of the
    /// kubeconfig must be allowed to (needs peers)
    #[arg(
        long,
        value_name = "KUBECONFIG",
        conflicts_with_all = ["input", "workload", "engine", "seconds", "from"]
    )]
    pub server: Option<PathBuf>,
    /// Clients of the server, separated by commas. Default: all that can be run here (needs peers)
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "server")]
    pub client: Vec<ClientName>,
    /// File for the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Directory for the report: a page with plots, index.html, and the plots as SVG files (needs
    /// peers)
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Measure nothing, and use the figures that an earlier run wrote with --json (several files
    /// are joined)
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["objects", "input", "workload", "engine", "rounds", "seconds"]
    )]
    pub from: Vec<PathBuf>,
    /// Measure one engine in this process and print the protocol: this is how the tool starts the
    /// process of each engine
    #[arg(long, hide = true)]
    pub child: bool,
    /// Leave out the relist of lists that only the engine holds
    #[arg(long, hide = true, requires = "child")]
    pub without_owned: bool,
}

impl Cli {
    /// Parses the arguments of this process. Ends the process with a message if they are wrong.
    pub fn read() -> Result<Self, NeedsPeers> {
        let cli = Self::parse();
        if cfg!(feature = "peers") { Ok(cli) } else { cli.needs_no_peers() }
    }

    /// Rejects options whose code is not in this binary.
    fn needs_no_peers(self) -> Result<Self, NeedsPeers> {
        let paths =
            [("--input", &self.input), ("--server", &self.server), ("--report", &self.report)];
        let option = paths
            .into_iter()
            .find(|(_, given)| given.is_some())
            .map(|(option, _)| option.to_owned());
        let workload =
            self.workload.iter().flat_map(|named| &named.0).find(|workload| !workload.is_built());
        let engine =
            self.engine.iter().flat_map(|named| &named.0).find(|engine| !engine.is_built());
        let needs = option
            .or_else(|| workload.map(|workload| format!("--workload {workload}")))
            .or_else(|| engine.map(|engine| format!("--engine {engine}")));
        needs.map_or(Ok(self), |what| Err(NeedsPeers(what)))
    }

    /// Returns whether no option selects what to measure.
    pub fn is_first_run(&self) -> bool {
        let given = self.input.is_some()
            || self.workload.is_some()
            || self.engine.is_some()
            || self.rounds.is_some();
        !given && self.objects.is_empty() && self.server.is_none()
    }

    /// Returns each number once, in ascending order.
    pub fn objects(&self) -> BTreeSet<usize> {
        self.objects.iter().map(|objects| objects.get()).chain([self.most_objects()]).collect()
    }

    pub fn most_objects(&self) -> usize {
        let usual = match (&self.server, &self.input) {
            (Some(_), _) => 100_000,
            (_, Some(_)) => 50_000,
            _ => 1_000_000,
        };
        self.objects.iter().max().map_or(usual, |most| most.get())
    }

    pub fn rounds(&self) -> usize {
        let usual = match &self.server {
            _ if self.is_first_run() => 1,
            Some(_) => 5,
            None => 3,
        };
        self.rounds.unwrap_or(usual).into()
    }

    pub fn workloads(&self) -> Vec<Workload> {
        let usual = || vec![Workload::Initial, Workload::Relist];
        self.workload.as_ref().map_or_else(usual, |named| named.0.clone())
    }

    /// Returns the engines that are named, if any are.
    pub fn engines(&self) -> Option<Vec<EngineName>> {
        self.engine.as_ref().map(|named| named.0.clone())
    }
}

/// A selection from a list of names.
#[derive(Clone)]
struct Named<T>(Vec<T>);

fn workloads_named(text: &str) -> Result<Named<Workload>, String> {
    // Other names beside `all` must be valid, too.
    let (all, others): (Vec<_>, Vec<_>) = text.split(',').partition(|name| name.trim() == "all");
    if !all.is_empty() {
        if !others.is_empty() {
            choose("workload", &others.join(","), &Workload::ALL, |workload| workload.name())?;
        }
        return Ok(Named(
            Workload::ALL.into_iter().filter(|workload| workload.is_built()).collect(),
        ));
    }
    choose("workload", text, &Workload::ALL, |workload| workload.name())
}

fn engines_named(text: &str) -> Result<Named<EngineName>, String> {
    choose("engine", text, &EngineName::ALL, |engine| engine.name())
}

fn choose<T: Copy>(
    what: &str,
    text: &str,
    all: &[T],
    name: impl Fn(&T) -> &'static str,
) -> Result<Named<T>, String> {
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
