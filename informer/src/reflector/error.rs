//! The errors of a reflector.

use deltafifo::panics;
use deltafifo::{BoxError, Closed, OfferError, ScopeError, StoreError};
#[cfg(feature = "runtime")]
use kube::runtime::watcher;

#[cfg(feature = "runtime")]
use crate::lister_watcher::is_unavailable;
use crate::lister_watcher::{RequestError, TooLarge};
use crate::wire::Head;

/// An error that a reflector reports before it continues. Its message does not contain those of
/// its sources: [`error_chain`](crate::error_chain) formats it with them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// A list failed, at once or in the middle. It deletes nothing, and is requested again.
    #[error("a list failed; the known objects stay, and it is retried")]
    List(#[source] RequestError),
    /// The final list of a namespace, which is requested after the namespace has left its set
    /// ([`Namespaces`](crate::shared_informer::Namespaces)), failed and is not requested again.
    #[error(
        "the final list of a namespace that left the set failed, and is not retried; its objects are removed without \
         knowing which of them were deleted"
    )]
    FinalList(#[source] RequestError),
    /// A watch failed or could not be opened. It is opened again, or everything is listed again.
    #[error("a watch failed; the known objects stay, and it is retried")]
    Watch(#[source] RequestError),
    /// An object could not be decoded. This state of the object is skipped, and an earlier stored
    /// state stays. A deletion takes effect, as a tombstone. If the object has no name, a list
    /// that contains it deletes nothing; if a watch sent it, the next list deletes nothing.
    #[error(
        "object {key:?} of version {version:?} cannot be decoded and is skipped; an earlier stored state stays, and a \
         deletion is applied"
    )]
    Decode {
        /// The key from the metadata of the object: `namespace/name`, or `name`.
        key: String,
        /// The version of the object.
        version: String,
        /// The error of the decoder.
        source: BoxError,
    },
    /// An object has more bytes of JSON than
    /// [`max_object_size`](super::ReflectorBuilder::max_object_size) allows. This state of the
    /// object is skipped, and an earlier stored state stays. A deletion takes effect, as a
    /// tombstone.
    ///
    /// If the object has no name, a list that contains it deletes nothing; if a watch sent it, the
    /// next list deletes nothing.
    #[error("{}", too_large(key.as_deref(), *size, *limit))]
    TooLarge {
        /// The key from the metadata of the object: `namespace/name`, or `name`. `None` if the
        /// object has no name.
        key: Option<String>,
        /// The size of the object in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// An object was refused before it was queued or stored: it has no key, the transformer failed,
    /// or the queue refused it.
    #[error(transparent)]
    Refused(#[from] OfferError),
    /// The queue or store failed, or a store refused an object.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The queue of an informer refused one of its [namespaces](crate::shared_informer::Namespaces)
    /// as a scope. The namespace is added again after a backoff.
    #[error("the queue refused the namespace as a scope; it is not listed yet, and is added again")]
    Scope(#[source] ScopeError),
    /// Stored objects do not have the property by which the group of an informer [of its
    /// shards](crate::SharedInformer::in_shards) shards, because a transform has dropped it. They
    /// stay in the store when their shards move.
    #[cfg(feature = "leader-election")]
    #[error(
        "{objects} stored objects have no {property}, by which the group shards, so they stay in the \
         store although shards have moved; keep `metadata.{property}` in the transform, or build the \
         group with ShardBy::Key"
    )]
    NoShard {
        /// The number of these objects.
        objects: usize,
        /// The property: `namespace` or `uid`.
        property: &'static str,
    },
    /// An accessor, a key function, `should_resync` or a custom store panicked. If it panicked
    /// during a list, the list is abandoned and requested again; an event or bookmark is skipped. A
    /// panic of a decoder, transformer or index function is an error of its object instead.
    #[error("a user function panicked; the list is abandoned, or the event skipped: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// An error of a kube watcher that [feeds](crate::runtime::reflector::feed) the target instead
    /// of a reflector. The watcher continues.
    #[cfg(feature = "runtime")]
    #[error("kube's watcher failed; it continues, and the known objects stay")]
    Watcher(#[source] Box<kube::runtime::watcher::Error>),
    /// A list of a kube watcher has ended without deleting anything: its beginning was not in the
    /// stream, or it was abandoned because of the previous error. The target may lack objects of
    /// this list.
    #[cfg(feature = "runtime")]
    #[error(
        "a list of kube's watcher deletes nothing, because it was abandoned after an error, or because the stream does not \
         contain its beginning; pass the stream from its first event"
    )]
    NotListed,
}

fn too_large(key: Option<&str>, size: usize, limit: usize) -> String {
    let (object, effect) = match key {
        Some(key) => {
            (format!("object {key:?}"), "an earlier stored state stays, and a deletion is applied")
        }
        None => (
            "an object without a name".to_owned(),
            "a list that contains it, or that follows its watch, deletes nothing",
        ),
    };
    format!("{object} of {size} bytes exceeds max_object_size ({limit}) and is skipped; {effect}")
}

/// The reason why [`run`](super::Reflector::run) returned.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The queue was closed.
    #[error("the reflector has ended, because its queue was closed")]
    Closed(#[from] Closed),
    /// The reflector is already running.
    #[error("the reflector is already running; build another one for another queue")]
    Running,
}

/// The reason why an attempt to list and watch ended.
pub(super) enum Stop {
    Closed(Closed),
    Failed(ReflectorError),
    /// A watch has ended, and no version is known from which another one could continue.
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
pub(super) enum ListFailure {
    Request(RequestError),
    Stop(Stop),
}

impl From<RequestError> for ListFailure {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl ReflectorError {
    pub(super) fn undecodable(head: &Head<'_>, source: BoxError) -> Self {
        let (key, version) = (head.key().into_owned(), head.version.clone().into_owned());
        Self::Decode { key, version, source }
    }

    /// Returns whether the error concerns a single object, so that its list or watch continues.
    pub(crate) fn is_of_an_object(&self) -> bool {
        matches!(self, Self::Decode { .. } | Self::TooLarge { .. } | Self::Refused(_))
    }

    /// Returns whether a list or a watch failed.
    #[cfg(feature = "runtime")]
    pub(crate) fn is_of_a_request(&self) -> bool {
        matches!(self, Self::List(_) | Self::FinalList(_) | Self::Watch(_))
    }

    /// Returns whether an object was skipped because it cannot be decoded or is too large.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self, Self::Decode { .. } | Self::TooLarge { .. })
    }

    pub(super) fn too_large(large: &TooLarge) -> Self {
        Self::TooLarge { key: large.key(), size: large.size, limit: large.limit }
    }

    /// Returns whether the server does not have the resource (404), or forbids listing or
    /// watching it (403).
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::List(error) | Self::Watch(error) => error.is_unavailable(),
            #[cfg(feature = "runtime")]
            Self::Watcher(error) => match &**error {
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status))
                | watcher::Error::WatchError(status) => is_unavailable(status),
                _ => false,
            },
            _ => false,
        }
    }

    /// Converts the [`List`](Self::List) error of a list that is not requested again to
    /// [`FinalList`](Self::FinalList). Other errors stay unchanged.
    pub(super) fn of_final_list(self) -> Self {
        match self {
            Self::List(error) => Self::FinalList(error),
            other => other,
        }
    }

    /// Creates the error of an object that a target refused.
    pub(super) fn refused(error: StoreError) -> Self {
        match error {
            StoreError::Refused(error) => Self::Refused(error),
            error => Self::Store(error),
        }
    }
}

/// Calls a function that may run user code, and catches its panic.
pub(super) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, ReflectorError> {
    panics::caught(work).map_err(|message| ReflectorError::Panicked { message })
}
