//! The errors of a reflector.

use deltafifo::{BoxError, Closed, OfferError, StoreError};
#[cfg(feature = "runtime")]
use kube::runtime::watcher;

#[cfg(feature = "runtime")]
use crate::lister_watcher::says_unavailable;
use crate::lister_watcher::{RequestError, TooLarge};
use crate::user_code;
use crate::wire::Head;

/// An error that a reflector reports. The reflector goes on by itself after each of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// A list failed, at once or in the middle. It deletes nothing, and is requested again.
    #[error("a list failed, what is known stays, and it is tried again: {0}")]
    List(#[source] RequestError),
    /// A watch failed or could not be opened. It is opened again, or everything is listed again.
    #[error("a watch failed, what is known stays, and it is tried again: {0}")]
    Watch(#[source] RequestError),
    /// An object could not be decoded. This state of it is skipped, and an earlier stored one
    /// stays. A deletion counts, as a tombstone. If the object has no name, its list deletes
    /// nothing, and neither does the next list after a watch with it.
    #[error(
        "object {key:?} of version {version:?} cannot be read and is left out, an earlier state that is stored stays, \
         a deletion counts: {source}"
    )]
    Decode {
        /// The key, as the metadata has it.
        key: String,
        /// The version of the object.
        version: String,
        /// The error of the decoder.
        source: BoxError,
    },
    /// An object has more bytes of JSON than
    /// [`max_object_size`](super::ReflectorBuilder::max_object_size) allows. This state of it is
    /// skipped, and an earlier stored one stays. A deletion counts, as a tombstone.
    ///
    /// Without a key the object is not known: a list with such an object deletes nothing, and
    /// neither does the next list after a watch with one.
    #[error("{}", too_large(key.as_deref(), *size, *limit))]
    TooLarge {
        /// The key, as the metadata has it, or `None` if the object has no name.
        key: Option<String>,
        /// The size of the object in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The queue refused an object, or the object has no key.
    #[error(transparent)]
    Refused(#[from] OfferError),
    /// The queue or store failed, or a store refused an object.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An accessor, a key function, `should_resync` or a custom store panicked. A list is
    /// abandoned by that, and requested again; an event or bookmark is skipped. If a decoder,
    /// transformer or index function panics, that is an error of its object.
    #[error(
        "a function of yours panicked, a list is given up by that, an event left out: {message}"
    )]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// An error of a watcher of kube's that [feeds](crate::runtime::reflector::feed) the target
    /// instead of a reflector. The watcher goes on by itself.
    #[cfg(feature = "runtime")]
    #[error("kube's watcher goes on, and what is known stays: {0}")]
    Watcher(#[source] Box<kube::runtime::watcher::Error>),
    /// A list of such a watcher has ended without deleting anything: its beginning was not in the
    /// stream, or it was abandoned because of the error before. Its objects may not be known.
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

/// The reason why [`run`](super::Reflector::run) returned.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The queue was closed.
    #[error("the reflector has ended: {0}")]
    Closed(#[from] Closed),
    /// The reflector runs already.
    #[error("this reflector runs already: build another one for another queue")]
    Running,
}

/// The reason why an attempt to list and watch ended.
pub(super) enum Stop {
    Closed(Closed),
    Failed(ReflectorError),
    /// A watch has ended, and there is no version from which another one could continue.
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

/// The reason why a list failed.
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

    /// Returns whether the error is about one object, and its list or watch goes on.
    pub(crate) fn is_of_an_object(&self) -> bool {
        matches!(self, Self::Decode { .. } | Self::TooLarge { .. } | Self::Refused(_))
    }

    /// Returns whether an object was skipped.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self, Self::Decode { .. } | Self::TooLarge { .. })
    }

    pub(super) fn too_large(large: &TooLarge) -> Self {
        Self::TooLarge { key: large.key(), size: large.size, limit: large.limit }
    }

    /// Returns whether the server does not have the resource (404), or forbids to list or watch it
    /// (403).
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

    /// Creates the error of an object that a target refused.
    pub(super) fn refused(error: StoreError) -> Self {
        match error {
            StoreError::Key(error) => Self::Refused(error.into()),
            StoreError::Refused(error) => Self::Refused(error),
            error => Self::Store(error),
        }
    }
}

/// Calls a function that may run user code, and catches its panic.
pub(super) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, ReflectorError> {
    user_code::caught(work).map_err(|message| ReflectorError::Panicked { message })
}
