//! The order of keys: a queue of pending slots that producers and consumers share.
//!
//! Producers append to a `SegQueue` without a lock: one slot, or a *run* of slots from a relist.
//! Consumers share the *head*: a mutex, held briefly, over the run in progress and the pop end of
//! the queue. A batch takes many slots under one lock. The queue is popped only under that mutex.
//! If a consumer popped a run and published it as the head later, a second consumer could take
//! later entries earlier, or find the queue empty and sleep for ever.
//!
//! With a live lane there are two such queues, and consumers pop from either: live events first,
//! but at least one of eight pops is from the backlog of relists if that is not empty. A key that
//! waits in the backlog and gets a live event is queued again on the live lane. The consumer that
//! reaches its old entry finds it stale (`slot/lane.rs`) and skips it.
//!
//! A queue that tracks applied versions has markers among its entries (`tracked.rs`). A marker is
//! never at the front of the head: it is removed together with the entry before it.
//!
//! Sleeping (`wait.rs`): a producer queues first, and notifies after it has released every lock. It
//! uses `additional` notifications of event-listener, because a plain one does nothing while an
//! earlier notification has not been consumed.

mod tracked;

use std::collections::VecDeque;

use crossbeam::utils::CachePadded;

use crate::engine::ledger::Ledger;
use crate::engine::room::LEAST_ROOM;
use crate::engine::slot::{Pending, Pushed, QueuedSlot, Slot, Ticket};
use crate::engine::sync::{AtomicBool, Event, IntoNotification, Mutex, Ordering, SegQueue, mutant};
use crate::engine::wait::{wait, wait_async};
use crate::error::Closed;
use tracked::Positions;
pub(crate) use tracked::Stretch;

/// The lane on which a key reaches the consumers. A queue without a live lane has one lane only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The lane that passes the backlog. It is for the offers of a watch, and for keys that are
    /// queued again when their handler ends.
    Live,
    /// The lane of relists and resyncs.
    Backlog,
}

impl Lane {
    /// Returns the lane of a slot that has this ticket.
    pub(crate) fn of<T>(ticket: &Ticket<T>) -> Self {
        match ticket {
            Ticket::Queued(_) => Self::Live,
            Ticket::Backlog(_) => Self::Backlog,
        }
    }
}

/// The number of successive pops that include at least one from the backlog, if it is not empty,
/// however many live events wait.
const BACKLOG_PERIOD: usize = 8;

enum QueueEntry<T> {
    One(Ticket<T>),
    /// A run of slots. An empty run is a marker: every offer that was made before the marker is in
    /// front of it, or has a hold in the ledger. (A variant of its own would cost every pop some
    /// instructions, even in queues without markers.)
    Run(Vec<Ticket<T>>),
}

impl<T> QueueEntry<T> {
    fn marker() -> Self {
        Self::Run(Vec::new())
    }
}

pub(crate) struct ReadyQueue<T> {
    tail: SegQueue<QueueEntry<T>>,
    /// The queue of the backlog, if there is a live lane.
    backlog: Option<SegQueue<QueueEntry<T>>>,
    head: CachePadded<Mutex<QueueHead<T>>>,
    /// The number of the open epoch and the number of parked slots, copied from the ledger for
    /// threads that do not lock the head. Present only if applied versions are tracked.
    positions: Option<Positions>,
    closed: AtomicBool,
    ready: Event,
}

/// The state that consumers share.
struct QueueHead<T> {
    /// The run in progress of the live lane, or of the only lane, and the slots of that lane that
    /// were given back.
    run: VecDeque<Ticket<T>>,
    /// The run in progress of the backlog, and the slots of the backlog that were given back.
    backlog: VecDeque<Ticket<T>>,
    /// The number of pops since the last one from the backlog.
    pops_since_backlog: usize,
    /// The ledger of the offers that are outside the queue and not handled. Present only if applied
    /// versions are tracked.
    ledger: Option<Box<Ledger>>,
}

impl<T> ReadyQueue<T> {
    pub(crate) fn new() -> Self {
        let head = QueueHead {
            run: VecDeque::new(),
            backlog: VecDeque::new(),
            pops_since_backlog: 0,
            ledger: None,
        };
        Self {
            tail: SegQueue::new(),
            backlog: None,
            head: CachePadded::new(Mutex::new(head)),
            positions: None,
            closed: AtomicBool::new(false),
            ready: Event::new(),
        }
    }

    /// Sets whether live events have a lane of their own.
    pub(crate) fn set_lane(&mut self, live: bool) {
        self.backlog = live.then(SegQueue::new);
        // The ledger must know the new number of lanes.
        self.track(self.positions.is_some());
    }

    /// Returns the lane of a delta.
    #[inline]
    pub(crate) fn lane_of(&self, pending: &Pending<T>) -> Lane {
        if self.backlog.is_none() || pending.is_live() { Lane::Live } else { Lane::Backlog }
    }

    /// Returns a new ticket for the slot after a push, or `None` if the slot needs no new entry in
    /// the queue. The caller appends the ticket to `lane`. The caller has held the shard's lock
    /// since before the push.
    #[inline]
    pub(crate) fn ticket(
        &self,
        lane: Lane,
        slot: &Slot<T>,
        pushed: Pushed<T>,
    ) -> Option<Ticket<T>> {
        match pushed {
            Pushed::Queue(slot) => self.ticket_of(lane, slot),
            Pushed::Joined if self.backlog.is_some() && lane == Lane::Live => {
                self.pass(slot).map(Ticket::Queued)
            }
            Pushed::Joined | Pushed::Skipped(_) => None,
        }
    }

    /// Queues a slot after a push, if it needs a new entry. Returns how many consumers to wake.
    /// The caller has held the shard's lock since before the push.
    #[allow(clippy::inline_always)] // Every offer goes through it.
    #[inline(always)]
    pub(crate) fn enter(&self, lane: Lane, slot: &Slot<T>, pushed: Pushed<T>) -> usize {
        mutant!(PassWakesNoConsumer => return self.enter_silently(lane, slot, pushed));
        let Some(ticket) = self.ticket(lane, slot, pushed) else { return 0 };
        self.push(lane, ticket);
        1
    }

    /// Returns a new ticket for a slot that has no valid entry; the caller appends the ticket to
    /// `lane`. Returns `None` if the slot has a stale entry in the backlog and `lane` is the
    /// backlog: that entry becomes valid again.
    #[inline]
    pub(crate) fn ticket_of(&self, lane: Lane, slot: QueuedSlot<T>) -> Option<Ticket<T>> {
        if self.backlog.is_some() && lane == Lane::Backlog {
            slot.into_backlog()
        } else {
            Some(Ticket::Queued(slot))
        }
    }

    fn tail(&self, lane: Lane) -> &SegQueue<QueueEntry<T>> {
        match (&self.backlog, lane) {
            (Some(backlog), Lane::Backlog) => backlog,
            _ => &self.tail,
        }
    }

    /// Appends one slot. The caller wakes a consumer after it has released its locks.
    pub(crate) fn push(&self, lane: Lane, slot: Ticket<T>) {
        self.tail(lane).push(QueueEntry::One(slot));
    }

    /// Appends a run of slots. The caller wakes consumers after it has released its locks.
    pub(crate) fn push_run(&self, lane: Lane, run: Vec<Ticket<T>>) {
        if !run.is_empty() {
            self.tail(lane).push(QueueEntry::Run(run));
        }
    }

    /// Wakes up to `slots` sleeping consumers.
    #[inline]
    pub(crate) fn wake(&self, slots: usize) {
        if slots > 0 {
            mutant!(PlainNotify => return self.ready.notify(slots));
            self.ready.notify(slots.additional());
        }
    }

    /// Puts slots that were popped, oldest first, back to the front of their lane. Returns their
    /// number; the caller wakes consumers.
    pub(crate) fn give_back(&self, slots: VecDeque<Ticket<T>>) -> usize {
        let given = slots.len();
        // Most batches are handled completely and need no lock here.
        if given > 0 {
            let mut head = self.head.lock();
            for slot in slots.into_iter().rev() {
                let run = if Lane::of(&slot) == Lane::Backlog {
                    &mut head.backlog
                } else {
                    &mut head.run
                };
                run.push_front(slot);
                mutant!(GivenBackBehind => run.rotate_left(1));
            }
        }
        given
    }

    /// Pops the next slot. Not for queues that track applied versions, where the caller needs a
    /// hold.
    #[inline]
    pub(crate) fn try_pop(&self) -> Option<Ticket<T>> {
        mutant!(RunPublishedLate => return self.try_pop_and_publish());
        self.pop_next(&mut self.head.lock())
    }

    /// Pops the next slot, for the drop of the queue.
    pub(crate) fn pop_unhandled(&self) -> Option<Ticket<T>> {
        if self.is_tracked() {
            self.try_pop_tracked().map(|(ticket, _)| ticket)
        } else {
            self.try_pop()
        }
    }

    /// Pops the next slot of either lane.
    #[inline]
    fn pop_next(&self, head: &mut QueueHead<T>) -> Option<Ticket<T>> {
        match &self.backlog {
            None => pop_next(&self.tail, &mut head.run),
            Some(backlog) => self.pop_lanes(backlog, head),
        }
    }

    /// Pops up to `max` slots, in order, with their [`Stretch`]es if applied versions are tracked.
    /// Never waits.
    pub(crate) fn try_pop_batch(&self, max: usize) -> (VecDeque<Ticket<T>>, Vec<Stretch>) {
        let mut head = self.head.lock();
        if head.ledger.is_some() {
            return self.try_pop_batch_tracked(&mut head, max);
        }
        (self.pop_batch(&mut head, max), Vec::new())
    }

    fn pop_batch(&self, head: &mut QueueHead<T>, max: usize) -> VecDeque<Ticket<T>> {
        let mut batch = VecDeque::new();
        if let Some(backlog) = &self.backlog {
            batch.extend(std::iter::from_fn(|| self.pop_lanes(backlog, head)).take(max));
            return batch;
        }
        let run = &mut head.run;
        while batch.len() < max {
            if run.is_empty() {
                free_drained(run);
                match self.tail.pop() {
                    None => break,
                    Some(QueueEntry::One(slot)) => batch.push_back(slot),
                    Some(QueueEntry::Run(next)) => {
                        debug_assert!(!next.is_empty(), "{NO_MARKER}");
                        *run = next.into();
                    }
                }
            } else if batch.is_empty() && run.len() <= max {
                batch = std::mem::take(run);
            } else {
                let count = run.len().min(max - batch.len());
                batch.extend(run.drain(..count));
            }
        }
        batch
    }

    /// Pops a live slot, or a slot of the backlog if no live slot waits or none of the last seven
    /// pops took from the backlog.
    fn pop_lanes(
        &self,
        backlog: &SegQueue<QueueEntry<T>>,
        head: &mut QueueHead<T>,
    ) -> Option<Ticket<T>> {
        head.pops_since_backlog += 1;
        if head.pops_since_backlog < BACKLOG_PERIOD
            && let Some(slot) = pop_next(&self.tail, &mut head.run)
        {
            return Some(slot);
        }
        head.pops_since_backlog = 0;
        pop_next(backlog, &mut head.backlog).or_else(|| pop_next(&self.tail, &mut head.run))
    }

    /// Makes the next pop take from the backlog first, because the last pop from it found a stale
    /// entry.
    pub(crate) fn repeat_backlog_pop(&self) {
        self.head.lock().pops_since_backlog = BACKLOG_PERIOD;
    }

    /// Blocks until `attempt` returns a value. Returns [`Closed`] if the queue is closed and the
    /// attempt after that fails.
    pub(crate) fn wait<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> Result<R, Closed> {
        wait(&self.ready, || self.attempt_or_closed(&mut attempt))
    }

    /// Waits like [`wait`](Self::wait), for async callers.
    pub(crate) async fn wait_async<R>(
        &self,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> Result<R, Closed> {
        wait_async(&self.ready, || self.attempt_or_closed(&mut attempt)).await
    }

    /// Makes an attempt. Returns `None` if it fails and the queue is not closed. `closed` is read
    /// first, so that the attempt finds everything that was queued before the close.
    fn attempt_or_closed<R>(
        &self,
        attempt: &mut impl FnMut() -> Option<R>,
    ) -> Option<Result<R, Closed>> {
        mutant!(ClosedIsReadLast => return attempt().map(Ok).or_else(|| self.is_closed().then_some(Err(Closed))));
        let closed = self.is_closed();
        attempt().map(Ok).or_else(|| closed.then_some(Err(Closed)))
    }

    /// Returns the capacity of the larger run in progress, in slots.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        let head = self.head.lock();
        head.run.capacity().max(head.backlog.capacity())
    }

    pub(crate) fn close(&self) {
        // Release, paired with `is_closed`. Sleeping consumers are woken after the store and
        // check again.
        let order = Ordering::Release;
        mutant!(ClosedPassesNothingOn => let order = Ordering::Relaxed);
        self.closed.store(true, order);
        mutant!(CloseWakesNoWaiter => return);
        self.ready.notify(usize::MAX);
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire, paired with `close`.
        self.closed.load(Ordering::Acquire)
    }
}

/// Pops the next slot of one lane, whose run in progress is `run`.
#[inline]
fn pop_next<T>(tail: &SegQueue<QueueEntry<T>>, run: &mut VecDeque<Ticket<T>>) -> Option<Ticket<T>> {
    loop {
        if let Some(slot) = run.pop_front() {
            return Some(slot);
        }
        free_drained(run);
        match tail.pop() {
            None => return None,
            Some(QueueEntry::One(slot)) => return Some(slot),
            Some(QueueEntry::Run(next)) => {
                debug_assert!(!next.is_empty(), "{NO_MARKER}");
                *run = next.into();
            }
        }
    }
}

/// Frees the memory of a run without slots, if it is large: many slots may have been given back.
#[inline]
fn free_drained<T>(run: &mut VecDeque<Ticket<T>>) {
    debug_assert!(run.is_empty(), "the run has slots");
    if run.capacity() > LEAST_ROOM {
        free(run);
    }
}

#[cold]
#[inline(never)]
fn free<T>(run: &mut VecDeque<Ticket<T>>) {
    *run = VecDeque::new();
}

/// The panic message for a broken invariant of the head (see the module docs).
const NO_MARKER: &str = "the front of the head is never a marker";

/// The code of deliberate defects (`sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{Lane, Pushed, QueueEntry, ReadyQueue, Slot, Ticket, VecDeque};

    impl<T> ReadyQueue<T> {
        /// Queues a slot after a push, with the defect `PassWakesNoConsumer`: the caller wakes no
        /// consumer for a slot that was taken out of the backlog.
        pub(super) fn enter_silently(
            &self,
            lane: Lane,
            slot: &Slot<T>,
            pushed: Pushed<T>,
        ) -> usize {
            let wakes = usize::from(!matches!(pushed, Pushed::Joined));
            let Some(ticket) = self.ticket(lane, slot, pushed) else { return 0 };
            self.push(lane, ticket);
            wakes
        }

        /// Pops the next slot, with the defect `RunPublishedLate`: for a moment no thread can find
        /// the rest of its run.
        pub(super) fn try_pop_and_publish(&self) -> Option<Ticket<T>> {
            if let Some(slot) = self.head.lock().run.pop_front() {
                return Some(slot);
            }
            match self.tail.pop()? {
                QueueEntry::One(slot) => Some(slot),
                QueueEntry::Run(run) => {
                    let mut run = VecDeque::from(run);
                    let first = run.pop_front();
                    self.head.lock().run.append(&mut run);
                    first
                }
            }
        }
    }
}
