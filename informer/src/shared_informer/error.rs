//! Errors of informers, and the error handler.

use std::any::Any;
use std::io;
use std::sync::Arc;

use deltafifo::panics::{caught, panic_message};
use deltafifo::{BoxError, IndexError, StoreError};

use crate::{ReflectorError, error_chain};

/// An error that an informer reports before it continues. Its message contains those of its
/// sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError<'e> {
    /// An error of lists and watches.
    #[error("{}", error_chain(.0))]
    Reflector(&'e ReflectorError),
    /// An error of lists and watches of one of several [`Namespaces`](super::Namespaces). The
    /// known objects of this namespace stay in the store, and other namespaces are not affected.
    #[error("namespace {namespace:?}: {}", error_chain(error))]
    Namespace {
        /// The name of the namespace.
        namespace: &'e str,
        /// The error of the namespace's reflector.
        error: &'e ReflectorError,
    },
    /// An index function failed: the object is stored and delivered, but is missing from that
    /// index.
    #[error("{}", error_chain(.0))]
    Store(&'e StoreError),
    /// User code panicked: a handler, its filter, an accessor of the metadata or a destructor. The
    /// informer continues.
    #[error("{context}: {message}")]
    Panicked {
        /// The user code that panicked, and what that means. A notification is lost only if this
        /// text says so, or if a filter panicked. The object then counts as one that does not
        /// match: the handler is not notified of its addition or deletion, and an update becomes an
        /// addition, a deletion, or no notification.
        context: &'static str,
        /// The message of the panic.
        message: String,
    },
}

#[cfg(feature = "runtime")]
impl<'e> InformerError<'e> {
    /// Returns the error of a list or watch, or `None` if this is another error.
    pub(crate) fn reflector(&self) -> Option<&'e ReflectorError> {
        match self {
            Self::Reflector(error) | Self::Namespace { error, .. } => Some(error),
            Self::Store(_) | Self::Panicked { .. } => None,
        }
    }
}

/// The error handler of an informer.
#[derive(Clone)]
pub(super) struct OnError(pub(super) Arc<dyn Fn(&InformerError<'_>) + Send + Sync>);

impl OnError {
    /// Calls the error handler. It is user code, so its panic is caught and logged.
    pub(super) fn report(&self, error: &InformerError<'_>) {
        if caught(|| (self.0)(error)).is_err() {
            tracing::error!(%error, "the error handler of an informer panicked; the informer continues");
        }
    }

    /// Reports a panic of `code`.
    pub(super) fn report_panic(&self, code: UserCode, panic: Box<dyn Any + Send>) {
        self.report_message(code, panic_message(panic));
    }

    fn report_message(&self, code: UserCode, message: String) {
        self.report(&InformerError::Panicked { context: code.context(), message });
    }

    /// Calls a function that runs `code`. Reports its panic, and then returns `None`.
    pub(super) fn catch<R>(&self, code: UserCode, call: impl FnOnce() -> R) -> Option<R> {
        caught(call).map_err(|message| self.report_message(code, message)).ok()
    }
}

/// User code that an informer calls. Its panic is reported as [`InformerError::Panicked`].
#[derive(Clone, Copy)]
pub(super) enum UserCode {
    /// A call of an event handler with one notification.
    Handler,
    /// A call of an event handler with a batch of notifications.
    BatchHandler,
    /// The destructor of an event handler.
    HandlerDrop,
    /// The filter of an event handler.
    Filter,
    /// An accessor of the metadata. Its result decides only the form of a notification, or whether
    /// an unchanged object needs one.
    Accessor,
    /// The destructors of objects of which the handler is not notified.
    Notifications,
    /// Accessors and destructors that run while an item is applied and its changes are delivered.
    /// In an in-order queue also the destructors of replaced objects, which run when all changes
    /// are delivered.
    Apply,
    /// The destructors of objects that are dropped when an item ends: in a delta queue those of
    /// replaced and deleted objects, in an in-order queue those of the item.
    ItemEnd,
}

impl UserCode {
    /// Returns the text that says which user code panicked, and what that means.
    fn context(self) -> &'static str {
        match self {
            Self::Handler => "event handler panicked; the notification is not redelivered",
            Self::BatchHandler => "batch handler panicked; its notifications are not redelivered",
            Self::HandlerDrop => "destructor of an event handler panicked; the handler is removed",
            Self::Filter => "filter panicked; the object counts as one that does not match",
            Self::Accessor => "accessor of the metadata panicked; the change is delivered",
            Self::Notifications => {
                "destructor of an object panicked; the change is not delivered to this handler"
            }
            Self::Apply => {
                "accessor or destructor of an object panicked while an item was applied; changes \
                 of the item that were not delivered before are not delivered"
            }
            Self::ItemEnd => "destructor of an object panicked; no notification is lost",
        }
    }
}

/// The reason why an informer was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of an index is given twice or is reserved.
    #[error("the informer's store cannot be built")]
    Index(#[from] IndexError),
    /// A [field](super::SharedInformerBuilder::field) has no valid JSON pointer.
    #[error("the index of a field cannot be built")]
    Pointer(#[source] BoxError),
    /// Objects that are stored as they were received cannot be transformed.
    #[error(
        "the informer has a transform, and its objects are compact, which cannot be changed: leave \
         members out with `reflector(|reflector| reflector.without(…))`, or use typed objects"
    )]
    Transform,
    /// An informer of the shards of a group's member has an in-order queue, from which the objects
    /// of a shard cannot be removed.
    #[error(
        "the informer has the shards of a member only, whose objects are removed when a shard moves, \
         which an in-order queue does not support: leave out `in_order()`"
    )]
    InOrder,
}

/// A name that no namespace can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not the name of a namespace, so it was not added: a name has 1 to 63 characters \
     of a-z, 0-9 and -, and neither begins nor ends with -"
)]
pub struct InvalidNamespace {
    pub(super) name: String,
}

/// The reason why a handler was not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddHandlerError {
    /// The informer has stopped, so the handler would never be notified.
    #[error("the informer has stopped; add the handler to one that has not")]
    Stopped,
    /// The system could not start a thread for the handler.
    #[error("no thread could be started for the handler; add an asynchronous handler instead")]
    Thread(#[from] io::Error),
    /// The asynchronous handler was added outside of a tokio runtime, which its task needs.
    #[error("the asynchronous handler was added outside of a tokio runtime; add it within one")]
    NoRuntime,
}

/// The error of a wait for a handler that was removed, or whose informer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handler was removed, or its informer stopped, before it had all notifications")]
pub struct Removed;

/// The error of a wait for an informer that stopped before it had synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped")]
pub struct Stopped;

/// The reason why [`run`](super::SharedInformer::run) did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The informer is already running.
    #[error("the informer is already running")]
    Running,
    /// The informer was stopped.
    #[error("the informer has stopped; build another one")]
    Stopped,
}

/// The reason why a factory did not return an informer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
    /// The factory was shut down.
    #[error("the informer factory was shut down; create another one")]
    ShutDown,
    /// A query parameter of the scope or of the factory is reserved or an invalid selector, or both
    /// have it with different values.
    #[error(transparent)]
    Query(BoxError),
    /// The informer was not built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// The error of a wait for the informers of a factory, some of which had not synced when the wait
/// ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these informers have not received their initial list: {}", informers.join(", "))]
pub struct NotSynced {
    /// The kind and scope of each of these informers, for example
    /// `pods.v1 in shop?labelSelector=app%3Dweb`.
    pub informers: Vec<String>,
}
