//! The queue as its users see it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::consume_budget;

use super::Key;
use super::builder::Builder;
use super::item::Item;
use super::keeper::Keeper;
use super::line::Phase;
use super::options::AddOptions;
use super::shared::{Shared, Taken};
use crate::sleep::sleep_until_some;

/// A queue of keys to be processed, each by one at a time (client-go `TypedRateLimitingInterface`,
/// controller-runtime `PriorityQueue`). What it does with a key, how long a key may wait, and what
/// everything costs is said in the docs of the [module](super).
///
/// Every method takes `&self`, from any thread: share it by reference or `Arc`. Adds never block;
/// the queue is bounded by the number of different keys. Dropped without
/// [`shut_down`](Self::shut_down), it takes its task with it.
pub struct WorkQueue<K: Key> {
    pub(super) shared: Arc<Shared<K>>,
    pub(super) _keeper: Keeper,
}

impl<K: Key> WorkQueue<K> {
    /// Begins a queue: with the default limiter and, having no name, without metrics.
    pub fn builder() -> Builder<K> {
        Builder::new()
    }

    /// Asks for a key to be processed, with priority 0 (client-go `Add`). A shut down queue
    /// ignores it.
    pub fn add(&self, key: K) {
        self.add_with(key, AddOptions::new());
    }

    /// The same, not before `delay` has passed (client-go `AddAfter`). A key waits once, for the
    /// earliest time that it was asked for; [`add`](Self::add) makes an end of the waiting.
    ///
    /// Delays are kept to the millisecond, rounded up; one of more than 30 years is one of 30
    /// years.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_with(key, AddOptions::new().after(delay));
    }

    /// Asks for a key that failed to be processed again, when the rate limiter's delay has passed
    /// (client-go `AddRateLimited`). Call it before the item is done.
    ///
    /// Only failures count: at most one for each time that the key is taken. The rate limiter is
    /// not asked about a key that is queued, or that backs off already because of an earlier
    /// call; such a call changes nothing (client-go asks each time, so that additions during the
    /// back-off lengthen the next one: kubernetes#132805, controller-runtime#1594). A key that
    /// waits for a delay of [`add_after`](Self::add_after) is another matter: the failure counts,
    /// and the sooner of the two times applies.
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Asks for a key to be processed, with a priority, after a time, rate-limited
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
    pub fn add_with(&self, key: K, options: AddOptions) {
        self.shared.add(key, options);
    }

    /// Takes the next key; waits while there is none. `None`: the queue is shut down and empty
    /// (client-go `Get`).
    ///
    /// A key that is added while it is processed comes back after that also in a queue that is
    /// shut down: whoever processes goes on getting until `None`.
    ///
    /// Dropping the future loses neither a key nor a wake-up.
    pub async fn get(&self) -> Option<Item<K>> {
        // Who always finds a key never sleeps, and would keep other tasks from their turn.
        consume_budget().await;
        sleep_until_some(&self.shared.ready, || self.look()).await
    }

    /// What `get` ends with, if it may end.
    #[allow(clippy::option_option)] // Not yet; shut down; a key.
    fn look(&self) -> Option<Option<Item<K>>> {
        match self.shared.take() {
            Taken::Item(item) => Some(Some(item)),
            Taken::ShutDown => Some(None),
            Taken::Empty => None,
        }
    }

    /// Takes the next key if there is one.
    #[must_use = "dropped, the key is done"]
    pub fn try_get(&self) -> Option<Item<K>> {
        self.look().flatten()
    }

    /// Forgets the failures of a key that was processed well, or is given up (client-go
    /// `Forget`).
    ///
    /// A back-off that has begun goes on, but the next
    /// [`add_rate_limited`](Self::add_rate_limited) asks the rate limiter anew, and the sooner of
    /// the two times applies.
    pub fn forget(&self, key: &K) {
        self.shared.forget(key);
    }

    /// Returns how often the key [failed](Self::add_rate_limited) since it was last forgotten
    /// (client-go `NumRequeues`).
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.limiter.num_requeues(key)
    }

    /// How many keys can be taken now (client-go `Len`): not those that are processed or wait for
    /// a time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether no key can be taken now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the queue (client-go `ShutDown`): adds are ignored, waiting keys forgotten. Everyone
    /// in [`get`](Self::get) is woken, gets what is left, and then `None`. Ends the waiting for a
    /// drain, too.
    pub fn shut_down(&self) {
        self.shared.end_with(Phase::ShutDown);
    }

    /// Ends the queue at once, as [`shut_down`](Self::shut_down) does; the future ends when
    /// everything has been processed: what is queued, what is being processed, and what was added
    /// meanwhile of the latter (client-go `ShutDownWithDrain`). It needs somebody who goes on
    /// getting (client-go's returns at once when nothing is being processed, whatever is queued);
    /// a later `shut_down` ends it in any case.
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
        self.shared.end_with(Phase::Draining);
        sleep_until_some(&self.shared.drained, || (!self.shared.is_draining()).then_some(()))
    }

    /// Whether it was shut down, one way or the other (client-go `ShuttingDown`).
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
