//! First in, first out.

use std::ops::Deref;

use super::KeyedQueue;
use crate::engine::sync::Arc;
use crate::error::{KeyError, ProcessError};
use crate::{KeyFunc, KeySource, Meta};

/// A queue of the newest object per key, in the order in which keys came (client-go `FIFO`). Dereferences to the
/// [`KeyedQueue`] that does the rest.
///
/// For who wants each object handled once, in its newest state, and not at all once it is deleted. A key keeps its place
/// while it is queued; deleted and added again it is at the end. (In client-go it is where it was before: its deletion leaves
/// the place behind.) As in client-go an add after close still queues. Every operation on one key is O(log queued).
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{Fifo, KeyFunc, NoMeta};
///
/// let fifo = Fifo::new(KeyFunc::custom(NoMeta, |(name, _): &(&str, u32)| Ok((*name).to_owned())));
/// for object in [("a", 1), ("b", 1), ("c", 1), ("a", 2)] {
///     fifo.add(Arc::new(object))?;
/// }
/// fifo.delete(&("b", 0))?;
/// assert_eq!((*fifo.pop()?, *fifo.pop()?), (("a", 2), ("c", 1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fifo<T, M> {
    queue: KeyedQueue<T, M>,
}

impl<T, M: Meta<T>> Fifo<T, M> {
    /// A queue, empty.
    #[must_use]
    pub fn new(keys: KeyFunc<T, M>) -> Self {
        Self { queue: KeyedQueue::new(keys, |entry, other| entry.arrival < other.arrival) }
    }

    /// Queues `object` under its key, in the place of what is queued there.
    ///
    /// # Errors
    /// [`KeyError`]: nothing was queued.
    pub fn add(&self, object: Arc<T>) -> Result<(), KeyError> {
        self.put(object, false)
    }

    /// The same as [`add`](Self::add) (as in client-go).
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), KeyError> {
        self.add(object)
    }

    /// Queues `object` unless its key is queued: for who failed to handle it and must not hide a newer one.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_if_not_present(&self, object: Arc<T>) -> Result<(), KeyError> {
        self.put(object, true)
    }

    fn put(&self, object: Arc<T>, keeps: bool) -> Result<(), KeyError> {
        self.queue.put(self.queue.keyed([object])?, keeps, |_closed| Ok(()))
    }

    /// Takes the key of `of` out of the queue, if it is there.
    ///
    /// # Errors
    /// [`KeyError`] when it has no key.
    pub fn delete<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<(), KeyError>
    where
        T: 'a,
    {
        let key = self.queue.keys().key_of(&of.into())?;
        self.queue.take_out(&key);
        Ok(())
    }

    /// Queues exactly `list`, in its order; a key that is listed twice has the later object. What is left out
    /// is told to nobody. The first list of a queue that nothing else has populated is its initial population. O(list +
    /// queued).
    ///
    /// # Errors
    /// [`KeyError`]: nothing was changed.
    pub fn replace(&self, list: Vec<Arc<T>>) -> Result<(), KeyError> {
        self.queue.replace_all(self.queue.keyed(list)?, |_closed| Ok(()))
    }

    /// Takes the first object and calls `handler` with it and with whether it is of the initial population (client-go
    /// `Pop`); blocks while there is none and the queue is open. The object is gone from the queue by then, whatever comes
    /// of the handler. O(log queued).
    ///
    /// # Errors
    /// [`ProcessError`]: the queue is closed and empty, or the handler failed or panicked. A panic goes no further.
    pub fn process<R, E>(&self, handler: impl FnOnce(&Arc<T>, bool) -> Result<R, E>) -> Result<R, ProcessError<E>> {
        self.queue.handle(handler)
    }
}

impl<T, M> Deref for Fifo<T, M> {
    type Target = KeyedQueue<T, M>;

    fn deref(&self) -> &KeyedQueue<T, M> {
        &self.queue
    }
}
