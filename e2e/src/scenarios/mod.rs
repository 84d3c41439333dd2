//! What is done to the servers, and what must come of it: one scenario a file.

mod churn;
mod controllers;
mod etcd_gone;
mod large;
mod page_expired;
mod resume_accepted;
mod resume_refused;
mod tombstones;
mod version_ahead;
mod watch_list_refused;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use deltafifo::BoxError;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

/// What a scenario is run with.
#[derive(Clone)]
pub struct Setting {
    /// Where the servers are.
    pub binaries: PathBuf,
    /// Where they may write.
    pub dir: PathBuf,
    /// With few objects.
    pub smoke: bool,
    /// With so many.
    pub objects: Option<usize>,
    /// An etcd that cannot do what streamed lists need.
    pub etcd34: Option<PathBuf>,
}

/// How a scenario ended, when nothing was wrong.
pub enum Outcome {
    /// With these counts.
    Held(String),
    /// It could not be tried: why.
    Skipped(String),
}

pub type Ended = Result<Outcome, BoxError>;

#[derive(Clone, Copy, ValueEnum)]
pub enum Scenario {
    /// The API server is killed and stopped while four writers change objects
    Churn,
    /// Objects are deleted and made again while the reflector is cut off
    Tombstones,
    /// The API server starts again and does not know the reflector's version any more
    ResumeRefused,
    /// The API server starts again and the watch goes on
    ResumeAccepted,
    /// A list's second page is asked for after the compaction
    PageExpired,
    /// The API server streams no lists
    WatchListRefused,
    /// The same by an etcd 3.4, which the variable `DELTAFIFO_ETCD34` names
    WatchListEtcd34,
    /// Etcd is away for ten seconds
    EtcdGone,
    /// The reflector asks for a version that the API server has not reached
    VersionAhead,
    /// 100000 objects are listed anew, of which one in a hundred has changed
    Large,
    /// Controllers of kube's runtime and of ours, when what belongs to their objects goes unseen
    Controllers,
}

impl Scenario {
    /// Those that every change must hold in.
    pub const SMOKE: [Self; 3] = [Self::Churn, Self::ResumeRefused, Self::WatchListRefused];

    /// As a command line has it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// How long it may take: several times what it takes on two cores.
    pub fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Churn => 300,
            Self::PageExpired | Self::Controllers => 240,
            Self::Large => 900,
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
        }
    }
}
