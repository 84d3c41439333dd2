//! The deltas on a slot's list, and the rules that decide whether a push adds one.

use crate::engine::ledger::{Epoch, Since};
use crate::engine::sync::Arc;
use crate::{DeletedFinalStateUnknown, DeltaObject, DeltaType, Deltas};

/// The condition under which an offer is accepted. On an idle or pending slot, the push checks the
/// condition. On a running slot, the condition depends on the state that the handler leaves, so
/// the delta keeps its rule, and settle checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The offer is always accepted. For additions, updates, and the objects of a relist.
    Always,
    /// The offer is accepted if the key is pending or known. For deletions.
    IfExists,
    /// The offer is accepted if the key is known and nothing is pending. For a resync.
    IfIdle,
    /// The offer is accepted if nothing is pending. For `add_if_not_present`.
    IfAbsent,
}

/// The content of an offer. If the store is fused (its objects are in the slots), a
/// [`Swept`](Self::Swept) or [`Again`](Self::Again) delta carries no object: its object is filled
/// in when the delta is taken, so it cannot be stale. Large contents are boxed, so that a node
/// takes half a cache line.
pub(crate) enum Content<T> {
    /// An object, as offered.
    Object(DeltaType, Arc<T>),
    /// A deletion that the user offered with a tombstone. An empty tombstone stays empty.
    Tombstone(Box<DeletedFinalStateUnknown<T>>),
    /// The deletion of a key that a relist did not list, or whose scope was removed. Its object is
    /// the newest pending one, else the known one, else the one given here.
    Swept(Sweep, Option<Arc<T>>),
    /// The known object, offered again with this type, for a resync. If the store is not fused,
    /// the object is the one given here.
    Again(DeltaType, Option<Arc<T>>),
    /// Deltas that were put back, or offered by `add_if_not_present`. They are not merged with the
    /// deltas before them.
    Sealed(Box<Deltas<T>>),
}

/// The reason for a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// A relist did not list the key.
    Unlisted,
    /// The scope of the key was removed.
    ScopeRemoved,
}

impl<T> Clone for Content<T> {
    fn clone(&self) -> Self {
        match self {
            Content::Object(kind, object) => Content::Object(*kind, object.clone()),
            Content::Tombstone(tombstone) => Content::Tombstone(tombstone.clone()),
            Content::Swept(sweep, object) => Content::Swept(*sweep, object.clone()),
            Content::Again(kind, object) => Content::Again(*kind, object.clone()),
            Content::Sealed(deltas) => Content::Sealed(deltas.clone()),
        }
    }
}

/// A node of a slot's list.
pub(crate) struct Pending<T> {
    pub(crate) content: Content<T>,
    /// Whether this delta belongs to the initial population.
    pub(crate) initial: bool,
    /// The rule that settle still has to apply. Set if a handler was running at the push.
    pub(crate) undecided: Option<Rule>,
    /// The epoch of the offer. It is needed only if a handler is running at the push: the delta
    /// then waits for the handler, and the slot's later place in the queue does not give the
    /// delta's epoch.
    ///
    /// `None` if versions are not tracked, or if the delta was stored in the slot's word, which
    /// has no room for an epoch. Deltas are stored there only while no handler is running. A delta
    /// without an epoch counts as the oldest.
    pub(crate) since: Option<Since>,
}

impl<T> Pending<T> {
    pub(crate) fn new(content: Content<T>) -> Self {
        Self { content, initial: false, undecided: None, since: None }
    }

    pub(crate) fn object(kind: DeltaType, object: Arc<T>) -> Self {
        Self::new(Content::Object(kind, object))
    }

    pub(crate) fn initial(self, initial: bool) -> Self {
        Self { initial, ..self }
    }

    #[inline]
    pub(crate) fn offered_in(&mut self, epoch: Option<Epoch>) {
        self.since = epoch.and_then(Since::of);
    }

    pub(crate) fn since(self, since: Option<Epoch>) -> Self {
        Self { since: since.and_then(Since::of), ..self }
    }

    /// Returns whether this was offered by a watch, and not by a relist or a resync.
    pub(crate) fn is_live(&self) -> bool {
        match &self.content {
            Content::Object(kind, _) => !matches!(kind, DeltaType::Replaced | DeltaType::Sync),
            Content::Tombstone(_) | Content::Sealed(_) => true,
            Content::Swept(..) | Content::Again(..) => false,
        }
    }

    /// Returns the number of deltas, for the depth gauge.
    pub(crate) fn weight(&self) -> usize {
        match &self.content {
            Content::Sealed(deltas) => deltas.len(),
            _ => 1,
        }
    }
}

impl<T> Content<T> {
    /// Adds the objects to `unused`, for the caller to drop.
    pub(crate) fn release_into(self, unused: &mut Vec<DeltaObject<T>>) {
        match self {
            Content::Object(_, object) => unused.push(object.into()),
            Content::Tombstone(tombstone) => unused.push(DeltaObject::Tombstone(tombstone)),
            Content::Swept(_, object) | Content::Again(_, object) => {
                unused.extend(object.map(DeltaObject::from));
            }
            Content::Sealed(deltas) => unused.extend(deltas.into_iter().map(|delta| delta.object)),
        }
    }
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self {
            content: self.content.clone(),
            initial: self.initial,
            undecided: self.undecided,
            since: self.since,
        }
    }
}
