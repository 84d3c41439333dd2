//! The errors of a run and of a turn.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::KubeconfigError;

/// An error because of which nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The kubeconfig has no server.
    #[error("--server {}: {source}: it takes a kubeconfig with a current context", path.display())]
    Kubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// The error of kube's client.
        source: Box<KubeconfigError>,
    },
    /// A client for the server cannot be created.
    #[error("--server {}: there is no client for it: {source}", path.display())]
    Client {
        /// The kubeconfig.
        path: PathBuf,
        /// The error of kube's client.
        source: Box<kube::Error>,
    },
    /// The server is not reachable, or rejects a request.
    #[error(
        "it was not possible to {what}: {source}: the user of the kubeconfig must be allowed to, and the server be there"
    )]
    Refused {
        /// The purpose of the request.
        what: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// The namespace has more or fewer config maps than the run needs.
    #[error(
        "the namespace {namespace} has {there} config maps, and it is for {objects}: delete the namespace, or pass another \
         number of --objects"
    )]
    Number {
        /// The namespace.
        namespace: String,
        /// The expected number.
        objects: usize,
        /// The actual number.
        there: usize,
    },
    /// The program of a named client cannot be run.
    #[error("{program} cannot be run: {why}")]
    Program {
        /// The program.
        program: &'static str,
        /// The reason.
        why: String,
    },
    /// No client can be run.
    #[error("there is no client to run: --help says which there are")]
    NoClients,
    /// The system provides no threads or no signals.
    #[error("it does not start: {0}")]
    Start(#[from] io::Error),
}

/// An error because of which a turn has no result.
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
