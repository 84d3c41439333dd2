//! The queue: [`DeltaFifo`], its builder, and what it is made of.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `offer` | add, update, delete, `add_if_not_present`: one key, with its shard held against other offers |
//! | `relist`, `join` | replace and relists in pieces; the join of a page with the table |
//! | `listed` | what a relist listed, for a store elsewhere |
//! | `scope` | parts of the queue that are relisted each for itself |
//! | `resync` | Sync for what is known and idle |
//! | `pop`, `batch` | the guards: taking, applying, verdicts |
//! | `settle` | the end of a handler: the one place of the hard cases |
//! | `resolve` | from pushes to client-go's deltas |
//! | `peek` | get and list of what is pending |
//! | `initial`, `depth` | `has_synced` and friends; the gauge and the high-water mark |
//! | `applied` | bookmarks, and what holds the applied version back |

mod applied;
mod batch;
mod depth;
mod initial;
mod join;
mod listed;
mod news;
mod offer;
mod peek;
mod pop;
mod relist;
mod resolve;
mod resync;
mod scope;
mod settle;

use crate::engine::ledger::Epoch;
use crate::engine::ready_queue::{Lane, ReadyQueue};
use crate::engine::release::UserCode;
use crate::engine::slot::{QueuedSlot, StaleSlot, Ticket};
use crate::engine::sync::{Arc, RUN, SHARDS, mutant};
use crate::error::{BoxError, Closed, FirstPanic, KeyError};
use crate::store::applied::Source;
use crate::store::transform::Transform;
use crate::store::{Core, Parts};
use crate::{IndexReader, Indexer, KeyFunc, KeySource, KnownObjects, Meta};
pub use batch::{Batch, BatchReport, Failure};
pub(crate) use depth::Depth;
pub(crate) use initial::Initial;
use listed::Listed;
pub use pop::{Change, Popped};
pub(crate) use pop::{SLOW, report_slow};
use relist::Relists;
pub use relist::{Committed, Refused, Relist};

/// Where known objects are.
enum Known<T> {
    /// In the slots: the store is fused with the queue.
    Fused,
    /// Nowhere: only what is pending exists.
    Nowhere,
    /// In a store that the queue consults.
    Elsewhere {
        objects: UserCode<Arc<dyn KnownObjects<T>>>,
        /// What slots cannot keep here, since they retire once handled.
        listed: Listed,
    },
}

/// A queue of deltas by key (client-go `DeltaFIFO`), for any number of producers and consumers.
///
/// A key is in the queue exactly when it has pending deltas, once; it keeps its place while
/// pending and joins the tail again after a pop. A pop hands out all deltas of one key, oldest
/// first, and the key's next pop comes after its handler. Handlers of different keys run in
/// parallel on several consumers, with no lock held.
///
/// Every method takes `&self`: share it by reference or `Arc`. Unbounded unless
/// [`high_water`](DeltaFifoBuilder::high_water) is honoured by the producers.
///
/// # This one or the in-order queue
/// Take this one to handle different keys in parallel, to get all that happened to a key in one
/// item, and for relists that take no memory beside what is known. Take an
/// [`InOrderFifo`](crate::InOrderFifo) where the order across keys matters, or a relist must come
/// as one event.
///
/// # Key order
/// Across keys the order is that of the single offers. It is not promised against a relist or
/// batch in progress, nor for keys whose handler was running, nor with a [lane for live
/// events](DeltaFifoBuilder::live_lane).
pub struct DeltaFifo<T, M> {
    core: Arc<Core<T, M>>,
    /// Dropped, it tells who waits for a version.
    _source: Source,
    known: Known<T>,
    queue: ReadyQueue<T>,
    initial: Initial,
    relists: Relists,
    depth: Depth,
    transform: Transform<T>,
    replaced_as: crate::DeltaType,
    ordered_walks: bool,
    relist_threads: usize,
    skip_unchanged: bool,
    notify_unchanged: bool,
}

/// Builds a [`DeltaFifo`]; made by [`DeltaFifo::builder`] or [`DeltaFifo::over`].
#[must_use]
pub struct DeltaFifoBuilder<T, M> {
    fifo: DeltaFifo<T, M>,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// A queue without a store: a deletion counts only for what is pending, or what
    /// [`known_objects`](DeltaFifoBuilder::known_objects) says.
    pub fn builder(keys: KeyFunc<T, M>) -> DeltaFifoBuilder<T, M> {
        let core = Arc::new(Core::bare(keys));
        let source = Source::of(&core.applied);
        DeltaFifoBuilder::new((core, source, None), Known::Nowhere)
    }

    /// A queue fused with `store`: they share one slot per key, and popped items
    /// [apply](Popped::apply) themselves. From here on that is the only way to write the store;
    /// read it through [`store`](Self::store) or an [`IndexReader`] made before.
    pub fn over(store: Indexer<T, M>) -> DeltaFifoBuilder<T, M> {
        DeltaFifoBuilder::new(store.into_parts(), Known::Fused)
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

    /// Whether the initial population has been handled: the first relist is committed and the
    /// handlers of all its items have ended, or something else populated the queue first. Once
    /// true it stays true.
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

    /// Deltas pending now: a gauge. A batch's takes are subtracted when the batch ends.
    #[must_use]
    pub fn pending_deltas(&self) -> usize {
        self.depth.pending()
    }

    /// Blocks until fewer deltas are pending than the high-water mark (at once when there is
    /// none). What a [`Batch`] has taken counts until the batch is dropped. Offers never wait by
    /// themselves: a producer that wants memory bounded calls this before it offers more.
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
    /// equal versions need not be equal, and nothing is [taken for
    /// unchanged](DeltaFifoBuilder::skip_unchanged) any more.
    #[must_use]
    pub fn versions_altered(&self) -> bool {
        self.transform.alters_versions()
    }

    /// Whether items apply themselves to a store.
    pub(crate) fn is_fused(&self) -> bool {
        matches!(self.known, Known::Fused)
    }

    /// Closes the queue: every waiting pop wakes, what is queued is still popped, then pops say
    /// [`Closed`]. As in client-go an offer after close still queues.
    pub fn close(&self) {
        mutant!(CloseIsToldFirst => {
            self.initial.announce();
            self.depth.announce();
            return self.queue.close();
        });
        self.queue.close();
        self.core.applied.close();
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
        self.queue.is_closed()
    }

    /// Queues slots whose pushes are over, in key order if walks are to be ordered; they were made
    /// with a hold on `since`. The caller wakes so many.
    fn push_walk(&self, mut slots: Vec<Ticket<T>>, since: Option<Epoch>) -> usize {
        if self.ordered_walks {
            slots.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        }
        let count = slots.len();
        // In runs: the queue keeps the memory of the last one.
        let mut slots = slots.into_iter();
        while slots.len() > 0 {
            self.push_run(Lane::Backlog, slots.by_ref().take(RUN).collect(), since);
        }
        mutant!(WalkWakesOne => count.min(1); count)
    }
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifoBuilder<T, M> {
    fn new((core, source, transformer): Parts<T, M>, known: Known<T>) -> Self {
        Self {
            fifo: DeltaFifo {
                core,
                _source: source,
                known,
                queue: ReadyQueue::new(),
                initial: Initial::new(),
                relists: Relists::new(),
                depth: Depth::new(None),
                transform: Transform::new(transformer),
                replaced_as: crate::DeltaType::Replaced,
                ordered_walks: false,
                relist_threads: 1,
                skip_unchanged: false,
                notify_unchanged: false,
            },
        }
    }

    /// Known objects in a store that the queue does not own. Has no effect over a fused store,
    /// which knows better.
    pub fn known_objects(mut self, objects: Arc<dyn KnownObjects<T>>) -> Self {
        if !matches!(self.fifo.known, Known::Fused) {
            self.fifo.known = Known::Elsewhere { objects: UserCode::new(objects), listed: Listed::new() };
        }
        self
    }

    /// Changes objects before they are queued (not tombstones, nor Sync). An error, or a panic,
    /// refuses that offer. It runs with no lock held. It takes the place of the fused store's, if
    /// that has one.
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.fifo.transform = Transform::by(transformer);
        self
    }

    /// Whether a relist queues `Replaced` (the default) or `Sync`, as client-go's
    /// `EmitDeltaTypeReplaced`.
    pub fn emit_replaced(mut self, emit: bool) -> Self {
        self.fifo.replaced_as = if emit { crate::DeltaType::Replaced } else { crate::DeltaType::Sync };
        self
    }

    /// Whether deletions of a relist and Syncs of a resync are queued in key order rather than
    /// table order, which differs from run to run. Costs a sort; for tests, replays, and whoever
    /// wants runs to repeat.
    pub fn ordered_walks(mut self, ordered: bool) -> Self {
        self.fifo.ordered_walks = ordered;
        self
    }

    /// Whether live events (offers, batches of them, and what goes back after a handler) pass what
    /// relists and resyncs have queued: a key that waits in that backlog joins the live keys when
    /// something is offered for it, and is handed out in their order with all that is pending for
    /// it, oldest first. Of eight pops in a row at least one is the backlog's while it has any.
    /// Off by default: then keys are handed out first in, first out, as in client-go, and an
    /// update offered after a relist of a million waits for it.
    ///
    /// An update that meets the very push of a relist on its key, or the end of its handler, may
    /// wait with the backlog all the same. Where very many live keys wait, one that was next in
    /// the backlog comes later by joining them.
    pub fn live_lane(mut self, live: bool) -> Self {
        self.fifo.queue.set_lane(live);
        self
    }

    /// On how many threads a large relist joins its pages with the table: 1 by default, at most
    /// one a shard (256).
    pub fn relist_threads(mut self, threads: usize) -> Self {
        self.fifo.relist_threads = threads.clamp(1, SHARDS);
        self
    }

    /// Whether a relist queues nothing for an object that is known, idle and of an equal,
    /// non-empty version. Off by default, as in client-go. Needs a fused store.
    ///
    /// [`Popped::apply`] then notes versions beside the keys, so that a relist, or a probe, need
    /// not touch the known objects: numbers of up to 16 digits, as Kubernetes has them, for keys
    /// of up to 32 or more than 39 bytes. For all others the accessor is asked for the version of
    /// the known object.
    pub fn skip_unchanged(mut self, skip: bool) -> Self {
        self.fifo.skip_unchanged = skip;
        self
    }

    /// Whether a relist queues every object that it lists, whatever its version: client-go's
    /// behaviour (an update for every object). [`Relist::probe`] then reports all of them as
    /// needed, and [`skip_unchanged`](Self::skip_unchanged) has no effect, so that an object which
    /// changed without changing its version is stored and delivered as listed. Off by default.
    pub fn notify_unchanged(mut self, notify: bool) -> Self {
        self.fifo.notify_unchanged = notify;
        self
    }

    /// [`ready`](DeltaFifo::ready) waits while `deltas` or more are pending. Without it the queue
    /// is unbounded: a key whose handler is stuck grows by one delta an offer. A mark of 0 counts
    /// as 1.
    pub fn high_water(mut self, deltas: usize) -> Self {
        self.fifo.depth = Depth::new(Some(deltas));
        self
    }

    /// Whether the queue keeps track of what is [applied](DeltaFifo::applied_version). Off by
    /// default: then there are no [`bookmark`](DeltaFifo::bookmark)s. Those and commits move the
    /// version, events alone do not: with several producers the greatest version offered does not
    /// say that all before it were. Who feeds the queue from one watch bookmarks the last event's
    /// version whenever nothing more is ready. It costs one short lock and one allocation for a
    /// batch, or for an item popped alone, and one more lock when its handlers have ended. While a
    /// handler runs, each bookmark that comes meanwhile is kept, some 40 bytes.
    pub fn track_applied(mut self, track: bool) -> Self {
        self.fifo.queue.track(track);
        self
    }

    /// The queue.
    pub fn build(self) -> DeltaFifo<T, M> {
        if !self.fifo.queue.is_tracked() {
            self.fifo.core.applied.untracked();
        }
        self.fifo
    }
}

impl<T, M> DeltaFifo<T, M> {
    /// The slot whose turn in the queue has come; none when it went another way (`slot/lane.rs`).
    #[inline]
    fn redeem(&self, ticket: Ticket<T>) -> Option<QueuedSlot<T>> {
        ticket.redeem().map_or_else(|stale| self.give_up(stale), Some)
    }

    fn give_up(&self, stale: StaleSlot<T>) -> Option<QueuedSlot<T>> {
        let revived = self.core.table.leave(stale);
        if revived.is_none() {
            self.queue.repeat_turn();
        }
        revived
    }
}

impl<T, M> Drop for DeltaFifo<T, M> {
    /// Releases what is pending, so that the slots can be freed with the table. (A forgotten
    /// [`Popped`] leaks its key.)
    fn drop(&mut self) {
        mutant!(DroppedQueueForgets => return);
        // One object's drop that panics must not keep the others.
        let mut panic = FirstPanic::default();
        while let Some(ticket) = self.queue.pop_unhandled() {
            let Some(slot) = self.redeem(ticket) else { continue };
            let (running, taken) = slot.take();
            panic.of(|| taken.release());
            let idle = running.idle();
            debug_assert!(idle.is_ok(), "nobody pushes on a queue that is being dropped");
        }
        panic.go_on();
    }
}
