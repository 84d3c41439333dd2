//! The errors of list and watch requests, and the properties by which a reflector handles them.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use deltafifo::BoxError;
use kube::core::Status;

use super::TooLarge;
use crate::wire::WireError;

/// The error of a request to an API server. The request failed at once, or while the response was
/// read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server refused the request, with an HTTP status.
    #[error(
        "the API server refused the request: {} {}: {}{}",
        status.code, status.reason, status.message, hint(status.code)
    )]
    Status {
        /// The `Status` object of the response.
        status: Box<Status>,
        /// The time that the server asks to wait before the next request.
        retry_after: Option<Duration>,
    },
    /// The server ended an open watch with an ERROR event.
    #[error(
        "the API server ended the watch with an error: {} {}: {}{}",
        status.code, status.reason, status.message, hint(status.code)
    )]
    ErrorEvent {
        /// The `Status` object of the event.
        status: Box<Status>,
        /// The time that the server asks to wait before the next request.
        retry_after: Option<Duration>,
    },
    /// There was no response: the connection was refused or lost, or a middleware of the client
    /// failed.
    #[error("the API server did not answer")]
    Unreachable(#[source] BoxError),
    /// The connection was lost while the response was read, or the response ended too early.
    #[error("the API server's response broke off")]
    Broken(#[source] BoxError),
    /// The connection is open, but nothing was received for too long.
    #[error("the API server sent nothing for {after:?}, although the connection is open")]
    Silent {
        /// The time during which nothing was received.
        after: Duration,
    },
    /// The server keeps sending without an end: initial events of a watch without the bookmark
    /// that ends them, or a list with ever more pages. Also the error of the final list of a
    /// namespace that, with its repetitions, takes too long.
    #[error("the API server did not end {what} within {after:?}, although it kept sending")]
    Endless {
        /// The part that did not end.
        what: &'static str,
        /// The time that the response has taken so far; for a final list, with its repetitions.
        after: Duration,
    },
    /// The server ended a watch at once (client-go `VeryShortWatchError`, which covers only
    /// watches without an event).
    #[error(
        "the API server ended the watch at once; check whether a proxy in between closes open watches"
    )]
    VeryShort,
    /// The response is not one that an API server sends, or it has metadata that is larger than
    /// [`max_object_size`](crate::reflector::ReflectorBuilder::max_object_size).
    #[error(transparent)]
    Wire(BoxError),
    /// An object of a list or watch is larger than the [limit](super::ObjectLimit) and was
    /// skipped. The error takes the object's place; it is the only error after which a stream
    /// continues.
    #[error("an object of {} bytes exceeds the limit of {} bytes and was skipped", .0.size, .0.limit)]
    TooLarge(Box<TooLarge>),
    /// The request could not be built.
    #[error("the request cannot be built; check the query parameters that were added")]
    Invalid(#[source] BoxError),
}

/// Returns whether a status means that the server does not have the resource, or does not allow
/// access to it.
pub(crate) fn is_unavailable(status: &Status) -> bool {
    matches!(status.code, 403 | 404)
}

/// Returns advice for a status that a repeated request does not change.
fn hint(code: u16) -> &'static str {
    match code {
        401 => " (the credentials are not accepted, or have expired)",
        403 => " (the account needs the verbs list and watch for this resource)",
        404 => " (the server does not have this resource: is its CRD installed?)",
        _ => "",
    }
}

impl From<WireError> for RequestError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::CutShort { .. } => Self::Broken(error.into()),
            WireError::TooLong | WireError::NotThat { .. } => Self::Wire(error.into()),
        }
    }
}

impl RequestError {
    /// Parses a JSON `Status`. All fields of a `Status` are optional, so any JSON object parses as
    /// one. An object without code, reason and message is therefore an error: it comes from a
    /// proxy.
    pub(crate) fn from_status(status: &[u8], retry_after: Option<Duration>) -> Self {
        match serde_json::from_slice::<Status>(status) {
            Ok(none)
                if none.reason.is_empty()
                    && none.message.is_empty()
                    && !(400..600).contains(&none.code) =>
            {
                WireError::not_that("a Status without a code, a reason and a message", status)
                    .into()
            }
            Ok(status) => {
                let seconds =
                    status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let in_body = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                Self::Status { status: Box::new(status), retry_after: retry_after.or(in_body) }
            }
            Err(error) => WireError::not_that(format!("no Status: {error}"), status).into(),
        }
    }

    /// Parses the JSON `Status` of an ERROR event.
    pub(crate) fn from_event(status: &[u8]) -> Self {
        match Self::from_status(status, None) {
            Self::Status { status, retry_after } => Self::ErrorEvent { status, retry_after },
            error => error,
        }
    }

    /// Returns the error of a list or a bookmark without a version. Such a list is incomplete, and
    /// nothing may be deleted because of it.
    pub(crate) fn without_version(what: &str) -> Self {
        WireError::not_that(format!("{what} without its version"), &[]).into()
    }

    /// Returns the error of a list that ends with an object that is too large. The server may have
    /// cut the list there, so the list counts as incomplete.
    pub(crate) fn cut_at_large() -> Self {
        WireError::CutShort { of: "a list, at an object that is too large" }.into()
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } | Self::ErrorEvent { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Returns whether the requested version is too old: 410, as an HTTP status or as an event
    /// (client-go `IsResourceExpired`, `IsGone`).
    pub(crate) fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| {
            status.code == 410 || matches!(status.reason.as_str(), "Expired" | "Gone")
        })
    }

    /// Returns whether the server has not reached the requested version yet (client-go
    /// `IsTooLargeResourceVersion`).
    pub(crate) fn is_too_large_version(&self) -> bool {
        self.status().is_some_and(|status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            status.reason == "Timeout"
                && causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
                || status.message.contains("Too large resource version")
        })
    }

    /// Returns whether the server does not have the resource (404), or does not allow the client
    /// to list and watch it (403).
    pub(crate) fn is_unavailable(&self) -> bool {
        self.status().is_some_and(is_unavailable)
    }

    /// Returns whether the server may have refused a parameter of the request that it does not
    /// support, or that makes the URL too long: 400, 414, 422, 431, or a failure of the server.
    #[cfg(feature = "leader-election")]
    pub(crate) fn may_be_of_a_parameter(&self) -> bool {
        self.is_server_failure()
            || self.status().is_some_and(|status| matches!(status.code, 400 | 414 | 422 | 431))
    }

    /// Returns whether the server failed to answer: 500.
    #[cfg(feature = "leader-election")]
    pub(crate) fn is_server_failure(&self) -> bool {
        self.status().is_some_and(|status| status.code == 500)
    }

    /// Returns whether the requested version is too old or too new.
    pub(crate) fn is_version_unavailable(&self) -> bool {
        self.is_expired() || self.is_too_large_version()
    }

    /// Returns whether the server is overloaded (client-go `IsTooManyRequests`).
    fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.code == 429 || status.reason == "TooManyRequests")
    }

    /// Returns whether the connection was lost before or during the response. The parts that were
    /// received before that are valid.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Broken(_) | Self::Silent { .. })
    }

    /// Returns whether the connection was refused (client-go `IsConnectionRefused`).
    fn is_refused(&self) -> bool {
        let Self::Unreachable(error) = self else { return false };
        let mut causes =
            std::iter::successors(Some(error.as_ref() as &(dyn Error + 'static)), |error| {
                (*error).source()
            });
        causes.any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|e| e.kind() == ErrorKind::ConnectionRefused)
        })
    }

    /// Returns whether the request should be repeated later, from the same version: at present,
    /// other requests would fail for the same reason.
    pub(crate) fn is_for_later(&self) -> bool {
        self.is_too_many_requests() || self.is_refused()
    }

    /// Returns how long the server asks to wait before the next request, or `None` if it does not
    /// ask.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } | Self::ErrorEvent { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
