//! The errors of a reflector, in the kinds that the scenarios distinguish.

use deltafifo_informer::lister_watcher::RequestError;
use deltafifo_informer::{ReflectorError, error_chain};
use kube::core::Status;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// There was no response, or the response broke off: the server is not available.
    Cut,
    /// A watch ended at once, as it does when a server is being stopped.
    Short,
    /// The version or the page token is too old: 410.
    Expired,
    /// The server has not reached the version: 504.
    TooLarge,
    /// The server refused the request for another reason.
    Status(u16),
    /// An error that no scenario causes.
    Other,
}

impl Fault {
    fn of_status(status: &Status) -> Self {
        match status.code {
            410 => Self::Expired,
            _ if is_too_large(status) => Self::TooLarge,
            code => Self::Status(code),
        }
    }

    /// Returns the kind of an error of a list or a watch.
    pub fn of_request(error: &RequestError) -> Self {
        match error {
            RequestError::Status { status, .. } | RequestError::ErrorEvent { status, .. } => {
                Self::of_status(status)
            }
            RequestError::Unreachable(_) | RequestError::Broken(_) => Self::Cut,
            RequestError::VeryShort => Self::Short,
            _ => Self::Other,
        }
    }

    /// Returns whether a server that is killed, stopped or starting may be the reason.
    pub fn is_restart(self) -> bool {
        matches!(self, Self::Cut | Self::Short | Self::Status(429 | 500 | 503 | 504))
    }
}

/// Returns whether the server has not reached the requested version yet.
fn is_too_large(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// An error that the reflector reported.
pub struct ReportedError {
    /// The kind of the error.
    pub fault: Fault,
    /// The text of the error, with its sources.
    pub text: String,
}

impl ReportedError {
    pub fn of(error: &ReflectorError) -> Self {
        let fault = match error {
            ReflectorError::List(error) | ReflectorError::Watch(error) => Fault::of_request(error),
            _ => Fault::Other,
        };
        Self { fault, text: error_chain(error) }
    }
}
