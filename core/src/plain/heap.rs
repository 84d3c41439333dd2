//! The least first.

use std::ops::Deref;

use super::KeyedQueue;
use crate::engine::sync::Arc;
use crate::engine::sync::locks::uncounted;
use crate::error::{HeapError, ProcessError};
use crate::{KeyFunc, KeySource, Meta};

/// A queue of the newest object per key, the least of them first (client-go `Heap`). Dereferences to the [`KeyedQueue`]
/// that does the rest.
///
/// A key's place is that of its newest object; among equals the one whose key came first is first. Unlike a
/// [`Fifo`](crate::Fifo), and as in client-go, it takes nothing after its close. Every operation on one key is O(log
/// queued), in calls of the order function, too.
///
/// The order function runs under the heap's lock: it must not call the heap. Should it panic, the caller gets the panic;
/// no object is lost by it, but those who stand in line by then may come out of order.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{Heap, KeyFunc, NoMeta};
///
/// struct Job { name: &'static str, due: u32 }
/// let keys = KeyFunc::custom(NoMeta, |job: &Job| Ok(job.name.to_owned()));
/// let heap = Heap::new(keys, |job, other| job.due < other.due);
/// heap.bulk_add([("wash", 3), ("cook", 2)].map(|(name, due)| Arc::new(Job { name, due })))?;
/// heap.update(Arc::new(Job { name: "wash", due: 1 }))?;
/// assert_eq!(heap.pop()?.name, "wash");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Heap<T, M> {
    queue: KeyedQueue<T, M>,
}

impl<T, M: Meta<T>> Heap<T, M> {
    /// A heap, empty. `less`: whether an object comes before another; it must be an order (if a comes before b and b before
    /// c, then a before c), or pops come in none.
    #[must_use]
    pub fn new(keys: KeyFunc<T, M>, less: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        let queue = KeyedQueue::new(keys, move |entry, other| {
            let less = |one: &Arc<T>, another: &Arc<T>| uncounted(|| less(one, another));
            less(&entry.object, &other.object) || entry.arrival < other.arrival && !less(&other.object, &entry.object)
        });
        Self { queue }
    }

    /// Queues `object` under its key, in the place of what is queued there.
    ///
    /// # Errors
    /// [`HeapError::Key`], [`HeapError::Closed`]: nothing was queued.
    pub fn add(&self, object: Arc<T>) -> Result<(), HeapError> {
        self.bulk_add([object])
    }

    /// The same as [`add`](Self::add) (as in client-go).
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), HeapError> {
        self.add(object)
    }

    /// Queues all of `objects` before anything is popped.
    ///
    /// # Errors
    /// As for [`add`](Self::add): nothing was queued, also when only one has no key.
    pub fn bulk_add(&self, objects: impl IntoIterator<Item = Arc<T>>) -> Result<(), HeapError> {
        self.put(objects, false)
    }

    /// Queues `object` unless its key is queued: for who failed to handle it and must not hide a newer one.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_if_not_present(&self, object: Arc<T>) -> Result<(), HeapError> {
        self.put([object], true)
    }

    fn put(&self, objects: impl IntoIterator<Item = Arc<T>>, keeps: bool) -> Result<(), HeapError> {
        self.queue.put(self.queue.keyed(objects)?, keeps, check_open)
    }

    /// Takes the key of `of` out of the heap.
    ///
    /// # Errors
    /// [`HeapError::NotFound`] when it is not there, [`HeapError::Key`] when it has no key.
    pub fn delete<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<(), HeapError>
    where
        T: 'a,
    {
        let key = self.queue.keys().key_of(&of.into())?;
        if self.queue.take_out(&key) { Ok(()) } else { Err(HeapError::NotFound { key }) }
    }

    /// Queues exactly `list`; a key that is listed twice has the later object. What is left out
    /// is told to nobody. The first list of a queue that nothing else has populated is its initial population. O(list +
    /// queued).
    ///
    /// # Errors
    /// [`HeapError::Key`], [`HeapError::Closed`]: nothing was changed.
    pub fn replace(&self, list: Vec<Arc<T>>) -> Result<(), HeapError> {
        self.queue.replace_all(self.queue.keyed(list)?, check_open)
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

fn check_open(closed: bool) -> Result<(), HeapError> {
    if closed { Err(HeapError::Closed) } else { Ok(()) }
}

impl<T, M> Deref for Heap<T, M> {
    type Target = KeyedQueue<T, M>;

    fn deref(&self) -> &KeyedQueue<T, M> {
        &self.queue
    }
}
