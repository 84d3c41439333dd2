//! The loop of client-go's `cache.Controller`: pops the items of the queue, applies them to the
//! store, and delivers their changes to the handlers.

use std::sync::Arc;

use deltafifo::{
    Change, Closed, DeltaFifo, DeltaType, Event, InOrderFifo, IndexReader, Meta, Popped,
    StoreError, Turn,
};
use futures_util::future::BoxFuture;
use tokio::task::JoinError;
use tokio::task::coop::consume_budget;
use tracing::Span;

use super::delivery::{ActiveKeyGuard, Cause, Distributor};
use super::error::{InformerError, OnError, UserCode};
use super::metrics::Metrics;
use super::sync::spawn_blocking;
use crate::metrics::Named;
use crate::util::in_flight::WorkGuard;

/// The queue of an informer.
pub(super) enum InformerQueue<K, M> {
    Delta(Arc<DeltaFifo<K, M>>),
    InOrder(Arc<InOrderFifo<K, M>>),
}

impl<K: Send + Sync + 'static, M: Meta<K>> InformerQueue<K, M> {
    pub(super) fn has_synced(&self) -> bool {
        match self {
            Self::Delta(fifo) => fifo.has_synced(),
            Self::InOrder(fifo) => fifo.has_synced(),
        }
    }

    pub(super) async fn wait_for_sync(&self) -> Result<(), Closed> {
        match self {
            Self::Delta(fifo) => fifo.wait_for_sync_async().await,
            Self::InOrder(fifo) => fifo.wait_for_sync_async().await,
        }
    }

    /// Returns whether objects of equal versions may differ, because a transform changed a
    /// version.
    fn versions_altered(&self) -> bool {
        match self {
            Self::Delta(fifo) => fifo.versions_altered(),
            Self::InOrder(fifo) => fifo.versions_altered(),
        }
    }

    /// Returns the number of changes in the queue.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Delta(fifo) => fifo.pending_deltas(),
            Self::InOrder(fifo) => fifo.pending(),
        }
    }

    pub(super) fn close(&self) {
        match self {
            Self::Delta(fifo) => fifo.close(),
            Self::InOrder(fifo) => fifo.close(),
        }
    }
}

impl<K, M> Clone for InformerQueue<K, M> {
    fn clone(&self) -> Self {
        match self {
            Self::Delta(fifo) => Self::Delta(fifo.clone()),
            Self::InOrder(fifo) => Self::InOrder(fifo.clone()),
        }
    }
}

/// A worker of an informer.
pub(super) struct Worker<K: Send + Sync + 'static, M: Meta<K>> {
    pub(super) number: usize,
    pub(super) queue: InformerQueue<K, M>,
    pub(super) store: IndexReader<K, M>,
    pub(super) distributor: Arc<Distributor<K>>,
    pub(super) metrics: Arc<Named<Metrics>>,
    /// The cause of the removal of an object that may still exist.
    pub(super) removal_cause: Cause,
    pub(super) notify_unchanged: bool,
    pub(super) on_error: OnError,
    /// Counts the worker as work in flight. It is the last field, so that it is dropped after the
    /// others: if the task is aborted, the work in progress ends first, including work on a
    /// blocking thread.
    pub(super) _guard: WorkGuard,
}

impl<K: Send + Sync + 'static, M: Meta<K>> Worker<K, M> {
    /// Runs until the queue is closed and empty.
    pub(super) fn work(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let worker = Arc::new(self);
            while worker.handle_next().await.is_ok() {
                worker.distributor.hold_back().await;
                // Lets other tasks run.
                consume_budget().await;
            }
        })
    }

    /// Pops the next item of the queue, applies it and delivers its changes.
    async fn handle_next(self: &Arc<Self>) -> Result<(), Closed> {
        match &self.queue {
            InformerQueue::Delta(fifo) => {
                let item = fifo.pop_async().await?;
                // An object's destructor is user code, and may panic.
                self.on_error.catch(UserCode::ItemEnd, || self.apply_item(item));
            }
            InformerQueue::InOrder(fifo) => {
                let turn = fifo.pop_async().await?;
                if turn.event().is_some_and(|event| event.key().is_some()) {
                    self.on_error.catch(UserCode::ItemEnd, || self.apply_turn(turn));
                    return Ok(());
                }
                // The item is a whole list, which may take long to apply, so use a blocking
                // thread. Dropping the turn puts the item back at the head of the queue.
                drop(turn);
                let (worker, fifo, span) = (self.clone(), fifo.clone(), Span::current());
                let apply_all =
                    move || fifo.try_pop().into_iter().for_each(|turn| worker.apply_turn(turn));
                let all = spawn_blocking(move || span.in_scope(apply_all));
                match all.await.map_err(JoinError::try_into_panic) {
                    Ok(()) => {}
                    Err(Ok(panic)) => self.on_error.report_panic(UserCode::ItemEnd, panic),
                    // The runtime is shutting down, which ends this task as well.
                    Err(Err(_)) => std::future::pending().await,
                }
            }
        }
        Ok(())
    }

    fn apply_item(&self, mut item: Popped<'_, K, M>) {
        let began = self.metrics.now();
        let key: Arc<str> = item.key().into();
        let active = self.distributor.begin(self.number, Some(key.clone()));
        let initial = item.is_in_initial_list();
        self.apply_and_report(|| {
            item.apply(|change| self.deliver(&active, &key, &change, initial))
        });
        drop(active);
        self.metrics.record(|metrics| metrics.processed(began));
        // The last step, because it drops replaced objects, whose destructors may panic.
        item.done();
    }

    fn apply_turn(&self, mut turn: Turn<'_, K, M>) {
        let began = self.metrics.now();
        let key: Option<Arc<str>> = turn.event().and_then(Event::key).map(Arc::from);
        let active = self.distributor.begin(self.number, key.clone());
        let initial = turn.is_in_initial_list();
        self.apply_and_report(|| {
            turn.apply(|of, change| match &key {
                Some(key) => self.deliver(&active, key, &change, initial),
                None => self.deliver(&active, &of.into(), &change, initial),
            })
        });
        drop(active);
        self.metrics.record(|metrics| metrics.processed(began));
        turn.done();
    }

    /// Applies an item, and reports an error or a panic of it.
    fn apply_and_report(&self, apply: impl FnOnce() -> Result<(), StoreError>) {
        if let Some(Err(error)) = self.on_error.catch(UserCode::Apply, apply) {
            self.on_error.report(&InformerError::Store(&error));
        }
    }

    /// Delivers a change to all handlers, unless it changes nothing.
    fn deliver(
        &self,
        active: &ActiveKeyGuard<'_, K>,
        key: &Arc<str>,
        change: &Change<'_, K>,
        is_in_initial_list: bool,
    ) {
        // The accessor is user code. Its panic must not prevent the delivery of the rest of a
        // list.
        if self.notify_unchanged
            || !self
                .on_error
                .catch(UserCode::Accessor, || self.is_unchanged(change))
                .unwrap_or(false)
        {
            let cause = Cause::of(change, is_in_initial_list, self.removal_cause);
            active.deliver(key, change, cause, is_in_initial_list);
        }
    }

    /// Returns whether a list contained the version of an object that is already stored, so that
    /// nothing changed. A delta queue skips most such objects, but not an object that had pending
    /// deltas when the list arrived.
    fn is_unchanged(&self, change: &Change<'_, K>) -> bool {
        let Change::Updated { old, new, kind: DeltaType::Replaced } = change else { return false };
        if self.queue.versions_altered() {
            return false;
        }
        let meta = self.store.keys().meta();
        let version = meta.version(new).filter(|version| !version.is_empty());
        version.is_some() && version == meta.version(old)
    }
}
