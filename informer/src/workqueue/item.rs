//! The guard of a key that is being processed.

use std::fmt;
use std::sync::Arc;

use super::Key;
use super::entry::Requested;
use super::shared::SharedQueue;

/// A key that has been taken from the queue. While the item exists, no other caller gets the key.
/// The processing ends when [`done`](Self::done) is called or the item is dropped. A panic drops
/// it, so a reconciler that panics does not keep its key.
///
/// The end of the processing does not queue the key again. A reconciler that fails adds the key
/// before it ends the item. If the item is leaked with `mem::forget`, its key is never processed
/// again; the queue is not affected otherwise. An item may outlive the queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use deltafifo_informer::workqueue::{AddOptions, WorkQueue};
///
/// let queue = WorkQueue::builder().build()?;
/// queue.add_with("web", AddOptions::new().priority(-100));
/// if let Some(item) = queue.try_get() {
///     assert_eq!((*item.key(), item.priority()), ("web", -100));
///     // It failed, so it is queued again, with a delay and the same priority.
///     queue.add_with(*item.key(), AddOptions::new().priority(item.priority()).rate_limited());
///     item.done();
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "if the item is dropped, the processing of its key ends"]
pub struct Item<K: Key> {
    key: K,
    requested: Requested,
    claim: Claim<K>,
}

impl<K: Key> Item<K> {
    pub(super) fn new(claim: Claim<K>, key: K, requested: Requested) -> Self {
        Self { key, requested, claim }
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the highest priority with which this processing was requested (controller-runtime
    /// `GetWithPriority`).
    #[doc(alias = "GetWithPriority")]
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.requested.priority
    }

    /// Returns the [tag](super::AddOptions::tag) of the add that decided when the key was taken.
    #[cfg(feature = "runtime")]
    pub(crate) fn tag(&self) -> u8 {
        self.requested.tag
    }

    /// Ends the processing (client-go `Done`). If the key was added since it was taken, it is
    /// queued again.
    pub fn done(self) {
        drop(self.claim);
    }
}

impl<K: Key + fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("priority", &self.requested.priority)
            .finish_non_exhaustive()
    }
}

/// The right to process a key. Its drop ends the processing.
pub(super) struct Claim<K: Key> {
    shared: Arc<SharedQueue<K>>,
    /// The number of the key's entry.
    slot: u32,
}

impl<K: Key> Claim<K> {
    pub(super) fn new(shared: Arc<SharedQueue<K>>, slot: u32) -> Self {
        Self { shared, slot }
    }
}

impl<K: Key> Drop for Claim<K> {
    fn drop(&mut self) {
        self.shared.end(self.slot);
    }
}
