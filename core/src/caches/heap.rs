//! A priority queue.

use std::ops::Deref;

use super::KeyedQueue;
use crate::engine::release::OneByOne;
use crate::engine::sync::Arc;
use crate::engine::sync::locks::uncounted;
use crate::error::{KeyError, ProcessError, StoreError};
use crate::{KeyFunc, KeySource, Meta};

/// A queue of the newest object per key, least first (client-go `Heap`). Dereferences to
/// [`KeyedQueue`], which has the common methods.
///
/// A key's place depends on its newest object. If two objects are equal, the one whose key was
/// added first comes first. Unlike a [`Fifo`](crate::caches::Fifo), and as in client-go, a heap
/// accepts nothing after its close. An operation on one key calls the order function O(log queued)
/// times.
///
/// The order function runs under the heap's lock and must not call the heap. If it panics, the
/// panic is passed to the caller. No object is lost, but objects that are queued at that time may
/// be popped out of order.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::caches::Heap;
/// use deltafifo::{KeyFunc, NoMeta};
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
    /// Creates an empty heap. `less` returns whether its first argument comes before the second.
    /// It must be transitive; otherwise objects are popped in no particular order.
    #[must_use]
    pub fn new(keys: KeyFunc<T, M>, less: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        let queue = KeyedQueue::new(keys, move |entry, other| {
            let less = |one: &Arc<T>, another: &Arc<T>| uncounted(|| less(one, another));
            less(&entry.object, &other.object)
                || entry.arrival < other.arrival && !less(&other.object, &entry.object)
        });
        Self { queue }
    }

    /// Queues `object` under its key, replacing the queued object of that key.
    ///
    /// # Errors
    /// [`HeapError::Key`] if `object` has no key, [`HeapError::Closed`] if the heap is closed.
    /// Nothing is queued.
    pub fn add(&self, object: Arc<T>) -> Result<(), HeapError> {
        self.bulk_add([object])
    }

    /// Does the same as [`add`](Self::add), as in client-go.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn update(&self, object: Arc<T>) -> Result<(), HeapError> {
        self.add(object)
    }

    /// Queues all of `objects` before any of them can be popped.
    ///
    /// # Errors
    /// As for [`add`](Self::add). Nothing is queued, even if only one object has no key; the
    /// objects after it are not taken out of the iterator.
    pub fn bulk_add(&self, objects: impl IntoIterator<Item = Arc<T>>) -> Result<(), HeapError> {
        self.put(objects, false)
    }

    /// Queues `object` unless its key is queued. With this, a consumer that failed to handle an
    /// object can queue it again without replacing a newer object.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_if_not_present(&self, object: Arc<T>) -> Result<(), HeapError> {
        self.put([object], true)
    }

    fn put(&self, objects: impl IntoIterator<Item = Arc<T>>, keeps: bool) -> Result<(), HeapError> {
        let mut objects = OneByOne(Some(objects.into_iter()));
        let keyed = self.queue.keyed(&mut objects.iter_mut().flatten())?;
        self.queue.put(keyed, keeps, check_open)
    }

    /// Removes a key from the heap.
    ///
    /// # Errors
    /// [`HeapError::NotFound`] if the key is not queued, [`HeapError::Key`] if `of` has no key.
    pub fn delete<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<(), HeapError>
    where
        T: 'a,
    {
        let key = self.queue.keys().key_of(&of.into())?;
        if self.queue.remove_key(&key) { Ok(()) } else { Err(HeapError::NotFound { key }) }
    }

    /// Replaces the contents with `list`. If a key is listed twice, the later object is queued.
    /// Keys that are not listed are removed without a notification. The objects of the initial list
    /// are the initial population, unless the queue was written to before it. O(list + queued).
    ///
    /// # Errors
    /// [`HeapError::Key`] if an object has no key, [`HeapError::Closed`] if the heap is closed.
    /// Nothing is changed.
    pub fn replace(&self, list: Vec<Arc<T>>) -> Result<(), HeapError> {
        self.queue.replace_all(self.queue.keyed_list(list)?, check_open)
    }

    /// Takes the first object and calls `handler` with the object and a flag that says whether it
    /// belongs to the initial population (client-go `Pop`). Blocks while the heap is empty and
    /// open. The object is not put back, whatever the handler returns. O(log queued).
    ///
    /// # Errors
    /// [`ProcessError`] if the heap is closed and empty, or if the handler failed or panicked. A
    /// panic of the handler is caught.
    pub fn process<R, E>(
        &self,
        handler: impl FnOnce(&Arc<T>, bool) -> Result<R, E>,
    ) -> Result<R, ProcessError<E>> {
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

/// The reason why a write to a [`Heap`](crate::caches::Heap) failed. The heap is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The object has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The heap is closed.
    #[error("heap is closed and accepts no objects: stop adding, or create another heap")]
    Closed,
    /// The object to delete is not in the heap.
    #[error(
        "key {key:?} is not in the heap and was not deleted: it was never added, or was already popped"
    )]
    NotFound {
        /// The key of the object.
        key: String,
    },
}

impl From<HeapError> for StoreError {
    fn from(error: HeapError) -> Self {
        match error {
            HeapError::Key(error) => error.into(),
            error @ (HeapError::Closed | HeapError::NotFound { .. }) => Self::Heap(error),
        }
    }
}
