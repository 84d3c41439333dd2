//! Takes one key at a time. The guard of a key is [`Popped`], and `process` passes it to a closure.
//!
//! A handler can end in four ways:
//!
//! * Success and error settle the slot.
//! * A panic is logged and settles the slot, and the key's deltas are not put back.
//! * A guard that is dropped without a verdict (a cancelled future) puts its deltas back, in front
//!   of newer ones.
//! * If a guard is leaked (`mem::forget`), no consumer gets the key again, and a thread that waits
//!   for this handler waits for ever (see [`Popped`]). Other keys are not affected.

use std::fmt;
use std::time::Duration;

use super::DeltaFifo;
use super::applied::{Hold, ItemHold};
use super::resolve::resolve;
use super::settle::LeftOut;
use crate::engine::clock::Started;
use crate::engine::release::{OneByOne, release};
use crate::engine::slot::{Content, Pending, QueuedSlot, RunningSlot, TakenDeltas};
use crate::engine::sync::{Arc, assert_none_held, mutant};
use crate::error::{Closed, ProcessError, StoreError};
use crate::lifecycle::Marks;
use crate::panics::{caught, ignore_panic};
use crate::{Delta, DeltaObject, DeltaType, Deltas, Meta};

/// The time after which a handler is logged as slow, as in client-go, if more than [`SLOW_DEPTH`]
/// deltas wait.
pub(crate) const SLOW: Duration = Duration::from_millis(100);
/// The number of waiting deltas above which slow handlers are logged, as in client-go.
pub(super) const SLOW_DEPTH: usize = 10;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Takes the next key with all its deltas. Blocks while the queue is empty and open.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn pop(&self) -> Result<Popped<'_, T, M>, Closed> {
        self.queue.wait(|| self.try_pop())
    }

    /// Takes the next key if there is one. Does not wait.
    pub fn try_pop(&self) -> Option<Popped<'_, T, M>> {
        if self.queue.is_tracked() {
            return self.try_pop_held();
        }
        let slot = loop {
            if let Some(slot) = self.redeem(self.queue.try_pop()?) {
                break slot;
            }
        };
        let (mut popped, weight) = self.take(slot);
        self.hand_out(&mut popped, weight);
        Some(popped)
    }

    /// Pops like [`try_pop`](Self::try_pop), in a queue that tracks the applied version.
    #[cold] // So that other queues do not pay for its code.
    fn try_pop_held(&self) -> Option<Popped<'_, T, M>> {
        loop {
            let (ticket, epoch) = self.queue.try_pop_tracked()?;
            let place = Arc::new(Hold::on(self, epoch));
            if let Some(slot) = self.redeem(ticket) {
                let (mut popped, weight) = self.take_held(slot, place);
                self.hand_out(&mut popped, weight);
                return Some(popped);
            }
        }
    }

    /// Takes the pending deltas of `slot`, with the hold `place` of its place in the queue. If the
    /// slot was parked (`engine/ledger.rs`), takes them with the hold that the ledger keeps for it.
    #[cold]
    pub(super) fn take_held<'f>(
        &'f self,
        slot: QueuedSlot<T>,
        place: ItemHold<'f, T, M>,
    ) -> (Popped<'f, T, M>, usize) {
        let held = self.queue.unpark(&slot).map_or(place, |epoch| Arc::new(Hold::on(self, epoch)));
        let held = Some(held);
        mutant!(HandlersHoldNothing => let held = None);
        let (mut popped, weight) = self.take(slot);
        popped.held = held;
        (popped, weight)
    }

    /// Hands out an item that is not part of a batch: subtracts `weight`, the number of deltas that
    /// were taken, from the depth gauge, and starts the clock that finds slow handlers.
    #[allow(clippy::inline_always)] // As `take`.
    #[inline(always)]
    pub(super) fn hand_out(&self, popped: &mut Popped<'_, T, M>, weight: usize) {
        if self.life.depth.subtract(weight) {
            self.life.depth.announce();
        }
        popped.started = Started::now();
    }

    /// Waits for the next key and takes it. A future that is dropped takes nothing.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    #[doc(alias = "ProcessFunc")]
    pub async fn pop_async(&self) -> Result<Popped<'_, T, M>, Closed> {
        self.queue.wait_async(|| self.try_pop()).await
    }

    /// Takes the next key and calls `handler` with it (client-go `Pop`). The key is settled when
    /// the handler returns: its deltas are dropped, also after an error, unless the handler called
    /// [`Popped::retry`].
    ///
    /// # Errors
    /// [`ProcessError`]: the queue is closed and empty, or the handler failed or panicked. The
    /// panic is caught.
    pub fn process<R, E>(
        &self,
        handler: impl FnOnce(&mut Popped<'_, T, M>) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        let mut popped = self.pop()?;
        let result = match caught(|| handler(&mut popped)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ProcessError::Handler { key: popped.key().to_owned(), error }),
            Err(message) => {
                let error = ProcessError::Panicked { key: popped.key().to_owned(), message };
                popped.panicked();
                return Err(error);
            }
        };
        // The destructor of the error is user code, and so may be those of the item's objects.
        let mut result = OneByOne(Some(result));
        popped.end();
        result.take().unwrap_or_else(|| unreachable!("it was set before"))
    }

    /// Takes the pending deltas of `slot`. The second value is their number before any are merged,
    /// to be subtracted from the depth gauge.
    #[allow(clippy::inline_always)] // Otherwise its second caller would keep it out of line.
    #[inline(always)]
    pub(super) fn take(&self, slot: QueuedSlot<T>) -> (Popped<'_, T, M>, usize) {
        let (running, taken) = slot.take();
        let (deltas, marks, weight, folded) = match taken {
            TakenDeltas::One { kind, object, initial } => {
                (Deltas::one(Delta::new(kind, object)), usize::from(initial), 1, Vec::new())
            }
            TakenDeltas::Many(list) => {
                let resolved = resolve(running.key(), list, || running.known());
                (resolved.deltas, resolved.marks, resolved.weight, resolved.folded)
            }
        };
        mutant!(MarksEndAtTake => if self.life.initial.settled(marks) { self.life.initial.announce() });
        let popped = Popped {
            fifo: self,
            slot: Some(running),
            deltas,
            is_initial: self.life.initial.is_initial(marks),
            marks,
            batch: None,
            held: None,
            verdict: Verdict::None,
            was_panicking: std::thread::panicking(),
            started: None,
            deferred: DeferredDrops { replaced: None, others: folded },
        };
        (popped, weight)
    }
}

/// The outcome of a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// No verdict was set. An item that is dropped in this state was cancelled, and its deltas are
    /// put back.
    None,
    Handled,
    PutBack,
}

/// A guard of one popped key and its deltas. No other consumer gets the key while the guard
/// exists.
///
/// End it with [`done`](Self::done), [`requeue`](Self::requeue) or, over a fused store,
/// [`apply`](Self::apply). A guard that is dropped without a verdict puts its deltas back, in
/// front of newer ones. A guard that is dropped while its thread unwinds counts as panicked, and
/// drops its deltas.
///
/// If the guard is leaked (`mem::forget`), its handler never ends: the key is never handed out
/// again, [`has_synced`](DeltaFifo::has_synced) stays false if the item belongs to the initial
/// population, and the [applied version](crate::IndexReader::applied_version) never passes it.
/// Other keys are not affected.
#[must_use = "a dropped item goes back to the queue: end it with done, apply or requeue"]
pub struct Popped<'f, T: Send + Sync, M: Meta<T>> {
    fifo: &'f DeltaFifo<T, M>,
    /// The running slot. `None` only after it is settled.
    slot: Option<RunningSlot<T>>,
    deltas: Deltas<T>,
    is_initial: bool,
    /// The number of the item's marks of the initial population, which are settled with it.
    marks: usize,
    /// The marks that this item shares with other items of its batch. If this is set, it includes
    /// the item's own marks, and `marks` is 0.
    batch: Option<Arc<Marks<'f>>>,
    /// The hold on the applied version, in a queue that tracks it.
    pub(super) held: Option<ItemHold<'f, T, M>>,
    verdict: Verdict,
    was_panicking: bool,
    pub(super) started: Option<Started>,
    deferred: DeferredDrops<T>,
}

/// Objects that were replaced, or that belonged to deltas without an effect. No delta and no slot
/// refers to them any more. They are released last, so that the key is settled and all changes are
/// delivered even if a destructor panics.
struct DeferredDrops<T> {
    /// The object that was replaced last. Most items have only this one.
    replaced: Option<Arc<T>>,
    others: Vec<DeltaObject<T>>,
}

impl<T> DeferredDrops<T> {
    /// Adds a replaced object.
    #[inline]
    fn replaced(&mut self, old: Option<Arc<T>>) -> Option<&Arc<T>> {
        if let Some(before) = self.replaced.take() {
            self.others.push(before.into());
        }
        self.replaced = old;
        self.replaced.as_ref()
    }

    /// Adds the objects of deltas that turned out to have no effect at the end of the handler.
    #[cold]
    fn left_out(&mut self, left_out: &mut LeftOut<T>) {
        self.others.append(&mut left_out.objects);
    }

    /// Releases all objects, even if a destructor panics.
    #[cold]
    fn release(&mut self) {
        let others = std::mem::take(&mut self.others);
        release(self.replaced.take().map(DeltaObject::from).into_iter().chain(others));
    }
}

impl<T> Drop for DeferredDrops<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.others.is_empty() {
            self.release();
        }
    }
}

/// The change of the store by one delta, as the handler receives it.
pub enum Change<'a, T> {
    /// The key was not stored before (`OnAdd`).
    Added {
        /// The object, which is stored now.
        new: &'a Arc<T>,
        /// The delta's type.
        kind: DeltaType,
    },
    /// The key was stored (`OnUpdate`).
    Updated {
        /// The object stored before.
        old: &'a Arc<T>,
        /// The object stored now.
        new: &'a Arc<T>,
        /// The delta's type.
        kind: DeltaType,
    },
    /// The key was deleted (`OnDelete`).
    Deleted {
        /// The last state, or the tombstone.
        last: &'a DeltaObject<T>,
        /// The object stored before, if there was one.
        old: Option<&'a Arc<T>>,
    },
}

impl<'f, T: Send + Sync, M: Meta<T>> Popped<'f, T, M> {
    /// Returns whether the item has marks of the initial population.
    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        self.marks > 0
    }

    /// Moves the item's marks of the initial population to the marks of its batch.
    #[inline]
    pub(super) fn settle_with(&mut self, batch: &Arc<Marks<'f>>) {
        batch.take(std::mem::take(&mut self.marks));
        self.batch = Some(batch.clone());
    }

    /// Returns the deltas that go back to the queue, if any.
    #[cold]
    fn front(&mut self) -> Option<Pending<T>> {
        let deltas = std::mem::take(&mut self.deltas);
        let since = self.held.as_ref().map(|held| held.epoch());
        (!deltas.is_empty()).then(|| Pending::new(Content::Sealed(Box::new(deltas))).since(since))
    }

    /// Ends the handler while the thread unwinds, because of the handler's panic or of an earlier
    /// one.
    #[cold]
    #[inline(never)]
    fn end_in_panic(&mut self, running: RunningSlot<T>) {
        self.settle(running, !self.was_panicking);
        // A second panic would abort the process.
        self.deltas.release();
        self.deferred.release();
    }

    /// Settles the slot. Deltas that do not go back are dropped last, with the fields of `self`,
    /// so that a panicking destructor finds the key settled.
    #[allow(clippy::inline_always)] // Handlers that do not panic do not pay for the panic case.
    #[inline(always)]
    fn settle(&mut self, running: RunningSlot<T>, panicked: bool) {
        if let Some(elapsed) = self.started.map(Started::elapsed)
            && elapsed > SLOW
        {
            report_slow(running.key(), elapsed, self.fifo.pending_deltas());
        }
        if panicked {
            ignore_panic(|| {
                tracing::error!(
                    key = running.key(),
                    "a handler panicked; its deltas are not put back"
                );
            });
        }
        let put_back = !panicked && self.verdict != Verdict::Handled;
        let front = if put_back { self.front() } else { None };
        mutant!(CancelledIsLost => return drop(self.fifo.settle(running, 0)));
        let marks = self.marks;
        mutant!(TakesAreCounted => let marks = marks.max(1));
        let settled = match front {
            Some(front) => self.fifo.put_back(front, running, marks),
            None => self.fifo.settle(running, marks),
        };
        drop(self.held.take());
        drop(self.batch.take());
        if let Some(mut left_out) = settled.left_out {
            self.deferred.left_out(&mut left_out);
        }
    }

    fn running(&self) -> &RunningSlot<T> {
        self.slot
            .as_ref()
            .unwrap_or_else(|| unreachable!("only end takes the slot, and it consumes the guard"))
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.running().key()
    }

    /// Returns the deltas of the key, oldest first. Empty after [`apply`](Self::apply).
    #[must_use]
    pub fn deltas(&self) -> &Deltas<T> {
        &self.deltas
    }

    /// Returns whether this item belongs to the initial population (client-go `isInInitialList`).
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_initial
    }

    /// Applies the deltas to the fused store, oldest first, and calls `handler` with the change of
    /// each. The item is then handled: a drop does not put it back.
    ///
    /// Old objects need no lookup, and are released with the item. If `handler` panics, the later
    /// deltas are still applied, without a call, so that the store does not fall behind.
    ///
    /// # Errors
    /// [`StoreError::NoStore`]: nothing was applied. [`StoreError::NotIndexed`]: all deltas were
    /// applied; this is the last index error.
    #[inline]
    pub fn apply(&mut self, handler: impl FnMut(Change<'_, T>)) -> Result<(), StoreError> {
        if !self.fifo.is_fused() {
            return Err(StoreError::NoStore { key: self.key().to_owned() });
        }
        self.verdict = Verdict::Handled;
        self.deltas.reverse();
        let running = self.slot.as_mut().unwrap_or_else(|| unreachable!("only end takes the slot"));
        let (rest, deferred) = (&mut self.deltas, &mut self.deferred);
        let mut applying =
            Applying { fifo: self.fifo, running, rest, deferred, handler, error: OneByOne(None) };
        while !applying.rest.is_empty() {
            applying.next(true);
        }
        applying.error.take().map_or(Ok(()), |error| Err(*error))
    }

    /// Puts the deltas back when the handler has ended, in front of newer ones (client-go
    /// `ErrRequeue`). Has no effect after [`apply`](Self::apply).
    #[doc(alias = "ErrRequeue")]
    pub fn retry(&mut self) {
        self.verdict = Verdict::PutBack;
    }

    /// Settles the item as handled.
    pub fn done(self) {
        self.end();
    }

    /// Puts the deltas back, in front of newer ones. The key joins the tail of the queue.
    pub fn requeue(mut self) {
        self.retry();
        self.end();
    }

    /// Ends the item with the verdict that was set. Without one it counts as handled, whereas a
    /// drop would put its deltas back.
    pub(super) fn end(mut self) {
        if self.verdict == Verdict::None {
            self.verdict = Verdict::Handled;
        }
    }

    /// Ends the item after a panic of the handler that was caught.
    pub(super) fn panicked(mut self) {
        ignore_panic(|| {
            tracing::error!(key = self.key(), "a handler panicked; its deltas are not put back");
        });
        self.verdict = Verdict::Handled;
    }
}

impl<T: Send + Sync, M: Meta<T>> Drop for Popped<'_, T, M> {
    #[inline]
    fn drop(&mut self) {
        let Some(running) = self.slot.take() else { return };
        if std::thread::panicking() {
            self.end_in_panic(running);
        } else {
            self.settle(running, false);
        }
    }
}

/// Deltas that are being applied. If a handler panics, the drop applies the rest.
struct Applying<'a, T: Send + Sync, M: Meta<T>, F: FnMut(Change<'_, T>)> {
    fifo: &'a DeltaFifo<T, M>,
    running: &'a mut RunningSlot<T>,
    /// The deltas that are not applied yet, newest first.
    rest: &'a mut Deltas<T>,
    deferred: &'a mut DeferredDrops<T>,
    handler: F,
    /// The last error. Its destructor is user code, which may run while a panic unwinds.
    error: OneByOne<Option<Box<StoreError>>>,
}

impl<T: Send + Sync, M: Meta<T>, F: FnMut(Change<'_, T>)> Applying<'_, T, M, F> {
    /// Applies the next delta, and calls the handler if `notify` is set.
    #[allow(clippy::inline_always)] // Otherwise its second caller would keep it out of line.
    #[inline(always)]
    fn next(&mut self, notify: bool) {
        assert_none_held();
        let Some(Delta { kind, object }) = self.rest.pop() else { return };
        match object {
            DeltaObject::Object(new) if kind != DeltaType::Deleted => {
                let (old, error) = self.fifo.core.apply(self.running, Some(new));
                let old = self.deferred.replaced(old);
                if error.is_some() {
                    self.error.supersede(error);
                }
                if notify && let Some(new) = self.running.known_ref() {
                    (self.handler)(match old {
                        None => Change::Added { new: &new, kind },
                        Some(old) => Change::Updated { old, new: &new, kind },
                    });
                }
                // Last: the accessor is user code, and may panic.
                if self.fifo.skip_unchanged {
                    self.fifo.note_listed_version(kind, self.running);
                }
            }
            last => {
                // A panic of the accessor or of the handler drops it, too.
                let mut last = OneByOne(Some(last));
                let (old, error) = self.fifo.core.apply(self.running, None);
                let old = self.deferred.replaced(old);
                if error.is_some() {
                    self.error.supersede(error);
                }
                if notify && let Some(last) = &*last {
                    (self.handler)(Change::Deleted { last, old });
                }
                if !self.rest.is_empty() {
                    self.deferred.others.extend(last.take());
                }
            }
        }
    }

    /// Applies the rest after a panic of the handler.
    #[cold]
    fn apply_rest(&mut self) {
        while !self.rest.is_empty() {
            // The thread may be unwinding already: another panic of user code would abort the
            // process.
            ignore_panic(|| self.next(false));
        }
    }
}

impl<T: Send + Sync, M: Meta<T>, F: FnMut(Change<'_, T>)> Drop for Applying<'_, T, M, F> {
    #[inline]
    fn drop(&mut self) {
        if !self.rest.is_empty() {
            self.apply_rest();
        }
    }
}

pub(crate) fn report_slow(key: &str, elapsed: Duration, depth: usize) {
    if depth > SLOW_DEPTH {
        ignore_panic(|| {
            tracing::warn!(
                key,
                depth,
                elapsed_ms = elapsed.as_millis(),
                "slow handler while many deltas are pending; make it faster, or add consumers"
            );
        });
    }
}

impl<T: fmt::Debug + Send + Sync, M: Meta<T>> fmt::Debug for Popped<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Popped")
            .field("key", &self.key())
            .field("deltas", &self.deltas)
            .finish_non_exhaustive()
    }
}
