//! The task that lists and watches the objects of the selected shards, and follows changes of the
//! selection.
//!
//! A change takes these steps, one after another:
//!
//! 1. The watch ends. Objects are offered only of shards that are selected now.
//! 2. Objects of shards that were removed are removed from the queue. Before that, everything that
//!    was offered must be handled: an object that a handler has in hand is neither pending nor
//!    known. The removals must be handled before the next list, which could otherwise turn a
//!    removal that is pending into a deletion.
//! 3. The shards that were added are listed; the objects of the others stay. If the list fails,
//!    what it has offered is removed again, and the watch of the others continues until the next
//!    attempt.
//! 4. The watch continues from the version that it had reached. For the listed shards, the filter
//!    drops the events up to the version of their list.
//! 5. Once the listed objects are handled, the change is complete.
//!
//! A list of a change is not ended by the next change, so that the shards that are added during a
//! list share the next one. A list that the watch needs in step 4, because its version is too old,
//! is ended. A list of everything is then step 3 of the change.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deltafifo::WaitError;
use deltafifo::locks::Mutex;
use tokio::time::sleep;

use super::filter::Filter;
use super::{Selection, ShardPlan, Wanted};
use crate::ReflectorError;
use crate::reflector::{Backoff, Reflector, ReflectorBuilder, Sharded, Threads, WatchStatus};
use crate::sharding::ObjectId;
use crate::sharding::participants::Participation;
use crate::sharding::shards::ShardSet;
use crate::util::sleep::with_catching_waker;

/// The part of an informer that offers the objects of the selected shards to its queue.
pub(crate) struct ShardFeeder<K> {
    selection: Selection,
    filter: Arc<Filter>,
    queue: Arc<dyn Sharded<K>>,
    reflector: Reflector<K>,
    backoff: Backoff,
    /// The threads that remove objects.
    threads: Threads,
    /// The participation of the informer in the hand-overs of its group.
    participation: Mutex<Option<Participation>>,
}

/// The shards of the objects that the queue and the store have.
#[derive(Default)]
struct Contents {
    /// The shards that are listed completely.
    listed: ShardSet,
    /// Other shards, of which there may be objects, because a list has failed. After a list of
    /// everything, the next one is of everything as well, and deletes those that no longer exist.
    partial: ShardSet,
    /// Whether a list has been committed, even an empty one.
    is_populated: bool,
}

impl<K: Send + Sync + 'static> ShardFeeder<K> {
    pub(super) fn new(
        plan: ShardPlan,
        queue: Arc<dyn Sharded<K>>,
        reflector: ReflectorBuilder<K>,
        participation: Participation,
    ) -> Self {
        let ShardPlan { selection, filter, .. } = plan;
        let backoff = reflector.options().backoff();
        let (reflector, threads) = (reflector.build(), Threads::default());
        let participation = Mutex::new(Some(participation));
        Self { selection, filter, queue, reflector, backoff, threads, participation }
    }

    /// Returns the selected shards, which the group changes.
    #[cfg(feature = "runtime")]
    pub(crate) fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Leaves the group. Hand-overs do not wait for the informer from here on.
    pub(crate) fn leave(&self) {
        let participation = self.participation.lock().take();
        drop(participation);
    }

    /// Feeds the queue until it is closed.
    pub(crate) async fn run(&self) {
        tokio::select! {
            // In a fixed order, so that a simulation can be repeated.
            biased;
            _closed = self.queue.closed() => {}
            never = self.feed() => match never {},
        }
    }

    async fn feed(&self) -> Infallible {
        let mut changes = self.selection.wanted.subscribe();
        let mut contents = Contents::default();
        let mut backoff = self.backoff.clone();
        loop {
            changes.mark_unchanged();
            let wanted = self.selection.take();
            self.filter.select(wanted.shards);
            self.keep(&mut contents, wanted.shards.without(wanted.fresh)).await;
            let listed = self.fill(&mut contents, wanted, &mut backoff).await;
            let follow = async {
                match listed {
                    Ok(()) if wanted.shards.is_empty() => self.complete(wanted.number),
                    Ok(()) => return self.follow(wanted.number).await,
                    Err(wait) => return self.follow_for(wait, contents.listed).await,
                }
                pending::<()>().await;
            };
            tokio::select! {
                // An event that is ready may be of a shard that is no longer selected.
                biased;
                // An error would mean that the sender was dropped, but `self` holds it.
                _changed = with_catching_waker(changes.changed()) => {}
                () = follow => {}
            }
            // A thread may still be working for the watch.
            self.reflector.work().wait_idle().await;
        }
    }

    /// Removes the objects of all shards that are not in `stay`. They are no deletions.
    async fn keep(&self, contents: &mut Contents, stay: ShardSet) {
        let present = contents.listed.or(contents.partial);
        let stay = present.and(stay);
        if stay == present {
            return;
        }
        self.handled().await;
        let mut backoff = self.backoff.clone();
        loop {
            let (queue, filter) = (Arc::clone(&self.queue), Arc::clone(&self.filter));
            let unknown = Arc::<AtomicUsize>::default();
            let counter = Arc::clone(&unknown);
            let leaves = move |id: ObjectId<'_>| {
                let shard = filter.shard_of_known(id);
                if shard.is_none() {
                    // Relaxed: read once the thread has ended.
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                shard.is_some_and(|shard| !stay.contains(shard))
            };
            let removed = self.threads.run(move || queue.remove(&leaves)).await;
            // Relaxed: the thread has ended.
            let objects = unknown.load(Ordering::Relaxed);
            if objects > 0 {
                let property = self.selection.by.as_str();
                self.reflector.report(&ReflectorError::NoShard { objects, property });
            }
            match removed.and_then(|removed| Ok(removed?)) {
                Ok(false) => break,
                Ok(true) => {
                    self.handled().await;
                    break;
                }
                Err(error) => {
                    self.reflector.report(&error);
                    sleep(backoff.next(None)).await;
                }
            }
        }
        contents.listed = contents.listed.and(stay);
        contents.partial = contents.partial.and(stay);
    }

    /// Lists the wanted shards that are not listed yet, or all of them if the watch cannot continue
    /// without a list. Without a shard, the first call requests a list of one object, and drops it.
    /// A failure is reported; the result is the time to wait before another attempt.
    async fn fill(
        &self,
        contents: &mut Contents,
        wanted: Wanted,
        backoff: &mut Backoff,
    ) -> Result<(), Duration> {
        let added = wanted.shards.without(contents.listed);
        if wanted.shards.is_empty() && !contents.is_populated {
            // A member that cannot list must not join: it would claim shards that it cannot fill.
            self.reflector.probe(backoff).await?;
            let relist = Arc::clone(&self.queue).begin();
            let committed = self.threads.run(move || relist.commit("")).await;
            committed.and_then(|committed| Ok(committed?)).map_err(|error| {
                self.reflector.report(&error);
                backoff.next(None)
            })?;
            contents.is_populated = true;
        }
        let owes_list = self.reflector.owes_list();
        if added.is_empty() && (wanted.shards.is_empty() || !owes_list) {
            return Ok(());
        }
        let is_whole = contents.listed.is_empty() || owes_list;
        contents.partial = added;
        if is_whole {
            self.reflector.list_all(backoff).await?;
        } else {
            self.filter.select(added);
            self.filter.begin_subset();
            let listed = self.reflector.list_subset(backoff).await;
            self.filter.select(wanted.shards);
            self.filter.end_subset(added, listed.as_deref().ok());
            if let Err(wait) = listed {
                // A thread may still be offering a part of the list.
                self.reflector.work().wait_idle().await;
                let stay = contents.listed;
                self.keep(contents, stay).await;
                return Err(wait);
            }
        }
        *self.selection.counts.lock() = self.filter.take_counts();
        let (listed, partial) = (wanted.shards, ShardSet::default());
        *contents = Contents { listed, partial, is_populated: true };
        Ok(())
    }

    /// Watches the shards that were listed before a list of added shards failed, until the time to
    /// wait before another attempt has passed.
    async fn follow_for(&self, wait: Duration, listed: ShardSet) {
        if listed.is_empty() || self.reflector.owes_list() {
            return sleep(wait).await;
        }
        self.filter.select(listed);
        tokio::select! {
            // The next attempt first: a watch that is always ready must not delay it.
            biased;
            () = sleep(wait) => {}
            // The queue is closed, so the informer ends as well.
            _closed = self.reflector.resume() => pending().await,
        }
    }

    /// Watches the listed shards. Completes the change `number` once everything that was offered
    /// before is handled.
    async fn follow(&self, number: u64) {
        // The wait begins before the watch, which makes the applied version rise further.
        let handled = self.handled();
        let completing = async {
            handled.await;
            self.complete(number);
            pending::<()>().await;
        };
        tokio::select! {
            // A watch that is always ready must not delay the end of the change.
            biased;
            () = completing => {}
            // The queue is closed, so the informer ends as well.
            _closed = self.reflector.resume() => pending().await,
        }
    }

    /// Returns a future that resolves when everything that was offered before this call is handled.
    fn handled(&self) -> impl Future<Output = ()> {
        let declare = || {
            let version = self.reflector.last_sync_resource_version();
            self.queue.handled(&version.unwrap_or_default())
        };
        let mut waiting = declare();
        async move {
            while let Err(error) = waiting.as_mut().await {
                match error {
                    WaitError::Rewound { .. } => waiting = declare(),
                    // The queue is closed, so the informer ends as well.
                    _ => pending().await,
                }
            }
        }
    }

    fn complete(&self, number: u64) {
        self.selection.complete.send_replace(Some(number));
    }

    /// Returns the version up to which all changes of the listed shards were offered.
    pub(crate) fn last_version(&self) -> Option<String> {
        self.reflector.last_sync_resource_version()
    }

    pub(crate) fn watch_status(&self) -> WatchStatus {
        self.reflector.watch_status()
    }

    #[cfg(feature = "compact")]
    pub(crate) fn upkeep(&self) -> Option<Arc<dyn crate::compact::Upkeep<K>>> {
        self.reflector.upkeep()
    }

    /// Returns whether all work has ended, including work that a dropped run leaves behind.
    pub(crate) fn is_idle(&self) -> bool {
        self.reflector.work().is_idle() && self.threads.work.is_idle()
    }

    /// Waits until all work has ended, including work that a dropped run leaves behind.
    pub(crate) async fn wait_idle(&self) {
        self.reflector.work().wait_idle().await;
        self.threads.work.wait_idle().await;
    }
}
