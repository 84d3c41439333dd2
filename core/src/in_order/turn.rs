//! The guard of the consumer that has the turn.
//!
//! An event of a turn ends in one of three ways:
//!
//! * Without a panic. [`Turn::apply`] applies the event, [`Turn::advance`] and [`Turn::done`] skip
//!   it. An event that the handler of `process` leaves is skipped, whether the handler succeeds or
//!   fails.
//! * With a panic, which is logged. If the handler of [`Turn::apply`] panics, all of the event is
//!   applied. After any other panic the current event is skipped.
//! * With the drop of the guard before the event is handled (a cancelled future, or a panic for an
//!   earlier event of the batch). The event returns to the head of the queue.

use std::collections::VecDeque;
use std::fmt;

use super::InOrderFifo;
use super::event::{Event, LogEntry};
use super::log::TakenEvents;
use crate::engine::clock::Started;
use crate::engine::release::OneByOne;
use crate::engine::sync::mutant;
use crate::error::{ProcessError, StoreError};
use crate::fifo::{SLOW, report_slow};
use crate::panics::{caught, ignore_panic};
use crate::{Change, Meta};

/// The key in errors and log lines about a relist or resync, which has all keys.
const ALL: &str = "*";

/// The turn of a consumer with an [`InOrderFifo`]: one event, or a batch of events that are
/// handled one after another. While the guard exists, no other consumer takes an event. If it is
/// leaked (`mem::forget`), the queue stops for ever; offers and readers proceed.
///
/// The first event that is not handled is the *current* one. [`apply`](Self::apply) applies it to
/// the fused store, and [`advance`](Self::advance) skips it; after either call it is handled, and
/// the next event is current. [`done`](Self::done) skips all events. The drop of a turn returns the
/// events that are not handled to the head of the queue, in their order. If the turn is dropped
/// while the thread unwinds, the current event counts as panicked and is not returned.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{InOrderFifo, KeyFunc, NoMeta};
///
/// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
/// let fifo = InOrderFifo::builder(keys).build();
/// for name in ["a", "b", "a"] {
///     fifo.update(Arc::new(name.to_owned()))?;
/// }
/// let mut turn = fifo.pop_batch(1000)?;
/// let mut seen = String::new();
/// while let Some(event) = turn.event() {
///     seen.extend(event.key());
///     turn.advance();
/// }
/// assert_eq!(seen, "ab", "the second event of a is for the next batch");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dropped turn gives its events back: apply them, or end it with done"]
pub struct Turn<'f, T: Send + Sync, M: Meta<T>> {
    fifo: &'f InOrderFifo<T, M>,
    /// The current event.
    first: Option<LogEntry<T>>,
    rest: VecDeque<LogEntry<T>>,
    is_initial: bool,
    /// The number of marks of the initial population that the handled events have.
    marks: usize,
    /// The sum of the [weights](LogEntry::weight) of the handled events.
    weight: usize,
    /// The key for errors about the event that was applied last: the key of a delta, or, for a
    /// relist or resync, the key for which user code panicked. `None` if there is no such key, or
    /// if an event has been skipped since.
    last_applied_key: Option<Box<str>>,
    /// Whether the last call of [`Turn::apply`] panicked. The event of that call is handled,
    /// and the panic has nothing to do with the current event.
    broke: bool,
    was_panicking: bool,
    started: Option<Started>,
    /// The handled events. They are released last, when the turn is over, because a destructor may
    /// panic.
    passed: OneByOne<Vec<LogEntry<T>>>,
}

impl<'f, T: Send + Sync, M: Meta<T>> Turn<'f, T, M> {
    pub(super) fn new(fifo: &'f InOrderFifo<T, M>, taken: TakenEvents<T>) -> Self {
        Self {
            fifo,
            first: Some(taken.first),
            rest: taken.rest,
            is_initial: !fifo.life.initial.has_synced(),
            marks: 0,
            weight: 0,
            last_applied_key: None,
            broke: false,
            was_panicking: std::thread::panicking(),
            started: Started::now(),
            passed: OneByOne::default(),
        }
    }

    /// Returns the current event, or `None` if all are handled.
    #[must_use]
    pub fn event(&self) -> Option<&Event<T>> {
        self.first.as_ref().map(|entry| &entry.event)
    }

    /// Iterates over the events that are not handled yet, the current one first.
    pub fn events(&self) -> impl Iterator<Item = &Event<T>> {
        self.first.iter().chain(&self.rest).map(|entry| &entry.event)
    }

    /// Returns whether the initial population was not handled yet when the events were taken
    /// (client-go `isInInitialList`).
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_initial
    }

    /// Applies the current event to the fused store, and calls `handler` with each change and its
    /// key. A delta is one change. A relist is first the deletions of known objects that are not
    /// listed, in key order and with tombstones, and then an addition or update for each listed
    /// object, in list order. A resync is an update of every known object to itself, in no
    /// particular order. All changes of the event are made before the first call, as in client-go;
    /// readers see the keys of a relist change one after another.
    ///
    /// Old objects are released after the last call, with no lock held; a relist keeps them until
    /// then, with 8 bytes per listed object. If `handler` panics, it is not called for the rest of
    /// the event. O(1) for a delta, O(listed + known) for a relist, O(known) for a resync, plus
    /// the index functions.
    ///
    /// # Errors
    /// [`StoreError::NoStore`]: nothing was applied, the event is still current.
    /// [`StoreError::NotIndexed`]: all of it was applied; this is the last index error.
    pub fn apply(&mut self, handler: impl FnMut(&str, Change<'_, T>)) -> Result<(), StoreError> {
        if !self.fifo.is_fused {
            let key = self.event().and_then(Event::key).unwrap_or(ALL);
            return Err(StoreError::NoStore { key: key.to_owned() });
        }
        let mut taken = OneByOne(self.take());
        let Some(entry) = &mut *taken else { return Ok(()) };
        self.last_applied_key = None;
        self.broke = true;
        let outcome = self.fifo.apply(&entry.event, handler, &mut self.last_applied_key);
        self.broke = false;
        if let Event::Delta { key, .. } = &mut entry.event {
            self.last_applied_key = Some(std::mem::take(key));
        }
        outcome
    }

    /// Applies the current event if there is a store; the event stays current. No handler is
    /// called for the changes, because the caller's handler receives the event itself.
    #[cfg(feature = "caches")]
    pub(crate) fn store(&mut self) -> Result<(), StoreError> {
        match &self.first {
            Some(entry) if self.fifo.is_fused => {
                self.fifo.apply(&entry.event, |_, _| (), &mut self.last_applied_key)
            }
            _ => Ok(()),
        }
    }

    /// Skips the current event, which counts as handled and is not applied.
    pub fn advance(&mut self) {
        let passed = self.take();
        self.passed.extend(passed);
        self.last_applied_key = None;
    }

    /// Skips all remaining events.
    pub fn done(mut self) {
        while self.first.is_some() {
            self.advance();
        }
    }

    /// Takes the current event, which is then handled. The next event becomes current.
    fn take(&mut self) -> Option<LogEntry<T>> {
        let entry = std::mem::replace(&mut self.first, self.rest.pop_front())?;
        self.broke = false;
        self.marks += entry.marks;
        self.weight += entry.weight();
        Some(entry)
    }

    /// Calls `handler` for the only event of the turn, which is handled after that, even if the
    /// handler fails.
    pub(super) fn handle<R, E>(
        &mut self,
        handler: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        let outcome = caught(|| handler(self));
        self.broke = false;
        if self.first.is_some() {
            self.advance();
        }
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ProcessError::Handler { key: self.last_key().to_owned(), error }),
            Err(message) => {
                self.report_panic();
                Err(ProcessError::Panicked { key: self.last_key().to_owned(), message })
            }
        }
    }

    /// Returns the key for errors about the event that was handled last: the key of a delta, or,
    /// for a relist or resync, the key for which user code panicked, or else `*`.
    fn last_key(&self) -> &str {
        self.last_applied_key.as_deref().or_else(|| self.passed.last()?.event.key()).unwrap_or(ALL)
    }

    fn report_panic(&self) {
        ignore_panic(|| {
            tracing::error!(key = self.last_key(), "a handler panicked; its event is not put back");
        });
    }
}

impl<T: Send + Sync, M: Meta<T>> Drop for Turn<'_, T, M> {
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            if !self.broke {
                self.advance();
            }
            self.report_panic();
        }
        // Before the turn ends: the consumer of the next event must find the initial population
        // ended.
        let marks = self.marks;
        mutant!(SyncedAfterTheTurn => let marks = 0);
        let ended = self.fifo.life.settled(self.weight, marks);
        self.fifo.log.release(self.first.take().into_iter().chain(std::mem::take(&mut self.rest)));
        mutant!(SyncedAfterTheTurn => self.settle_marks_late());
        self.fifo.life.announce(ended);
        if let Some(elapsed) = self.started.map(Started::elapsed)
            && elapsed > SLOW
        {
            report_slow(self.last_key(), elapsed, self.fifo.pending());
        }
    }
}

impl<T: fmt::Debug + Send + Sync, M: Meta<T>> fmt::Debug for Turn<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.events()).finish()
    }
}

/// The code of a deliberate defect (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{Meta, Turn};

    impl<T: Send + Sync, M: Meta<T>> Turn<'_, T, M> {
        /// Settles the marks of the turn, with the defect `SyncedAfterTheTurn`: the consumer of the
        /// next event can find the initial population incomplete.
        pub(super) fn settle_marks_late(&self) {
            if self.fifo.life.initial.settled(self.marks) {
                self.fifo.life.initial.announce();
            }
        }
    }
}
