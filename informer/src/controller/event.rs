//! What a controller tells its handlers, and what it tells of itself.

use std::sync::Arc;

use deltafifo::{BoxError, Change, DeltaObject, DeltaType, StoreError};

use crate::last_state::last_state;

/// What happened to an object, in the store and now to be told.
pub enum ObjectEvent<K> {
    /// It was not stored before (client-go `OnAdd`).
    Added {
        /// As stored now.
        new: Arc<K>,
        /// Whether it is of the first list.
        is_in_initial_list: bool,
    },
    /// It was stored (client-go `OnUpdate`).
    Updated {
        /// As stored before.
        old: Arc<K>,
        /// As stored now.
        new: Arc<K>,
        /// What brought it: a watch, a relist, or a resync, after which `old` and `new` may be the
        /// same.
        kind: DeltaType,
    },
    /// It is gone (client-go `OnDelete`).
    Deleted {
        /// Its last state, or a tombstone: the deletion was missed, or its object was refused, and
        /// the last state that is known may be old.
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

/// Something that a controller met. It goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The handler failed as often as it may: this event is not told again.
    #[error("the handler failed {attempts} times for key {key:?}, the event is given up: {source}")]
    Handler {
        /// The object's key.
        key: String,
        /// How often it was called.
        attempts: u32,
        /// What it said last.
        source: BoxError,
    },
    /// The handler panicked. It is not called again for this event.
    #[error("the handler panicked for key {key:?}, the event is given up: {message}")]
    Panicked {
        /// The object's key.
        key: String,
        /// What the panic said.
        message: String,
    },
    /// An accessor ([`Meta`](deltafifo::Meta)) panicked. What it was called for may not be stored;
    /// that is not told, nor what came with it for this key and after it, though that is stored.
    #[error(
        "an accessor panicked for key {key:?}, of which something was not stored or not told: {message}"
    )]
    NotApplied {
        /// The object's key.
        key: String,
        /// What the panic said.
        message: String,
    },
    /// An object panicked when it was dropped. All of its key is stored and told.
    #[error(
        "an object of key {key:?} panicked when it was dropped, nothing is lost by that: {message}"
    )]
    Released {
        /// The object's key.
        key: String,
        /// What the panic said.
        message: String,
    },
    /// The store took an object only in part, or not at all.
    #[error(transparent)]
    Store(#[from] StoreError),
}
