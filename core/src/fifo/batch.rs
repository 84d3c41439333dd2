//! Takes many keys at once. For all of them the head of the queue is locked once and the clock is
//! read once.

use std::collections::VecDeque;

use super::applied::Stretches;
use super::pop::{SLOW, report_slow};
use super::wakeups::Wakeups;
use super::{DeltaFifo, Popped};
use crate::Meta;
use crate::engine::clock::Started;
use crate::engine::slot::Ticket;
use crate::engine::sync::{Arc, mutant};
use crate::error::Closed;
use crate::lifecycle::Marks;

/// The distance, in slots, at which a batch prefetches a slot before its use.
const SLOT_AHEAD: usize = 8;
/// The distance, in slots, at which a batch prefetches the reference count of a slot's known object
/// before its use.
const KNOWN_AHEAD: usize = 4;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Takes up to `max` keys in order. Blocks while the queue is empty and open. A `max` of 0
    /// counts as 1.
    ///
    /// The deltas of a key are taken just before its handler; until then the key counts as
    /// pending. No other consumer gets it before this batch is dropped, except in a queue with a
    /// [live lane](crate::DeltaFifoBuilder::live_lane), if the key came from a relist and a live
    /// event is offered for it.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn pop_batch(&self, max: usize) -> Result<Batch<'_, T, M>, Closed> {
        self.queue.wait(|| self.try_pop_batch(max))
    }

    /// Takes up to `max` keys if there are any. Does not wait.
    pub fn try_pop_batch(&self, max: usize) -> Option<Batch<'_, T, M>> {
        let (slots, stretches) = self.queue.try_pop_batch(max.max(1));
        let held = Stretches::of(self, stretches);
        let first = slots.front()?.key().to_owned();
        for slot in slots.iter().take(SLOT_AHEAD) {
            slot.prefetch();
        }
        let depth = self.pending_deltas();
        Some(Batch {
            fifo: self,
            slots,
            held,
            marks: None,
            weight: 0,
            started: Started::now(),
            depth,
            first,
        })
    }
}

/// Keys that were taken together. Each becomes a [`Popped`] in its turn. A batch that is dropped
/// returns the keys not yet taken to the front of the queue.
///
/// A batch changes the queue's counters once for all of its items, because consumers that change
/// them item by item slow each other down. So the items of the initial population can count late:
/// when the batch hands out the next item or is dropped. Do not [wait for the
/// sync](DeltaFifo::wait_for_sync) while you hold a batch.
///
/// Do not leak a batch (`mem::forget`). Other keys are not affected, but:
///
/// - The keys not yet taken stay pending for ever, and are never handed out. The [applied
///   version](crate::IndexReader::applied_version) never passes them.
/// - The deltas that the batch has taken stay counted in
///   [`pending_deltas`](DeltaFifo::pending_deltas). With a high-water mark
///   [`ready`](DeltaFifo::ready) may then wait for ever.
/// - [`has_synced`](DeltaFifo::has_synced) stays false if any of its keys belongs to the initial
///   population.
#[must_use = "a dropped batch goes back to the queue"]
pub struct Batch<'f, T: Send + Sync, M: Meta<T>> {
    fifo: &'f DeltaFifo<T, M>,
    slots: VecDeque<Ticket<T>>,
    /// The holds on the applied version, in a queue that tracks it.
    held: Stretches<'f, T, M>,
    /// The marks of the current run of items that belong to the initial population. The items
    /// share them. The batch gives up its reference with the last item of the run, so that the
    /// population ends with the handlers of these items, even if the batch still exists. With a
    /// live lane, another consumer may have got the next key since; then the reference is given up
    /// by the next call of [`next`](Self::next).
    marks: Option<Arc<Marks<'f>>>,
    weight: usize,
    started: Option<Started>,
    /// The number of deltas that were pending when the batch was taken, including the deltas of its
    /// own keys.
    depth: usize,
    first: String,
}

impl<'f, T: Send + Sync, M: Meta<T>> Batch<'f, T, M> {
    /// Returns the number of keys that are left. With a live lane the number may be too large,
    /// because another consumer may have got one of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether no key is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes the deltas of the next key, and returns its guard.
    // No iterator: it could be collected, which would take all keys at once.
    #[allow(clippy::should_implement_trait)]
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

    /// Takes the next key like [`next`](Self::next), in a queue that tracks the applied version.
    #[cold] // So that other queues do not pay for its code.
    fn next_held(&mut self) -> Option<Popped<'f, T, M>> {
        while let (Some(ticket), Some(place)) = (self.slots.pop_front(), self.held.next()) {
            if let Some(slot) = self.fifo.redeem(ticket) {
                self.prefetch();
                let (mut popped, weight) = self.fifo.take_held(slot, place);
                self.hand_out(&mut popped, weight);
                return Some(popped);
            }
        }
        mutant!(StaleEndKeepsTrackedMarks => return None);
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

    /// Records that `popped` is handed out: adds its `weight`, the number of deltas that were
    /// taken, to that of the batch. If more items of the initial population follow or came directly
    /// before, also moves the item's marks to the marks that these items share.
    #[allow(clippy::inline_always)] // As `DeltaFifo::take`.
    #[inline(always)]
    fn hand_out(&mut self, popped: &mut Popped<'f, T, M>, weight: usize) {
        self.weight += weight;
        if popped.is_marked() {
            self.take_marks(popped);
        } else if self.marks.is_some() {
            self.give_up_marks();
        }
    }

    /// Moves the marks of an item to the marks of the current run, unless the item is the only one
    /// of its run. Ends the run if the next slot is not initial.
    #[cold] // So that an item without marks does not pay for its code.
    fn take_marks(&mut self, popped: &mut Popped<'f, T, M>) {
        let continues = self.slots.front().is_some_and(Ticket::is_initial);
        mutant!(BatchKeepsMarksForOthers => let continues = !self.slots.is_empty());
        if continues || self.marks.is_some() {
            popped.settle_with(
                self.marks.get_or_insert_with(|| Arc::new(Marks::new(&self.fifo.life.initial))),
            );
        }
        mutant!(BatchKeepsItsMarks => return);
        if !continues {
            self.marks = None;
        }
    }

    #[cold]
    fn give_up_marks(&mut self) {
        self.marks = None;
    }

    /// Prepares a slot to go back to the queue. If the batch has a hold for the slot, the hold goes
    /// back to the ledger ([`park`](DeltaFifo::park)), because the queue's head may have passed the
    /// marker that ends the slot's epoch. Returns `None` if the slot's entry is stale.
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
            // The slots go back in front of markers, but the head of the queue may have passed the
            // markers that end their epochs.
            slots = slots.into_iter().filter_map(|slot| self.give_back(slot)).collect();
        }
        let given = self.fifo.queue.give_back(slots);
        let ended = self.fifo.life.settled(self.weight, 0);
        mutant!(GivenBackWakesNoConsumer => return);
        self.fifo.wake(&Wakeups { queued: given, ended });
        if let Some(elapsed) = self.started.map(Started::elapsed)
            && elapsed > SLOW
        {
            report_slow(&self.first, elapsed, self.depth);
        }
    }
}
