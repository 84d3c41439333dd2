//! What keeps a run from its beginning, and a turn from its end.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::KubeconfigError;

/// Nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The file says no server.
    #[error("--server {}: {source}: it takes a kubeconfig with a current context", path.display())]
    Kubeconfig {
        /// This file.
        path: PathBuf,
        /// What kube's client said.
        source: Box<KubeconfigError>,
    },
    /// It says one that cannot be asked.
    #[error("--server {}: there is no client for it: {source}", path.display())]
    Client {
        /// Of this file.
        path: PathBuf,
        /// What kube's client said.
        source: Box<kube::Error>,
    },
    /// The server is away, or does not allow it.
    #[error(
        "it was not possible to {what}: {source}: the user of the kubeconfig must be allowed to, and the server be there"
    )]
    Refused {
        /// To do this.
        what: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// Somebody else has made some, or has deleted some.
    #[error(
        "the namespace {namespace} has {there} config maps, and it is for {objects}: delete the namespace, or pass another \
         number of --objects"
    )]
    Number {
        /// Here
        namespace: String,
        /// so many should be,
        objects: usize,
        /// and so many are.
        there: usize,
    },
    /// A client that was asked for is not there.
    #[error("{program} cannot be run: {why}")]
    Program {
        /// This
        program: &'static str,
        /// for this reason.
        why: String,
    },
    /// No client is there.
    #[error("there is no client to run: --help says which there are")]
    NoClients,
    /// There are no threads, or no signals.
    #[error("it does not start: {0}")]
    Start(#[from] io::Error),
}

/// A client brought nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum TurnFailed {
    #[error("{program} does not start: {source}")]
    Start { program: String, source: io::Error },
    #[error("it cannot be talked to: {0}")]
    Pipe(#[from] io::Error),
    #[error("it cannot be talked to")]
    Pipes,
    #[error("it ended before it was {until}: {said}")]
    Ended { until: &'static str, said: String },
    #[error("it was not {until} after {limit:?}: {said}")]
    Late { until: &'static str, limit: Duration, said: String },
    #[error("it said {0:?}, which is not the answer")]
    Answer(String),
    #[error("its handler was called {told} times and its store has {stored}, of {there} objects")]
    Objects { told: usize, stored: usize, there: usize },
    #[error("its handler was told of {told} changes, and there were {changed}")]
    Changes { told: usize, changed: usize },
    #[error("what it used cannot be found out: {0}")]
    Usage(#[from] nix::Error),
    #[error("the objects were not changed: {0}")]
    Change(#[source] Box<kube::Error>),
}
