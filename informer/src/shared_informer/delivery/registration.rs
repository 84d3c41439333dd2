//! The registration of a handler.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::distributor::Distributor;
use super::feed::Feed;
use crate::shared_informer::error::Removed;
use crate::util::sleep::with_catching_waker;

/// The registration of a handler (client-go `ResourceEventHandlerRegistration`). Cheap to clone. A
/// registration keeps the informer's store in memory. Dropping it does not remove the handler.
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct Registration<K: Send + Sync + 'static> {
    feed: Arc<Feed<K>>,
    distributor: Weak<Distributor<K>>,
}

impl<K: Send + Sync + 'static> Registration<K> {
    pub(in crate::shared_informer) fn new(
        feed: Arc<Feed<K>>,
        distributor: &Arc<Distributor<K>>,
    ) -> Self {
        Self { feed, distributor: Arc::downgrade(distributor) }
    }

    pub(super) fn feed(&self) -> &Arc<Feed<K>> {
        &self.feed
    }

    /// Returns whether the handler has been notified of every initial object: the objects of the
    /// informer's initial list, and the objects that were known when the handler was added
    /// (client-go `HasSynced`). A notification whose call panicked counts. Once true, the result
    /// stays true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.feed.state().borrow().has_synced
    }

    /// Waits until the handler [has synced](Self::has_synced). Waits for ever if nothing runs the
    /// informer.
    ///
    /// # Errors
    /// [`Removed`] if the handler was removed, or the informer stopped, before that.
    pub async fn wait_for_sync(&self) -> Result<(), Removed> {
        let mut state = self.feed.state();
        match with_catching_waker(state.wait_for(|state| state.has_synced || state.is_removed))
            .await
        {
            Ok(state) if state.has_synced => Ok(()),
            _ => Err(Removed),
        }
    }

    /// Removes the handler, and waits until a running call has ended (client-go
    /// `ShutDownEventHandler`). Notifications in its buffer are dropped. If the handler was removed
    /// before, or the informer has stopped, it only waits. Do not await it within the handler,
    /// which would wait for itself; use [`detach`](Self::detach) there.
    #[doc(alias = "ShutDownEventHandler")]
    pub async fn remove(&self) {
        self.detach();
        self.ended().await;
    }

    /// Removes the handler, without waiting (client-go `RemoveEventHandler`). It takes no further
    /// changes from its buffer. A change that it has taken before is still delivered: a running
    /// call continues, and a change that the filter is checking may lead to another call. The
    /// replacement of an object by one with another uid is two notifications, a deletion and an
    /// addition, that are taken together.
    #[doc(alias = "RemoveEventHandler")]
    pub fn detach(&self) {
        self.feed.remove();
        if let Some(distributor) = self.distributor.upgrade() {
            distributor.remove(&self.feed);
        }
    }

    /// Waits until the handler is removed, or its informer has stopped, and no call runs. For a
    /// [`Subscription`](super::Subscription), which has no calls, it waits for the removal only.
    pub async fn ended(&self) {
        self.feed.ended().await;
    }

    /// Returns how many entries are in the handler's buffer now: changes, and objects that a walk
    /// has read for the handler.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.feed.depth()
    }

    /// Returns the highest [`depth`](Self::depth) so far.
    #[must_use]
    pub fn high_water(&self) -> usize {
        self.feed.high_water()
    }

    /// Returns how long the oldest change has been in the handler's buffer, or `None` if the
    /// buffer is empty. Changes that were dropped because the buffer was full count as being in it
    /// until the handler takes [`ResyncBegins`](super::Notification::ResyncBegins).
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
        f.debug_struct("Registration")
            .field("has_synced", &synced)
            .field("depth", &depth)
            .finish_non_exhaustive()
    }
}
