//! Watch configuration and watch errors of a controller (kube's `watcher`).

use kube::core::Status;
pub use kube::runtime::watcher::{Config, InitialListStrategy, ListSemantic};

use crate::ReflectorError;
use crate::lister_watcher::RequestError;
use crate::shared_informer::InformerError;

/// An error of a list or a watch of a controller. The controller continues; the failed request is
/// retried with backoff.
///
/// The controller's stream yields these for the informers that the controller owns. A shared
/// informer passes its errors to
/// [`on_error`](crate::shared_informer::SharedInformerBuilder::on_error).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A list failed. The stored objects are kept.
    #[error("{message}")]
    InitialListFailed {
        /// The status that the server returned, if it returned one.
        status: Option<Box<Status>>,
        /// The complete error text.
        message: String,
    },
    /// A watch failed, or could not be opened. The stored objects are kept.
    #[error("{message}")]
    WatchFailed {
        /// The status that the server returned, if it returned one.
        status: Option<Box<Status>>,
        /// The complete error text.
        message: String,
    },
    /// An object, a namespace or a notification could not be processed: an object was not decoded,
    /// was too large or was refused, the store failed, or user code panicked. No request failed.
    #[error("{message}")]
    NotTaken {
        /// The complete error text.
        message: String,
    },
}

impl Error {
    /// Converts an error of the informer of `resource`.
    pub(super) fn of(resource: &str, error: &InformerError<'_>) -> Self {
        let message = format!("{resource}: {error}");
        let status = |request: &RequestError| match request {
            RequestError::Status { status, .. } => Some(status.clone()),
            _ => None,
        };
        match error.reflector() {
            Some(ReflectorError::List(error) | ReflectorError::FinalList(error)) => {
                Self::InitialListFailed { status: status(error), message }
            }
            Some(ReflectorError::Watch(error)) => {
                Self::WatchFailed { status: status(error), message }
            }
            _ => Self::NotTaken { message },
        }
    }

    /// Appends to the message that the kind is that of an optional relation, without which the
    /// controller runs, and logs the error as a warning.
    pub(super) fn log_optional(mut self) -> Self {
        if let Self::InitialListFailed { message, .. } | Self::WatchFailed { message, .. } =
            &mut self
        {
            message.push_str(
                "; the kind is optional, so the controller runs without it until it exists",
            );
        }
        tracing::warn!("{self}");
        self
    }

    /// Logs an error that occurred while the controller was waiting for first lists. If a list or
    /// watch failed, the error may be the reason for the wait, and the message says so. An object
    /// that cannot be decoded does not delay the other objects.
    pub(super) fn log_before_first_lists(mut self) -> Self {
        if let Self::InitialListFailed { message, .. } | Self::WatchFailed { message, .. } =
            &mut self
        {
            message
                .push_str("; nothing is reconciled until everything that the controller watches has been listed once");
        }
        tracing::warn!("{self}");
        self
    }
}
