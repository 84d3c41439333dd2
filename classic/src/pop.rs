//! The consumer's side: a handler is called with what was taken while the queue's lock is held.

use std::sync::Arc;

use deltafifo::{Closed, Delta, Meta, ProcessError};
use parking_lot::MutexGuard;

use super::MutexFifo;
use super::state::{Pending, State};

/// What a pop gives to its handler: a key and everything that happened to it.
pub struct Popped<T> {
    pub(super) key: Arc<str>,
    pub(super) deltas: Pending<T>,
    pub(super) is_in_initial_list: bool,
}

impl<T> Popped<T> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Its deltas, oldest first, at least one.
    #[must_use]
    pub fn deltas(&self) -> &[Delta<T>] {
        &self.deltas
    }

    /// Whether it was taken before the queue had synced.
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_in_initial_list
    }
}

/// How a handler ends.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<E> {
    /// Handled.
    Done,
    /// Failed: the pop returns the error, and the deltas are gone.
    Failed(E),
    /// Not now: the deltas go back as `add_if_not_present` puts them; the pop returns the error,
    /// if there is one.
    Requeue(Option<E>),
}

impl<T, M: Meta<T>> MutexFifo<T, M> {
    /// Waits for a key and calls the handler with it, under the queue's lock: a handler that calls
    /// the queue waits for itself, as in client-go.
    ///
    /// # Errors
    /// When the queue is closed and empty, or the handler's error.
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

    /// The same without waiting: `None` when nothing is pending.
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
            Some(source) => Err(ProcessError::Handler { key: String::from(&*key), source }),
        }
    }
}
