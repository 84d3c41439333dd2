//! What a push puts on a slot, and the rules that decide whether it does.

use crate::engine::ledger::{Epoch, Since};
use crate::engine::sync::Arc;
use crate::{DeletedFinalStateUnknown, DeltaType, Deltas};

/// When an offer counts. Evaluated at the push for an idle or a pending slot; over a running one the answer depends on
/// what the handler leaves behind, so the delta is marked with its rule and settle decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Always: adds, updates, what a relist lists.
    Always,
    /// When the key is pending or known: deletions.
    IfExists,
    /// When the key is known and nothing is pending: Sync.
    IfIdle,
    /// When nothing is pending: `add_if_not_present`.
    IfAbsent,
}

/// What was offered. Deltas that stand for "the newest state" carry no object when the store is fused: it is filled in
/// when they are taken, and so cannot be stale. What is large is boxed: a link is half a line with it.
pub(crate) enum What<T> {
    /// An object, as offered.
    Object(DeltaType, Arc<T>),
    /// A deletion that the user gave with a tombstone; an explicitly empty one stays empty.
    Tombstone(Box<DeletedFinalStateUnknown<T>>),
    /// A relist's deletion of what it did not list: holds the newest pending object, else the known one, else this.
    Swept(Option<Arc<T>>),
    /// The known object again, under this type; this one where the store is not fused.
    Again(DeltaType, Option<Arc<T>>),
    /// Deltas put back or offered as a whole, never folded into one another.
    Sealed(Box<Deltas<T>>),
}

impl<T> Clone for What<T> {
    fn clone(&self) -> Self {
        match self {
            What::Object(kind, object) => What::Object(*kind, object.clone()),
            What::Tombstone(tombstone) => What::Tombstone(tombstone.clone()),
            What::Swept(object) => What::Swept(object.clone()),
            What::Again(kind, object) => What::Again(*kind, object.clone()),
            What::Sealed(deltas) => What::Sealed(deltas.clone()),
        }
    }
}

/// One link of a slot's list.
pub(crate) struct Pending<T> {
    pub(crate) what: What<T>,
    /// Counted in the initial population.
    pub(crate) initial: bool,
    /// Pushed over a running handler under this rule, which settle still has to apply.
    pub(crate) undecided: Option<Rule>,
    /// The epoch it was offered in, for when it has to wait for a handler: then its slot's place in the queue does not say.
    /// None: that is not known, so it counts as the oldest. It is not tracked; or it lay in the word, where there is no room
    /// for it, nor a handler.
    pub(crate) since: Option<Since>,
}

impl<T> Pending<T> {
    pub(crate) fn new(what: What<T>) -> Self {
        Self { what, initial: false, undecided: None, since: None }
    }

    pub(crate) fn object(kind: DeltaType, object: Arc<T>) -> Self {
        Self::new(What::Object(kind, object))
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

    /// Whether it was offered as it happened, rather than brought by a relist or a resync.
    pub(crate) fn is_live(&self) -> bool {
        match &self.what {
            What::Object(kind, _) => !matches!(kind, DeltaType::Replaced | DeltaType::Sync),
            What::Tombstone(_) | What::Sealed(_) => true,
            What::Swept(_) | What::Again(..) => false,
        }
    }

    /// How many deltas this is for the depth gauge.
    pub(crate) fn weight(&self) -> usize {
        match &self.what {
            What::Sealed(deltas) => deltas.len(),
            _ => 1,
        }
    }
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self { what: self.what.clone(), initial: self.initial, undecided: self.undecided, since: self.since }
    }
}
