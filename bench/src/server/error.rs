//! The errors of a run and of a turn.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error of the configuration of a client, or of a request to the server.
type ClientError = Box<dyn Error + Send + Sync>;

/// The error that prevents all measurements of a run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("--server {}: not a kubeconfig with a current context", path.display())]
    Kubeconfig { path: PathBuf, source: ClientError },
    #[error("--server {}: cannot create a client", path.display())]
    Client { path: PathBuf, source: ClientError },
    #[error("cannot {request}; the server must run, and the user of the kubeconfig be allowed to")]
    Refused { request: String, source: ClientError },
    #[error(
        "the namespace {namespace} has {found} config maps and not {objects}: \
         delete the namespace, or pass another number of --objects"
    )]
    Number { namespace: String, objects: usize, found: usize },
    /// The program of a client that the user named cannot be run.
    #[error("cannot run {program}: {why}")]
    Program { program: &'static str, why: String },
    #[error("there is no client to run: --help lists the clients")]
    NoClients,
    /// The system provides no threads or no signals.
    #[error("cannot start")]
    Start(#[from] io::Error),
}

impl ServerError {
    pub fn kubeconfig<E: Into<ClientError>>(path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Kubeconfig { path: path.to_owned(), source: source.into() }
    }
}

/// The error that leaves a turn without a result.
#[derive(Debug, thiserror::Error)]
pub(super) enum TurnFailed {
    #[error("cannot start {program}")]
    Start { program: String, source: io::Error },
    #[error("cannot read or write a pipe of the client")]
    Pipe(#[from] io::Error),
    #[error("a pipe of the client is closed")]
    Pipes,
    #[error("the client ended before {step}: {message}")]
    Ended { step: &'static str, message: String },
    #[error("the client did not complete {step} in {limit:?}: {message}")]
    Late { step: &'static str, limit: Duration, message: String },
    #[error("the client printed {0:?}, which is not the expected answer")]
    Answer(String),
    #[error(
        "the handler was called {calls} times, and the store has {stored} of {objects} objects"
    )]
    Objects { calls: usize, stored: usize, objects: usize },
    #[error("the handler was notified of {notified} of {changed} changes")]
    Changes { notified: usize, changed: usize },
    #[error("cannot read the CPU time of the client")]
    Usage(#[from] nix::Error),
    #[error("cannot change the objects")]
    Change(#[source] Box<kube::Error>),
}
