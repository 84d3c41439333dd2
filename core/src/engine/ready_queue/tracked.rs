//! The queue's part of applied-version tracking: markers among the entries, and holds for offers
//! that are outside of the queue.
//!
//! A slot's place in the queue gives its epoch (`ledger.rs`, which also says what a parked slot
//! is), with these exceptions, each of which is covered by a hold:
//!
//! | offers that were made before a marker, and are not in the queue before it | how the marker waits for them |
//! | --- | --- |
//! | popped, or in a batch | a hold on the epoch of the slot's place, made under the head's lock |
//! | pushed onto a running slot, or put back, and queued again behind markers | the slot is parked when the handler ends; the handler's hold covers it until then |
//! | pushed and not queued yet: a relist's page, a sweep | a hold made before the push; the slot is parked if a marker was queued after that hold was made |
//! | pushed by another thread onto a slot of the row above | the same hold |
//! | pushed onto a slot that another offer has made pending, and has not queued yet | the push waits for that offer (`fifo/join`) |
//! | moved from the backlog to the live lane | the slot is parked with the oldest epoch |
//! | given back by a batch | the slot is parked by the batch, whose hold covers it until then |
//!
//! Holds are added and removed, slots are parked, and runs of slots are checked for a marker and
//! queued, all under the head's lock, so each of these steps is ordered before or after a marker.
//! The head may be locked while a shard's lock is held; a shard is never locked while the head's
//! lock is held.

use std::collections::VecDeque;

use super::{Lane, QueueEntry, QueueHead, ReadyQueue, free_drained};
use crate::engine::ledger::{Epoch, Ledger};
use crate::engine::slot::{QueuedSlot, Slot, Ticket};
use crate::engine::sync::{AtomicU64, Ordering, SegQueue, mutant};
use crate::store::applied::Point;

/// Consecutive slots of a batch that belong to one epoch. They share one hold on it.
pub(crate) struct Stretch {
    pub(crate) epoch: Epoch,
    pub(crate) slots: usize,
}

/// A copy of two values of the ledger for threads that do not lock the head. Written under the
/// head's lock.
pub(super) struct Positions {
    /// The number of the open epoch.
    now: AtomicU64,
    /// The number of parked slots.
    parked: AtomicU64,
}

impl Positions {
    fn new(ledger: &Ledger) -> Self {
        let positions = Self { now: AtomicU64::new(0), parked: AtomicU64::new(0) };
        positions.note(ledger);
        positions
    }

    fn note(&self, ledger: &Ledger) {
        // Relaxed, here and in the loads. A thread whose offer is ordered before the call that
        // queues a marker cannot see the epoch after that marker. A thread that takes a parked
        // slot sees that it is parked, because it was parked before it was queued.
        self.now.store(ledger.now().get(), Ordering::Relaxed);
        self.parked.store(ledger.parked() as u64, Ordering::Relaxed);
    }
}

impl<T> ReadyQueue<T> {
    /// Sets whether applied versions are tracked.
    pub(crate) fn track(&mut self, tracks: bool) {
        let ways = 1 + usize::from(self.backlog.is_some());
        let ledger = tracks.then(|| Box::new(Ledger::new(ways)));
        self.positions = ledger.as_deref().map(Positions::new);
        self.head.lock().ledger = ledger;
    }

    /// Returns whether applied versions are tracked.
    #[inline]
    pub(crate) fn is_tracked(&self) -> bool {
        self.positions.is_some()
    }

    /// Returns the open epoch, or `None` if versions are not tracked. Later offers do not belong to
    /// an older epoch.
    #[inline]
    pub(crate) fn now(&self) -> Option<Epoch> {
        let positions = self.positions.as_ref()?;
        // Relaxed: see `Positions::note`.
        Epoch::new(positions.now.load(Ordering::Relaxed))
    }

    /// Runs a change of the ledger under the head's lock. Returns `None` if versions are not
    /// tracked.
    fn with_ledger<R>(&self, change: impl FnOnce(&mut Ledger) -> R) -> Option<R> {
        self.positions.as_ref()?;
        let mut head = self.head.lock();
        head.ledger.as_deref_mut().map(change)
    }

    /// Runs a change of the ledger like [`with_ledger`](Self::with_ledger), and then updates
    /// `positions`.
    fn with_ledger_and_note<R>(&self, change: impl FnOnce(&mut Ledger) -> R) -> Option<R> {
        let positions = self.positions.as_ref()?;
        self.with_ledger(|ledger| {
            let result = change(ledger);
            positions.note(ledger);
            result
        })
    }

    /// Queues a marker for the version `point` after all earlier offers. Returns the version that
    /// is complete because of it, if any.
    pub(crate) fn mark(&self, point: Point) -> Option<Point> {
        let positions = self.positions.as_ref()?;
        let mut head = self.head.lock();
        let QueueHead { run, backlog, ledger, .. } = &mut *head;
        let ledger = ledger.as_mut()?;
        ledger.mark(point);
        self.tail.push(QueueEntry::marker());
        advance(&self.tail, run, || ledger.pass(Lane::Live as usize));
        if let Some(tail) = &self.backlog {
            tail.push(QueueEntry::marker());
            advance(tail, backlog, || ledger.pass(Lane::Backlog as usize));
        }
        positions.note(ledger);
        ledger.complete()
    }

    /// Adds a hold on the open epoch, and returns that epoch; `None` if versions are not tracked.
    pub(crate) fn hold(&self) -> Option<Epoch> {
        self.with_ledger(|ledger| {
            let now = ledger.now();
            ledger.hold(Some(now))
        })
    }

    /// Removes a hold. Returns the version that is complete because of it, if any.
    pub(crate) fn release(&self, held: Epoch) -> Option<Point> {
        self.with_ledger(|ledger| {
            ledger.release(held);
            ledger.complete()
        })?
    }

    /// Parks a slot that is about to be queued: adds a hold for it on epoch `since`, or on the
    /// oldest one if `since` is `None`. The caller has a hold that is at least as old.
    pub(crate) fn park(&self, slot: &QueuedSlot<T>, since: Option<Epoch>) {
        self.with_ledger_and_note(|ledger| ledger.park(slot.address(), since));
    }

    /// Removes and returns the hold of a slot, or returns `None` if the slot is not parked.
    pub(crate) fn unpark(&self, slot: &QueuedSlot<T>) -> Option<Epoch> {
        // Relaxed: see `Positions::note`.
        if self.positions.as_ref()?.parked.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.with_ledger_and_note(|ledger| ledger.unpark(slot.address()))?
    }

    /// Appends a run of slots that were pushed while the caller had a hold on `since`. Returns
    /// the run as the error if a marker was queued since then; the caller must then park the slots
    /// and queue them.
    pub(crate) fn push_run_since(
        &self,
        lane: Lane,
        run: Vec<Ticket<T>>,
        since: Option<Epoch>,
    ) -> Result<(), Vec<Ticket<T>>> {
        if self.positions.is_some() {
            // The head is locked so that no marker can come between the check and the push.
            let head = self.head.lock();
            if head.ledger.as_ref().map(|ledger| ledger.now()) != since {
                mutant!(LateRunIsNotParked => return Ok(self.push_run(lane, run)));
                return Err(run);
            }
            self.push_run(lane, run);
            drop(head);
            return Ok(());
        }
        self.push_run(lane, run);
        Ok(())
    }

    /// Takes a slot from its entry in the backlog, or returns `None` if it does not wait there. Its
    /// deltas may belong to any epoch, so the slot is parked with the oldest epoch.
    #[inline(never)] // Queues without lanes do not pay for the code of it.
    pub(super) fn pass(&self, slot: &Slot<T>) -> Option<QueuedSlot<T>> {
        let Some(positions) = &self.positions else { return slot.pass() };
        let mut head = self.head.lock();
        // Under the head's lock, so that a consumer reaches the stale entry only after the slot
        // is parked.
        let passed = slot.pass()?;
        mutant!(PassedIsNotParked => return Some(passed));
        if let Some(ledger) = &mut head.ledger {
            ledger.park(passed.address(), None);
            positions.note(ledger);
        }
        Some(passed)
    }

    /// Pops the next slot with the epoch of its place, on which the caller now has a hold.
    pub(crate) fn try_pop_tracked(&self) -> Option<(Ticket<T>, Epoch)> {
        let head = &mut *self.head.lock();
        let ticket = self.pop_next(head)?;
        let lane = Lane::of(&ticket);
        let ledger = head.ledger.as_mut()?;
        let epoch = ledger.hold(Some(ledger.head(lane as usize)));
        self.advance_head(head, lane);
        Some((ticket, epoch))
    }

    /// Pops up to `max` slots in order. Takes one hold for each [`Stretch`] of them.
    #[inline(never)]
    pub(super) fn try_pop_batch_tracked(
        &self,
        head: &mut QueueHead<T>,
        max: usize,
    ) -> (VecDeque<Ticket<T>>, Vec<Stretch>) {
        let (mut slots, mut stretches) = (VecDeque::new(), Vec::<Stretch>::new());
        while slots.len() < max
            && let Some(ticket) = self.pop_next(head)
        {
            let lane = Lane::of(&ticket);
            slots.push_back(ticket);
            let Some(ledger) = &mut head.ledger else { continue };
            let epoch = ledger.head(lane as usize);
            match stretches.last_mut().filter(|stretch| stretch.epoch == epoch) {
                Some(stretch) => stretch.slots += 1,
                None => stretches.push(Stretch { epoch: ledger.hold(Some(epoch)), slots: 1 }),
            }
            self.advance_head(head, lane);
        }
        (slots, stretches)
    }

    /// Removes the markers that are at the front of a lane after a pop. This completes no epoch,
    /// because the popped entry has a hold.
    fn advance_head(&self, head: &mut QueueHead<T>, lane: Lane) {
        let Some(ledger) = &mut head.ledger else { return };
        match &self.backlog {
            Some(backlog) if lane == Lane::Backlog => {
                advance(backlog, &mut head.backlog, || ledger.pass(Lane::Backlog as usize));
            }
            _ => advance(&self.tail, &mut head.run, || ledger.pass(Lane::Live as usize)),
        }
    }
}

/// Moves the next slots of a lane into `run`, if `run` is empty. Removes the markers before them,
/// and calls `pass` for each marker.
fn advance<T>(
    tail: &SegQueue<QueueEntry<T>>,
    run: &mut VecDeque<Ticket<T>>,
    mut pass: impl FnMut(),
) {
    while run.is_empty() {
        free_drained(run);
        match tail.pop() {
            None => return,
            Some(QueueEntry::One(slot)) => run.push_back(slot),
            Some(QueueEntry::Run(next)) if next.is_empty() => pass(),
            Some(QueueEntry::Run(next)) => *run = next.into(),
        }
    }
}
