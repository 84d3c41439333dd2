//! What a handler is told.

use std::sync::Arc;

use deltafifo::{Change, DeltaObject, DeltaType};

/// Why a handler is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It is of the first list, or was known when the walk by which the handler began came to it.
    Initial,
    /// A watch said so.
    Watch,
    /// A list shows what the watch has missed.
    Relist,
    /// Nothing has happened: the handler's resync period is over, or its buffer was.
    Resync,
}

impl Cause {
    /// What a watch said of an object of the first list before that was told is the watch's all
    /// the same.
    pub(super) fn of<K>(change: &Change<'_, K>, is_in_initial_list: bool) -> Self {
        let listed = if is_in_initial_list { Self::Initial } else { Self::Relist };
        match change {
            Change::Added { kind, .. } | Change::Updated { kind, .. } => match kind {
                DeltaType::Replaced => listed,
                DeltaType::Sync => Self::Resync,
                DeltaType::Added | DeltaType::Updated | DeltaType::Deleted => Self::Watch,
            },
            // One without an object is a watch's, whose last state could not be read.
            Change::Deleted { last: DeltaObject::Tombstone(tombstone), .. } if tombstone.obj.is_some() => listed,
            Change::Deleted { .. } => Self::Watch,
        }
    }
}

/// What a handler is told, once (client-go `addNotification`, `updateNotification`,
/// `deleteNotification`).
#[derive(Debug)]
pub enum Notification<K> {
    /// There is an object that this handler was not told of (client-go `OnAdd`).
    Added {
        /// It.
        new: Arc<K>,
        /// Whether it is of the informer's first list, or was known when the walk by which the
        /// handler began came to it. (client-go: when the handler came.)
        is_in_initial_list: bool,
        /// Why.
        cause: Cause,
    },
    /// An object has changed, or a resync tells of it once more (client-go `OnUpdate`). The uid is
    /// the same.
    Updated {
        /// What this handler was told last.
        old: Arc<K>,
        /// What it is now.
        new: Arc<K>,
        /// Why.
        cause: Cause,
    },
    /// An object is gone (client-go `OnDelete`).
    Deleted {
        /// What this handler was told last: it may differ from the last state, and is there of
        /// every tombstone.
        old: Arc<K>,
        /// Its last state, or a tombstone: nobody saw the deletion, and what is in it may be stale.
        last: DeltaObject<K>,
        /// Why.
        cause: Cause,
    },
    /// This handler was too slow, and changes were dropped. Everything that is stored follows as
    /// [`Added`](Self::Added). Too slow for that as well, it is told so again, without an end in
    /// between, and everything from the beginning.
    ResyncBegins,
    /// That was everything. What the handler knows and was not told of since is gone.
    ResyncEnds,
}

impl<K> Clone for Notification<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { new, is_in_initial_list, cause } => {
                Self::Added { new: new.clone(), is_in_initial_list: *is_in_initial_list, cause: *cause }
            }
            Self::Updated { old, new, cause } => Self::Updated { old: old.clone(), new: new.clone(), cause: *cause },
            Self::Deleted { old, last, cause } => Self::Deleted { old: old.clone(), last: last.clone(), cause: *cause },
            Self::ResyncBegins => Self::ResyncBegins,
            Self::ResyncEnds => Self::ResyncEnds,
        }
    }
}
