//! The in-order queue: [`InOrderFifo`], its builder, and its parts.
//!
//! | file | contents |
//! | --- | --- |
//! | `event` | the events: deltas, relists, resyncs |
//! | `offer` | add, update, delete, replace, resync: an event each, appended to the log |
//! | `log` | the order of events, and the turn |
//! | `pop`, `turn` | the methods that take a turn, and the guard of a turn |
//! | `apply` | an event's way into the fused store |
//! | `scope` | parts of the queue that are relisted separately |
//! | `roles` | the queue behind the traits |
//!
//! The in-order queue uses the same slots of the store and the same lifecycle (`lifecycle/`) as the
//! queue by key, but pushes nothing onto a slot.

mod apply;
mod event;
mod log;
mod offer;
mod pop;
mod roles;
mod scope;
mod turn;

use crate::engine::release::release;
use crate::engine::sync::{Arc, Mutex};
use crate::error::{BoxError, Closed, KeyError};
use crate::lifecycle::{Depth, Lifecycle};
use crate::scope::Scopes;
use crate::store::transform::Transform;
use crate::store::{Core, Transformer};
use crate::{IndexReader, Indexer, KeyFunc, KeySource, Meta};
pub use event::{Event, ReplacedAll};
use log::Log;
pub use turn::Turn;

/// A queue of events in the order of their arrival, across keys, for any number of producers, and
/// one consumer at a time. It corresponds to client-go's `RealFIFO` with atomic events; client-go's
/// informers have used `RealFIFO` by default since 1.33.
///
/// Every delta is handed out on its own: deltas are never merged, and the deletion of an unknown
/// key is handed out too. A relist and a resync are one event each. A consumer that pops has the
/// [turn](Turn) until it drops the guard; other consumers wait. So handlers never overlap, and each
/// finds the store in the state of its event. No lock is held while a handler runs: offers and
/// readers proceed.
///
/// # `InOrderFifo` or `DeltaFifo`
/// | | [`DeltaFifo`](crate::DeltaFifo) | `InOrderFifo` |
/// | --- | --- | --- |
/// | order | per key; keys in the order of their first pending delta | of arrival, across keys |
/// | handlers | in parallel for different keys | one at a time |
/// | an item | all pending deltas of a key, deletions in a row folded | one delta, or a batch of different keys |
/// | a key that waits | once in the queue | once for every delta |
/// | a deletion of an unknown key | ignored | handed out |
/// | a relist | page by page, from several threads; unchanged objects can be skipped | one event |
/// | the [applied version](crate::IndexReader::applied_version) | with [`track_applied`](crate::DeltaFifoBuilder::track_applied) | not tracked: waiting for one is an [error](crate::VersionError::NotTracked) |
/// | a relist's memory | a page | the whole list with its keys, besides the known objects, until it is handled |
///
/// Use this queue if the order across keys matters (objects that refer to each other, a log of all
/// events), or if a relist must arrive as a whole. Both queues share the store, with one slot per
/// key, and the traits.
///
/// # Relists
/// A relist is one entry of the queue, which holds the whole list. In its turn all of it is
/// applied, and then the handler is called for all of it, before the next event is handled: a
/// relist is atomic for handlers. Readers of the store may see a part of it; in client-go they see
/// all or nothing. In a queue without a store the event itself is handed out.
///
/// # Bounds
/// The offer of a delta is O(1), with one allocation for its key; it takes no lock and accesses no
/// slot. The offer of a relist is O(listed). The queue is unbounded unless producers wait for
/// [`ready`](Self::ready) at the [`high_water`](InOrderFifoBuilder::high_water) mark. (client-go
/// bounds its queue by holding its lock while a handler runs, once 2,000 events wait.)
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{Change, InOrderFifo, Indexer, KeyFunc, NoMeta};
///
/// let keys = KeyFunc::custom(NoMeta, |(name, _): &(&str, u32)| Ok((*name).to_owned()));
/// let fifo = InOrderFifo::over(Indexer::builder(keys).build()?).build();
/// fifo.replace(vec![Arc::new(("a", 1)), Arc::new(("b", 1))], "100")?;
/// fifo.update(Arc::new(("a", 2)))?;
/// fifo.delete(Arc::new(("b", 1)))?;
/// fifo.update(Arc::new(("a", 3)))?;
///
/// let mut seen = Vec::new();
/// while let Some(mut turn) = fifo.try_pop() {
///     turn.apply(|key, change| {
///         seen.push(match change {
///             Change::Added { new, .. } => format!("+{key}{}", new.1),
///             Change::Updated { old, new, .. } => format!("{key}{}>{}", old.1, new.1),
///             Change::Deleted { .. } => format!("-{key}"),
///         });
///     })?;
/// }
/// assert_eq!(seen, ["+a1", "+b1", "a1>2", "-b", "a2>3"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "RealFIFO")]
pub struct InOrderFifo<T, M> {
    core: Arc<Core<T, M>>,
    /// Whether the queue is fused with a store, whose objects are in the slots of `core`.
    is_fused: bool,
    log: Log<T>,
    scopes: Mutex<Scopes>,
    life: Lifecycle,
    transform: Transform<T>,
}

/// A builder of an [`InOrderFifo`], created by [`InOrderFifo::builder`] or [`InOrderFifo::over`].
#[must_use]
pub struct InOrderFifoBuilder<T, M> {
    fifo: InOrderFifo<T, M>,
}

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// Returns a builder of a queue without a store. The queue hands out events for a handler that
    /// has a store of its own.
    pub fn builder(keys: KeyFunc<T, M>) -> InOrderFifoBuilder<T, M> {
        InOrderFifoBuilder::new(Arc::new(Core::bare(keys)), None, false)
    }

    /// Returns a builder of a queue fused with `store`: the consumer [applies](Turn::apply) events
    /// to the store. This is then the only way to write the store. Read it through
    /// [`store`](Self::store), or through an [`IndexReader`] that was made before.
    pub fn over(store: Indexer<T, M>) -> InOrderFifoBuilder<T, M> {
        let (core, _, transformer) = store.into_parts();
        InOrderFifoBuilder::new(core, transformer, true)
    }

    /// Returns a handle for reading the fused store. If the queue has no store, the handle finds
    /// nothing.
    #[must_use]
    pub fn store(&self) -> IndexReader<T, M> {
        IndexReader { core: self.core.clone() }
    }

    /// Returns the key of an object, a tombstone, deltas or an explicit key (client-go `KeyOf`).
    ///
    /// # Errors
    /// [`KeyError`]: no name, empty deltas, or a failing key function.
    #[doc(alias = "DeletionHandlingMetaNamespaceKeyFunc")]
    pub fn key_of<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<String, KeyError>
    where
        T: 'a,
    {
        self.core.keys.key_of(&of.into())
    }

    /// Returns whether the initial population has been handled: the turn with the first relist has
    /// ended, or another offer populated the queue first. In a queue with [scopes](Self::add_scope)
    /// this holds for the first relist of each scope. Once true, it stays true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.life.initial.has_synced()
    }

    /// Blocks until [`has_synced`](Self::has_synced) is true.
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    pub fn wait_for_sync(&self) -> Result<(), Closed> {
        self.life.initial.wait(|| self.is_closed())
    }

    /// Waits until [`has_synced`](Self::has_synced) is true, without blocking the thread.
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    pub async fn wait_for_sync_async(&self) -> Result<(), Closed> {
        self.life.initial.wait_async(|| self.is_closed()).await
    }

    /// Returns how much is pending, as a gauge: a delta or a resync counts one, a relist its
    /// number of objects, but at least one. The events of a turn count until it ends.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.life.depth.pending()
    }

    /// Blocks until [`pending`](Self::pending) is below the high-water mark. Returns at once if
    /// there is no mark. Offers never wait: a producer that wants to bound memory calls this before
    /// each offer. Do not call it within a handler: the handler's own event is pending until the
    /// handler ends, so the call may never return.
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    pub fn ready(&self) -> Result<(), Closed> {
        self.life.depth.wait(|| self.is_closed())
    }

    /// Waits as [`ready`](Self::ready) does, without blocking the thread.
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    pub async fn ready_async(&self) -> Result<(), Closed> {
        self.life.depth.wait_async(|| self.is_closed()).await
    }

    /// Returns whether the transformer has changed the version of an object. From then on two
    /// objects of equal versions need not be equal.
    #[doc(hidden)]
    #[must_use]
    pub fn versions_altered(&self) -> bool {
        self.transform.alters_versions()
    }

    /// Closes the queue. Every waiting pop wakes; queued events can still be popped; after that
    /// pops return [`Closed`]. As in client-go, an offer after the close is still queued.
    pub fn close(&self) {
        self.log.close();
        self.life.announce_close();
    }

    /// Waits until [`close`](Self::close) is called. A producer that has nothing to offer would
    /// otherwise not notice the close.
    pub async fn closed_async(&self) -> Closed {
        self.life.depth.wait_closed_async(|| self.is_closed()).await
    }

    /// Returns whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.log.is_closed()
    }
}

impl<T: Send + Sync, M: Meta<T>> InOrderFifoBuilder<T, M> {
    fn new(core: Arc<Core<T, M>>, transformer: Option<Transformer<T>>, is_fused: bool) -> Self {
        // So that a wait for a version fails, instead of lasting for ever.
        core.applied.untracked();
        Self {
            fifo: InOrderFifo {
                core,
                is_fused,
                log: Log::new(),
                scopes: Mutex::new(Scopes::default()),
                life: Lifecycle::new(),
                transform: Transform::new(transformer),
            },
        }
    }

    /// Sets a function that changes objects before they are queued; it does not see tombstones. If
    /// the function fails or panics, the offer is refused. The function runs with no lock held,
    /// and replaces the transformer of the fused store.
    #[doc(alias = "TransformFunc")]
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.fifo.transform = Transform::by(transformer);
        self
    }

    /// Sets the high-water mark: [`ready`](InOrderFifo::ready) waits while
    /// [`pending`](InOrderFifo::pending), which counts a relist as its number of objects, is at or
    /// above it. Without a mark the queue is unbounded. A mark of 0 counts as 1.
    pub fn high_water(mut self, mark: usize) -> Self {
        self.fifo.life.depth = Depth::new(Some(mark));
        self
    }

    /// Builds the queue.
    pub fn build(self) -> InOrderFifo<T, M> {
        self.fifo
    }
}

impl<T, M> Drop for InOrderFifo<T, M> {
    /// Releases pending events one by one, because a destructor may panic.
    fn drop(&mut self) {
        release(self.log.drain());
    }
}
