//! The trait for code that works with any queue.

use crate::engine::release::UserCode;
use crate::error::{BoxError, Closed, ProcessError};
use crate::{DeltaFifo, Deltas, Event, InOrderFifo, Meta, ReflectorStore};

/// The error that a handler behind a [`Queue`](crate::caches::Queue) returned.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HandlerError(#[from] pub BoxError);

/// The handler of [`Queue::process`]: receives an item, and whether the item belongs to the
/// initial population.
pub type ItemHandler<'h, Item> = dyn FnMut(&Item, bool) -> Result<(), BoxError> + 'h;

/// A queue that a controller pops (client-go `Queue`).
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::caches::Queue;
/// use deltafifo::{DeltaFifo, Deltas, KeyFunc, NoMeta};
///
/// fn run(queue: &dyn Queue<String, Item = Deltas<String>>) -> usize {
///     let mut handled = 0;
///     while queue.process(&mut |deltas, _initial| Ok(handled += deltas.len())).is_ok() {}
///     handled
/// }
///
/// let keys = KeyFunc::custom(NoMeta, |name: &String| Ok(name.clone()));
/// let fifo = DeltaFifo::builder(keys).build();
/// fifo.add(Arc::new("a".to_owned()))?;
/// fifo.update(Arc::new("a".to_owned()))?;
/// fifo.close();
/// assert_eq!(run(&fifo), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Queue<T>: ReflectorStore<T> {
    /// The type that a handler receives: the deltas of a key, its newest object, or an event.
    type Item;

    /// Takes the next key or event and calls `handler` with its item (client-go `Pop`). Blocks
    /// while the queue is empty and open. Items are never put back, whatever the handler returns.
    /// A queue that is fused with a store applies the item to the store first.
    ///
    /// # Errors
    /// [`ProcessError`] if the queue is closed and empty, if the handler failed or panicked, or
    /// if an index function of the store failed.
    fn process(
        &self,
        handler: &mut ItemHandler<'_, Self::Item>,
    ) -> Result<(), ProcessError<HandlerError>>;

    /// Closes the queue. Queued items can still be popped; after that pops return [`Closed`].
    fn close(&self);

    /// Returns whether [`close`](Self::close) was called.
    fn is_closed(&self) -> bool;

    /// Returns whether the initial population has been handled. Once true, it stays true.
    fn has_synced(&self) -> bool;

    /// Blocks until [`has_synced`](Self::has_synced) is true (client-go `HasSyncedChecker`).
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    fn wait_for_sync(&self) -> Result<(), Closed>;
}

impl<T: Send + Sync, M: Meta<T>> Queue<T> for DeltaFifo<T, M> {
    type Item = Deltas<T>;

    fn process(
        &self,
        handler: &mut ItemHandler<'_, Deltas<T>>,
    ) -> Result<(), ProcessError<HandlerError>> {
        self.process(|item| {
            let initial = item.is_in_initial_list();
            if !self.is_fused() {
                return Ok(handler(item.deltas(), initial)?);
            }
            // `apply` consumes the deltas, and the handler needs them.
            let deltas = UserCode::new(item.deltas().clone());
            let stored = UserCode::new(item.apply(|_| ()));
            handler(&deltas, initial)?;
            Ok(stored.into_inner().map_err(BoxError::from)?)
        })
    }

    fn close(&self) {
        self.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn wait_for_sync(&self) -> Result<(), Closed> {
        self.wait_for_sync()
    }
}

impl<T: Send + Sync, M: Meta<T>> Queue<T> for InOrderFifo<T, M> {
    type Item = Event<T>;

    fn process(
        &self,
        handler: &mut ItemHandler<'_, Event<T>>,
    ) -> Result<(), ProcessError<HandlerError>> {
        self.process(|turn| {
            let stored = UserCode::new(turn.store());
            let initial = turn.is_in_initial_list();
            turn.event().map_or(Ok(()), |event| handler(event, initial))?;
            Ok(stored.into_inner().map_err(BoxError::from)?)
        })
    }

    fn close(&self) {
        self.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn wait_for_sync(&self) -> Result<(), Closed> {
        self.wait_for_sync()
    }
}
