//! The consumer side of the queue. A pop calls the handler while the queue is locked.

use std::sync::Arc;

use deltafifo::{Closed, Delta, Meta, ProcessError};
use parking_lot::MutexGuard;

use super::MutexFifo;
use super::state::{Pending, State};

/// A popped item: a key and its deltas.
pub struct Popped<T> {
    pub(super) key: Arc<str>,
    pub(super) deltas: Pending<T>,
    pub(super) is_in_initial_list: bool,
}

impl<T> Popped<T> {
    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns the deltas, at least one, oldest first.
    #[must_use]
    pub fn deltas(&self) -> &[Delta<T>] {
        &self.deltas
    }

    /// Returns whether the item was popped before the queue had synced.
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_in_initial_list
    }
}

/// The result of a handler.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<E> {
    /// The item is handled.
    Done,
    /// The handler failed: the pop returns the error, and the deltas are lost.
    Failed(E),
    /// The deltas are put back, as by `add_if_not_present`. The pop returns the error, if there is
    /// one.
    Requeue(Option<E>),
}

impl<T, M: Meta<T>> MutexFifo<T, M> {
    /// Blocks until a key is pending, and calls the handler with it while the queue is locked. A
    /// handler that calls the queue deadlocks, as in client-go.
    ///
    /// # Errors
    /// If the queue is closed and empty, or the handler returns an error.
    pub fn pop<E>(
        &self,
        handler: impl FnOnce(&Popped<T>) -> Verdict<E>,
    ) -> Result<(), ProcessError<E>> {
        let mut state = self.state.lock();
        let item = loop {
            if let Some(item) = state.take() {
                break item;
            }
            if state.closed {
                return Err(Closed.into());
            }
            self.changed.wait(&mut state);
        };
        self.handle(state, item, handler)
    }

    /// Pops without blocking. Returns `None` if nothing is pending, and otherwise the result of
    /// [`pop`](Self::pop): an error only if the handler returned one.
    pub fn try_pop<E>(
        &self,
        handler: impl FnOnce(&Popped<T>) -> Verdict<E>,
    ) -> Option<Result<(), ProcessError<E>>> {
        let mut state = self.state.lock();
        let item = state.take()?;
        Some(self.handle(state, item, handler))
    }

    fn handle<E>(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        item: Popped<T>,
        handler: impl FnOnce(&Popped<T>) -> Verdict<E>,
    ) -> Result<(), ProcessError<E>> {
        let (key, error) = match handler(&item) {
            Verdict::Done => return Ok(()),
            Verdict::Failed(error) => (item.key, Some(error)),
            Verdict::Requeue(error) => {
                state.push_absent(item.key.clone(), item.deltas);
                (item.key, error)
            }
        };
        drop(state);
        self.changed.notify_one();
        match error {
            None => Ok(()),
            Some(error) => Err(ProcessError::Handler { key: String::from(&*key), error }),
        }
    }
}
