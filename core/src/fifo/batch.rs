//! Taking many keys at once: one turn at the queue's head for all of them, one reading of the
//! clock.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::applied::Stretches;
use super::initial::Marks;
use super::news::News;
use super::pop::{SLOW, report_slow};
use super::{DeltaFifo, Popped};
use crate::Meta;
use crate::engine::clock::Started;
use crate::engine::slot::Ticket;
use crate::engine::sync::{Arc, mutant};
use crate::error::{Closed, ProcessError, panic_message};

/// How many slots ahead of the one in hand the slot's line is brought near, and the counts of its
/// known object.
const SLOT_AHEAD: usize = 8;
const KNOWN_AHEAD: usize = 4;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Takes up to `max` keys in order; blocks while the queue is empty and open. A `max` of 0
    /// counts as 1.
    ///
    /// Each key's deltas are taken just before its handler, so until then it counts as pending,
    /// for itself and for others; but no other consumer gets it before this batch is dropped,
    /// unless it came from a relist and something live is offered for it in a queue with a lane
    /// for that.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn pop_batch(&self, max: usize) -> Result<Batch<'_, T, M>, Closed> {
        self.queue.wait(|| self.try_pop_batch(max))
    }

    /// The same when there is something. Never waits.
    pub fn try_pop_batch(&self, max: usize) -> Option<Batch<'_, T, M>> {
        let (slots, stretches) = self.queue.try_pop_batch(max.max(1));
        let held = Stretches::of(self, stretches);
        let first = slots.front()?.key().to_owned();
        for slot in slots.iter().take(SLOT_AHEAD) {
            slot.prefetch();
        }
        let depth = self.pending_deltas();
        Some(Batch { fifo: self, slots, held, marks: None, weight: 0, started: Started::now(), depth, first })
    }

    /// The same for async callers. Dropping the future takes nothing.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub async fn pop_batch_async(&self, max: usize) -> Result<Batch<'_, T, M>, Closed> {
        self.queue.wait_async(|| self.try_pop_batch(max)).await
    }

    /// Takes up to `max` keys and calls `handler` with each, as [`process`](Self::process) does
    /// with one. A handler that fails or panics does not stop the batch.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn process_batch<E>(
        &self,
        max: usize,
        mut handler: impl FnMut(&mut Popped<'_, T, M>) -> Result<(), E>,
    ) -> Result<BatchReport<E>, Closed> {
        let mut batch = self.pop_batch(max)?;
        let mut report = BatchReport { handled: 0, failures: Vec::new() };
        while let Some(mut popped) = batch.next() {
            match catch_unwind(AssertUnwindSafe(|| handler(&mut popped))) {
                Ok(Ok(())) => report.handled += 1,
                Ok(Err(source)) => {
                    let key = popped.key().to_owned();
                    report.failures.push(ProcessError::Handler { key, source });
                }
                Err(panic) => {
                    let (key, message) = (popped.key().to_owned(), panic_message(panic));
                    popped.panicked();
                    report.failures.push(ProcessError::Panicked { key, message });
                    continue;
                }
            }
            popped.end();
        }
        Ok(report)
    }
}

/// What became of a [`process_batch`](DeltaFifo::process_batch).
#[derive(Debug)]
pub struct BatchReport<E> {
    /// How many handlers succeeded.
    pub handled: usize,
    /// The others, with their keys.
    pub failures: Vec<Failure<E>>,
}

/// A handler of a batch that failed or panicked.
pub type Failure<E> = ProcessError<E>;

/// Keys taken together; each becomes a [`Popped`] in its turn. Dropped, it gives those not yet
/// taken back to the front of the queue.
///
/// A batch settles for its items together, because consumers that change the queue's counters item
/// by item slow each other down. So if it is leaked (`mem::forget`), the keys not yet taken stay
/// pending for ever and are handed out to nobody, what it has taken stays in
/// [`pending_deltas`](DeltaFifo::pending_deltas) (with a high-water mark
/// [`ready`](DeltaFifo::ready) may then wait for ever), and [`has_synced`](DeltaFifo::has_synced)
/// stays false if any of its keys belongs to the initial population. Other keys are handled on.
#[must_use = "a dropped batch goes back to the queue"]
pub struct Batch<'f, T: Send + Sync, M: Meta<T>> {
    fifo: &'f DeltaFifo<T, M>,
    slots: VecDeque<Ticket<T>>,
    /// Keeps the applied version back, where that is tracked.
    held: Stretches<'f, T, M>,
    /// Shared by the items of a stretch of the initial population, and given up at its end, so
    /// that the population ends with its handlers and not with this guard.
    marks: Option<Arc<Marks<'f>>>,
    weight: usize,
    started: Option<Started>,
    /// What was pending then, its own keys too.
    depth: usize,
    first: String,
}

impl<'f, T: Send + Sync, M: Meta<T>> Batch<'f, T, M> {
    /// How many keys are left, at most: with a lane for live events one may have been handed out
    /// already.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The next key, its deltas taken now.
    #[allow(clippy::should_implement_trait)] // An iterator could be collected, which would take all keys at once.
    #[inline]
    pub fn next(&mut self) -> Option<Popped<'f, T, M>> {
        if !self.held.is_empty() {
            return self.next_held();
        }
        let slot = loop {
            let Some(ticket) = self.slots.pop_front() else {
                mutant!(StaleEndKeepsMarks => return None);
                self.marks = None;
                return None;
            };
            if let Some(slot) = self.fifo.redeem(ticket) {
                break slot;
            }
        };
        self.prefetch();
        let (mut popped, weight) = self.fifo.take(slot);
        self.hand_out(&mut popped, weight);
        Some(popped)
    }

    /// The same in a queue that tracks what is applied.
    #[cold] // Others do not pay for the code of it.
    fn next_held(&mut self) -> Option<Popped<'f, T, M>> {
        while let (Some(ticket), Some(place)) = (self.slots.pop_front(), self.held.next()) {
            if let Some(slot) = self.fifo.redeem(ticket) {
                self.prefetch();
                let (mut popped, weight) = self.fifo.take_held(slot, place);
                self.hand_out(&mut popped, weight);
                return Some(popped);
            }
        }
        self.marks = None;
        None
    }

    #[inline]
    fn prefetch(&self) {
        if let Some(ahead) = self.slots.get(SLOT_AHEAD) {
            ahead.prefetch();
        }
        if let Some(ahead) = self.slots.get(KNOWN_AHEAD) {
            ahead.prefetch_known();
        }
    }

    /// Counts what is handed out, and has its marks settled with the others.
    #[allow(clippy::inline_always)] // As `DeltaFifo::take`.
    #[inline(always)]
    fn hand_out(&mut self, popped: &mut Popped<'f, T, M>, weight: usize) {
        self.weight += weight;
        let marked = popped.is_marked();
        if marked {
            popped.settle_with(self.marks.get_or_insert_with(|| Arc::new(Marks::new(&self.fifo.initial))));
        }
        if !marked || mutant!(BatchKeepsItsMarks => false; self.slots.is_empty()) {
            self.marks = None;
        }
    }

    /// Makes a slot ready to go back to the queue.
    fn give_back(&mut self, slot: Ticket<T>) -> Option<Ticket<T>> {
        let held = self.held.next();
        mutant!(GivenBackIsNotParked => return Some(slot));
        match held {
            Some(held) => self.fifo.park(slot, held.epoch()),
            None => Some(slot),
        }
    }
}

impl<T: Send + Sync, M: Meta<T>> Drop for Batch<'_, T, M> {
    fn drop(&mut self) {
        let mut slots = std::mem::take(&mut self.slots);
        if !self.held.is_empty() {
            // They will stand in front of markers again, but at a head that has gone past their
            // own.
            slots = slots.into_iter().filter_map(|slot| self.give_back(slot)).collect();
        }
        let given = self.fifo.queue.give_back(slots);
        let room = self.fifo.depth.subtract(self.weight);
        mutant!(GivenBackWakesNobody => return);
        self.fifo.tell(&News { queued: given, room, synced: false });
        if let Some(elapsed) = self.started.map(Started::elapsed)
            && elapsed > SLOW
        {
            report_slow(&self.first, elapsed, self.depth);
        }
    }
}
