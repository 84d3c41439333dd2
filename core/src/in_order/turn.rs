//! The guard of whoever has the turn.
//!
//! How an event can end: applied or passed, by a handler that succeeds or fails. A panic is
//! reported, and its event is gone: a panic out of what is told by [`Turn::apply`] when all of it
//! is applied, any other one with nothing applied, as if the handler had passed it. What was not
//! handled when the guard is dropped (a cancelled future) comes first again.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::InOrderFifo;
use super::event::{Entry, Event};
use super::log::Taken;
use crate::engine::clock::Started;
use crate::engine::release::OneByOne;
use crate::engine::sync::mutant;
use crate::error::{ProcessError, StoreError, panic_message, unharmed};
use crate::fifo::{SLOW, report_slow};
use crate::{Change, Meta};

/// What stands for the key of an event that is about all of them.
const ALL: &str = "*";

/// A consumer's turn with an [`InOrderFifo`]: one event, or a batch of them, handled one after
/// another. While it lives nobody else takes anything from the queue, so a turn that is forgotten
/// (`mem::forget`) stops it for ever; offers and readers go on.
///
/// The first event is *in hand*. [`apply`](Self::apply) applies it to the fused store,
/// [`advance`](Self::advance) passes it; either way it is handled, and the next one is in hand.
/// [`done`](Self::done) passes all of them. Dropped, the turn gives what was not handled back: it
/// comes first again, in its order. Dropped while the thread unwinds, the event in hand counts as
/// panicked and does not come again.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{InOrderFifo, KeyFunc, NoMeta};
///
/// let fifo = InOrderFifo::builder(KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()))).build();
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
    /// The event in hand.
    first: Option<Entry<T>>,
    rest: VecDeque<Entry<T>>,
    is_initial: bool,
    /// What ends with what was handled: marks of the initial population, and weight in the depth
    /// gauge.
    marks: usize,
    weight: usize,
    /// The key of the event that was applied last; of a relist or resync only if a handler
    /// panicked over it.
    told: Option<Box<str>>,
    /// Whether a panic came out of the last apply: its event is gone, and the one in hand has
    /// nothing to do with it.
    broke: bool,
    was_panicking: bool,
    started: Option<Started>,
    /// Passed. Released last, when the turn is over: that may panic.
    passed: OneByOne<Vec<Entry<T>>>,
}

impl<'f, T: Send + Sync, M: Meta<T>> Turn<'f, T, M> {
    pub(super) fn new(fifo: &'f InOrderFifo<T, M>, taken: Taken<T>) -> Self {
        Self {
            fifo,
            first: Some(taken.first),
            rest: taken.rest,
            is_initial: !fifo.initial.has_synced(),
            marks: 0,
            weight: 0,
            told: None,
            broke: false,
            was_panicking: std::thread::panicking(),
            started: Started::now(),
            passed: OneByOne::default(),
        }
    }

    /// The event in hand; `None` when all are handled.
    #[must_use]
    pub fn event(&self) -> Option<&Event<T>> {
        self.first.as_ref().map(|entry| &entry.event)
    }

    /// All events that are not handled yet, the one in hand first.
    pub fn events(&self) -> impl Iterator<Item = &Event<T>> {
        self.first.iter().chain(&self.rest).map(|entry| &entry.event)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Whether all are handled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether its events belong to the initial population (client-go `isInInitialList`).
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_initial
    }

    /// Applies the event in hand to the fused store and tells `handler` of each change that makes,
    /// with its key. A delta is one change. A relist is first the deletions of what is known and
    /// not listed, in the order of keys and with tombstones, then an addition or update for each
    /// listed object, in list order. A resync is an update for everything known, by what is known,
    /// in no particular order. All changes of the event are made before the first is told, as in
    /// client-go; readers see one key of a relist after another change.
    ///
    /// Old objects are released when all of the event is told, with no lock held; those of a
    /// relist are kept until then, at 8 bytes a listed object. Should `handler` panic, the rest of
    /// the event stays untold. O(1) for a delta, O(listed + known) for a relist, O(known) for a
    /// resync; and the index functions.
    ///
    /// # Errors
    /// [`StoreError::NoStore`]: nothing was applied, the event is still in hand.
    /// [`StoreError::NotIndexed`]: everything was; the last index error.
    pub fn apply(&mut self, handler: impl FnMut(&str, Change<'_, T>)) -> Result<(), StoreError> {
        if !self.fifo.is_fused {
            let key = self.event().and_then(Event::key).unwrap_or(ALL);
            return Err(StoreError::NoStore { key: key.to_owned() });
        }
        let mut taken = OneByOne(self.take());
        let Some(entry) = &mut *taken else { return Ok(()) };
        self.told = None;
        self.broke = true;
        let outcome = self.fifo.apply(&entry.event, handler, &mut self.told);
        self.broke = false;
        if let Event::Delta { key, .. } = &mut entry.event {
            self.told = Some(std::mem::take(key));
        }
        outcome
    }

    /// Applies the event in hand, which stays in hand, where there is a store. Untold, since it is
    /// told as it is.
    pub(super) fn store(&mut self) -> Result<(), StoreError> {
        match &self.first {
            Some(entry) if self.fifo.is_fused => self.fifo.apply(&entry.event, |_, _| (), &mut self.told),
            _ => Ok(()),
        }
    }

    /// Passes the event in hand: it is handled without being applied.
    pub fn advance(&mut self) {
        let passed = self.take();
        self.passed.extend(passed);
        self.told = None;
    }

    /// Passes all that is left.
    pub fn done(mut self) {
        while !self.is_empty() {
            self.advance();
        }
    }

    /// Takes the event in hand, to be handled; the next one is in hand.
    fn take(&mut self) -> Option<Entry<T>> {
        let entry = std::mem::replace(&mut self.first, self.rest.pop_front())?;
        self.broke = false;
        self.marks += entry.marks;
        self.weight += entry.weight();
        Some(entry)
    }

    /// Calls `handler` for the event in hand, which is handled then, whatever comes of it.
    pub(super) fn handle<R, E>(
        &mut self,
        handler: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        let left = self.len();
        let outcome = catch_unwind(AssertUnwindSafe(|| handler(self)));
        self.broke = false;
        if self.len() == left {
            self.advance();
        }
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(ProcessError::Handler { key: self.last_key().to_owned(), source }),
            Err(panic) => {
                self.report_panic();
                Err(ProcessError::Panicked { key: self.last_key().to_owned(), message: panic_message(panic) })
            }
        }
    }

    /// The key of what was handled last.
    fn last_key(&self) -> &str {
        self.told.as_deref().or_else(|| self.passed.last()?.event.key()).unwrap_or(ALL)
    }

    fn report_panic(&self) {
        unharmed(|| tracing::error!(key = self.last_key(), "a handler panicked; its event is not put back"));
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
        // While the turn lasts: who takes the next event is to find the initial population ended.
        let synced = self.fifo.initial.settled(mutant!(SyncedAfterTheTurn => 0; self.marks));
        let room = self.fifo.depth.subtract(self.weight);
        self.fifo.log.release(self.first.take().into_iter().chain(std::mem::take(&mut self.rest)));
        mutant!(SyncedAfterTheTurn => if self.fifo.initial.settled(self.marks) {
            self.fifo.initial.announce();
        });
        if room {
            self.fifo.depth.announce();
        }
        if synced {
            self.fifo.initial.announce();
        }
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
