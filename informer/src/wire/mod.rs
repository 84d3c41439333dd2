//! What an API server sends, as bytes: a LIST response cut into its items, a watch's body cut into
//! its events, and the few fields of an object that are needed before it is decoded.
//!
//! Nothing here waits or decodes whole objects, and everything here is untrusted input: what is
//! too long or cannot be taken apart is an error, never a panic. Whether an object is JSON finds
//! out who decodes it.

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

use serde::de::IgnoredAny;

pub use budget::set_large_object_budget;
pub(crate) use budget::{Share, process_budget};
pub(crate) use event::{Line, bookmark, parse as parse_line, skipped as skipped_line};
pub(crate) use large::Whole;
pub(crate) use lines::Lines;
pub(crate) use list::ListSplitter;
pub(crate) use object::{Head, ends_initial_events};
pub(crate) use outline::Outline;
pub(crate) use prune::{Prune, Types};

/// What a server sent that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Something beside an object is larger than
    /// [`max_object_size`](crate::reflector::ReflectorBuilder::max_object_size) allows: a list's
    /// own metadata, or a bookmark; or an item or event has no end. An object that is too large is
    /// skipped, and is no error of its list or watch.
    #[error(
        "a list's metadata or a bookmark is larger than max_object_size, or an object has no end: it is not read"
    )]
    TooLong,
    /// The body ended before the JSON did.
    #[error("the body ended in the middle of {of}: the connection was cut")]
    CutShort {
        /// What was being read.
        of: &'static str,
    },
    /// It is not what an API server sends there.
    #[error("not what an API server sends: {what}; it begins with {begin:?}")]
    NotThat {
        /// What was expected, or what the JSON parser said.
        what: String,
        /// The first bytes.
        begin: String,
    },
}

/// Whether it is JSON: what could not be decoded is no object perhaps, and then the body that it
/// came in is not to be believed.
pub(crate) fn check(json: &[u8]) -> Result<(), WireError> {
    let checked: serde_json::Result<IgnoredAny> = serde_json::from_slice(json);
    checked.map(drop).map_err(|e| WireError::not_that(e.to_string(), json))
}

/// An item or event of more bytes is large: it has a buffer of its own, and takes a share of the
/// process's budget. An API server stores 1.5 MiB of an object, unless it is configured otherwise.
pub(crate) const LARGE: usize = 1 << 20;

impl WireError {
    pub(crate) fn not_that(what: impl Into<String>, bytes: &[u8]) -> Self {
        const BEGIN: usize = 80;
        let begin = String::from_utf8_lossy(bytes.get(..BEGIN).unwrap_or(bytes)).into_owned();
        Self::NotThat { what: what.into(), begin }
    }
}
