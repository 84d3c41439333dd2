//! A handler's handle.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::distributor::Distributor;
use super::error::Removed;
use super::feed::Feed;
use crate::sleep::soundly;

/// A handler's handle (client-go `ResourceEventHandlerRegistration`). Cheap to clone; dropped, the
/// handler stays. As long as there is one there is what the informer has stored, too.
pub struct Registration<K: Send + Sync + 'static> {
    feed: Arc<Feed<K>>,
    distributor: Weak<Distributor<K>>,
}

impl<K: Send + Sync + 'static> Registration<K> {
    pub(super) fn new(feed: Arc<Feed<K>>, distributor: &Arc<Distributor<K>>) -> Self {
        Self { feed, distributor: Arc::downgrade(distributor) }
    }

    pub(super) fn feed(&self) -> &Arc<Feed<K>> {
        &self.feed
    }

    /// Whether the handler has been told of all that is initial: the informer's first list, and
    /// what was known when it came (client-go `HasSynced`). A call that panicked has told it, too.
    /// Once true it stays true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.feed.state().borrow().has_synced
    }

    /// Waits until the handler [has synced](Self::has_synced). Does not end as long as nobody runs
    /// the informer.
    ///
    /// # Errors
    /// [`Removed`]: the handler was removed, or the informer stopped, before.
    pub async fn wait_for_sync(&self) -> Result<(), Removed> {
        let mut state = self.feed.state();
        match soundly(state.wait_for(|state| state.has_synced || state.is_removed)).await {
            Ok(state) if state.has_synced => Ok(()),
            _ => Err(Removed),
        }
    }

    /// Removes the handler, and waits until a running call has ended (client-go
    /// `ShutDownEventHandler`). What waits for it is dropped. Again, or after the informer has
    /// stopped, it does nothing. Do not wait for it within the handler: that would be to wait for
    /// itself; [`detach`](Self::detach) does not.
    pub async fn remove(&self) {
        self.detach();
        self.ended().await;
    }

    /// Removes the handler: it takes nothing any more, and what it has taken it is told yet
    /// (client-go `RemoveEventHandler`): a call that runs, a change that its filter looks at. That
    /// an object has another in its place is two notifications, a deletion and an addition, taken
    /// at once.
    pub fn detach(&self) {
        self.feed.remove();
        if let Some(distributor) = self.distributor.upgrade() {
            distributor.remove(&self.feed);
        }
    }

    /// Waits until the handler is removed, or its informer stopped, and no call runs any more. Of a
    /// [`Subscription`](super::Subscription), which runs no calls, only the first.
    pub async fn ended(&self) {
        self.feed.ended().await;
    }

    /// How many changes wait for the handler now: a gauge.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.feed.depth()
    }

    /// How many waited for it at most, ever.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.feed.high_water()
    }

    /// For how long the oldest of them waits.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.feed.age()
    }
}

impl<K: Send + Sync + 'static> Clone for Registration<K> {
    fn clone(&self) -> Self {
        Self { feed: self.feed.clone(), distributor: self.distributor.clone() }
    }
}

impl<K: Send + Sync + 'static> fmt::Debug for Registration<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (synced, depth) = (self.has_synced(), self.depth());
        f.debug_struct("Registration").field("has_synced", &synced).field("depth", &depth).finish_non_exhaustive()
    }
}
