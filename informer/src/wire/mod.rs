//! Parsers of the bytes that an API server sends: a LIST response is split into its items, the
//! body of a watch into its events, and a few fields of an object are read before it is decoded.
//!
//! Nothing here waits or decodes whole objects. All input is untrusted: input that is too long or
//! cannot be split is an error, never a panic. Whether an object is valid JSON is found by the
//! code that decodes it.

mod blocks;
mod budget;
mod event;
mod large;
mod lines;
mod list;
mod members;
mod object;
mod outline;
mod prune;
mod scan;
mod space;

use serde::de::IgnoredAny;

pub use budget::set_large_object_budget;
pub(crate) use budget::{Share, process_budget};
pub(crate) use event::{
    InitialEvents, Line, bookmark, parse as parse_line, skipped as skipped_line,
};
pub(crate) use large::CompleteText;
pub(crate) use lines::Lines;
pub(crate) use list::ListSplitter;
#[cfg(feature = "compact")]
pub(crate) use members::Members;
#[cfg(feature = "leader-election")]
pub(crate) use object::uid;
pub(crate) use object::{Head, ends_initial_events};
pub(crate) use outline::Outline;
#[cfg(feature = "compact")]
pub(crate) use prune::Member;
pub use prune::{Prune, Types};
#[cfg(feature = "compact")]
pub(crate) use space::trim;

/// The reason why an API server's response cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// The metadata of a list, or a bookmark, is larger than
    /// [`max_object_size`](crate::reflector::ReflectorBuilder::max_object_size), or an item or
    /// event does not end. An object that is too large is not an error of its list or watch: it is
    /// skipped.
    #[error(
        "the metadata of a list or a bookmark exceeds max_object_size, or an object does not end, so the response is not \
         read; raise max_object_size if the metadata is that large"
    )]
    TooLong,
    /// The body ended before the JSON did.
    #[error("the body ended in the middle of {of}: the connection was cut")]
    CutShort {
        /// The part that was being read.
        of: &'static str,
    },
    /// The response has bytes that an API server does not send at this position.
    #[error("the response is not what an API server sends: {what}; it begins with {begin:?}")]
    NotThat {
        /// The fault, or the message of the JSON parser.
        what: String,
        /// The first bytes, 80 at most, of the part that cannot be parsed.
        begin: String,
    },
}

/// Checks that the bytes are valid JSON. If an object cannot be decoded and is not valid JSON, the
/// list or watch that contains it is damaged.
pub(crate) fn check(json: &[u8]) -> Result<(), WireError> {
    let checked: serde_json::Result<IgnoredAny> = serde_json::from_slice(json);
    checked.map(drop).map_err(|e| WireError::not_that(e.to_string(), json))
}

/// The size above which an item or event is large: it has a buffer of its own, and takes a share
/// of the process's budget. API servers store objects of up to 1.5 MiB by default.
pub(crate) const LARGE: usize = 1 << 20;

impl WireError {
    pub(crate) fn not_that(what: impl Into<String>, bytes: &[u8]) -> Self {
        const BEGIN: usize = 80;
        let begin = String::from_utf8_lossy(bytes.get(..BEGIN).unwrap_or(bytes)).into_owned();
        Self::NotThat { what: what.into(), begin }
    }
}
