//! Taking one key: the guard [`Popped`], and the closures that wrap it.
//!
//! How a handler can end: success or error settles the slot. A panic is reported, the slot
//! settled, its deltas not put back. A guard dropped without a verdict (a cancelled future) puts
//! them back, in front. A guard that is leaked (`mem::forget`) never ends: its key stays in
//! flight, and what waits for that handler waits for ever (see [`Popped`]). Other keys are handled
//! on.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::DeltaFifo;
use super::applied::Held;
use super::initial::Marks;
use super::resolve::resolve;
use crate::engine::clock::Started;
use crate::engine::release::release;
use crate::engine::slot::{Pending, QueuedSlot, RunningSlot, Taken, What};
use crate::engine::sync::{Arc, assert_none_held, mutant};
use crate::error::{Closed, PopError, ProcessError, StoreError, panic_message, unharmed};
use crate::{Delta, DeltaObject, DeltaType, Deltas, Meta};

/// A handler slower than this, with more than [`SLOW_DEPTH`] deltas waiting, is reported
/// (client-go's thresholds).
pub(crate) const SLOW: Duration = Duration::from_millis(100);
pub(super) const SLOW_DEPTH: usize = 10;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Takes the next key with all its deltas; blocks while the queue is empty and open.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn pop(&self) -> Result<Popped<'_, T, M>, Closed> {
        self.queue.wait(|| self.try_pop())
    }

    /// The same, until `deadline`.
    ///
    /// # Errors
    /// [`PopError::TimedOut`], or [`PopError::Closed`].
    pub fn pop_deadline(&self, deadline: Instant) -> Result<Popped<'_, T, M>, PopError> {
        self.queue.wait_deadline(deadline, || self.try_pop())
    }

    /// Takes the next key if there is one. Never waits.
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

    /// Counts what is handed out alone, and looks at the clock.
    #[allow(clippy::inline_always)] // As `take`.
    #[inline(always)]
    pub(super) fn hand_out(&self, popped: &mut Popped<'_, T, M>, weight: usize) {
        if self.depth.subtract(weight) {
            self.depth.announce();
        }
        popped.started = Started::now();
    }

    /// Takes the next key when there is one, for async callers. Dropping the future takes nothing.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub async fn pop_async(&self) -> Result<Popped<'_, T, M>, Closed> {
        self.queue.wait_async(|| self.try_pop()).await
    }

    /// Takes the next key and calls `handler` with it (client-go `Pop`). The key is settled when
    /// it returns: its deltas are gone, also after an error, unless the handler asked for them to
    /// be put back ([`Popped::retry`]).
    ///
    /// # Errors
    /// [`ProcessError`]: the queue is closed and empty, or the handler failed or panicked. A panic goes no further.
    pub fn process<R, E>(
        &self,
        handler: impl FnOnce(&mut Popped<'_, T, M>) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        let mut popped = self.pop()?;
        let outcome = catch_unwind(AssertUnwindSafe(|| handler(&mut popped)));
        let result = match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(ProcessError::Handler { key: popped.key().to_owned(), source }),
            Err(panic) => {
                let error = ProcessError::Panicked { key: popped.key().to_owned(), message: panic_message(panic) };
                popped.panicked();
                return Err(error);
            }
        };
        popped.end();
        result
    }

    /// Takes what is pending in `slot`; the second value is what leaves the depth gauge.
    #[allow(clippy::inline_always)] // Else the copy for queues that track what is applied keeps it out of line.
    #[inline(always)]
    pub(super) fn take(&self, slot: QueuedSlot<T>) -> (Popped<'_, T, M>, usize) {
        let (running, taken) = slot.take();
        let (deltas, marks, weight, folded) = match taken {
            Taken::One { kind, object, initial } => {
                (Deltas::one(Delta::new(kind, object)), usize::from(initial), 1, Vec::new())
            }
            Taken::Many(list) => {
                let resolved = resolve(running.key(), list, || running.known());
                (resolved.deltas, resolved.marks, resolved.weight, resolved.folded)
            }
        };
        mutant!(MarksEndAtTake => if self.initial.settled(marks) { self.initial.announce() });
        let popped = Popped {
            fifo: self,
            slot: Some(running),
            deltas,
            is_initial: self.initial.is_initial(marks),
            marks,
            batch: None,
            held: None,
            verdict: Verdict::None,
            was_panicking: std::thread::panicking(),
            started: None,
            spent: Spent { replaced: None, others: folded },
        };
        (popped, weight)
    }
}

/// How a handler ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Not yet: dropped like this, the item was cancelled.
    None,
    Handled,
    PutBack,
}

/// One popped key with its deltas: a guard. While it lives no other consumer gets the key.
///
/// End it with [`done`](Self::done), [`requeue`](Self::requeue) or, over a fused store,
/// [`apply`](Self::apply). Dropped without a verdict it puts its deltas back in front of what came
/// meanwhile; dropped while the thread unwinds, whatever the cause, it counts as panicked and does
/// not.
///
/// If it is leaked (`mem::forget`), its handler never ends: its key is never handed out again,
/// [`has_synced`](DeltaFifo::has_synced) stays false if the item belongs to the initial
/// population, and the [applied version](DeltaFifo::applied_version) never passes it. Other keys
/// are handled on.
#[must_use = "a dropped item goes back to the queue: end it with done, apply or requeue"]
pub struct Popped<'f, T: Send + Sync, M: Meta<T>> {
    fifo: &'f DeltaFifo<T, M>,
    /// Only `None` once settled.
    slot: Option<RunningSlot<T>>,
    deltas: Deltas<T>,
    is_initial: bool,
    /// Marks of the initial population that end with this item.
    marks: usize,
    /// Instead of `marks`, for an item of a batch.
    batch: Option<Arc<Marks<'f>>>,
    /// Keeps the applied version back, where that is tracked.
    pub(super) held: Option<Held<'f, T, M>>,
    verdict: Verdict,
    was_panicking: bool,
    pub(super) started: Option<Started>,
    spent: Spent<T>,
}

/// Objects that are in no delta any more, nor known. Released last: should that panic, the key is
/// settled, and all of it told.
struct Spent<T> {
    /// Replaced last. Most items have no other.
    replaced: Option<Arc<T>>,
    others: Vec<DeltaObject<T>>,
}

impl<T> Spent<T> {
    /// Keeps what was replaced.
    #[inline]
    fn replaced(&mut self, old: Option<Arc<T>>) -> Option<&Arc<T>> {
        if let Some(before) = self.replaced.take() {
            self.others.push(before.into());
        }
        self.replaced = old;
        self.replaced.as_ref()
    }

    /// Releases each, whatever another does.
    #[cold]
    fn release(&mut self) {
        let others = std::mem::take(&mut self.others);
        release(self.replaced.take().map(DeltaObject::from).into_iter().chain(others));
    }
}

impl<T> Drop for Spent<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.others.is_empty() {
            self.release();
        }
    }
}

/// What applying one delta did to the store: what a handler is told.
pub enum Change<'a, T> {
    /// The key was not stored before (`OnAdd`).
    Added {
        /// The object, stored now.
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
    /// The key is gone (`OnDelete`).
    Deleted {
        /// The last state, or the tombstone.
        last: &'a DeltaObject<T>,
        /// The object stored before, if it was.
        old: Option<&'a Arc<T>>,
    },
}

impl<'f, T: Send + Sync, M: Meta<T>> Popped<'f, T, M> {
    /// Whether marks of the initial population end with it.
    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        self.marks > 0
    }

    /// Leaves the item's marks to its batch.
    #[inline]
    pub(super) fn settle_with(&mut self, batch: &Arc<Marks<'f>>) {
        batch.take(std::mem::take(&mut self.marks));
        self.batch = Some(batch.clone());
    }

    /// What is put back.
    #[cold]
    fn front(&mut self) -> Option<Pending<T>> {
        let deltas = std::mem::take(&mut self.deltas);
        let since = self.held.as_ref().map(|held| held.epoch());
        (!deltas.is_empty()).then(|| Pending::new(What::Sealed(Box::new(deltas))).since(since))
    }

    /// Ends the handler while a panic is under way: its own, or one from before it began.
    #[cold]
    #[inline(never)]
    fn end_in_panic(&mut self, running: RunningSlot<T>) {
        self.settle(running, !self.was_panicking);
        // A second panic at a time would be an abort.
        self.deltas.release();
        self.spent.release();
    }

    /// Settles the slot. What is not put back is dropped with the fields, last: should an object's
    /// drop panic, its key is settled.
    #[allow(clippy::inline_always)] // Two copies: handlers that do not panic do not pay for the code of the other.
    #[inline(always)]
    fn settle(&mut self, running: RunningSlot<T>, panicked: bool) {
        if let Some(elapsed) = self.started.map(Started::elapsed)
            && elapsed > SLOW
        {
            report_slow(running.key(), elapsed, self.fifo.pending_deltas());
        }
        if panicked {
            unharmed(|| tracing::error!(key = running.key(), "a handler panicked; its deltas are not put back"));
        }
        let put_back = !panicked && self.verdict != Verdict::Handled;
        let front = if put_back { self.front() } else { None };
        mutant!(CancelledIsLost => {
            drop(self.fifo.settle(running, 0));
            return;
        });
        let marks = mutant!(TakesAreCounted => self.marks.max(1); self.marks);
        let settled = match front {
            Some(front) => self.fifo.put_back(front, running, marks),
            None => self.fifo.settle(running, marks),
        };
        drop(self.held.take());
        drop(self.batch.take());
        drop(settled);
    }

    fn running(&self) -> &RunningSlot<T> {
        self.slot.as_ref().unwrap_or_else(|| unreachable!("only end takes the slot, and it consumes the guard"))
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.running().key()
    }

    /// What happened to it, oldest first. Empty once applied.
    #[must_use]
    pub fn deltas(&self) -> &Deltas<T> {
        &self.deltas
    }

    /// Whether this item belongs to the initial population (client-go `isInInitialList`).
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_initial
    }

    /// Applies the deltas to the fused store, oldest first, and tells `handler` of each what it
    /// changed. The item is handled by that: after it a drop does not put it back.
    ///
    /// Old objects come without a look-up, and are released with the item. Should `handler` panic,
    /// the deltas after that one are applied all the same, untold, so that the store does not fall
    /// behind.
    ///
    /// # Errors
    /// [`StoreError::NoStore`]: nothing was applied. [`StoreError::NotIndexed`]: everything was; the last index error.
    #[inline]
    pub fn apply(&mut self, handler: impl FnMut(Change<'_, T>)) -> Result<(), StoreError> {
        if !self.fifo.is_fused() {
            return Err(StoreError::NoStore { key: self.key().to_owned() });
        }
        self.verdict = Verdict::Handled;
        self.deltas.reverse();
        let running = self.slot.as_mut().unwrap_or_else(|| unreachable!("only end takes the slot"));
        let (rest, spent) = (&mut self.deltas, &mut self.spent);
        let mut applying = Applying { fifo: self.fifo, running, rest, spent, handler, error: None };
        while !applying.rest.is_empty() {
            applying.next(true);
        }
        applying.error.take().map_or(Ok(()), Err)
    }

    /// Asks that the deltas be put back when the handler has ended, in front of what came
    /// meanwhile (client-go `ErrRequeue`). Has no effect once they are applied.
    pub fn retry(&mut self) {
        self.verdict = Verdict::PutBack;
    }

    /// Handled.
    pub fn done(self) {
        self.end();
    }

    /// Puts the deltas back, in front of what came meanwhile. The key goes to the tail of the
    /// queue.
    pub fn requeue(mut self) {
        self.retry();
        self.end();
    }

    /// The verdict is in.
    pub(super) fn end(mut self) {
        if self.verdict == Verdict::None {
            self.verdict = Verdict::Handled;
        }
    }

    /// The handler panicked, and the panic was caught.
    pub(super) fn panicked(mut self) {
        unharmed(|| tracing::error!(key = self.key(), "a handler panicked; its deltas are not put back"));
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

/// Deltas on their way into the store; what is left when a handler panics is applied by the drop.
struct Applying<'a, T: Send + Sync, M: Meta<T>, F: FnMut(Change<'_, T>)> {
    fifo: &'a DeltaFifo<T, M>,
    running: &'a mut RunningSlot<T>,
    /// Newest first.
    rest: &'a mut Deltas<T>,
    spent: &'a mut Spent<T>,
    handler: F,
    error: Option<StoreError>,
}

impl<T: Send + Sync, M: Meta<T>, F: FnMut(Change<'_, T>)> Applying<'_, T, M, F> {
    /// Applies the next delta, and tells the handler if `tell`.
    #[inline]
    fn next(&mut self, tell: bool) {
        assert_none_held();
        let Some(Delta { kind, object }) = self.rest.pop() else { return };
        match object {
            DeltaObject::Object(new) if kind != DeltaType::Deleted => {
                let (old, error) = self.fifo.core.apply(self.running, Some(new));
                self.error = error.or(self.error.take());
                let old = self.spent.replaced(old);
                if tell && let Some(new) = self.running.known_ref() {
                    (self.handler)(match old {
                        None => Change::Added { new: &new, kind },
                        Some(old) => Change::Updated { old, new: &new, kind },
                    });
                }
                // Last: the accessor is user code, and may panic.
                if self.fifo.skip_unchanged {
                    self.fifo.note_version(self.running);
                }
            }
            last => {
                let (old, error) = self.fifo.core.apply(self.running, None);
                self.error = error.or(self.error.take());
                let old = self.spent.replaced(old);
                if tell {
                    (self.handler)(Change::Deleted { last: &last, old });
                }
                if !self.rest.is_empty() {
                    self.spent.others.push(last);
                }
            }
        }
    }
}

impl<T: Send + Sync, M: Meta<T>, F: FnMut(Change<'_, T>)> Drop for Applying<'_, T, M, F> {
    fn drop(&mut self) {
        while !self.rest.is_empty() {
            // Perhaps a panic is under way already: another one, of user code, must not become an
            // abort.
            unharmed(|| self.next(false));
        }
    }
}

pub(crate) fn report_slow(key: &str, elapsed: Duration, depth: usize) {
    if depth > SLOW_DEPTH {
        unharmed(|| {
            tracing::warn!(key, depth, elapsed_ms = elapsed.as_millis(), "a slow handler holds up the queue");
        });
    }
}

impl<T: fmt::Debug + Send + Sync, M: Meta<T>> fmt::Debug for Popped<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Popped").field("key", &self.key()).field("deltas", &self.deltas).finish_non_exhaustive()
    }
}
