//! The distributor, which offers the changes of the workers to all handlers.

#[cfg(test)]
mod tests;

use std::time::Duration;

use deltafifo::{Change, DeletedFinalStateUnknown, DeltaObject, IndexReader, Meta};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::feed::{Feed, HandlerState};
use super::handler::HandlerOptions;
use super::notification::Cause;
use super::protocol::{ActiveKeys, WalkedStore};
use super::step::{CurrentState, Step};
use crate::shared_informer::error::OnError;
use crate::shared_informer::sync::{Arc, Mutex, mutant};
use crate::util::sleep::with_catching_waker;

/// The handlers of an informer, and the active keys of its workers.
pub(in crate::shared_informer) struct Distributor<K> {
    known: Arc<dyn WalkedStore<K>>,
    active_keys: Arc<ActiveKeys>,
    list: Mutex<HandlerList<K>>,
    /// The signal that a handler with resyncs was added.
    pub(in crate::shared_informer) resync_added: Notify,
}

/// The list of handlers.
struct HandlerList<K> {
    /// The feeds of the handlers. A list that a worker may be using is never modified: adding or
    /// removing a handler replaces it by another one. So a worker iterates over it without holding
    /// the lock.
    feeds: Arc<Vec<Arc<Feed<K>>>>,
    has_synced: bool,
    is_closed: bool,
    /// The states of handlers that were removed, or that existed when the list was closed.
    /// [`ended`](Distributor::ended) waits through them for the end of the last calls.
    last: Vec<watch::Receiver<HandlerState>>,
}

impl<K: Send + Sync + 'static> Distributor<K> {
    pub(in crate::shared_informer) fn new<M: Meta<K>>(
        store: IndexReader<K, M>,
        workers: usize,
    ) -> Self {
        let list = HandlerList {
            feeds: Arc::default(),
            has_synced: false,
            is_closed: false,
            last: Vec::new(),
        };
        Self {
            known: Arc::new(store),
            active_keys: Arc::new(ActiveKeys::new(workers)),
            list: Mutex::new(list),
            resync_added: Notify::new(),
        }
    }

    /// Creates the feed of a handler. The handler must then be [added](Self::add).
    pub(in crate::shared_informer) fn feed(
        &self,
        options: HandlerOptions<K>,
        resync_of_informer: Option<Duration>,
        is_stream: bool,
        on_error: OnError,
    ) -> Feed<K> {
        let (known, active_keys) = (self.known.clone(), self.active_keys.clone());
        Feed::new(known, active_keys, options, resync_of_informer, is_stream, on_error)
    }

    fn feeds(&self) -> Arc<Vec<Arc<Feed<K>>>> {
        self.list.lock().feeds.clone()
    }

    /// Adds a handler, to which all later changes are offered. Returns false if the list is closed.
    #[must_use]
    pub(in crate::shared_informer) fn add(&self, feed: &Arc<Feed<K>>) -> bool {
        let has_synced = {
            let mut list = self.list.lock();
            let is_closed = list.is_closed;
            mutant!(StoppedInformerAcceptsHandler => let is_closed = false);
            if is_closed {
                return false;
            }
            mutant!(ListIsCopiedUnlocked => return self.add_to_copy(list, feed));
            Arc::make_mut(&mut list.feeds).push(feed.clone());
            list.has_synced
        };
        if has_synced {
            feed.informer_has_synced();
        }
        if feed.resync_period().is_some() {
            self.resync_added.notify_one();
        }
        true
    }

    pub(in crate::shared_informer) fn remove(&self, feed: &Arc<Feed<K>>) {
        let before = {
            let mut list = self.list.lock();
            let before = list.feeds.clone();
            list.feeds =
                Arc::new(before.iter().filter(|one| !Arc::ptr_eq(one, feed)).cloned().collect());
            list.last.retain(|state| !state.borrow().has_ended);
            if list.feeds.len() < before.len() {
                // A call of this handler may still be running. A stop of the informer waits for it.
                list.last.push(feed.state());
            }
            before
        };
        // Dropped with the list unlocked, because this may drop the last reference to a handler,
        // which is user code.
        drop(before);
    }

    /// Records that the initial list has been offered to all handlers.
    pub(in crate::shared_informer) fn informer_has_synced(&self) {
        let feeds = {
            let mut list = self.list.lock();
            list.has_synced = true;
            mutant!(SyncIsRecordedLate => { list.has_synced = false; });
            list.feeds.clone()
        };
        feeds.iter().for_each(|feed| feed.informer_has_synced());
        mutant!(SyncIsRecordedLate => self.list.lock().has_synced = true);
    }

    /// Removes all handlers, and refuses later ones. Calling it again has no effect.
    pub(in crate::shared_informer) fn close(&self) {
        let feeds = {
            let mut list = self.list.lock();
            list.is_closed = true;
            let feeds = std::mem::take(&mut list.feeds);
            list.last.extend(feeds.iter().map(|feed| feed.state()));
            feeds
        };
        feeds.iter().for_each(|feed| feed.remove());
    }

    /// Waits until no handler's call is running. The list must be closed.
    pub(in crate::shared_informer) async fn ended(&self) {
        let last = self.list.lock().last.clone();
        for mut state in last {
            // It fails if the feed was dropped, which implies that it had ended.
            let _ = with_catching_waker(state.wait_for(|state| state.has_ended)).await;
        }
    }

    /// Returns whether the list is closed and no handler's call is running.
    pub(in crate::shared_informer) fn has_ended(&self) -> bool {
        let list = self.list.lock();
        list.is_closed && list.last.iter().all(|state| state.borrow().has_ended)
    }

    /// Makes `key`, or all keys if it is `None`, active for worker `number`, which is about to
    /// apply and offer their changes.
    pub(in crate::shared_informer) fn begin(
        &self,
        number: usize,
        key: Option<Arc<str>>,
    ) -> ActiveKeyGuard<'_, K> {
        self.active_keys.begin(number, key.as_ref());
        mutant!(ActiveKeyIsClearedBeforeApply => { self.active_keys.end(number); });
        ActiveKeyGuard { distributor: self, number, key }
    }

    /// Waits until all buffers with the policy `Buffer::HoldBack` have room.
    pub(in crate::shared_informer) async fn hold_back(&self) {
        for feed in self.feeds().iter() {
            feed.hold_back().await;
        }
    }

    /// Records the metrics of all handlers.
    pub(in crate::shared_informer) fn sample(&self) {
        self.feeds().iter().for_each(|feed| feed.sample());
    }

    /// Starts the resyncs that are due. Returns the time at which the next one is due, or `None`
    /// if no handler has resyncs.
    pub(in crate::shared_informer) fn tick(&self, now: Instant) -> Option<Instant> {
        self.feeds().iter().filter_map(|feed| feed.tick(now)).min()
    }

    /// Starts resyncs when they are due. Never returns.
    pub(in crate::shared_informer) async fn resync(&self) {
        loop {
            let now = Instant::now();
            // If no handler has resyncs, sleep for a day: `resync_added` ends the sleep.
            let due = self.tick(now).unwrap_or(now + Duration::from_secs(86_400));
            tokio::select! {
                // In a fixed order, so that a simulation can be repeated. Both lead to `tick`.
                biased;
                () = tokio::time::sleep_until(due) => {}
                () = with_catching_waker(self.resync_added.notified()) => {}
            }
        }
    }
}

/// A guard that keeps the key of a worker active until it is dropped. The worker must drop it
/// before it lets another worker take the key.
pub(in crate::shared_informer) struct ActiveKeyGuard<'d, K: Send + Sync + 'static> {
    distributor: &'d Distributor<K>,
    number: usize,
    key: Option<Arc<str>>,
}

impl<K: Send + Sync + 'static> ActiveKeyGuard<'_, K> {
    /// Offers to all handlers a change that the worker has applied to the store.
    pub(in crate::shared_informer) fn deliver(
        &self,
        key: &Arc<str>,
        change: &Change<'_, K>,
        cause: Cause,
        is_in_initial_list: bool,
    ) {
        let (delivered, now) = match change {
            Change::Added { new, .. } => (None, CurrentState::Stored(Arc::clone(new))),
            Change::Updated { old, new, .. } => {
                (Some(Arc::clone(old)), CurrentState::Stored(Arc::clone(new)))
            }
            Change::Deleted { last, old } => {
                (old.cloned(), CurrentState::Gone(last_state(last, *old)))
            }
        };
        let key = key.clone();
        let step = Step {
            key,
            delivered,
            now,
            cause,
            is_in_initial_list,
            is_walked: false,
            since: Instant::now(),
        };
        for feed in self.distributor.feeds().iter() {
            feed.offer(step.clone());
        }
    }

    /// Ends the work on the key in all feeds. A handler is notified of the stored object if its
    /// walk passed the key while it was active, and no change of the key has been offered since.
    fn settle(&self) {
        for feed in self.distributor.feeds().iter() {
            feed.settle(self.key.as_ref());
        }
    }
}

impl<K: Send + Sync + 'static> Drop for ActiveKeyGuard<'_, K> {
    fn drop(&mut self) {
        mutant!(ActiveKeyIsClearedAfterSettle => return self.settle_and_clear());
        if self.distributor.active_keys.end(self.number) {
            self.settle();
        }
    }
}

/// Returns `last`. If it is a tombstone without an object, the result is a tombstone with the
/// object that was stored.
fn last_state<K>(last: &DeltaObject<K>, stored: Option<&Arc<K>>) -> DeltaObject<K> {
    match (last, stored) {
        (DeltaObject::Tombstone(tombstone), Some(stored)) if tombstone.obj.is_none() => {
            let last = (**tombstone).clone();
            DeletedFinalStateUnknown { obj: Some(Arc::clone(stored)), ..last }.into()
        }
        (last, _) => last.clone(),
    }
}

/// The code of deliberate defects (`shared_informer/sync/mutants.rs`).
#[cfg(deltafifo_shuttle)]
mod defects {
    use std::ops::Deref;

    use super::{ActiveKeyGuard, Arc, Distributor, Feed, HandlerList};

    impl<K: Send + Sync + 'static> Distributor<K> {
        /// Adds a handler, with the defect `ListIsCopiedUnlocked`: a handler that is added or
        /// removed while the list is unlocked is lost, or comes back.
        pub(super) fn add_to_copy(
            &self,
            list: impl Deref<Target = HandlerList<K>>,
            feed: &Arc<Feed<K>>,
        ) -> bool {
            let mut copy = Vec::clone(&list.feeds);
            drop(list);
            copy.push(feed.clone());
            self.list.lock().feeds = Arc::new(copy);
            true
        }
    }

    impl<K: Send + Sync + 'static> ActiveKeyGuard<'_, K> {
        /// Settles the key in all feeds, and then clears it, with the defect
        /// `ActiveKeyIsClearedAfterSettle`: a walk that passes the key in between leaves it to the
        /// worker, which has already settled it.
        pub(super) fn settle_and_clear(&self) {
            self.settle();
            self.distributor.active_keys.end(self.number);
        }
    }
}
