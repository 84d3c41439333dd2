//! Bookmarks, and the holds that keep the applied version back until everything before a bookmark
//! is handled.
//!
//! A version is applied when everything that was offered before its marker is handled, whether the
//! handlers succeeded, failed or panicked. A slot in the queue is before or behind the marker. For
//! a slot that was taken out of the queue, or is not in it yet, there is a [`Hold`]
//! (`engine/ready_queue/tracked.rs` has the cases). A queue that does not track applied versions
//! has no holds, and pays one check.

use std::collections::VecDeque;

use super::DeltaFifo;
use crate::Meta;
use crate::engine::ledger::Epoch;
use crate::engine::ready_queue::{Lane, Stretch};
use crate::engine::slot::Ticket;
use crate::engine::sync::{Arc, mutant};
use crate::error::{VersionError, WaitError};
use crate::scope::{ScopeId, Scopes};
use crate::store::applied::{Origin, Point, parse};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Declares that everything up to `version` has been offered (client-go `Bookmark`). A marker
    /// goes through the queue: when everything that was offered before this call is handled, the
    /// [applied version](crate::IndexReader::applied_version) of the [store](Self::store) becomes
    /// `version`, and callers that [wait](crate::IndexReader::wait_for_resource_version) for it
    /// wake. A bookmark is not an offer: it populates nothing and wakes no consumer. O(1).
    ///
    /// A delta is handled when its handler has ended, whether it succeeded, failed or panicked. A
    /// delta that is put back is not handled, also if the drop of its [`Popped`](crate::Popped)
    /// puts it back. A version that is smaller than the applied one changes nothing. The version
    /// may also wait for deltas that other threads offer during the call. It waits for ever for a
    /// `Popped` or a [`Batch`](crate::Batch) that is leaked (`mem::forget`).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deltafifo::{DeltaFifo, Indexer, KeyFunc, NoMeta};
    ///
    /// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
    /// let fifo = DeltaFifo::over(Indexer::builder(keys).build()?).track_applied(true).build();
    /// fifo.add(Arc::new("a".to_owned()))?;
    /// fifo.add(Arc::new("b".to_owned()))?;
    /// fifo.bookmark("12")?;
    /// let (mut a, mut b) = (fifo.try_pop().unwrap(), fifo.try_pop().unwrap());
    /// b.apply(|_| ())?;
    /// drop(b);
    /// assert_eq!(fifo.store().applied_version(), None); // a's handler still runs
    /// a.apply(|_| ())?;
    /// drop(a);
    /// assert_eq!(fifo.store().applied_version().as_deref(), Some("12"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`VersionError::NotANumber`] if `version` is not a decimal number,
    /// [`VersionError::NotTracked`] without
    /// [`track_applied`](crate::DeltaFifoBuilder::track_applied), and [`VersionError::HasScopes`]
    /// in a queue with [scopes](Self::add_scope), which have [bookmarks of their
    /// own](Self::bookmark_in). No marker is queued then.
    pub fn bookmark(&self, version: &str) -> Result<(), VersionError> {
        let point = self.core.applied.expect(parse(version)?, Origin::Bookmark)?;
        self.reached(self.queue.mark(point));
        Ok(())
    }

    /// Declares that everything up to `version` has been offered, and returns a future that
    /// resolves when everything that was offered before this call is handled, even if `version` was
    /// applied before. Until then the store has no applied version. For the informer, which must
    /// know that no handler has an object in hand before it reads the store.
    ///
    /// # Errors
    /// As for [`bookmark`](Self::bookmark); the future also fails with [`WaitError`].
    #[doc(hidden)]
    pub fn handled(
        &self,
        version: &str,
    ) -> Result<impl Future<Output = Result<(), WaitError>> + Send + use<T, M>, VersionError> {
        // Markers of earlier editions, also those that are queued already, say nothing about the
        // next edition.
        self.core.applied.begin_edition();
        self.bookmark(version)?;
        let (store, version) = (self.store(), version.to_owned());
        Ok(async move { store.wait_for_resource_version_async(&version).await })
    }
}

impl<T, M> DeltaFifo<T, M> {
    /// Records that everything up to `point` is handled, unless it is `None`, and wakes waiters.
    /// Called with no lock held.
    fn reached(&self, point: Option<Point>) {
        if let Some(point) = point {
            self.core.applied.raise(point);
        }
    }

    /// Queues the marker of a relist at `version`, if the queue tracks applied versions and
    /// `version` is a number. Returns the version that is complete because of the marker, if any;
    /// the caller passes it to [`committed`](Self::committed) once no lock is held.
    pub(super) fn mark_commit(&self, version: &str) -> Option<Point> {
        if !self.queue.is_tracked() {
            return None;
        }
        let point = self.core.applied.expect(parse(version).ok()?, Origin::List).ok()?;
        self.queue.mark(point)
    }

    /// Records that everything in `scope` up to `version` was offered, and queues the marker of the
    /// lowest version of all scopes, up to which everything was offered. `began` is the number of
    /// the history in which the scope's list began. It is `None` for a bookmark, and in a queue
    /// that does not track applied versions. Returns the version that is complete because of the
    /// marker, if any; the caller passes it to [`committed`](Self::committed) once no lock is held.
    /// Fails if `version` is not a number, or if the queue does not track applied versions.
    pub(super) fn mark_scope(
        &self,
        scopes: &mut Scopes,
        scope: &ScopeId,
        version: &str,
        began: Option<u64>,
    ) -> Result<Option<Point>, VersionError> {
        scopes.reached(scope, version, began, &self.core.applied)?;
        Ok(self.mark_least(scopes))
    }

    /// Queues the marker of the lowest version of all scopes. Does nothing if the queue does not
    /// track applied versions, if a scope that is not waived has no version yet, or if this marker
    /// or a greater one was queued before. Returns the version that is complete because of the
    /// marker, if any.
    pub(super) fn mark_least(&self, scopes: &Scopes) -> Option<Point> {
        if !self.queue.is_tracked() {
            return None;
        }
        let least = scopes.least();
        mutant!(GreatestScopeApplies => let least = scopes.greatest());
        self.queue.mark(self.core.applied.expect_least(least?)?)
    }

    /// Records the version that was complete because of a commit's marker, if any, and wakes
    /// callers that wait for a version. Called after [`mark_commit`](Self::mark_commit), with no
    /// lock held.
    pub(super) fn committed(&self, complete: Option<Point>) {
        self.reached(complete);
        if self.queue.is_tracked() {
            mutant!(RewindWakesNoWaiter => return);
            // The list may have begun another history, which ends waits for versions of the
            // previous history.
            self.core.applied.announce();
        }
    }

    /// Takes a hold on the open epoch, for deltas that are about to be pushed. Returns `None` if
    /// the queue does not track applied versions.
    #[inline(never)] // So that other queues do not pay for its code.
    pub(super) fn hold(&self) -> Option<Hold<'_, T, M>> {
        self.held(self.queue.hold())
    }

    fn held(&self, epoch: Option<Epoch>) -> Option<Hold<'_, T, M>> {
        epoch.map(|epoch| Hold::on(self, epoch))
    }

    /// Parks a slot that was taken out of the queue, or is not in it yet: leaves a hold on epoch
    /// `since` for it in the ledger (`engine/ledger.rs`). The slot can then be queued behind a
    /// marker that its deltas came before. Returns `None` if the slot's entry is stale.
    pub(super) fn park(&self, ticket: Ticket<T>, since: Epoch) -> Option<Ticket<T>> {
        let lane = Lane::of(&ticket);
        let slot = self.redeem(ticket)?;
        self.queue.park(&slot, Some(since));
        self.queue.ticket_of(lane, slot)
    }

    /// Queues a run of slots that were pushed while the caller had a hold on `since`, which is
    /// `None` in a queue that does not track applied versions. If a marker was queued since then,
    /// parks the slots first.
    pub(super) fn push_run(&self, lane: Lane, run: Vec<Ticket<T>>, since: Option<Epoch>) {
        let (Err(run), Some(since)) = (self.queue.push_run_since(lane, run, since), since) else {
            return;
        };
        self.queue.push_run(
            lane,
            run.into_iter().filter_map(|ticket| self.park(ticket, since)).collect(),
        );
    }
}

/// A guard of a hold, which keeps the applied version below the marker of the hold's epoch until it
/// is dropped.
pub(super) struct Hold<'f, T, M> {
    fifo: &'f DeltaFifo<T, M>,
    epoch: Epoch,
}

impl<'f, T, M> Hold<'f, T, M> {
    /// Creates the guard of a hold that the caller has on `epoch`.
    pub(super) fn on(fifo: &'f DeltaFifo<T, M>, epoch: Epoch) -> Self {
        Self { fifo, epoch }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl<T, M> Drop for Hold<'_, T, M> {
    #[inline(never)] // As for `hold`.
    fn drop(&mut self) {
        self.fifo.reached(self.fifo.queue.release(self.epoch));
    }
}

/// The hold of one item, or the hold that consecutive items of a batch share if they have the same
/// epoch. To release a shared hold, the ledger is locked once, and not once per item.
pub(super) type ItemHold<'f, T, M> = Arc<Hold<'f, T, M>>;

/// The holds of the slots that a batch has not handed out yet. Each stretch, which is a run of
/// consecutive slots with the same epoch, has one hold and the number of its remaining slots.
pub(super) struct Stretches<'f, T, M>(VecDeque<(ItemHold<'f, T, M>, usize)>);

impl<'f, T, M> Stretches<'f, T, M> {
    pub(super) fn of(fifo: &'f DeltaFifo<T, M>, stretches: Vec<Stretch>) -> Self {
        let held = |Stretch { epoch, slots }| (Arc::new(Hold::on(fifo, epoch)), slots);
        Self(stretches.into_iter().map(held).collect())
    }

    /// Returns whether no hold is left. Always true in a queue that does not track applied
    /// versions.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the hold of the next slot. The last slot of a stretch takes over the batch's share
    /// of the hold, so that the hold ends with the handlers and not with the batch.
    #[inline]
    pub(super) fn next(&mut self) -> Option<ItemHold<'f, T, M>> {
        let (hold, slots) = self.0.front_mut()?;
        *slots -= 1;
        if *slots > 0 { Some(hold.clone()) } else { self.0.pop_front().map(|(hold, _)| hold) }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::Arc;
    use crate::engine::ledger::Epoch;
    use crate::{DeltaFifo, Indexer, KeyFunc, KeyScope, NoMeta};

    fn open_epoch(fifo: &DeltaFifo<String, NoMeta>) -> Epoch {
        let epoch = fifo.queue.hold().unwrap();
        fifo.queue.release(epoch);
        epoch
    }

    #[test]
    fn everything_is_handled_only_after_the_handlers_even_if_the_version_was_applied_before() {
        let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
        let fifo = DeltaFifo::over(Indexer::builder(keys).build().unwrap()).track_applied(true);
        let fifo = fifo.build();
        fifo.bookmark("7").unwrap();
        assert_eq!(fifo.store().applied_version().as_deref(), Some("7"));
        fifo.add(Arc::new("a".to_owned())).unwrap();
        let mut running = fifo.try_pop().unwrap();
        fifo.add(Arc::new("b".to_owned())).unwrap();

        let mut handled = Box::pin(fifo.handled("7").unwrap());
        let mut is_handled = || {
            let mut context = Context::from_waker(Waker::noop());
            handled.as_mut().poll(&mut context) == Poll::Ready(Ok(()))
        };
        assert!(!is_handled());
        assert_eq!(fifo.store().applied_version(), None);
        let mut pending = fifo.try_pop().unwrap();
        pending.apply(|_| ()).unwrap();
        drop(pending);
        assert!(!is_handled(), "the first handler still runs");
        running.apply(|_| ()).unwrap();
        drop(running);
        assert!(is_handled());
        assert_eq!(fifo.store().applied_version().as_deref(), Some("7"));
    }

    #[test]
    fn bookmark_that_does_not_raise_the_lowest_version_queues_no_marker() {
        let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
        let fifo = DeltaFifo::over(Indexer::builder(keys).build().unwrap()).track_applied(true);
        let fifo = fifo.build();
        let scope = |name: &str| {
            let prefix = name.to_owned();
            let scope = KeyScope::keys(name, move |key| key.starts_with(&prefix));
            fifo.add_scope(scope).unwrap()
        };
        let (busy, quiet) = (scope("busy"), scope("quiet"));
        fifo.bookmark_in(&quiet, "1").unwrap();
        fifo.bookmark_in(&busy, "1").unwrap();
        let before = open_epoch(&fifo);
        for version in 2..9 {
            fifo.bookmark_in(&busy, &format!("{version}")).unwrap();
        }
        assert_eq!(open_epoch(&fifo), before);
        fifo.bookmark_in(&quiet, "9").unwrap();
        assert_eq!(fifo.store().applied_version().as_deref(), Some("8"));
    }
}
