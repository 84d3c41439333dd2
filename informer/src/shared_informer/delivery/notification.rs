//! The notifications that handlers receive.

use std::sync::Arc;

use deltafifo::{Change, DeltaObject, DeltaType};

/// The cause of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The object was in the initial list, or was known when the handler's first walk reached it.
    /// For a deletion: the object was in an initial list that failed, and was not in the list that
    /// followed.
    Initial,
    /// An event of a watch.
    Watch,
    /// A list that shows a change that the watch missed.
    Relist,
    /// The removal of a namespace from the informer's
    /// [`Namespaces`](crate::shared_informer::Namespaces). The object may still exist. If it is
    /// deleted before the namespace comes back to the set, no notification says so. A controller
    /// reconciles no owner because of this cause, so owners that must know of such deletions have
    /// to be reconciled after the return, for example with `Controller::reconcile_all_on`.
    NamespaceRemoved,
    /// The removal of a shard from an informer of its member's shards
    /// (`SharedInformer::in_shards`): the member has released the shard, has lost its Lease, or has
    /// ended its run, or a list of the shard has failed. This member may claim the shard again. The
    /// object may still exist. If it is deleted before the shard comes back, no notification says
    /// so.
    ShardMoved,
    /// No single change: a periodic resync of the handler, or a walk over all stored objects after
    /// its buffer overran and changes were dropped.
    Resync,
}

impl Cause {
    /// Returns whether an object that was removed for this cause may still exist.
    #[cfg(feature = "runtime")]
    pub(crate) fn may_exist(self) -> bool {
        matches!(self, Self::NamespaceRemoved | Self::ShardMoved)
    }

    /// Returns the cause of a change. For an event of a watch it is [`Watch`](Self::Watch) even if
    /// the list before it has not been delivered yet. `removal` is the cause of the removal of an
    /// object that may still exist.
    pub(in crate::shared_informer) fn of<K>(
        change: &Change<'_, K>,
        is_in_initial_list: bool,
        removal: Self,
    ) -> Self {
        let listed = if is_in_initial_list { Self::Initial } else { Self::Relist };
        match change {
            Change::Added { kind, .. } | Change::Updated { kind, .. } => match kind {
                DeltaType::Replaced => listed,
                DeltaType::Sync => Self::Resync,
                DeltaType::Added | DeltaType::Updated | DeltaType::Deleted => Self::Watch,
            },
            Change::Deleted { last: DeltaObject::Tombstone(tombstone), .. } => {
                match (tombstone.scope_removed, &tombstone.obj) {
                    (true, _) => removal,
                    (false, Some(_)) => listed,
                    // It comes from a watch, and the last state could not be decoded.
                    (false, None) => Self::Watch,
                }
            }
            Change::Deleted { last: DeltaObject::Object(_), .. } => Self::Watch,
        }
    }
}

/// A notification for a handler (client-go `addNotification`, `updateNotification`,
/// `deleteNotification`).
#[derive(Debug)]
pub enum Notification<K> {
    /// An object that this handler was not notified of before (client-go `OnAdd`).
    Added {
        /// The state at the time of the notification.
        new: Arc<K>,
        /// Whether the object was in the informer's initial list, or was known when the handler's
        /// first walk reached it. (client-go: when the handler was added.)
        is_in_initial_list: bool,
        /// The reason of the change: an event, a list, a resync or a removal.
        cause: Cause,
    },
    /// An object that has changed, or that a resync delivers unchanged (client-go `OnUpdate`).
    /// Both states have the same uid.
    Updated {
        /// The state that this handler was last notified of.
        old: Arc<K>,
        /// The newest state.
        new: Arc<K>,
        /// The reason of the change: an event, a list, a resync or a removal.
        cause: Cause,
    },
    /// An object that was deleted (client-go `OnDelete`).
    Deleted {
        /// The state that this handler was last notified of. It may differ from the last state,
        /// and is present even if `last` is a tombstone without an object.
        old: Arc<K>,
        /// The last state, or a tombstone if the watch missed the deletion. The object of a
        /// tombstone may be stale.
        last: DeltaObject<K>,
        /// The reason of the change: an event, a list, a resync or a removal.
        cause: Cause,
    },
    /// The handler was too slow, and changes were dropped. Every stored object follows as
    /// [`Added`](Self::Added). If the handler is too slow for these as well, it receives another
    /// `ResyncBegins` without a [`ResyncEnds`](Self::ResyncEnds) in between, followed by all
    /// objects from the beginning.
    ResyncBegins,
    /// The end of the stored objects. An object that the handler knows and was not notified of
    /// since [`ResyncBegins`](Self::ResyncBegins) is no longer in the store: it was deleted, or its
    /// namespace or shard was removed from the informer.
    ResyncEnds,
}

impl<K> Clone for Notification<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { new, is_in_initial_list, cause } => Self::Added {
                new: new.clone(),
                is_in_initial_list: *is_in_initial_list,
                cause: *cause,
            },
            Self::Updated { old, new, cause } => {
                Self::Updated { old: old.clone(), new: new.clone(), cause: *cause }
            }
            Self::Deleted { old, last, cause } => {
                Self::Deleted { old: old.clone(), last: last.clone(), cause: *cause }
            }
            Self::ResyncBegins => Self::ResyncBegins,
            Self::ResyncEnds => Self::ResyncEnds,
        }
    }
}
