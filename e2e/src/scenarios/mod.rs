//! The scenarios, one per file: faults of the servers, and the required results.

mod churn;
mod controllers;
mod election;
mod etcd_gone;
mod large;
mod namespaces;
mod page_expired;
mod replicas;
mod resume_accepted;
mod resume_refused;
mod shard_selectors;
mod testkit;
mod tombstones;
mod version_ahead;
mod watch_list_refused;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use deltafifo::BoxError;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

/// The setting of a scenario.
#[derive(Clone)]
pub struct Setting {
    /// The directory of the servers' programs.
    pub binaries: PathBuf,
    /// The directory in which the servers write.
    pub dir: PathBuf,
    /// Whether to use few objects.
    pub smoke: bool,
    /// The number of objects, if it is not the default.
    pub objects: Option<usize>,
    /// The number of leaders that each fault of a long election ends, if it is not the default.
    pub trials: Option<usize>,
    /// The program of the candidates in elections, if it is not this one.
    pub candidate: Option<PathBuf>,
    /// The program of an etcd that lacks a feature which streamed lists need.
    pub etcd34: Option<PathBuf>,
}

/// The outcome of a scenario that found no fault.
pub enum Outcome {
    /// Everything that the scenario requires was true. Contains a summary.
    Held(String),
    /// The scenario could not run. Contains the reason.
    Skipped(String),
}

pub type Ended = Result<Outcome, BoxError>;

#[derive(Clone, Copy, ValueEnum)]
pub enum Scenario {
    /// The API server is killed and stopped while four writers change objects
    Churn,
    /// Objects are deleted and created again while the reflector is cut off
    Tombstones,
    /// The API server restarts and no longer knows the reflector's version
    ResumeRefused,
    /// The API server restarts after nothing was written, and the watch resumes
    ResumeAccepted,
    /// The second page of a list is requested after the API server has compacted etcd, so its page
    /// token has expired
    PageExpired,
    /// The API server does not stream lists, because its feature for streamed lists is off
    WatchListRefused,
    /// The API server does not stream lists, because its etcd is version 3.4. The variable
    /// `DELTAFIFO_ETCD34` contains the path of that etcd
    WatchListEtcd34,
    /// etcd is stopped for ten seconds
    EtcdGone,
    /// The reflector asks for a version that the API server has not reached
    VersionAhead,
    /// 100000 objects are listed again, one in a hundred of which has changed
    Large,
    /// Objects that are related to the objects of controllers (kube's and this project's) are
    /// deleted, and no watch delivers the deletions
    Controllers,
    /// An account loses its rights in one of two namespaces, and gets them back
    Namespaces,
    /// The test kit answers a list of requests as the real API server does
    Testkit,
    /// 100 leaders with short leases are killed, stopped, terminated or cut off, or lose their
    /// servers or leases
    Election,
    /// 35 leaders with leases of the default durations get the same faults (not run by default)
    ElectionDefaults,
    /// 100 leaders with short leases are killed, and 100 are stopped (not run by default)
    ElectionFull,
    /// Replicas that share objects are killed, stopped, terminated, cut off and started, or lose
    /// their servers or Leases
    Replicas,
    /// The API server selects the objects of informers of a part of the shards, or ignores their
    /// selectors
    ShardSelectors,
    /// 100 replicas that share objects are killed, and 100 are stopped, beside hundreds of other
    /// faults (not run by default)
    ReplicasFull,
    /// 50 leaders that reconcile each object once are terminated, and 50 are killed (not run by
    /// default)
    ElectionHandovers,
}

impl Scenario {
    /// The scenarios that every change must pass.
    pub const SMOKE: [Self; 4] =
        [Self::Churn, Self::ResumeRefused, Self::WatchListRefused, Self::Testkit];

    /// Returns the scenarios that run if none is named.
    pub fn by_default() -> impl Iterator<Item = Self> {
        let is_long = |scenario| {
            matches!(
                scenario,
                Self::ElectionDefaults
                    | Self::ElectionFull
                    | Self::ElectionHandovers
                    | Self::ReplicasFull
            )
        };
        Self::value_variants().iter().copied().filter(move |scenario| !is_long(*scenario))
    }

    /// Returns the name that the command line uses.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the time limit: several times the duration on two cores, except for `replicas`,
    /// which is to end within ten minutes, and takes most of that on a busy machine.
    pub fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Churn => 300,
            Self::PageExpired | Self::Controllers => 240,
            Self::Large => 900,
            Self::Election | Self::Replicas => 600,
            Self::ElectionDefaults
            | Self::ElectionFull
            | Self::ElectionHandovers
            | Self::ReplicasFull => 3_600,
            _ => 150,
        })
    }

    pub fn run(self, setting: &Setting) -> LocalBoxFuture<'_, Ended> {
        match self {
            Self::Churn => churn::run(setting).boxed_local(),
            Self::Tombstones => tombstones::run(setting).boxed_local(),
            Self::ResumeRefused => resume_refused::run(setting).boxed_local(),
            Self::ResumeAccepted => resume_accepted::run(setting).boxed_local(),
            Self::PageExpired => page_expired::run(setting).boxed_local(),
            Self::WatchListRefused => watch_list_refused::by_gate(setting).boxed_local(),
            Self::WatchListEtcd34 => watch_list_refused::by_etcd34(setting).boxed_local(),
            Self::EtcdGone => etcd_gone::run(setting).boxed_local(),
            Self::VersionAhead => version_ahead::run(setting).boxed_local(),
            Self::Large => large::run(setting).boxed_local(),
            Self::Controllers => controllers::run(setting).boxed_local(),
            Self::Namespaces => namespaces::run(setting).boxed_local(),
            Self::Testkit => testkit::run(setting).boxed_local(),
            Self::Election => election::short(setting).boxed_local(),
            Self::ElectionDefaults => election::defaults(setting).boxed_local(),
            Self::ElectionFull => election::full(setting).boxed_local(),
            Self::ElectionHandovers => election::handovers(setting).boxed_local(),
            Self::Replicas => replicas::short(setting).boxed_local(),
            Self::ShardSelectors => shard_selectors::run(setting).boxed_local(),
            Self::ReplicasFull => replicas::full(setting).boxed_local(),
        }
    }
}
