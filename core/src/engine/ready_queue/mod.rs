//! The order of keys: a queue of pending slots, shared by producers and consumers.
//!
//! Producers append to a `SegQueue` without a lock: one slot, or a *run* of slots from a relist. Consumers share a
//! *head*: one short mutex over the run in progress and the queue's end, under which a batch takes many. The queue is
//! popped only under that mutex: a run popped first and published after would let a second consumer see later entries
//! earlier, or see "empty" and sleep for ever.
//!
//! With a lane for live events there are two such queues, and the head takes from the one or the other: what is live
//! first, but of eight turns at least one from the backlog of relists, if it has any. A key that waits in the backlog and
//! gets a live event is queued once more, on the live lane; who comes to its old entry finds it stale (`slot/lane.rs`) and
//! goes on.
//!
//! A queue that tracks what is applied has markers among its entries (`tracked.rs`). None ever stands at the front of
//! the head: it is taken out with what stood before it.
//!
//! Sleeping (`wait.rs`): a producer queues, then notifies, after every lock is released. `additional` notifications,
//! because a plain one does nothing while an earlier one has not yet run.

mod tracked;

use std::collections::VecDeque;
use std::time::Instant;

use crossbeam::utils::CachePadded;

use crate::engine::ledger::Ledger;
use crate::engine::slot::{Pending, Pushed, QueuedSlot, Slot, Ticket};
use crate::engine::sync::{AtomicBool, Event, IntoNotification, Mutex, Ordering, SegQueue, mutant};
use crate::engine::wait::{wait, wait_async, wait_deadline};
use crate::error::{Closed, PopError};
use tracked::Positions;
pub(crate) use tracked::Stretch;

/// Which way a key goes to the consumers, in a queue with a lane for live events. In any other there is one way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Past what waits in the backlog: offers, and what a handler's end puts back.
    Live,
    /// What a relist or a resync brings.
    Backlog,
}

impl Lane {
    /// Of a place in the queue.
    pub(crate) fn of<T>(ticket: &Ticket<T>) -> Self {
        match ticket {
            Ticket::Queued(_) => Self::Live,
            Ticket::Backlog(_) => Self::Backlog,
        }
    }
}

/// Of so many turns in a row one is the backlog's, however much is live.
const TURNS: usize = 8;

enum Entry<T> {
    One(Ticket<T>),
    /// An empty one is a marker: what was offered before it stands before it, or is held in the ledger. (As a variant of its
    /// own it would cost every pop some instructions, also where there are none.)
    Run(Vec<Ticket<T>>),
}

impl<T> Entry<T> {
    fn marker() -> Self {
        Self::Run(Vec::new())
    }
}

pub(crate) struct ReadyQueue<T> {
    tail: SegQueue<Entry<T>>,
    /// The other way, if there are two.
    backlog: Option<SegQueue<Entry<T>>>,
    head: CachePadded<Mutex<Head<T>>>,
    /// Only in a queue that tracks what is applied.
    positions: Option<Positions>,
    closed: AtomicBool,
    ready: Event,
}

/// What the consumers share.
struct Head<T> {
    /// The run in progress, and what was given back.
    run: VecDeque<Ticket<T>>,
    /// The run in progress of the backlog.
    backlog: VecDeque<Ticket<T>>,
    /// Turns since the backlog had one.
    turns: usize,
    /// What is out of the queue and not handled. Only in a queue that tracks what is applied.
    ledger: Option<Box<Ledger>>,
}

impl<T> ReadyQueue<T> {
    pub(crate) fn new() -> Self {
        let head = Head { run: VecDeque::new(), backlog: VecDeque::new(), turns: 0, ledger: None };
        Self {
            tail: SegQueue::new(),
            backlog: None,
            head: CachePadded::new(Mutex::new(head)),
            positions: None,
            closed: AtomicBool::new(false),
            ready: Event::new(),
        }
    }

    /// Whether live events have a lane of their own.
    pub(crate) fn set_lane(&mut self, live: bool) {
        self.backlog = live.then(SegQueue::new);
        // One that is tracked has another way now, or one less.
        self.track(self.positions.is_some());
    }

    /// Which way a delta goes.
    #[inline]
    pub(crate) fn lane_of(&self, pending: &Pending<T>) -> Lane {
        if self.backlog.is_none() || pending.is_live() { Lane::Live } else { Lane::Backlog }
    }

    /// The place in the queue of a slot after a push, if it is to have a new one: to be pushed on the same lane. With the
    /// shard's lock held since before the push.
    #[inline]
    pub(crate) fn ticket(&self, lane: Lane, slot: &Slot<T>, pushed: Pushed<T>) -> Option<Ticket<T>> {
        match pushed {
            Pushed::Queue(slot) => self.ticket_of(lane, slot),
            Pushed::Joined if self.backlog.is_some() && lane == Lane::Live => self.pass(slot).map(Ticket::Queued),
            Pushed::Joined | Pushed::Skipped(_) => None,
        }
    }

    /// Queues a slot after a push, if it is to have a new place; how many consumers to wake for it. As for
    /// [`ticket`](Self::ticket).
    #[allow(clippy::inline_always)] // Every offer goes through it.
    #[inline(always)]
    pub(crate) fn enter(&self, lane: Lane, slot: &Slot<T>, pushed: Pushed<T>) -> usize {
        mutant!(PassWakesNobody => if let Pushed::Joined = pushed {
            self.ticket(lane, slot, pushed).into_iter().for_each(|ticket| self.push(lane, ticket));
            return 0;
        });
        let Some(ticket) = self.ticket(lane, slot, pushed) else { return 0 };
        self.push(lane, ticket);
        1
    }

    /// The place of a slot that is not in the queue yet. None: an old place of its own is its place again.
    #[inline]
    pub(crate) fn ticket_of(&self, lane: Lane, slot: QueuedSlot<T>) -> Option<Ticket<T>> {
        if self.backlog.is_some() && lane == Lane::Backlog { slot.into_backlog() } else { Some(Ticket::Queued(slot)) }
    }

    fn tail(&self, lane: Lane) -> &SegQueue<Entry<T>> {
        match (&self.backlog, lane) {
            (Some(backlog), Lane::Backlog) => backlog,
            _ => &self.tail,
        }
    }

    /// Appends one slot. The caller wakes after its locks are released.
    pub(crate) fn push(&self, lane: Lane, slot: Ticket<T>) {
        self.tail(lane).push(Entry::One(slot));
    }

    /// Appends a run of slots.
    pub(crate) fn push_run(&self, lane: Lane, run: Vec<Ticket<T>>) {
        if !run.is_empty() {
            self.tail(lane).push(Entry::Run(run));
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

    /// Puts slots that were taken out, oldest first, back at the front of where they came from; how many. The caller wakes.
    pub(crate) fn give_back(&self, slots: VecDeque<Ticket<T>>) -> usize {
        let given = slots.len();
        // Most batches are handled to their end, and leave the head alone.
        if given > 0 {
            let mut head = self.head.lock();
            for slot in slots.into_iter().rev() {
                let run = if Lane::of(&slot) == Lane::Backlog { &mut head.backlog } else { &mut head.run };
                mutant!(GivenBackBehind => run.push_back(slot); run.push_front(slot));
            }
        }
        given
    }

    /// The next slot. Not in a queue that tracks what is applied, where it needs a hold.
    pub(crate) fn try_pop(&self) -> Option<Ticket<T>> {
        mutant!(RunPublishedLate => return self.try_pop_and_publish());
        self.next(&mut self.head.lock())
    }

    /// The next slot, for who drops the queue.
    pub(crate) fn pop_unhandled(&self) -> Option<Ticket<T>> {
        if self.is_tracked() { self.try_pop_tracked().map(|(ticket, _)| ticket) } else { self.try_pop() }
    }

    /// The next slot of either way.
    #[inline]
    fn next(&self, head: &mut Head<T>) -> Option<Ticket<T>> {
        match &self.backlog {
            None => next(&self.tail, &mut head.run),
            Some(backlog) => self.next_by_turns(backlog, head),
        }
    }

    /// Takes up to `max` slots, in order; where that is tracked, with the stretches that they are of. Never waits.
    pub(crate) fn try_pop_batch(&self, max: usize) -> (VecDeque<Ticket<T>>, Vec<Stretch>) {
        let mut head = self.head.lock();
        if head.ledger.is_some() {
            return self.try_pop_batch_tracked(&mut head, max);
        }
        (self.pop_batch(&mut head, max), Vec::new())
    }

    fn pop_batch(&self, head: &mut Head<T>, max: usize) -> VecDeque<Ticket<T>> {
        let mut batch = VecDeque::new();
        if let Some(backlog) = &self.backlog {
            batch.extend(std::iter::from_fn(|| self.next_by_turns(backlog, head)).take(max));
            return batch;
        }
        let run = &mut head.run;
        while batch.len() < max {
            if run.is_empty() {
                match self.tail.pop() {
                    None => break,
                    Some(Entry::One(slot)) => batch.push_back(slot),
                    Some(Entry::Run(next)) => {
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

    /// What is live, and when its turn has come the backlog.
    fn next_by_turns(&self, backlog: &SegQueue<Entry<T>>, head: &mut Head<T>) -> Option<Ticket<T>> {
        head.turns += 1;
        if head.turns < TURNS
            && let Some(slot) = next(&self.tail, &mut head.run)
        {
            return Some(slot);
        }
        head.turns = 0;
        next(backlog, &mut head.backlog).or_else(|| next(&self.tail, &mut head.run))
    }

    /// The backlog's turn brought an entry that was stale: the next turn is the backlog's again.
    pub(crate) fn repeat_turn(&self) {
        self.head.lock().turns = TURNS;
    }

    /// Repeats `attempt` until it brings something, or the queue is closed and it does not.
    pub(crate) fn wait<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> Result<R, Closed> {
        wait(&self.ready, || self.attempt_or_closed(&mut attempt))
    }

    /// The same until a time at most.
    pub(crate) fn wait_deadline<R>(
        &self,
        deadline: Instant,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> Result<R, PopError> {
        let found = wait_deadline(&self.ready, Some(deadline), || self.attempt_or_closed(&mut attempt));
        Ok(found.ok_or(PopError::TimedOut)??)
    }

    /// The same as [`wait`](Self::wait) for async callers.
    pub(crate) async fn wait_async<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> Result<R, Closed> {
        wait_async(&self.ready, || self.attempt_or_closed(&mut attempt)).await
    }

    /// Closed is looked at before the queue: what was queued before the close is still found.
    fn attempt_or_closed<R>(&self, attempt: &mut impl FnMut() -> Option<R>) -> Option<Result<R, Closed>> {
        mutant!(ClosedIsLookedAtLast => return attempt().map(Ok).or_else(|| self.is_closed().then_some(Err(Closed))));
        let closed = self.is_closed();
        attempt().map(Ok).or_else(|| closed.then_some(Err(Closed)))
    }

    pub(crate) fn close(&self) {
        // Release, paired with `is_closed`; sleepers are woken after, and look again.
        let order = mutant!(ClosedHandsNothingOn => Ordering::Relaxed; Ordering::Release);
        self.closed.store(true, order);
        mutant!(CloseWakesNobody => return);
        self.ready.notify(usize::MAX);
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire, paired with `close`.
        self.closed.load(Ordering::Acquire)
    }
}

/// The next slot of one way, whose run in progress is `run`.
#[inline]
fn next<T>(tail: &SegQueue<Entry<T>>, run: &mut VecDeque<Ticket<T>>) -> Option<Ticket<T>> {
    loop {
        if let Some(slot) = run.pop_front() {
            return Some(slot);
        }
        match tail.pop()? {
            Entry::One(slot) => return Some(slot),
            Entry::Run(next) => {
                debug_assert!(!next.is_empty(), "{NO_MARKER}");
                *run = next.into();
            }
        }
    }
}

/// See the module.
const NO_MARKER: &str = "a marker never stands at the front of the head";

/// What a mutant does instead (`sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{Entry, ReadyQueue, Ticket, VecDeque};

    impl<T> ReadyQueue<T> {
        /// `RunPublishedLate`: for a moment a run is nowhere.
        pub(super) fn try_pop_and_publish(&self) -> Option<Ticket<T>> {
            if let Some(slot) = self.head.lock().run.pop_front() {
                return Some(slot);
            }
            match self.tail.pop()? {
                Entry::One(slot) => Some(slot),
                Entry::Run(run) => {
                    let mut run = VecDeque::from(run);
                    let first = run.pop_front();
                    self.head.lock().run.append(&mut run);
                    first
                }
            }
        }
    }
}
