//! What can go wrong, and who is told.

use std::any::Any;
use std::io;
use std::sync::Arc;

use deltafifo::{IndexError, StoreError};

use crate::ReflectorError;
use crate::lister_watcher::QueryError;
use crate::strangers::{caught, said};

/// Something that an informer met. It goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError<'e> {
    /// Of the lists and watches.
    #[error("{0}")]
    Reflector(&'e ReflectorError),
    /// The store took an object only in part: an index function failed. The object is stored and
    /// told.
    #[error("{0}")]
    Store(&'e StoreError),
    /// A handler panicked: it has been told, and is told what comes next. Or its filter did, or an
    /// accessor of the metadata.
    #[error("a handler panicked, what it was told is not told again: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
}

/// Whoever wants to know.
#[derive(Clone)]
pub(super) struct OnError(pub(super) Arc<dyn Fn(&InformerError<'_>) + Send + Sync>);

impl OnError {
    /// It is user code, and whoever tells it goes on.
    pub(super) fn tell(&self, error: &InformerError<'_>) {
        if caught(|| (self.0)(error)).is_err() {
            tracing::error!(%error, "the error handler of an informer panicked");
        }
    }

    pub(super) fn tell_panic(&self, panic: Box<dyn Any + Send>) {
        self.tell_said(said(panic));
    }

    fn tell_said(&self, message: String) {
        self.tell(&InformerError::Panicked { message });
    }

    /// Calls what may run user code; its panic is told. `None` then.
    pub(super) fn caught<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        caught(call).map_err(|message| self.tell_said(message)).ok()
    }
}

/// An informer could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the informer's store cannot be made: {0}")]
pub struct BuildError(#[from] pub(super) IndexError);

/// A handler could not be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddHandlerError {
    /// It would never be told of anything.
    #[error("the informer has stopped: add the handler to one that has not")]
    Stopped,
    /// The system has no thread for it.
    #[error("there is no thread for the handler, add an asynchronous one instead: {0}")]
    Thread(#[from] io::Error),
    /// An asynchronous handler runs in a task.
    #[error("an asynchronous handler is to be added within a tokio runtime")]
    NoRuntime,
}

/// The handler is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handler was removed, or its informer stopped, before it was told everything")]
pub struct Removed;

/// The informer is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped")]
pub struct Stopped;

/// Why [`run`](super::SharedInformer::run) did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It runs already.
    #[error("the informer runs already")]
    Running,
    /// It was stopped.
    #[error("the informer has stopped: build another one")]
    Stopped,
}

/// A factory has no informer for this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
    /// It was shut down.
    #[error("the informer factory was shut down: make another one")]
    ShutDown,
    /// A query parameter is refused: of the scope, the factory, or both together.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The informer could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Some informers have not synced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these informers have not got their first list: {}", informers.join(", "))]
pub struct NotSynced {
    /// Kind and scope of each, as `pods.v1 in shop?labelSelector=app%3Dweb`.
    pub informers: Vec<String>,
}
