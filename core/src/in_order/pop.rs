//! The methods that take a turn: they return it as a guard, or call a handler with it.

use super::{InOrderFifo, Turn};
use crate::Meta;
use crate::engine::wait::{wait, wait_async};
use crate::error::{Closed, ProcessError};

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// Takes the next event. Blocks while the queue is open and empty, and while another guard has
    /// the turn. A thread that calls this while it holds a guard itself deadlocks.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn pop(&self) -> Result<Turn<'_, T, M>, Closed> {
        self.pop_batch(1)
    }

    /// Takes the next event if there is one and no consumer has the turn. Does not wait.
    pub fn try_pop(&self) -> Option<Turn<'_, T, M>> {
        self.try_pop_batch(1)
    }

    /// Waits for the next event and takes it. A future that is dropped takes nothing.
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    #[doc(alias = "ProcessFunc")]
    pub async fn pop_async(&self) -> Result<Turn<'_, T, M>, Closed> {
        wait_async(self.log.ready(), || self.check(1)).await
    }

    /// Takes up to `max` events in order: deltas of different keys, or one relist or resync alone
    /// (client-go `PopBatch`, whose `max` is 1,000). The first event that does not belong to the
    /// batch stays at the head of the queue. Waits as [`pop`](Self::pop) does. A `max` of 0 counts
    /// as 1. O(max).
    ///
    /// # Errors
    /// [`Closed`] once the queue is closed and empty.
    pub fn pop_batch(&self, max: usize) -> Result<Turn<'_, T, M>, Closed> {
        wait(self.log.ready(), || self.check(max))
    }

    /// Takes a batch if there is an event and no consumer has the turn. Does not wait.
    pub fn try_pop_batch(&self, max: usize) -> Option<Turn<'_, T, M>> {
        self.check(max)?.ok()
    }

    /// Takes the next event and calls `handler` with its turn (client-go `Pop`). When the handler
    /// returns, fails or panics, the event counts as handled, whether or not it was applied. The
    /// returned error names the key of the event. For a relist or resync, it names the key for
    /// which the handler of [`Turn::apply`] panicked, or else `*`.
    ///
    /// # Errors
    /// [`ProcessError`]: the queue is closed and empty, or the handler failed or panicked. The
    /// panic is caught.
    pub fn process<R, E>(
        &self,
        handler: impl FnOnce(&mut Turn<'_, T, M>) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        self.pop()?.handle(handler)
    }

    fn check(&self, max: usize) -> Option<Result<Turn<'_, T, M>, Closed>> {
        Some(self.log.take(max)?.map(|taken| Turn::new(self, taken)))
    }
}
