//! The common part of `Fifo` and `Heap`: the newest object per key, handlers that run with no
//! lock held, and the initial population.
//!
//! While the handler of a key runs, an object that arrives for the key is outside the order; it
//! is added to the order when the handler has ended. So handlers of the same key never run at the
//! same time. An object of the initial population has a mark until its handler has ended, or
//! until it is deleted or missing in a later list. The queue is synced when no mark is left.

use std::collections::HashSet;

use super::key_heap::{Before, HeapEntry, KeyHeap};
use crate::engine::release::{OneByOne, Rest, UserCode};
use crate::engine::sync::{Arc, Event, IntoNotification, Mutex};
use crate::engine::wait::wait;
use crate::error::{Closed, KeyError, ProcessError};
use crate::panics::{FirstPanic, caught};
use crate::{KeyFunc, KeySource, Meta};

/// The common methods of [`Fifo`](crate::caches::Fifo) and [`Heap`](crate::caches::Heap), which
/// dereference to this type.
///
/// Any number of producers and consumers may use a queue at the same time. Handlers of the same key
/// never run at the same time; handlers of different keys run in parallel, with no lock held.
pub struct KeyedQueue<T, M> {
    keys: KeyFunc<T, M>,
    before: UserCode<Box<Before<T>>>,
    state: Mutex<KeyedState<T>>,
    events: Events,
}

/// Objects with their keys.
type Keyed<T> = OneByOne<Vec<(String, Arc<T>)>>;

struct KeyedState<T> {
    heap: KeyHeap<T>,
    /// The keys whose handlers run.
    running: HashSet<Box<str>>,
    /// The number of the newest entry.
    arrivals: u64,
    populated: bool,
    /// The number of marks of the initial population.
    marks: usize,
    closed: bool,
}

struct Events {
    /// The event that is notified when an entry can be popped, or when the queue is closed.
    ready: Event,
    /// The event that is notified when the initial population is handled, or when the queue is
    /// closed.
    synced: Event,
}

/// A guard that notifies waiters on drop. It is created before the lock is taken, so it is dropped
/// after the lock is released, even if the queue's order function panics.
struct NotifyOnDrop<'q> {
    events: &'q Events,
    /// The number of consumers to wake.
    ready: usize,
    /// Whether the queue is synced, since this change or an earlier one.
    synced: bool,
}

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.events.ready.notify(self.ready.additional());
        if self.synced {
            self.events.synced.notify(usize::MAX.additional());
        }
    }
}

impl NotifyOnDrop<'_> {
    /// Sets which waiters the drop of this guard notifies, after an entry was removed.
    fn after_removal<T>(&mut self, state: &KeyedState<T>) {
        self.synced = state.has_synced();
        if state.is_exhausted() {
            self.ready = usize::MAX;
        }
    }
}

impl Events {
    fn notify(&self) -> NotifyOnDrop<'_> {
        NotifyOnDrop { events: self, ready: 0, synced: false }
    }
}

impl<T> KeyedState<T> {
    fn has_synced(&self) -> bool {
        self.populated && self.marks == 0
    }

    /// Returns whether pops need not wait any longer: the queue is closed and has no entry. An
    /// entry outside the order counts, because it can be popped when the handler of its key has
    /// ended.
    fn is_exhausted(&self) -> bool {
        self.closed && self.heap.entries().is_empty()
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}

impl<T, M: Meta<T>> KeyedQueue<T, M> {
    pub(super) fn new(
        keys: KeyFunc<T, M>,
        before: impl Fn(&HeapEntry<T>, &HeapEntry<T>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let state = KeyedState {
            heap: KeyHeap::new(),
            running: HashSet::new(),
            arrivals: 0,
            populated: false,
            marks: 0,
            closed: false,
        };
        let events = Events { ready: Event::new(), synced: Event::new() };
        Self { keys, before: UserCode::new(Box::new(before)), state: Mutex::new(state), events }
    }

    pub(super) fn keys(&self) -> &KeyFunc<T, M> {
        &self.keys
    }

    /// Pairs the objects of a list with their keys. Returns the first error if there is one.
    pub(super) fn keyed_list(&self, list: Vec<Arc<T>>) -> Result<Keyed<T>, KeyError> {
        self.keyed(&mut Rest(list.into_iter()).0)
    }

    /// Pairs objects with their keys. Takes no object after the first one without a key, and
    /// returns its error.
    pub(super) fn keyed(
        &self,
        objects: &mut impl Iterator<Item = Arc<T>>,
    ) -> Result<Keyed<T>, KeyError> {
        let mut keyed = OneByOne(Vec::new());
        for object in objects {
            let object = UserCode::new(object);
            keyed.push((self.keys.key(&object)?, object.into_inner()));
        }
        Ok(keyed)
    }

    /// Queues objects under their keys. Replaces queued objects, or keeps them if `keeps` is
    /// true. `check` may reject the call, depending on whether the queue is closed.
    pub(super) fn put<E>(
        &self,
        mut keyed: Keyed<T>,
        keeps: bool,
        check: impl FnOnce(bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut dropped = OneByOne(Vec::new());
        let mut notify = self.events.notify();
        let mut state = self.state.lock();
        check(state.closed)?;
        state.populated = true;
        notify.synced = state.has_synced();
        // Every object must be queued, even if the order function panics for one.
        let mut panic = FirstPanic::default();
        for (key, object) in keyed.take() {
            if state.heap.get(&key).is_none() {
                let arrival = state.next_arrival();
                state.heap.insert(&key, object, arrival, false);
                if !state.running.contains(&*key) {
                    notify.ready += 1;
                    panic.catch(|| state.heap.add_to_order(&key, &**self.before));
                }
            } else if keeps {
                dropped.push(object);
            } else {
                dropped.extend(state.heap.set(&key, object));
                panic.catch(|| state.heap.restore(&key, &**self.before));
            }
        }
        drop(state);
        drop(notify);
        panic.resume();
        Ok(())
    }

    /// Removes a key from the queue. Returns whether it was queued.
    pub(super) fn remove_key(&self, key: &str) -> bool {
        let removed = {
            let mut notify = self.events.notify();
            let mut state = self.state.lock();
            state.populated = true;
            notify.synced = state.has_synced();
            let removed = state.heap.remove(key, &**self.before);
            state.marks -= usize::from(removed.as_ref().is_some_and(|removed| removed.initial));
            notify.after_removal(&state);
            removed
        };
        removed.is_some()
    }

    /// Replaces the contents. The objects of the initial list are the initial population, unless
    /// the queue was written to before it.
    pub(super) fn replace_all<E>(
        &self,
        mut keyed: Keyed<T>,
        check: impl FnOnce(bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut dropped = OneByOne(Vec::new());
        let mut before = KeyHeap::new();
        let mut notify = self.events.notify();
        let mut state = self.state.lock();
        check(state.closed)?;
        let is_first = !std::mem::replace(&mut state.populated, true);
        // Keep the old contents while the new ones are built. They are dropped after the lock is
        // released.
        std::mem::swap(&mut state.heap, &mut before);
        for (key, object) in keyed.take() {
            if state.heap.get(&key).is_some() {
                dropped.extend(state.heap.set(&key, object));
                continue;
            }
            // A mark moves to the key's new object, which replaces the old one.
            let initial = is_first || before.get(&key).is_some_and(|entry| entry.initial);
            let arrival = state.next_arrival();
            state.heap.insert(&key, object, arrival, initial);
        }
        let marks = |heap: &KeyHeap<T>| heap.entries().iter().filter(|entry| entry.initial).count();
        state.marks = state.marks - marks(&before) + marks(&state.heap);
        notify.ready = state.heap.entries().len();
        notify.after_removal(&state);
        // Keys with a running handler are added when it ends. A panic of the order function here
        // loses nothing: every entry is in place.
        let KeyedState { heap, running, .. } = &mut *state;
        heap.add_all_to_order(|entry| !running.contains(&entry.key), &**self.before);
        Ok(())
    }

    /// Takes the first object and counts it as handled at once. Blocks while nothing can be
    /// popped, unless the queue is closed and empty. An object whose key has a running handler
    /// can be popped only after that handler ends. O(log queued).
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed and empty.
    pub fn pop(&self) -> Result<Arc<T>, Closed> {
        Ok(self.take(false)?.object)
    }

    /// Takes the first object and calls `handler` with it.
    pub(super) fn handle<R, E>(
        &self,
        handler: impl FnOnce(&Arc<T>, bool) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        let taken = UserCode::new(self.take(true)?);
        // `end` calls the order function. If that panics, `UserCode` discards a second panic of the
        // outcome's destructor.
        let outcome = UserCode::new(caught(|| handler(&taken.object, taken.initial)));
        self.end(&taken);
        let key = || taken.key.clone().into_string();
        match outcome.into_inner() {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ProcessError::Handler { key: key(), error }),
            Err(message) => Err(ProcessError::Panicked { key: key(), message }),
        }
    }

    /// Takes the first entry. If `runs` is true, its key counts as running until the caller calls
    /// [`end`](Self::end); otherwise the entry counts as handled at once.
    fn take(&self, runs: bool) -> Result<HeapEntry<T>, Closed> {
        wait(&self.events.ready, || self.try_take(runs))
    }

    fn try_take(&self, runs: bool) -> Option<Result<HeapEntry<T>, Closed>> {
        let mut notify = self.events.notify();
        let mut state = self.state.lock();
        let Some(taken) = state.heap.pop(&**self.before) else {
            return state.is_exhausted().then_some(Err(Closed));
        };
        if runs {
            state.running.insert(taken.key.clone());
        } else {
            state.marks -= usize::from(taken.initial);
        }
        notify.after_removal(&state);
        Some(Ok(taken))
    }

    /// Ends a handler. An object that arrived for its key while the handler ran can now be popped.
    fn end(&self, taken: &HeapEntry<T>) {
        let mut notify = self.events.notify();
        let mut state = self.state.lock();
        state.running.remove(&taken.key);
        state.marks -= usize::from(taken.initial);
        notify.synced = state.has_synced();
        notify.ready = usize::from(state.heap.get(&taken.key).is_some());
        state.heap.add_to_order(&taken.key, &**self.before);
    }

    /// Returns whether the initial population has been handled: each object of the initial list was
    /// handled, deleted, or missing in a later list. Also true if the queue was written to before
    /// the initial list. Once true, it stays true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.state.lock().has_synced()
    }

    /// Blocks until [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    pub fn wait_for_sync(&self) -> Result<(), Closed> {
        wait(&self.events.synced, || {
            let state = self.state.lock();
            if state.has_synced() { Some(Ok(())) } else { state.closed.then_some(Err(Closed)) }
        })
    }

    /// Closes the queue and wakes all waiting pops. Queued objects can still be popped; after
    /// that pops return [`Closed`].
    pub fn close(&self) {
        self.state.lock().closed = true;
        drop(NotifyOnDrop { events: &self.events, ready: usize::MAX, synced: true });
    }

    /// Returns whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns the object queued under the key of `of`. An object whose handler runs is not
    /// queued. O(1).
    ///
    /// # Errors
    /// [`KeyError`] if `of` has no key.
    pub fn get<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<Option<Arc<T>>, KeyError>
    where
        T: 'a,
    {
        Ok(self.get_by_key(&self.keys.key_of(&of.into())?))
    }

    /// Returns the object queued under `key`. O(1).
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Arc<T>> {
        self.state.lock().heap.get(key).map(|entry| entry.object.clone())
    }

    /// Returns all queued objects, in no particular order. O(queued).
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        self.state.lock().heap.entries().iter().map(|entry| entry.object.clone()).collect()
    }

    /// Returns all queued keys, in no particular order. O(queued).
    #[must_use]
    pub fn list_keys(&self) -> Vec<String> {
        self.state.lock().heap.entries().iter().map(|entry| entry.key.to_string()).collect()
    }

    /// Returns the number of queued objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().heap.entries().len()
    }

    /// Returns whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
