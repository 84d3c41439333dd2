//! Why a list or watch failed, and the questions that a reflector asks of that.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use deltafifo::BoxError;
use kube::core::Status;

use super::TooLarge;
use crate::wire::WireError;

/// A request to an API server failed, at once or in the middle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server says no: an HTTP status, or an ERROR event of a watch.
    #[error("the API server says {} {}: {}{}", status.code, status.reason, status.message, hint(status.code))]
    Status {
        /// What it says.
        status: Box<Status>,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// No answer: the connection was refused or lost, or a middleware of the client failed.
    #[error("no answer from the API server: {0}")]
    Unreachable(#[source] BoxError),
    /// The answer broke off.
    #[error("the API server's answer broke off: {0}")]
    Broken(#[source] BoxError),
    /// Nothing came for too long.
    #[error("nothing came from the API server for {after:?}, although the connection is open")]
    Silent {
        /// How long nothing came.
        after: Duration,
    },
    /// The server goes on sending, and the end does not come: the initial events of a watch
    /// without the bookmark that ends them, or a list of ever more pages.
    #[error("the API server did not end {what} within {after:?}, although it went on sending")]
    Endless {
        /// What it did not end.
        what: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// A watch was ended at once (client-go `VeryShortWatchError`, which is only for one without
    /// an event).
    #[error(
        "the API server ended the watch at once: a proxy in between, perhaps, that does not let a watch stay open"
    )]
    VeryShort,
    /// The answer cannot be read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// An object of a list or watch is larger than the [limit](super::ObjectLimit), and was passed
    /// over: this takes its place. It is the one error after which a stream goes on.
    #[error("an object of {} bytes was passed over: the limit is {} bytes", .0.size, .0.limit)]
    TooLarge(Box<TooLarge>),
    /// The request could not be made.
    #[error("the request could not be made, check the query that was added: {0}")]
    Invalid(#[source] BoxError),
}

/// Whether the server does not have, or does not allow, what was asked for.
pub(crate) fn says_unavailable(status: &Status) -> bool {
    matches!(status.code, 403 | 404)
}

/// What a person could do about a status that does not go away by itself.
fn hint(code: u16) -> &'static str {
    match code {
        401 => " (the credentials are not accepted, or have expired)",
        403 => " (the account needs the verbs list and watch for this resource)",
        404 => " (the server does not have this resource: is its CRD installed?)",
        _ => "",
    }
}

impl RequestError {
    /// A `Status` as JSON; what is none is said to be none. All of its fields may be absent, so
    /// any object reads as one: what says neither a code, a reason nor a message is a proxy's own.
    pub(crate) fn from_status(status: &[u8], retry_after: Option<Duration>) -> Self {
        match serde_json::from_slice::<Status>(status) {
            Ok(none)
                if none.reason.is_empty()
                    && none.message.is_empty()
                    && !(400..600).contains(&none.code) =>
            {
                WireError::not_that(
                    "no Status, it says neither a code, a reason nor a message",
                    status,
                )
                .into()
            }
            Ok(status) => {
                let said = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                let said = (said > 0).then(|| Duration::from_secs(said.into()));
                Self::Status { status: Box::new(status), retry_after: retry_after.or(said) }
            }
            Err(error) => WireError::not_that(format!("no Status: {error}"), status).into(),
        }
    }

    /// What ends without its version did not come to its end: by such a list nothing may be
    /// deleted.
    pub(crate) fn without_version(what: &str) -> Self {
        WireError::not_that(format!("{what} without its version"), &[]).into()
    }

    /// A list ended with the notice of an object that is too large, so it was cut there.
    pub(crate) fn cut_at_large() -> Self {
        WireError::CutShort { of: "a list, at an object that is too large" }.into()
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The version asked for is too old to be had: 410, as an HTTP status or as an event
    /// (client-go `IsResourceExpired`, `IsGone`).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| {
            status.code == 410 || matches!(status.reason.as_str(), "Expired" | "Gone")
        })
    }

    /// The version asked for is one that the server has not reached (client-go
    /// `IsTooLargeResourceVersion`).
    #[must_use]
    pub fn is_too_large_version(&self) -> bool {
        self.status().is_some_and(|status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            status.reason == "Timeout"
                && causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
                || status.message.contains("Too large resource version")
        })
    }

    /// Whether the server does not have the resource (404), or does not allow it to be listed and
    /// watched (403).
    pub(crate) fn is_unavailable(&self) -> bool {
        self.status().is_some_and(says_unavailable)
    }

    /// Neither a version can be had: the one asked for is too old or too new.
    pub(crate) fn is_version_unavailable(&self) -> bool {
        self.is_expired() || self.is_too_large_version()
    }

    /// The server has too much to do (client-go `IsTooManyRequests`).
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.code == 429 || status.reason == "TooManyRequests")
    }

    /// The connection was lost before the answer or in it, and nothing was wrong with what came
    /// before.
    pub(crate) fn is_cut(&self) -> bool {
        let is_short = matches!(self, Self::Wire(WireError::CutShort { .. }));
        is_short || matches!(self, Self::Unreachable(_) | Self::Broken(_) | Self::Silent { .. })
    }

    /// Nothing listens there (client-go `IsConnectionRefused`).
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

    /// It is enough to ask again later, from the same version: whatever else is asked for is not
    /// answered either.
    pub(crate) fn is_for_later(&self) -> bool {
        self.is_too_many_requests() || self.is_refused()
    }

    /// How long the server asks to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
