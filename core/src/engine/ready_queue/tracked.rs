//! The queue's part in tracking what is applied: markers among the entries, and holds for what is on its way.
//!
//! A slot's place says of which epoch it is (`ledger.rs`), with these exceptions, all of which are parked or held:
//!
//! | what is offered, and not in the queue before the marker | kept by |
//! | --- | --- |
//! | taken out, or in a batch | a hold of the epoch of its place, made with the head locked |
//! | pushed over a handler, or put back; queued again behind markers | parked by its handler's end, which has a hold until then |
//! | pushed and not queued yet: a relist's page, a sweep | a hold since before the push; parked if a marker came before it |
//! | pushed on such a slot by somebody else | the same |
//! | pushed on a slot that another offer has pushed and not queued yet | whoever does so waits for that (`fifo/join.rs`) |
//! | gone past the backlog, on the other way | parked as of the oldest epoch there is |
//! | given back by a batch | parked by the batch, which has a hold until then |
//!
//! All of it happens with the head locked, so a marker is before it or after it. The shard's lock may be held meanwhile,
//! never the other way.

use std::collections::VecDeque;

use super::{Entry, Head, Lane, ReadyQueue};
use crate::engine::ledger::{Epoch, Ledger};
use crate::engine::slot::{QueuedSlot, Slot, Ticket};
use crate::engine::sync::{AtomicU64, Ordering, SegQueue, mutant};
use crate::store::applied::Point;

/// Slots of a batch that follow each other and are of one epoch, on which they have one hold.
pub(crate) struct Stretch {
    pub(crate) epoch: Epoch,
    pub(crate) slots: usize,
}

/// What the ledger says, for those who do not lock the head. Written with the head locked.
pub(super) struct Positions {
    /// The number of the open epoch.
    now: AtomicU64,
    /// How many slots are parked.
    parked: AtomicU64,
}

impl Positions {
    fn new(ledger: &Ledger) -> Self {
        let positions = Self { now: AtomicU64::new(0), parked: AtomicU64::new(0) };
        positions.note(ledger);
        positions
    }

    fn note(&self, ledger: &Ledger) {
        // Relaxed, here and in the loads. Who offers before a marker's call, in any order there is, cannot see the epoch
        // after it. Who takes a slot that was parked sees that, since it was parked before it was queued.
        self.now.store(ledger.now().get(), Ordering::Relaxed);
        self.parked.store(ledger.parked() as u64, Ordering::Relaxed);
    }
}

impl<T> ReadyQueue<T> {
    /// Whether to track what is applied.
    pub(crate) fn track(&mut self, tracks: bool) {
        let ways = 1 + usize::from(self.backlog.is_some());
        let ledger = tracks.then(|| Box::new(Ledger::new(ways)));
        self.positions = ledger.as_deref().map(Positions::new);
        self.head.lock().ledger = ledger;
    }

    /// Whether it is tracked what is applied.
    #[inline]
    pub(crate) fn is_tracked(&self) -> bool {
        self.positions.is_some()
    }

    /// The open epoch: what is offered from now on is not of an older one. None: that is not tracked.
    #[inline]
    pub(crate) fn now(&self) -> Option<Epoch> {
        let positions = self.positions.as_ref()?;
        // Relaxed: see `Positions::note`.
        Epoch::new(positions.now.load(Ordering::Relaxed))
    }

    /// One change of the ledger.
    fn with_ledger<R>(&self, change: impl FnOnce(&mut Ledger) -> R) -> Option<R> {
        self.positions.as_ref()?;
        let mut head = self.head.lock();
        head.ledger.as_deref_mut().map(change)
    }

    /// The same for one that changes what stands in `positions`.
    fn with_ledger_and_note<R>(&self, change: impl FnOnce(&mut Ledger) -> R) -> Option<R> {
        let positions = self.positions.as_ref()?;
        self.with_ledger(|ledger| {
            let result = change(ledger);
            positions.note(ledger);
            result
        })
    }

    /// Queues a marker: everything offered before this call is before it. What is complete by that, if anything.
    pub(crate) fn mark(&self, point: Point) -> Option<Point> {
        let positions = self.positions.as_ref()?;
        let mut head = self.head.lock();
        let Head { run, backlog, ledger, .. } = &mut *head;
        let ledger = ledger.as_mut()?;
        ledger.mark(point);
        self.tail.push(Entry::marker());
        advance(&self.tail, run, || ledger.pass(Lane::Live as usize));
        if let Some(tail) = &self.backlog {
            tail.push(Entry::marker());
            advance(tail, backlog, || ledger.pass(Lane::Backlog as usize));
        }
        positions.note(ledger);
        ledger.complete()
    }

    /// A hold on the open epoch.
    pub(crate) fn hold(&self) -> Option<Epoch> {
        self.with_ledger(|ledger| {
            let now = ledger.now();
            ledger.hold(Some(now))
        })
    }

    /// Gives a hold up. What is complete by that, if anything.
    pub(crate) fn release(&self, held: Epoch) -> Option<Point> {
        self.with_ledger(|ledger| {
            ledger.release(held);
            ledger.complete()
        })?
    }

    /// Holds a slot that is about to be queued, since an epoch, or since the oldest. The caller has a hold that is as old.
    pub(crate) fn park(&self, slot: &QueuedSlot<T>, since: Option<Epoch>) {
        self.with_ledger_and_note(|ledger| ledger.park(slot.address(), since));
    }

    /// The hold of a slot that was parked.
    pub(crate) fn unpark(&self, slot: &QueuedSlot<T>) -> Option<Epoch> {
        // Relaxed: see `Positions::note`.
        if self.positions.as_ref()?.parked.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.with_ledger_and_note(|ledger| ledger.unpark(slot.address()))?
    }

    /// Appends a run of slots that were pushed since the caller has a hold on `since`. They come back when a marker was
    /// queued after that: the caller parks them, and queues them then.
    pub(crate) fn push_run_since(
        &self,
        lane: Lane,
        run: Vec<Ticket<T>>,
        since: Option<Epoch>,
    ) -> Result<(), Vec<Ticket<T>>> {
        if self.positions.is_some() {
            // Locked, so that no marker comes between the look and the push.
            let head = self.head.lock();
            if head.ledger.as_ref().map(|ledger| ledger.now()) != since {
                mutant!(LateRunIsNotParked => {
                    self.push_run(lane, run);
                    return Ok(());
                });
                return Err(run);
            }
            self.push_run(lane, run);
            drop(head);
            return Ok(());
        }
        self.push_run(lane, run);
        Ok(())
    }

    /// Takes a slot away from its entry in the backlog. It may be of any epoch.
    #[inline(never)] // Queues without lanes do not pay for the code of it.
    pub(super) fn pass(&self, slot: &Slot<T>) -> Option<QueuedSlot<T>> {
        let Some(positions) = &self.positions else { return slot.pass() };
        let mut head = self.head.lock();
        // With the head locked: who comes to the entry that is stale by this, comes after it.
        let passed = slot.pass()?;
        mutant!(PassedIsNotParked => return Some(passed));
        if let Some(ledger) = &mut head.ledger {
            ledger.park(passed.address(), None);
            positions.note(ledger);
        }
        Some(passed)
    }

    /// The next slot, with the epoch of its place, on which the caller has a hold now.
    pub(crate) fn try_pop_tracked(&self) -> Option<(Ticket<T>, Epoch)> {
        let head = &mut *self.head.lock();
        let ticket = self.next(head)?;
        let lane = Lane::of(&ticket);
        let ledger = head.ledger.as_mut()?;
        let epoch = ledger.hold(Some(ledger.head(lane as usize)));
        self.advance_head(head, lane);
        Some((ticket, epoch))
    }

    /// Slots in order, with a hold for each stretch of them.
    #[inline(never)]
    pub(super) fn try_pop_batch_tracked(&self, head: &mut Head<T>, max: usize) -> (VecDeque<Ticket<T>>, Vec<Stretch>) {
        let (mut slots, mut stretches) = (VecDeque::new(), Vec::<Stretch>::new());
        while slots.len() < max
            && let Some(ticket) = self.next(head)
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

    /// After something was taken of a way: the markers that stand at its front now go too. Nothing is complete by that,
    /// since what was taken is held.
    fn advance_head(&self, head: &mut Head<T>, lane: Lane) {
        let Some(ledger) = &mut head.ledger else { return };
        match &self.backlog {
            Some(backlog) if lane == Lane::Backlog => {
                advance(backlog, &mut head.backlog, || ledger.pass(Lane::Backlog as usize));
            }
            _ => advance(&self.tail, &mut head.run, || ledger.pass(Lane::Live as usize)),
        }
    }
}

/// Brings what is next of one way into `run`, past the markers before it.
fn advance<T>(tail: &SegQueue<Entry<T>>, run: &mut VecDeque<Ticket<T>>, mut pass: impl FnMut()) {
    while run.is_empty() {
        match tail.pop() {
            None => return,
            Some(Entry::One(slot)) => run.push_back(slot),
            Some(Entry::Run(next)) if next.is_empty() => pass(),
            Some(Entry::Run(next)) => *run = next.into(),
        }
    }
}
