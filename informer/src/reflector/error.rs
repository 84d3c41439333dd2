//! What a reflector tells of.

use deltafifo::{BoxError, Closed, OfferError, StoreError};
#[cfg(feature = "runtime")]
use kube::runtime::watcher;

#[cfg(feature = "runtime")]
use crate::lister_watcher::says_unavailable;
use crate::lister_watcher::{RequestError, TooLarge};
use crate::strangers;
use crate::wire::Head;

/// Something that a reflector met. It goes on by itself after each of them; this is for a log, a
/// metric, or a person.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// A list failed, at once or in the middle: nothing is deleted by it, and it is asked for
    /// again.
    #[error("a list failed, what is known stays, and it is tried again: {0}")]
    List(#[source] RequestError),
    /// A watch failed or could not be opened: it is opened again, or everything listed anew.
    #[error("a watch failed, what is known stays, and it is tried again: {0}")]
    Watch(#[source] RequestError),
    /// An object cannot be decoded. This state of it is left out: an earlier one that is stored
    /// stays. A deletion counts all the same, as a tombstone. One that does not say its name keeps
    /// its list, and the next after a watch that had it, from deleting anything.
    #[error(
        "object {key:?} of version {version:?} cannot be read and is left out, an earlier state that is stored stays, \
         a deletion counts: {source}"
    )]
    Decode {
        /// Its key, as its metadata has it.
        key: String,
        /// Its version.
        version: String,
        /// What the decoder said.
        source: BoxError,
    },
    /// An object has more bytes of JSON than
    /// [`max_object_size`](super::ReflectorBuilder::max_object_size) allows. This state of it is
    /// left out: an earlier one that is stored stays. A deletion counts all the same, as a
    /// tombstone.
    ///
    /// Without a key nothing says which object it is: by a list that has such an object, and by
    /// the next list after a watch that had one, nothing is deleted.
    #[error("{}", too_large(key.as_deref(), *size, *limit))]
    TooLarge {
        /// Its key, as its metadata has it; none if it does not say its name.
        key: Option<String>,
        /// Its bytes.
        size: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The queue refused an object, or it has no key.
    #[error(transparent)]
    Refused(#[from] OfferError),
    /// The queue or store failed, or a store refused an object.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An accessor, key function, `should_resync`, or a store of yours panicked. A list is given
    /// up by that, and a reflector asks for it again; an event or bookmark is left out. A decoder,
    /// transformer or index function that panics has failed, and that is an error of its object.
    #[error("a function of yours panicked, a list is given up by that, an event left out: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// A watcher of kube's that [feeds](crate::runtime::reflector::feed) in the place of a
    /// reflector says so. It goes on by itself.
    #[cfg(feature = "runtime")]
    #[error("kube's watcher goes on, and what is known stays: {0}")]
    Watcher(#[source] Box<kube::runtime::watcher::Error>),
    /// A list of such a watcher has come to its end, and nothing is deleted by it: its beginning
    /// was not in the stream, or it was given up for the error that was told before. What it
    /// showed may not be known.
    #[cfg(feature = "runtime")]
    #[error(
        "nothing is deleted by this list of kube's watcher: it was given up for the error before, or its beginning was not seen; \
         pass the stream from its first event"
    )]
    NotListed,
}

fn too_large(key: Option<&str>, size: usize, limit: usize) -> String {
    let stays = match key {
        Some(key) => format!("object {key:?} is left out, an earlier state that is stored stays, a deletion counts"),
        None => "an object without a name is left out, and no deletion is inferred from the list with it or after it"
            .to_owned(),
    };
    format!("{stays}: it has {size} bytes, and max_object_size is {limit}")
}

/// Why [`run`](super::Reflector::run) returned.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The queue was closed: nobody takes anything any more.
    #[error("the reflector has ended: {0}")]
    Closed(#[from] Closed),
    /// It runs already.
    #[error("this reflector runs already: build another one for another queue")]
    Running,
}

/// Why an attempt to list and watch ended.
pub(super) enum Stop {
    Closed(Closed),
    Failed(ReflectorError),
    /// A watch has ended, and there is no version from which another would go on.
    CannotResume,
}

impl From<Closed> for Stop {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

impl From<ReflectorError> for Stop {
    fn from(error: ReflectorError) -> Self {
        Self::Failed(error)
    }
}

/// Why everything could not be had.
pub(super) enum Failed {
    Request(RequestError),
    Stop(Stop),
}

impl From<RequestError> for Failed {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl ReflectorError {
    pub(super) fn undecodable(head: &Head<'_>, source: BoxError) -> Self {
        let (key, version) = (head.key().into_owned(), head.version.clone().into_owned());
        Self::Decode { key, version, source }
    }

    /// Whether an object was left out, unread.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self, Self::Decode { .. } | Self::TooLarge { .. })
    }

    pub(super) fn too_large(large: &TooLarge) -> Self {
        Self::TooLarge { key: large.key(), size: large.size, limit: large.limit }
    }

    /// Whether the server does not have the resource (404), or does not allow it to be listed and
    /// watched (403).
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::List(error) | Self::Watch(error) => error.is_unavailable(),
            #[cfg(feature = "runtime")]
            Self::Watcher(error) => match &**error {
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status))
                | watcher::Error::WatchError(status) => says_unavailable(status),
                _ => false,
            },
            _ => false,
        }
    }

    /// Of an object that a target did not take.
    pub(super) fn refused(error: StoreError) -> Self {
        match error {
            StoreError::Key(error) => Self::Refused(error.into()),
            StoreError::Refused(error) => Self::Refused(error),
            error => Self::Store(error),
        }
    }
}

/// Calls what may run user code.
pub(super) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, ReflectorError> {
    strangers::caught(work).map_err(|message| ReflectorError::Panicked { message })
}
