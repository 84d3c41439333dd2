//! What `Fifo` and `Heap` have in common: the newest object per key, handlers with no lock held, the initial population.
//!
//! A key whose handler runs is not in line; what comes for it meanwhile waits, and joins the line when the handler has
//! ended. So per key handlers never overlap. An object of the initial population carries a mark until its handler has
//! ended, or it is deleted, or a later list does not have it: the queue is synced when none is left.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::line::{Before, Entry, Line};
use crate::engine::release::{OneByOne, UserCode};
use crate::engine::sync::{Arc, Event, IntoNotification, Mutex};
use crate::engine::wait::wait;
use crate::error::{Closed, FirstPanic, KeyError, ProcessError, panic_message};
use crate::{KeyFunc, KeySource, Meta};

/// What a [`Fifo`](crate::Fifo) and a [`Heap`](crate::Heap) can both do: they dereference to it.
///
/// Any number of producers and consumers. Per key handlers never overlap; handlers of different keys run in parallel,
/// with no lock held.
pub struct KeyedQueue<T, M> {
    keys: KeyFunc<T, M>,
    before: UserCode<Box<Before<T>>>,
    state: Mutex<State<T>>,
    bells: Bells,
}

struct State<T> {
    line: Line<T>,
    /// Keys whose handlers run.
    running: HashSet<Box<str>>,
    /// The next entry's number.
    arrivals: u64,
    populated: bool,
    /// Marks of the initial population.
    marks: usize,
    closed: bool,
}

struct Bells {
    /// Somebody joined the line, or the queue is closed.
    ready: Event,
    /// The initial population is handled, or the queue is closed.
    synced: Event,
}

/// Rings when it is dropped: made before the lock is taken, it does so after that is released, also when `before` panics.
struct Ring<'q> {
    bells: &'q Bells,
    /// How many to wake for the line.
    ready: usize,
    /// Whether the queue is synced, by this or before.
    synced: bool,
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        self.bells.ready.notify(self.ready.additional());
        if self.synced {
            self.bells.synced.notify(usize::MAX.additional());
        }
    }
}

impl Ring<'_> {
    /// Something left the queue.
    fn less<T>(&mut self, state: &State<T>) {
        self.synced = state.has_synced();
        if state.is_over() {
            self.ready = usize::MAX;
        }
    }
}

impl Bells {
    fn ring(&self) -> Ring<'_> {
        Ring { bells: self, ready: 0, synced: false }
    }
}

impl<T> State<T> {
    fn has_synced(&self) -> bool {
        self.populated && self.marks == 0
    }

    /// Whether nothing will come of waiting. What is out of line comes into it with the end of its key's handler.
    fn is_over(&self) -> bool {
        self.closed && self.line.entries().is_empty()
    }

    fn number(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}

impl<T, M: Meta<T>> KeyedQueue<T, M> {
    pub(super) fn new(
        keys: KeyFunc<T, M>,
        before: impl Fn(&Entry<T>, &Entry<T>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            line: Line::new(),
            running: HashSet::new(),
            arrivals: 0,
            populated: false,
            marks: 0,
            closed: false,
        };
        let bells = Bells { ready: Event::new(), synced: Event::new() };
        Self { keys, before: UserCode::new(Box::new(before)), state: Mutex::new(state), bells }
    }

    pub(super) fn keys(&self) -> &KeyFunc<T, M> {
        &self.keys
    }

    /// Objects with their keys. All, or the first error.
    pub(super) fn keyed(&self, objects: impl IntoIterator<Item = Arc<T>>) -> Result<Vec<(String, Arc<T>)>, KeyError> {
        objects.into_iter().map(|object| Ok((self.keys.key(&object)?, object))).collect()
    }

    /// Queues objects under their keys, in the place of what is queued there, or if `keeps` only where nothing is. `check`
    /// may refuse them by whether the queue is closed.
    pub(super) fn put<E>(
        &self,
        keyed: Vec<(String, Arc<T>)>,
        keeps: bool,
        check: impl FnOnce(bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut released = OneByOne(Vec::new());
        let mut ring = self.bells.ring();
        let mut state = self.state.lock();
        check(state.closed)?;
        state.populated = true;
        ring.synced = state.has_synced();
        // Each is to be queued, whatever comes of the one before it.
        let mut panic = FirstPanic::default();
        for (key, object) in keyed {
            if state.line.get(&key).is_none() {
                let arrival = state.number();
                state.line.insert(&key, object, arrival, false);
                if !state.running.contains(&*key) {
                    ring.ready += 1;
                    panic.of(|| state.line.join(&key, &*self.before));
                }
            } else if keeps {
                released.push(object);
            } else {
                released.extend(state.line.set(&key, object));
                panic.of(|| state.line.move_up_or_down(&key, &*self.before));
            }
        }
        drop(state);
        drop(ring);
        panic.go_on();
        Ok(())
    }

    /// Takes a key out of the queue. Whether it was there.
    pub(super) fn take_out(&self, key: &str) -> bool {
        let removed = {
            let mut ring = self.bells.ring();
            let mut state = self.state.lock();
            state.populated = true;
            ring.synced = state.has_synced();
            let removed = state.line.remove(key, &*self.before);
            state.marks -= usize::from(removed.as_ref().is_some_and(|removed| removed.initial));
            ring.less(&state);
            removed
        };
        removed.is_some()
    }

    /// Queues exactly these objects. The first list of a queue that nothing else has populated is the initial population.
    pub(super) fn replace_all<E>(
        &self,
        keyed: Vec<(String, Arc<T>)>,
        check: impl FnOnce(bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut released = OneByOne(Vec::new());
        let mut before = Line::new();
        let mut ring = self.bells.ring();
        let mut state = self.state.lock();
        check(state.closed)?;
        let is_first = !std::mem::replace(&mut state.populated, true);
        std::mem::swap(&mut state.line, &mut before);
        for (key, object) in keyed {
            if state.line.get(&key).is_some() {
                released.extend(state.line.set(&key, object));
                continue;
            }
            let initial = is_first || before.get(&key).is_some_and(|entry| entry.initial);
            let arrival = state.number();
            state.line.insert(&key, object, arrival, initial);
        }
        let marks = |line: &Line<T>| line.entries().iter().filter(|entry| entry.initial).count();
        state.marks = state.marks - marks(&before) + marks(&state.line);
        ring.ready = state.line.entries().len();
        ring.less(&state);
        let State { line, running, .. } = &mut *state;
        line.join_all(|entry| !running.contains(&entry.key), &*self.before);
        Ok(())
    }

    /// Takes the first in line and counts it as handled at once; blocks while the line is empty and the queue open, or
    /// something waits for its key's handler to end. O(log queued).
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn pop(&self) -> Result<Arc<T>, Closed> {
        Ok(self.take(false)?.object)
    }

    /// Takes the first in line for `handler`.
    pub(super) fn handle<R, E>(
        &self,
        handler: impl FnOnce(&Arc<T>, bool) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        let taken = self.take(true)?;
        let outcome = catch_unwind(AssertUnwindSafe(|| handler(&taken.object, taken.initial)));
        self.end(&taken);
        let key = || taken.key.clone().into_string();
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(ProcessError::Handler { key: key(), source }),
            Err(panic) => Err(ProcessError::Panicked { key: key(), message: panic_message(panic) }),
        }
    }

    /// Takes the first in line for a handler that [`end`](Self::end) will end, or for none.
    fn take(&self, runs: bool) -> Result<Entry<T>, Closed> {
        wait(&self.bells.ready, || self.try_take(runs))
    }

    fn try_take(&self, runs: bool) -> Option<Result<Entry<T>, Closed>> {
        let mut ring = self.bells.ring();
        let mut state = self.state.lock();
        let Some(taken) = state.line.pop(&*self.before) else { return state.is_over().then_some(Err(Closed)) };
        if runs {
            state.running.insert(taken.key.clone());
        } else {
            state.marks -= usize::from(taken.initial);
        }
        ring.less(&state);
        Some(Ok(taken))
    }

    /// A handler has ended: what came for its key meanwhile joins the line.
    fn end(&self, taken: &Entry<T>) {
        let mut ring = self.bells.ring();
        let mut state = self.state.lock();
        state.running.remove(&taken.key);
        state.marks -= usize::from(taken.initial);
        ring.synced = state.has_synced();
        ring.ready = usize::from(state.line.get(&taken.key).is_some());
        state.line.join(&taken.key, &*self.before);
    }

    /// Whether the initial population has been handled: the first list's objects have been (or were deleted, or another
    /// list does not have them), or something else populated the queue. Once true it stays true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.state.lock().has_synced()
    }

    /// Blocks until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// [`Closed`] when the queue is closed before.
    pub fn wait_for_sync(&self) -> Result<(), Closed> {
        wait(&self.bells.synced, || {
            let state = self.state.lock();
            if state.has_synced() { Some(Ok(())) } else { state.closed.then_some(Err(Closed)) }
        })
    }

    /// Closes the queue: every waiting pop wakes, what is queued is still popped, then pops say [`Closed`].
    pub fn close(&self) {
        self.state.lock().closed = true;
        drop(Ring { bells: &self.bells, ready: usize::MAX, synced: true });
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// The object queued under the key of `of`. What a handler has in hand is not queued. O(1).
    ///
    /// # Errors
    /// [`KeyError`] when it has no key.
    pub fn get<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<Option<Arc<T>>, KeyError>
    where
        T: 'a,
    {
        Ok(self.get_by_key(&self.keys.key_of(&of.into())?))
    }

    /// The object queued under `key`. O(1).
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.state.lock().line.get(key).map(|entry| entry.object.clone())
    }

    /// All queued objects, in no particular order. O(queued).
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        self.state.lock().line.entries().iter().map(|entry| entry.object.clone()).collect()
    }

    /// All queued keys, in no particular order. O(queued).
    #[must_use]
    pub fn list_keys(&self) -> Vec<String> {
        self.state.lock().line.entries().iter().map(|entry| entry.key.to_string()).collect()
    }

    /// How many objects are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().line.entries().len()
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
