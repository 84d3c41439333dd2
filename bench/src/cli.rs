//! The command-line options of the tool.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, value_parser};

use crate::names::{EngineName, Workload};
use crate::report::distinct;
#[cfg(feature = "peers")]
use crate::server::ClientName;

/// A stand-in for the type of the clients if the feature `peers` is off: the option `--client` is
/// then rejected.
#[cfg(not(feature = "peers"))]
type ClientName = String;

/// The error for an option whose code is not in this binary.
#[derive(Debug, thiserror::Error)]
#[error("{0} needs the feature `peers`: cargo run --release --features peers --bin relist -- …")]
pub struct NeedsPeers(String);

/// Measures relists of a million objects on deltafifo, on the classic designs and on the real
/// client-go.
///
/// Without options it compares the main engines once, which takes about a minute.
#[derive(Parser)]
#[command(name = "relist", version)]
pub struct Cli {
    /// Number of objects; several numbers, as in 10000,100000,1000000, show how the time grows.
    /// Default: 1000000, or 50000 with --input, because each list holds decoded pods of 50 kB, or
    /// 100000 with --server and for the workload `cache`
    #[arg(long, value_name = "N,M", value_delimiter = ',')]
    pub objects: Vec<NonZero<usize>>,
    /// File with a LIST response of pods, as JSON or gzipped JSON. The pods are repeated under new
    /// names until there are as many as --objects says. Default: generated objects (needs the
    /// feature `peers`)
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Workloads, separated by commas; `workqueue` and `cache` need the feature `peers`, and
    /// `cache` has a run of its own with --input. Default: initial,relist
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = workload())]
    workload: Vec<Option<Workload>>,
    /// Engines, separated by commas; `kube-writer` and `kube-writer-arc` need the feature `peers`.
    /// Default: all that can be run here
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = engine())]
    engine: Vec<EngineName>,
    /// Number of rounds. Default: 3, or 5 with --server, or 1 without any option
    #[arg(long, value_name = "R", value_parser = value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Seconds for which updates are offered in the workload `stall`, and for which the store is
    /// read in the workload `readers`
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub seconds: Duration,
    /// For the workload `cache`: number of pods in each replicated application (such as a
    /// Deployment) of the cluster that is generated from the input
    #[arg(long, value_name = "R", default_value = "20", requires = "input")]
    pub replicas: NonZero<usize>,
    /// For the workload `cache`: repeat the pods of the input under new names and ids, without
    /// other changes, instead of generating replicas
    #[arg(long, conflicts_with = "replicas", requires = "input")]
    pub as_is: bool,
    /// Measure clients of a real API server instead: from their start until a handler was notified
    /// of all config maps, and then a relist with 1 % changed objects. Creates the config maps, 1
    /// kB each, in the namespace deltafifo-bench-N, and keeps them there; the user of the
    /// kubeconfig must be allowed to (needs the feature `peers`)
    #[arg(
        long,
        value_name = "KUBECONFIG",
        conflicts_with_all = ["input", "workload", "engine", "seconds", "from"]
    )]
    pub server: Option<PathBuf>,
    /// Clients of the server, separated by commas. Default: all that can be run here (needs the
    /// feature `peers`)
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "server")]
    pub client: Vec<ClientName>,
    /// File to which the figures are written as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Directory to which the report is written: a page with plots and a table of the medians,
    /// report.html; each of them as a file; the text that the terminal shows, and the figures as
    /// JSON (needs the feature `peers`)
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
    /// process of each turn
    #[arg(long, hide = true)]
    pub child: bool,
    /// Leave out the variant `owned` of a relist, in which only the engine holds the lists
    #[arg(long, hide = true, requires = "child")]
    pub without_owned: bool,
    /// The LIST response from which the workload `cache` relists
    #[arg(long, hide = true, requires = "child")]
    pub second_list: Option<PathBuf>,
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
        let path = paths.into_iter().find(|(_, given)| given.is_some());
        let workload = self.workloads().into_iter().find(|workload| !workload.is_built());
        let engine = self.engines().into_iter().find(|engine| !engine.is_built());
        let option = path
            .map(|(option, _)| option.to_owned())
            .or_else(|| workload.map(|workload| format!("--workload {workload}")))
            .or_else(|| engine.map(|engine| format!("--engine {engine}")));
        option.map_or(Ok(self), |option| Err(NeedsPeers(option)))
    }

    /// Returns whether no option selects what to measure.
    pub fn is_first_run(&self) -> bool {
        self.input.is_none()
            && self.server.is_none()
            && self.rounds.is_none()
            && self.objects.is_empty()
            && self.workload.is_empty()
            && self.engine.is_empty()
    }

    /// Returns each number once, in ascending order.
    pub fn objects(&self) -> BTreeSet<usize> {
        self.objects.iter().map(|objects| objects.get()).chain([self.most_objects()]).collect()
    }

    pub fn most_objects(&self) -> usize {
        let usual = match (&self.server, &self.input) {
            (Some(_), _) => 100_000,
            _ if self.workloads().contains(&Workload::Cache) => 100_000,
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

    /// Returns each workload once. The name `all` means every workload of this binary that has no
    /// run of its own.
    pub fn workloads(&self) -> Vec<Workload> {
        if self.workload.is_empty() {
            vec![Workload::Initial, Workload::Relist]
        } else if self.workload.contains(&None) {
            Workload::ALL
                .iter()
                .copied()
                .filter(|one| one.is_built() && !one.is_separate())
                .collect()
        } else {
            distinct(self.workload.iter().copied().flatten())
        }
    }

    /// Returns the named engines, each once.
    pub fn engines(&self) -> Vec<EngineName> {
        distinct(self.engine.iter().copied())
    }
}

/// Accepts the name of a workload, or `all`, which becomes `None`.
fn workload() -> impl TypedValueParser<Value = Option<Workload>> {
    let names = Workload::ALL.iter().map(|workload| workload.name()).chain(["all"]);
    PossibleValuesParser::new(names).map(|name| Workload::named(&name))
}

/// Accepts the name of an engine.
fn engine() -> impl TypedValueParser<Value = EngineName> {
    let names = EngineName::ALL.iter().map(|engine| engine.name());
    PossibleValuesParser::new(names).try_map(|name| EngineName::named(&name).ok_or("unknown"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err("must be from 0.001 to 3600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}
