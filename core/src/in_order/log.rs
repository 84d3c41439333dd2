//! The log: the order of events, and the turn.
//!
//! Producers append to a `SegQueue` without a lock. A consumer that pops has the *turn*: until its
//! guard is dropped no other consumer takes an event, so handlers run one after another, in the
//! order of arrival. A turn is a flag, not a lock that is held: a mutex guards the flag while
//! events are taken or given back, and is never held while a handler runs.
//!
//! Sleeping: a consumer registers, checks again, and then sleeps. An appended event wakes one
//! consumer. During a turn that consumer finds the turn taken and sleeps again, so the end of a
//! turn wakes one consumer for each event that is left. All are `additional` notifications: a
//! consumer that was woken may be a future that is no longer polled, and must not keep later events
//! from others.

use std::collections::{HashSet, VecDeque};

use crossbeam::utils::CachePadded;

use super::event::LogEntry;
use crate::engine::room::less_room;
use crate::engine::sync::{Event, IntoNotification, Mutex, RandomState, SegQueue, mutant};
use crate::error::Closed;

pub(super) struct Log<T> {
    tail: SegQueue<LogEntry<T>>,
    head: CachePadded<Mutex<LogHead<T>>>,
    ready: Event,
}

/// The state that consumers share.
struct LogHead<T> {
    /// Events that were given back, or did not fit into a batch. They come before the tail.
    front: VecDeque<LogEntry<T>>,
    /// Whether a consumer has the turn.
    is_taken: bool,
    is_closed: bool,
}

/// The events of a new turn.
pub(super) struct TakenEvents<T> {
    pub(super) first: LogEntry<T>,
    pub(super) rest: VecDeque<LogEntry<T>>,
}

impl<T> Log<T> {
    pub(super) fn new() -> Self {
        let head = LogHead { front: VecDeque::new(), is_taken: false, is_closed: false };
        Self {
            tail: SegQueue::new(),
            head: CachePadded::new(Mutex::new(head)),
            ready: Event::new(),
        }
    }

    /// Appends an event. The caller then calls [`announce`](Self::announce).
    pub(super) fn append(&self, entry: LogEntry<T>) {
        self.tail.push(entry);
    }

    /// Wakes a consumer for an appended event. Called with no lock held, because it may run a
    /// waker.
    pub(super) fn announce(&self) {
        mutant!(AppendWakesNoConsumer => return);
        mutant!(PlainNotifyInOrder => return self.ready.notify(1_usize));
        self.ready.notify(1_usize.additional());
    }

    /// Begins a turn with up to `max` events. Returns `None` if there is no event, or if another
    /// consumer has the turn: that consumer may still give events back. Returns [`Closed`] if the
    /// log is closed and empty.
    pub(super) fn take(&self, max: usize) -> Option<Result<TakenEvents<T>, Closed>> {
        let mut head = self.head.lock();
        let is_taken = head.is_taken;
        mutant!(TurnsOverlap => let is_taken = false);
        if is_taken {
            mutant!(TurnHidesRemainingEvents => return head.is_closed.then_some(Err(Closed)));
            return None;
        }
        let Some(first) = self.next(&mut head) else {
            return head.is_closed.then_some(Err(Closed));
        };
        let rest = self.fitting(&mut head, &first, max.saturating_sub(1));
        head.is_taken = true;
        Some(Ok(TakenEvents { first, rest }))
    }

    /// Takes the next event.
    fn next(&self, head: &mut LogHead<T>) -> Option<LogEntry<T>> {
        let next = head.front.pop_front();
        if let Some(room) = less_room(head.front.len(), head.front.capacity()) {
            head.front.shrink_to(room);
        }
        next.or_else(|| self.tail.pop())
    }

    /// Takes up to `room` more events for a batch that begins with `first`. Stops at the first
    /// event that is not a delta, or whose key the batch already has. (If the hashes of two keys
    /// are equal, the batch is shorter than it might be.)
    fn fitting(
        &self,
        head: &mut LogHead<T>,
        first: &LogEntry<T>,
        room: usize,
    ) -> VecDeque<LogEntry<T>> {
        let mut rest = VecDeque::new();
        let Some(first) = first.hash.filter(|_| room > 0) else { return rest };
        let mut keys = HashSet::with_hasher(RandomState::default());
        keys.insert(first);
        while rest.len() < room
            && let Some(entry) = self.next(head)
        {
            if !entry.hash.is_some_and(|key| keys.insert(key)) {
                head.front.push_front(entry);
                break;
            }
            rest.push_back(entry);
        }
        rest
    }

    /// Ends a turn. The events that are `left` come first again, in their order. Called with no
    /// lock held, because it may run a waker.
    pub(super) fn release(&self, left: impl DoubleEndedIterator<Item = LogEntry<T>>) {
        let mut head = self.head.lock();
        for entry in left.rev() {
            head.front.push_front(entry);
        }
        head.is_taken = false;
        let events_left = head.front.len() + self.tail.len();
        let is_closed = head.is_closed;
        drop(head);
        mutant!(TurnEndWakesNoConsumer => return);
        if events_left > 0 {
            mutant!(TurnEndNotifiesPlainly => return self.ready.notify(events_left));
            self.ready.notify(events_left.additional());
        } else if is_closed {
            mutant!(LastTurnWakesNoWaiter => return);
            // Waiting consumers learn that there is nothing to wait for.
            self.ready.notify(usize::MAX);
        }
    }

    /// Returns the notifier that consumers wait for. It is notified when there is an event to take,
    /// and when the log is closed.
    pub(super) fn ready(&self) -> &Event {
        &self.ready
    }

    pub(super) fn close(&self) {
        self.head.lock().is_closed = true;
        self.ready.notify(usize::MAX);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.head.lock().is_closed
    }

    /// Takes all events that are left, when no other thread uses the log.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = LogEntry<T>> {
        std::iter::from_fn(|| self.next(&mut self.head.lock()))
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use crate::engine::room::LEAST_ROOM;
    use crate::engine::sync::Arc;
    use crate::{InOrderFifo, KeyFunc, NoMeta};

    #[test]
    fn events_that_were_given_back_keep_no_memory_once_they_are_taken() {
        let fifo =
            InOrderFifo::builder(KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string())));
        let fifo = fifo.build();
        for number in 0..1_000 {
            fifo.add(Arc::new(number)).unwrap();
        }
        drop(fifo.try_pop_batch(1_000));
        let room = || fifo.log.head.lock().front.capacity();
        assert!(room() >= 1_000);
        // Later events keep the log from becoming empty.
        fifo.add(Arc::new(0)).unwrap();
        for _ in 0..1_000 {
            fifo.try_pop_batch(1).unwrap().done();
        }
        assert!(fifo.try_pop().is_some());
        assert!(room() <= LEAST_ROOM, "{}", room());
    }
}
