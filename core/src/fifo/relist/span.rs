//! The generation and the keys of a relist, and the removal of a scope, which is a relist without
//! pages.

use crate::Meta;
use crate::engine::slot::Sweep;
use crate::engine::sync::mutant;
use crate::fifo::DeltaFifo;
use crate::scope::Within;

/// The generation and the keys of a relist.
pub(in crate::fifo) struct RelistSpan {
    pub(super) generation: u32,
    /// Whether the relist's deltas belong to the initial population.
    pub(super) marks: bool,
    /// The keys of the relist's scope; `None` for the whole queue.
    pub(super) within: Option<Within>,
    /// The number of the history in which the relist of a scope began (`store/applied.rs`), or
    /// `None` if the queue does not track applied versions.
    pub(super) began: Option<u64>,
    /// The reason for the relist's deletions.
    pub(super) sweep: Sweep,
}

impl RelistSpan {
    pub(super) fn new(generation: u32, marks: bool, within: Option<Within>) -> Self {
        Self { generation, marks, within, began: None, sweep: Sweep::Unlisted }
    }

    /// Returns the scope whose keys the relist may delete, or `None` if it may delete every key.
    pub(super) fn sweeps(&self) -> Option<&Within> {
        mutant!(ScopeSweepsAll => return None);
        self.within.as_ref()
    }

    /// Returns the scope, if predicates must be called to find the keys that belong to it.
    pub(super) fn predicate_scope(&self) -> Option<&Within> {
        self.sweeps().filter(|within| !within.is_plain())
    }
}

/// A removal of a scope in progress. Dropping it ends the removal, even while the panic of a
/// predicate unwinds.
pub(in crate::fifo) struct Removal<'f, T: Send + Sync, M: Meta<T>> {
    pub(super) fifo: &'f DeltaFifo<T, M>,
    pub(in crate::fifo) span: RelistSpan,
    /// Whether the initial population is complete without the scope.
    pub(super) completes: bool,
}

impl<T: Send + Sync, M: Meta<T>> Drop for Removal<'_, T, M> {
    fn drop(&mut self) {
        let Self { fifo, span: RelistSpan { generation, within, .. }, completes } = self;
        let mut complete = None;
        let synced = fifo.relists.end(*generation, within.as_ref(), |last| {
            complete = fifo.mark_least(&last.scopes);
            mutant!(RemovalEndsTheWait => return *completes && fifo.life.initial.commit());
            // A scope, or a relist of the whole queue, that came since has a first list of its own.
            *completes && last.awaits_no_list() && fifo.life.initial.commit()
        });
        fifo.forget_listed(*generation);
        fifo.committed(complete);
        if synced == Some(true) {
            fifo.life.initial.announce();
        }
    }
}
