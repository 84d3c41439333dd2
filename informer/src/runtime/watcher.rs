//! How a controller watches, and what goes wrong with that (kube's `watcher`).

use kube::core::Status;
pub use kube::runtime::watcher::{Config, InitialListStrategy, ListSemantic};

use crate::ReflectorError;
use crate::lister_watcher::RequestError;
use crate::shared_informer::InformerError;

/// Something that went wrong with what a controller watches; it goes on by itself. A copy of what an informer of its own
/// [tells](crate::shared_informer::SharedInformerBuilder::on_error), to be had from the controller's stream.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A list failed. What is known stays.
    #[error("{message}")]
    InitialListFailed {
        /// What the server said, if it said anything.
        status: Option<Box<Status>>,
        /// All of it, as a text.
        message: String,
    },
    /// A watch failed, or could not be opened. What is known stays.
    #[error("{message}")]
    WatchFailed {
        /// What the server said, if it said anything.
        status: Option<Box<Status>>,
        /// All of it, as a text.
        message: String,
    },
    /// It was not the server: an object that cannot be read, a function of yours that panicked.
    #[error("{message}")]
    NotTaken {
        /// All of it, as a text.
        message: String,
    },
}

impl Error {
    /// Of an informer of that resource.
    pub(super) fn of(resource: &str, error: &InformerError<'_>) -> Self {
        let message = format!("{resource}: {error}");
        let said = |request: &RequestError| match request {
            RequestError::Status { status, .. } => Some(status.clone()),
            _ => None,
        };
        match error {
            InformerError::Reflector(ReflectorError::List(error)) => {
                Self::InitialListFailed { status: said(error), message }
            }
            InformerError::Reflector(ReflectorError::Watch(error)) => {
                Self::WatchFailed { status: said(error), message }
            }
            _ => Self::NotTaken { message },
        }
    }

    /// Logs the absence of a kind that a controller can do without, and says so in its text.
    pub(super) fn of_optional(mut self) -> Self {
        if let Self::InitialListFailed { message, .. } | Self::WatchFailed { message, .. } = &mut self {
            message.push_str("; it is optional, so the controller goes on without it until it is there");
        }
        tracing::warn!("{self}");
        self
    }

    /// Logs an error of a controller that still waits for first lists, and says so in its text if the error may be why it waits:
    /// a list or watch failed. One object that cannot be read keeps the others from nothing.
    pub(super) fn before_first_lists(mut self) -> Self {
        if let Self::InitialListFailed { message, .. } | Self::WatchFailed { message, .. } = &mut self {
            message.push_str("; nothing is reconciled until all that the controller watches has been listed once");
        }
        tracing::warn!("{self}");
        self
    }
}
