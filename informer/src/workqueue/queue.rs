//! The public type of the work queue.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::Key;
use super::builder::Builder;
use super::getter::Getter;
use super::item::Item;
use super::keeper::Keeper;
use super::options::AddOptions;
use super::shared::{NextItem, SharedQueue};
use super::state::QueuePhase;
use crate::util::sleep::wait_until_some;

/// A queue of keys, each processed by one reconciler at a time (client-go
/// `TypedRateLimitingInterface`, controller-runtime `PriorityQueue`). The docs of the
/// [module](super) describe the states of a key, the order of keys, and costs.
///
/// All methods take `&self` and can be called from any thread: share the queue by reference or
/// `Arc`. Adds never block; the length is bounded by the number of different keys. If the queue is
/// dropped without [`shut_down`](Self::shut_down), its task ends, too.
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "PriorityQueue")]
#[doc(alias = "applier")]
#[doc(alias = "scheduler")]
#[doc(alias = "NewTypedRateLimitingQueue")]
pub struct WorkQueue<K: Key> {
    pub(super) shared: Arc<SharedQueue<K>>,
    pub(super) _keeper: Keeper,
}

impl<K: Key> WorkQueue<K> {
    /// Returns a builder. By default the queue has the default rate limiter, no name and no
    /// metrics.
    pub fn builder() -> Builder<K> {
        Builder::new()
    }

    /// Requests that a key be processed, with priority 0 (client-go `Add`). After a shutdown the
    /// call is ignored.
    pub fn add(&self, key: K) {
        self.add_with(key, AddOptions::new());
    }

    /// Requests that a key be processed, not before `delay` has passed (client-go `AddAfter`). A
    /// key has one wait, for the earliest time that was requested; [`add`](Self::add) ends the
    /// wait.
    ///
    /// Delays are rounded up to milliseconds. A delay of more than 30 years counts as 30 years.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_with(key, AddOptions::new().after(delay));
    }

    /// Requests that a failed key be processed again, after the rate limiter's delay (client-go
    /// `AddRateLimited`). Call it before the item is done.
    ///
    /// At most one failure counts for each time that the key is taken. If the key is queued, or
    /// waits for its backoff because of an earlier call, the queue does not call the rate limiter,
    /// and can only raise the key to priority 0. (client-go calls the rate limiter each time, so
    /// adds during the backoff lengthen the next one: kubernetes#132805, controller-runtime#1594.)
    /// If the key waits for a delay of [`add_after`](Self::add_after), the failure counts, and the
    /// earlier of the two times applies.
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Requests that a key be processed, with options for priority, delay and rate limit
    /// (controller-runtime `AddWithOpts`).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use deltafifo_informer::workqueue::{AddOptions, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::builder().build()?;
    /// queue.add_with("listed", AddOptions::new().priority(-100));
    /// queue.add_with("later", AddOptions::new().after(Duration::from_secs(1)));
    /// queue.add("changed");
    ///
    /// let mut taken = Vec::new();
    /// for _ in 0..3 {
    ///     taken.extend(queue.get().await.map(|item| *item.key()));
    /// }
    /// assert_eq!(taken, ["changed", "listed", "later"]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "AddWithOpts")]
    pub fn add_with(&self, key: K, options: AddOptions) {
        self.shared.add(key, options);
    }

    /// Takes the next key, and waits while there is none. Returns `None` when the queue is shut
    /// down and empty (client-go `Get`).
    ///
    /// A key that was added while it was processed is queued again afterwards, even if the queue
    /// was shut down in between. So a reconciler must call `get` until it returns `None`.
    ///
    /// Dropping the future loses neither a key nor a wake-up.
    pub fn get(&self) -> impl Future<Output = Option<Item<K>>> + Send {
        Getter::new(&self.shared)
    }

    /// Takes the next key if there is one.
    #[must_use = "if the item is dropped, its key counts as done"]
    pub fn try_get(&self) -> Option<Item<K>> {
        match self.shared.take() {
            NextItem::Item(item) => Some(item),
            NextItem::Empty(_) | NextItem::ShutDown => None,
        }
    }

    /// Forgets the failures of a key that was processed successfully or is given up (client-go
    /// `Forget`).
    ///
    /// A backoff that has begun continues, but the next
    /// [`add_rate_limited`](Self::add_rate_limited) calls the rate limiter again, and the earlier
    /// of the two times applies.
    pub fn forget(&self, key: &K) {
        self.shared.forget(key);
    }

    /// Returns how often the key [failed](Self::add_rate_limited) since it was last forgotten
    /// (client-go `NumRequeues`).
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.limiter.num_requeues(key)
    }

    /// Returns how many keys can be taken now (client-go `Len`), without keys that are being
    /// processed or wait for a time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Returns whether no key can be taken now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shuts the queue down (client-go `ShutDown`): later adds are ignored, and keys that wait for
    /// a time are freed. All callers of [`get`](Self::get) are woken; they get the keys that are
    /// left, and then `None`. It also ends the wait of a drain.
    pub fn shut_down(&self) {
        self.shared.end_with(QueuePhase::ShutDown);
    }

    /// Shuts the queue down at once, like [`shut_down`](Self::shut_down). The returned future waits
    /// until all keys have been processed: queued keys, keys in processing, and keys that were
    /// added again while they were processed (client-go `ShutDownWithDrain`). This requires a
    /// caller that continues to get keys. (client-go's returns at once if no key is in processing,
    /// even if keys are queued.) A later `shut_down` ends the wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use deltafifo_informer::workqueue::WorkQueue;
    /// use std::sync::Arc;
    ///
    /// let queue = Arc::new(WorkQueue::builder().build()?);
    /// (0..1000).for_each(|key| queue.add(key));
    /// let worker = tokio::spawn({
    ///     let queue = Arc::clone(&queue);
    ///     async move { while let Some(item) = queue.get().await { item.done() } }
    /// });
    /// queue.shut_down_with_drain().await;
    /// assert!(queue.is_empty());
    /// worker.await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the queue is shut down; the future waits for what is being processed"]
    pub fn shut_down_with_drain(&self) -> impl Future<Output = ()> + Send {
        self.shared.end_with(QueuePhase::Draining);
        wait_until_some(&self.shared.drained, || (!self.shared.is_draining()).then_some(()))
    }

    /// Returns whether the queue was shut down, with or without a drain (client-go
    /// `ShuttingDown`).
    #[doc(alias = "ShuttingDown")]
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.is_shutting_down()
    }
}

impl<K: Key> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}
