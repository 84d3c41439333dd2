//! A first-in, first-out queue.

use std::ops::Deref;

use super::KeyedQueue;
use crate::engine::sync::Arc;
use crate::error::{KeyError, ProcessError};
use crate::{KeyFunc, KeySource, Meta};

/// A queue of the newest object per key, in the order in which the keys were added (client-go
/// `FIFO`). Dereferences to [`KeyedQueue`], which has the common methods.
///
/// Each object is handled once, in its newest state, and not at all after it is deleted. A key
/// keeps its place while it is queued. If it is deleted and added again, it goes to the end (in
/// client-go it returns to its former place, because a deletion does not remove the place). As in
/// client-go, objects can be added after the close. Every operation on one key is O(log queued).
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::caches::Fifo;
/// use deltafifo::{KeyFunc, NoMeta};
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
    /// Creates an empty queue.
    #[must_use]
    pub fn new(keys: KeyFunc<T, M>) -> Self {
        Self { queue: KeyedQueue::new(keys, |entry, other| entry.arrival < other.arrival) }
    }

    /// Queues `object` under its key, replacing the queued object of that key.
    ///
    /// # Errors
    /// [`KeyError`] if the object has no key; nothing is queued.
    pub fn add(&self, object: Arc<T>) -> Result<(), KeyError> {
        self.put(object, false)
    }

    /// Does the same as [`add`](Self::add), as in client-go.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), KeyError> {
        self.add(object)
    }

    /// Queues `object` unless its key is queued. With this, a consumer that failed to handle an
    /// object can queue it again without replacing a newer object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_if_not_present(&self, object: Arc<T>) -> Result<(), KeyError> {
        self.put(object, true)
    }

    fn put(&self, object: Arc<T>, keeps: bool) -> Result<(), KeyError> {
        self.queue.put(self.queue.keyed(&mut std::iter::once(object))?, keeps, |_closed| Ok(()))
    }

    /// Removes a key from the queue, if it is queued.
    ///
    /// # Errors
    /// [`KeyError`] if `of` has no key.
    pub fn delete<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<(), KeyError>
    where
        T: 'a,
    {
        let key = self.queue.keys().key_of(&of.into())?;
        self.queue.remove_key(&key);
        Ok(())
    }

    /// Replaces the contents with `list`, in its order. If a key is listed twice, the later
    /// object is queued. Keys that are not listed are removed without a notification. The objects
    /// of the initial list are the initial population, unless the queue was written to before it.
    /// O(list + queued).
    ///
    /// # Errors
    /// [`KeyError`] if an object has no key; nothing is changed.
    pub fn replace(&self, list: Vec<Arc<T>>) -> Result<(), KeyError> {
        self.queue.replace_all(self.queue.keyed_list(list)?, |_closed| Ok(()))
    }

    /// Takes the first object and calls `handler` with the object and a flag that says whether it
    /// belongs to the initial population (client-go `Pop`). Blocks while the queue is empty and
    /// open. The object is not put back, whatever the handler returns. O(log queued).
    ///
    /// # Errors
    /// [`ProcessError`] if the queue is closed and empty, or if the handler failed or panicked. A
    /// panic of the handler is caught.
    pub fn process<R, E>(
        &self,
        handler: impl FnOnce(&Arc<T>, bool) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
        self.queue.handle(handler)
    }
}

impl<T, M> Deref for Fifo<T, M> {
    type Target = KeyedQueue<T, M>;

    fn deref(&self) -> &KeyedQueue<T, M> {
        &self.queue
    }
}
