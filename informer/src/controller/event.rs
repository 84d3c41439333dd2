//! The events that a controller passes to its handler, and the errors that it reports.

use std::sync::Arc;

use deltafifo::{BoxError, Change, DeltaObject, DeltaType, StoreError};

use crate::last_state::last_state;

/// A change of an object that has been applied to the store.
pub enum ObjectEvent<K> {
    /// The object was not stored before (client-go `OnAdd`).
    Added {
        /// The object as it is stored now.
        new: Arc<K>,
        /// Whether the object is part of the first list.
        is_in_initial_list: bool,
    },
    /// The object was stored before (client-go `OnUpdate`).
    Updated {
        /// The object as it was stored before.
        old: Arc<K>,
        /// The object as it is stored now.
        new: Arc<K>,
        /// The cause: a watch event, a relist, or a resync. After a resync `old` and `new` may be
        /// the same.
        kind: DeltaType,
    },
    /// The object was deleted (client-go `OnDelete`).
    Deleted {
        /// The last state of the object. It is a tombstone if the deletion was missed or its
        /// object was refused; then the last known state may be old.
        last: DeltaObject<K>,
    },
}

impl<K> Clone for ObjectEvent<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { new, is_in_initial_list } => {
                Self::Added { new: new.clone(), is_in_initial_list: *is_in_initial_list }
            }
            Self::Updated { old, new, kind } => {
                Self::Updated { old: old.clone(), new: new.clone(), kind: *kind }
            }
            Self::Deleted { last } => Self::Deleted { last: last.clone() },
        }
    }
}

impl<K> ObjectEvent<K> {
    pub(super) fn of(change: &Change<'_, K>, is_in_initial_list: bool) -> Self {
        match *change {
            Change::Added { new, .. } => Self::Added { new: new.clone(), is_in_initial_list },
            Change::Updated { old, new, kind } => {
                Self::Updated { old: old.clone(), new: new.clone(), kind }
            }
            Change::Deleted { last, old } => Self::Deleted { last: last_state(last, old) },
        }
    }
}

/// An error in a controller, which continues after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The handler failed more often than it is retried. The event is not delivered again.
    #[error("the handler failed {attempts} times for key {key:?}, the event is given up: {source}")]
    Handler {
        /// The object's key.
        key: String,
        /// How often the handler was called.
        attempts: u32,
        /// The error of the last call.
        source: BoxError,
    },
    /// The handler panicked. It is not called again for this event.
    #[error("the handler panicked for key {key:?}, the event is given up: {message}")]
    Panicked {
        /// The object's key.
        key: String,
        /// The message of the panic.
        message: String,
    },
    /// An accessor ([`Meta`](deltafifo::Meta)) panicked. The object that it was called for may not
    /// be stored. No event of it is delivered, nor of the later deltas that came with it for this
    /// key, although these are stored.
    #[error(
        "an accessor panicked for key {key:?}, of which something was not stored or not told: {message}"
    )]
    NotApplied {
        /// The object's key.
        key: String,
        /// The message of the panic.
        message: String,
    },
    /// The destructor of an object panicked. All events of the key were stored and delivered.
    #[error(
        "an object of key {key:?} panicked when it was dropped, nothing is lost by that: {message}"
    )]
    Released {
        /// The object's key.
        key: String,
        /// The message of the panic.
        message: String,
    },
    /// The store accepted an object only in part, or not at all.
    #[error(transparent)]
    Store(#[from] StoreError),
}
