//! The order of keys: a queue of pending slots, shared by producers and consumers.
//!
//! Producers append to a `SegQueue` without a lock: one slot, or a *run* of slots from a relist. Consumers share a
//! *head*: one short mutex over the run in progress and the queue's end, under which a batch takes many. The queue is
//! popped only under that mutex: a run popped first and published after would let a second consumer see later entries
//! earlier, or see "empty" and sleep for ever.
//!
//! Sleeping: a consumer registers, looks again, then sleeps; a producer queues, then notifies, after every lock is
//! released. `additional` notifications, because a plain one does nothing while an earlier one has not yet run.

use std::collections::VecDeque;
use std::time::Instant;

use crossbeam::utils::{Backoff, CachePadded};

use crate::error::{Closed, PopError};
use crate::slot::QueuedSlot;
use crate::sync::{
    self, AtomicBool, Event, EventListener, IntoNotification, Listener, Mutex, Ordering, SegQueue, mutant,
};

enum Entry<T> {
    One(QueuedSlot<T>),
    Run(Vec<QueuedSlot<T>>),
}

pub(crate) struct ReadyQueue<T> {
    tail: SegQueue<Entry<T>>,
    head: CachePadded<Mutex<VecDeque<QueuedSlot<T>>>>,
    closed: AtomicBool,
    ready: Event,
}

impl<T> ReadyQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            tail: SegQueue::new(),
            head: CachePadded::new(Mutex::new(VecDeque::new())),
            closed: AtomicBool::new(false),
            ready: Event::new(),
        }
    }

    /// Appends one slot. The caller wakes after its locks are released.
    pub(crate) fn push(&self, slot: QueuedSlot<T>) {
        self.tail.push(Entry::One(slot));
    }

    /// Appends a run of slots.
    pub(crate) fn push_run(&self, run: Vec<QueuedSlot<T>>) {
        if !run.is_empty() {
            self.tail.push(Entry::Run(run));
        }
    }

    /// Wakes up to `slots` sleeping consumers.
    pub(crate) fn wake(&self, slots: usize) {
        if slots > 0 {
            mutant!(PlainNotify => return self.ready.notify(slots));
            self.ready.notify(slots.additional());
        }
    }

    /// Puts slots that were taken out, oldest first, back at the front; how many. The caller wakes.
    pub(crate) fn give_back(&self, slots: VecDeque<QueuedSlot<T>>) -> usize {
        let given = slots.len();
        // Most batches are handled to their end, and leave the head alone.
        if given > 0 {
            let mut head = self.head.lock();
            for slot in slots.into_iter().rev() {
                mutant!(GivenBackBehind => head.push_back(slot); head.push_front(slot));
            }
        }
        given
    }

    pub(crate) fn try_pop(&self) -> Option<QueuedSlot<T>> {
        mutant!(RunPublishedLate => return self.try_pop_and_publish());
        let mut head = self.head.lock();
        loop {
            if let Some(slot) = head.pop_front() {
                return Some(slot);
            }
            match self.tail.pop()? {
                Entry::One(slot) => return Some(slot),
                Entry::Run(run) => *head = run.into(),
            }
        }
    }

    /// Takes up to `max` slots, in order. Never waits.
    pub(crate) fn try_pop_batch(&self, max: usize) -> VecDeque<QueuedSlot<T>> {
        let mut batch = VecDeque::new();
        let mut head = self.head.lock();
        while batch.len() < max {
            if head.is_empty() {
                match self.tail.pop() {
                    None => break,
                    Some(Entry::One(slot)) => batch.push_back(slot),
                    Some(Entry::Run(run)) => *head = run.into(),
                }
            } else if batch.is_empty() && head.len() <= max {
                batch = std::mem::take(&mut *head);
            } else {
                let count = head.len().min(max - batch.len());
                batch.extend(head.drain(..count));
            }
        }
        batch
    }

    /// Repeats `attempt` until it brings something, sleeping between.
    pub(crate) fn wait<R>(
        &self,
        deadline: Option<Instant>,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> Result<R, PopError> {
        // A short spin saves most sleeps while a producer is at work.
        let backoff = Backoff::new();
        while !sync::MODEL && !backoff.is_completed() {
            if let Some(found) = attempt() {
                return Ok(found);
            }
            if self.is_closed() {
                break;
            }
            backoff.snooze();
        }
        loop {
            let listener = self.ready.listen();
            if let Some(found) = self.attempt_or_closed(&mut attempt)? {
                return Ok(found);
            }
            mutant!(NoSecondLook => {
                drop(listener);
                self.ready.listen().wait();
                continue;
            });
            match deadline {
                None => listener.wait(),
                Some(deadline) => {
                    if listener.wait_deadline(deadline).is_none() {
                        return attempt().ok_or(PopError::TimedOut);
                    }
                }
            }
        }
    }

    /// The same for async callers.
    pub(crate) async fn wait_async<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> Result<R, Closed> {
        loop {
            if let Some(found) = attempt() {
                return Ok(found);
            }
            let listener: EventListener = self.ready.listen();
            if let Some(found) = self.attempt_or_closed(&mut attempt)? {
                return Ok(found);
            }
            mutant!(AsyncNoSecondLook => {
                drop(listener);
                self.ready.listen().await;
                continue;
            });
            listener.await;
        }
    }

    /// Closed is looked at before the queue: what was queued before the close is still found.
    fn attempt_or_closed<R>(&self, attempt: &mut impl FnMut() -> Option<R>) -> Result<Option<R>, Closed> {
        mutant!(ClosedIsLookedAtLast => return match attempt() {
            None if self.is_closed() => Err(Closed),
            found => Ok(found),
        });
        let closed = self.is_closed();
        match attempt() {
            None if closed => Err(Closed),
            found => Ok(found),
        }
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

/// What a mutant does instead (`sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{Entry, QueuedSlot, ReadyQueue, VecDeque};

    impl<T> ReadyQueue<T> {
        /// `RunPublishedLate`: for a moment a run is nowhere.
        pub(super) fn try_pop_and_publish(&self) -> Option<QueuedSlot<T>> {
            if let Some(slot) = self.head.lock().pop_front() {
                return Some(slot);
            }
            match self.tail.pop()? {
                Entry::One(slot) => Some(slot),
                Entry::Run(run) => {
                    let mut run = VecDeque::from(run);
                    let first = run.pop_front();
                    self.head.lock().append(&mut run);
                    first
                }
            }
        }
    }
}
