//! The in-order queue: [`InOrderFifo`], its builder, and what it is made of.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `event` | what is queued and handed out: deltas, relists, resyncs |
//! | `offer` | add, update, delete, replace, resync: an event each, appended to the log |
//! | `log` | the order of events, and whose turn it is |
//! | `pop`, `turn` | taking a turn, and its guard |
//! | `apply` | an event's way into the fused store |
//! | `scope` | parts of the queue that are relisted each for itself |
//! | `roles` | the queue behind the traits |
//!
//! Of the queue by key it shares the store's slots, `has_synced` and the depth gauge
//! (`fifo/initial.rs`, `fifo/depth.rs`); nothing is ever pushed onto a slot here.

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
use crate::fifo::{Depth, Initial};
use crate::scope::Scopes;
use crate::store::transform::Transform;
use crate::store::{Core, Transformer};
use crate::{IndexReader, Indexer, KeyFunc, KeySource, Meta};
pub use event::{Event, ReplacedAll};
use log::Log;
pub use turn::Turn;

/// A queue of events in the order of their arrival, across keys (client-go `RealFIFO`, which its
/// informers use by default since 1.33, here with atomic events): for any number of producers, and
/// one consumer at a time.
///
/// Every delta is handed out, one by one: none is folded into another, and a deletion of what
/// nobody knows is told too. A relist and a resync are one event each. Whoever pops has the
/// [turn](Turn) until its guard is dropped; other consumers wait for it. So handlers never
/// overlap, and each finds the store as of its event. No lock is held while a handler runs: offers
/// and readers go on meanwhile.
///
/// # This one or the queue by key
/// | | [`DeltaFifo`](crate::DeltaFifo) | `InOrderFifo` |
/// | --- | --- | --- |
/// | order | per key; keys in the order of their first pending delta | of arrival, across keys |
/// | handlers | in parallel for different keys | one at a time |
/// | an item | all that is pending for a key, deletions in a row folded | one delta, or a batch of different keys |
/// | a key that waits | once in the queue | once for every delta |
/// | a deletion of what is not known | ignored | told |
/// | a relist | page by page, from several threads; unchanged objects can be skipped | one event, which nothing comes between |
/// | the [applied version](crate::DeltaFifo::applied_version) | with [`track_applied`](crate::DeltaFifoBuilder::track_applied) | not tracked: waiting for one is an [error](crate::VersionError::NotTracked) |
/// | a relist's memory | a page | the whole list with its keys, beside what is known, until it is handled |
///
/// Take this one where the order across keys matters (objects that refer to each other, a log of
/// everything), or where a relist must be seen as a whole. Both share the store, one slot a key,
/// and the traits.
///
/// # A relist
/// waits in the queue as the list. In its turn all of it is applied, then its handler is told of
/// all of it, before anything else is handled: it is atomic for handlers. For readers of the store
/// it is so per key: they can see part of it (in client-go all or none). In a queue without a
/// store the event itself is handed out.
///
/// # Bounds
/// An offer is O(1) and one allocation for its key; it takes no lock, and touches no slot. The
/// queue is unbounded unless [`high_water`](InOrderFifoBuilder::high_water) is honoured by the
/// producers. (client-go's bounds it by keeping its lock while a handler runs, once 2,000 events
/// wait.)
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
pub struct InOrderFifo<T, M> {
    core: Arc<Core<T, M>>,
    /// Whether the core's slots hold a store.
    is_fused: bool,
    log: Log<T>,
    scopes: Mutex<Scopes>,
    initial: Initial,
    depth: Depth,
    transform: Transform<T>,
}

/// Builds an [`InOrderFifo`]; made by [`InOrderFifo::builder`] or [`InOrderFifo::over`].
#[must_use]
pub struct InOrderFifoBuilder<T, M> {
    fifo: InOrderFifo<T, M>,
}

impl<T: Send + Sync, M: Meta<T>> InOrderFifo<T, M> {
    /// A queue without a store, which hands out events for a handler that keeps its own.
    pub fn builder(keys: KeyFunc<T, M>) -> InOrderFifoBuilder<T, M> {
        InOrderFifoBuilder::new(Arc::new(Core::bare(keys)), None, false)
    }

    /// A queue fused with `store`: events [apply](Turn::apply) themselves. From here on that is
    /// the only way to write the store; read it through [`store`](Self::store) or an
    /// [`IndexReader`] made before.
    pub fn over(store: Indexer<T, M>) -> InOrderFifoBuilder<T, M> {
        let (core, _, transformer) = store.into_parts();
        InOrderFifoBuilder::new(core, transformer, true)
    }

    /// A handle for reading the fused store. (Of a queue without one it is empty.)
    #[must_use]
    pub fn store(&self) -> IndexReader<T, M> {
        IndexReader { core: self.core.clone() }
    }

    /// The key of an object, a tombstone, deltas or an explicit key (client-go `KeyOf`).
    ///
    /// # Errors
    /// [`KeyError`]: no name, empty deltas, or a failing key function.
    pub fn key_of<'a>(&self, of: impl Into<KeySource<'a, T>>) -> Result<String, KeyError>
    where
        T: 'a,
    {
        self.core.keys.key_of(&of.into())
    }

    /// Whether the initial population has been handled: the turn with the first relist has ended,
    /// or something else populated the queue first. Once true it stays true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.initial.has_synced()
    }

    /// Blocks until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// [`Closed`] when the queue is closed before.
    pub fn wait_for_sync(&self) -> Result<(), Closed> {
        self.initial.wait(|| self.is_closed())
    }

    /// The same for async callers.
    ///
    /// # Errors
    /// [`Closed`] when the queue is closed before.
    pub async fn wait_for_sync_async(&self) -> Result<(), Closed> {
        self.initial.wait_async(|| self.is_closed()).await
    }

    /// How much is pending: a delta or a resync counts one, a relist as much as it lists, but one
    /// at least. What a turn has in hand counts until that ends. A gauge.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.depth.pending()
    }

    /// Blocks until less is [pending](Self::pending) than the high-water mark (at once when there
    /// is none). Offers never wait by themselves: a producer that wants memory bounded calls this
    /// before it offers more. Not within a handler: what that has in hand is pending until it
    /// ends, so it might wait for itself.
    ///
    /// # Errors
    /// [`Closed`] when the queue is closed before.
    pub fn ready(&self) -> Result<(), Closed> {
        self.depth.wait(|| self.is_closed())
    }

    /// The same for async callers.
    ///
    /// # Errors
    /// [`Closed`] when the queue is closed before.
    pub async fn ready_async(&self) -> Result<(), Closed> {
        self.depth.wait_async(|| self.is_closed()).await
    }

    /// Whether the transformer has changed the version of an object: from then on two objects of
    /// equal versions need not be equal.
    #[must_use]
    pub fn versions_altered(&self) -> bool {
        self.transform.alters_versions()
    }

    /// Closes the queue: every waiting pop wakes, what is queued is still popped, then pops say
    /// [`Closed`]. As in client-go an offer after close still queues.
    pub fn close(&self) {
        self.log.close();
        self.initial.announce();
        self.depth.announce();
    }

    /// Waits until [`close`](Self::close) is called: for a producer that has nothing to offer, and
    /// so would not find out.
    pub async fn closed_async(&self) -> Closed {
        self.depth.wait_closed_async(|| self.is_closed()).await
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.log.is_closed()
    }
}

impl<T: Send + Sync, M: Meta<T>> InOrderFifoBuilder<T, M> {
    fn new(core: Arc<Core<T, M>>, transformer: Option<Transformer<T>>, is_fused: bool) -> Self {
        // So that who waits for a version is told, instead of sleeping for ever.
        core.applied.untracked();
        Self {
            fifo: InOrderFifo {
                core,
                is_fused,
                log: Log::new(),
                scopes: Mutex::new(Scopes::default()),
                initial: Initial::new(),
                depth: Depth::new(None),
                transform: Transform::new(transformer),
            },
        }
    }

    /// Changes objects before they are queued (not tombstones). An error, or a panic, refuses that
    /// offer. It runs with no lock held. It takes the place of the fused store's, if that has one.
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.fifo.transform = Transform::by(transformer);
        self
    }

    /// [`ready`](InOrderFifo::ready) waits while so much or more is
    /// [pending](InOrderFifo::pending). Without it the queue is unbounded. A mark of 0 counts as 1.
    pub fn high_water(mut self, mark: usize) -> Self {
        self.fifo.depth = Depth::new(Some(mark));
        self
    }

    /// The queue.
    pub fn build(self) -> InOrderFifo<T, M> {
        self.fifo
    }
}

impl<T, M> Drop for InOrderFifo<T, M> {
    /// Releases what is pending: one object's drop that panics must not keep the others.
    fn drop(&mut self) {
        release(self.log.drain());
    }
}
