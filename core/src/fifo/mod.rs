//! The queue by key: [`DeltaFifo`], its builder, and its parts.
//!
//! | file | contents |
//! | --- | --- |
//! | `offer` | add, update, delete, `add_if_not_present`: one key, with its shard held against other offers; batches |
//! | `relist`, `join` | replace and relists in pieces; the join of a page with the table |
//! | `generations` | the relists that are current, and the generation that offers stamp with |
//! | `listed` | the keys that open relists have listed, for an external store |
//! | `unchanged` | the objects of a relist that need not be queued |
//! | `scope` | parts of the queue that are relisted separately |
//! | `resync` | a Sync for each key that is known and idle |
//! | `pop`, `batch` | the guards of popped items: take, apply, and the end of the handler |
//! | `settle` | the end of a handler, with all cases of concurrent pushes |
//! | `resolve` | converts pushed deltas to client-go's deltas |
//! | `peek` | get and list of pending deltas |
//! | `applied` | bookmarks, and the holds that keep the applied version back |
//! | `roles` | implements `ReflectorStore` for the queue |

mod applied;
mod batch;
mod generations;
mod join;
mod listed;
mod offer;
mod peek;
mod pop;
mod relist;
mod resolve;
mod resync;
mod roles;
mod scope;
mod settle;
mod threads;
mod unchanged;
mod wakeups;

use crate::engine::ledger::Epoch;
use crate::engine::ready_queue::{Lane, ReadyQueue};
use crate::engine::release::UserCode;
use crate::engine::slot::{QueuedSlot, StaleSlot, Ticket};
use crate::engine::sync::{Arc, RUN, SHARDS, mutant};
use crate::error::{BoxError, Closed, KeyError};
use crate::lifecycle::{Depth, Lifecycle};
use crate::panics::FirstPanic;
use crate::store::applied::Source;
use crate::store::transform::Transform;
use crate::store::{Core, Parts};
use crate::{IndexReader, Indexer, KeyFunc, KeySource, KnownObjects, Meta};
pub use batch::Batch;
use generations::Relists;
pub use join::Refused;
use listed::Listed;
pub use pop::{Change, Popped};
pub(crate) use pop::{SLOW, report_slow};
pub use relist::{Committed, Relist};

/// The place of the known objects.
enum KnownPlace<T> {
    /// The known objects are in the slots, because the store is fused with the queue.
    Fused,
    /// There are no known objects: a key exists only while it is pending.
    Nowhere,
    /// The known objects are in a store that the queue consults.
    Elsewhere {
        objects: UserCode<Arc<dyn KnownObjects<T>>>,
        /// The keys that open relists have listed. Slots cannot keep stamps here, because they
        /// retire when they are handled.
        listed: Listed,
    },
}

/// A queue of deltas by key (client-go `DeltaFIFO`), for any number of producers and consumers.
///
/// A key is in the queue if and only if it has pending deltas, and then only once. It keeps its
/// place until it is popped; with the next delta it joins the tail. A pop hands out all deltas of
/// one key, oldest first, and the key is not popped again before its handler has ended. Handlers of
/// different keys run in parallel on several consumers, with no lock held.
///
/// Every method takes `&self`: share the queue by reference or `Arc`. The queue is unbounded unless
/// producers wait for [`ready`](Self::ready) at the [`high_water`](DeltaFifoBuilder::high_water)
/// mark.
///
/// # `DeltaFifo` or `InOrderFifo`
/// Use this queue to handle different keys in parallel, to get all deltas of a key in one item,
/// and for relists that need no memory besides the known objects. Use an
/// [`InOrderFifo`](crate::InOrderFifo) if the order across keys matters, or if a relist must
/// arrive as one event.
///
/// # Key order
/// Keys that were offered one by one are popped in the order of their offers. This order is not
/// guaranteed relative to a relist or a batch of offers in progress, for keys whose handler was
/// running, or with a [lane for live events](DeltaFifoBuilder::live_lane).
pub struct DeltaFifo<T, M> {
    core: Arc<Core<T, M>>,
    /// Held for its `Drop`, which wakes callers of `wait_for_resource_version`.
    _source: Source,
    known: KnownPlace<T>,
    queue: ReadyQueue<T>,
    life: Lifecycle,
    relists: Relists,
    transform: Transform<T>,
    replaced_as: crate::DeltaType,
    ordered_walks: bool,
    relist_threads: usize,
    skip_unchanged: bool,
    notify_unchanged: bool,
}

/// A builder of a [`DeltaFifo`], created by [`DeltaFifo::builder`] or [`DeltaFifo::over`].
#[doc(alias = "DeltaFIFOOptions")]
#[must_use]
pub struct DeltaFifoBuilder<T, M> {
    fifo: DeltaFifo<T, M>,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Returns a builder of a queue without a store. A deletion has an effect only if the key is
    /// pending, or if the [`known_objects`](DeltaFifoBuilder::known_objects) have it.
    pub fn builder(keys: KeyFunc<T, M>) -> DeltaFifoBuilder<T, M> {
        let core = Arc::new(Core::bare(keys));
        let source = Source::of(&core.applied);
        DeltaFifoBuilder::new((core, source, None), KnownPlace::Nowhere)
    }

    /// Returns a builder of a queue fused with `store`: they share one slot per key, and the
    /// consumer [applies](Popped::apply) each popped item to the store. This is then the only way
    /// to write the store. Read it through [`store`](Self::store), or through an [`IndexReader`]
    /// that was made before.
    pub fn over(store: Indexer<T, M>) -> DeltaFifoBuilder<T, M> {
        DeltaFifoBuilder::new(store.into_parts(), KnownPlace::Fused)
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

    /// Returns whether the initial population has been handled: the first relist is committed and
    /// the handlers of all its items have ended, or another offer populated the queue first. In a
    /// queue with [scopes](Self::add_scope) this holds for the first relist of each scope. Once
    /// true, it stays true.
    ///
    /// The items of a [`Batch`] can count late: when the batch hands out its next item or is
    /// dropped. So a consumer must not wait for the sync while it holds a batch.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.life.initial.has_synced()
    }

    /// Blocks until [`has_synced`](Self::has_synced) is true. Must not be called by a consumer that
    /// holds an item or a [`Batch`]: it would wait for itself.
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    pub fn wait_for_sync(&self) -> Result<(), Closed> {
        self.life.initial.wait(|| self.is_closed())
    }

    /// Waits until [`has_synced`](Self::has_synced) is true, without blocking the thread. As for
    /// [`wait_for_sync`](Self::wait_for_sync), the caller must not hold an item or a [`Batch`].
    ///
    /// # Errors
    /// [`Closed`] if the queue is closed first.
    pub async fn wait_for_sync_async(&self) -> Result<(), Closed> {
        self.life.initial.wait_async(|| self.is_closed()).await
    }

    /// Returns how many deltas are pending. A gauge: the deltas that a batch takes are subtracted
    /// when the batch ends.
    #[must_use]
    pub fn pending_deltas(&self) -> usize {
        self.life.depth.pending()
    }

    /// Blocks until fewer deltas are pending than the high-water mark. Returns at once if there is
    /// no mark. Deltas that a [`Batch`] has taken count until the batch is dropped. Offers never
    /// wait: a producer that wants to bound memory calls this before each offer.
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
    /// objects of equal versions need not be equal, and no object is [skipped as
    /// unchanged](DeltaFifoBuilder::skip_unchanged).
    #[doc(hidden)]
    #[must_use]
    pub fn versions_altered(&self) -> bool {
        self.transform.alters_versions()
    }

    /// Returns whether the queue is fused with a store, to which consumers apply the popped items.
    pub(crate) fn is_fused(&self) -> bool {
        matches!(self.known, KnownPlace::Fused)
    }

    /// Closes the queue. Every waiting pop wakes; queued deltas can still be popped; after that
    /// pops return [`Closed`]. As in client-go, an offer after the close is still queued.
    pub fn close(&self) {
        mutant!(CloseIsNotifiedFirst => return self.close_announced_first());
        self.queue.close();
        self.core.applied.close();
        self.life.announce_close();
    }

    /// Waits until [`close`](Self::close) is called. Use it in a producer that has nothing to
    /// offer, which would not notice the close otherwise.
    pub async fn closed_async(&self) -> Closed {
        self.life.depth.wait_closed_async(|| self.is_closed()).await
    }

    /// Returns whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Queues slots onto which a resync or a sweep has pushed deltas, in key order if the option
    /// [`ordered_walks`](DeltaFifoBuilder::ordered_walks) is set. `since` is the epoch on which
    /// the caller has a hold; `None` if the queue does not track applied versions. Returns how
    /// many consumers the caller has to wake.
    fn push_walk(&self, mut slots: Vec<Ticket<T>>, since: Option<Epoch>) -> usize {
        if self.ordered_walks {
            slots.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        }
        let count = slots.len();
        // In runs, because the queue keeps the memory of the last one.
        let mut slots = slots.into_iter();
        while slots.len() > 0 {
            self.push_run(Lane::Backlog, slots.by_ref().take(RUN).collect(), since);
        }
        mutant!(WalkWakesOne => return count.min(1));
        count
    }
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifoBuilder<T, M> {
    fn new((core, source, transformer): Parts<T, M>, known: KnownPlace<T>) -> Self {
        Self {
            fifo: DeltaFifo {
                core,
                _source: source,
                known,
                queue: ReadyQueue::new(),
                life: Lifecycle::new(),
                relists: Relists::new(),
                transform: Transform::new(transformer),
                replaced_as: crate::DeltaType::Replaced,
                ordered_walks: false,
                relist_threads: 1,
                skip_unchanged: false,
                notify_unchanged: false,
            },
        }
    }

    /// Sets the known objects, in a store that the queue does not own. Has no effect over a fused
    /// store.
    pub fn known_objects(mut self, objects: Arc<dyn KnownObjects<T>>) -> Self {
        if !matches!(self.fifo.known, KnownPlace::Fused) {
            self.fifo.known =
                KnownPlace::Elsewhere { objects: UserCode::new(objects), listed: Listed::new() };
        }
        self
    }

    /// Sets a function that changes objects before they are queued; it does not see tombstones or
    /// Syncs. If the function fails or panics, the offer is refused. The function runs with no
    /// lock held, and replaces the transformer of the fused store.
    #[doc(alias = "TransformFunc")]
    pub fn transformer(
        mut self,
        transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.fifo.transform = Transform::by(transformer);
        self
    }

    /// Sets whether a relist queues `Replaced` (the default) or `Sync` (client-go
    /// `EmitDeltaTypeReplaced`).
    #[doc(alias = "EmitDeltaTypeReplaced")]
    pub fn emit_replaced(mut self, emit: bool) -> Self {
        self.fifo.replaced_as =
            if emit { crate::DeltaType::Replaced } else { crate::DeltaType::Sync };
        self
    }

    /// Sets whether deletions of a relist and Syncs of a resync are queued in key order, and not
    /// in the order of the table, which differs from run to run. Costs a sort. For tests and
    /// replays.
    pub fn ordered_walks(mut self, ordered: bool) -> Self {
        self.fifo.ordered_walks = ordered;
        self
    }

    /// Sets whether live events (offers, batches of them, and deltas that are put back) pass the
    /// backlog of relists and resyncs. A key that waits in the backlog joins the live keys when an
    /// event is offered for it, and is handed out in their order with all of its pending deltas,
    /// oldest first. At least one pop in eight takes from the backlog, as long as it has keys.
    /// Off by default: then keys are handed out first in, first out, as in client-go, and an
    /// update that is offered after a relist of a million objects waits for all of them.
    ///
    /// An update that coincides with a relist's push on the same key, or with the end of the key's
    /// handler, may still wait in the backlog. If very many live keys wait, a key that was next in
    /// the backlog and joins them is handed out later than without the event.
    pub fn live_lane(mut self, live: bool) -> Self {
        self.fifo.queue.set_lane(live);
        self
    }

    /// Sets the number of threads on which a relist joins its pages with the table: 1 by default,
    /// at most one per shard (256). Pages of fewer than 32,768 objects are joined by one thread,
    /// for which they are too small to be divided.
    pub fn relist_threads(mut self, threads: usize) -> Self {
        self.fifo.relist_threads = threads.clamp(1, SHARDS);
        self
    }

    /// Sets whether a relist skips an object that is known, idle and of an equal, non-empty
    /// version. Off by default, as in client-go. Needs a fused store.
    ///
    /// [`Popped::apply`] then records the version of a listed object next to its key, so that the
    /// next relist or probe need not read the known object. An event does not record its version:
    /// the first relist or probe after the event reads the version from the known object, and
    /// records it. Only versions that are numbers of up to 16 digits, as those of Kubernetes are,
    /// are recorded, and only for keys of at most 32 bytes or of more than 39. For all others, each
    /// relist reads the known object.
    pub fn skip_unchanged(mut self, skip: bool) -> Self {
        self.fifo.skip_unchanged = skip;
        self
    }

    /// Sets whether a relist queues every object that it lists, even if its version has not
    /// changed, as in client-go. [`Relist::probe`] then returns that all objects are needed, and
    /// [`skip_unchanged`](Self::skip_unchanged) has no effect. So an object that changed without
    /// changing its version is stored and handed out as listed. Off by default.
    pub fn notify_unchanged(mut self, notify: bool) -> Self {
        self.fifo.notify_unchanged = notify;
        self
    }

    /// Sets the number of pending deltas at which [`ready`](DeltaFifo::ready) waits. Without a
    /// mark the queue is unbounded: a key whose handler is stuck grows by one delta per offer. A
    /// mark of 0 counts as 1.
    pub fn high_water(mut self, deltas: usize) -> Self {
        self.fifo.life.depth = Depth::new(Some(deltas));
        self
    }

    /// Sets whether the queue tracks the [applied version](IndexReader::applied_version). Off by
    /// default: then [`bookmark`](DeltaFifo::bookmark) is an error. Bookmarks and commits move the
    /// version. Events alone do not, because with several producers the greatest offered version
    /// does not imply that all earlier ones were offered. A producer that feeds the queue from one
    /// watch bookmarks the version of the last event whenever no further event is ready. Costs one
    /// short lock and one allocation per batch, or per single item, and one more lock when its
    /// handlers have ended. Each bookmark that arrives while a handler runs takes about 40 bytes.
    pub fn track_applied(mut self, track: bool) -> Self {
        self.fifo.queue.track(track);
        self
    }

    /// Builds the queue.
    pub fn build(self) -> DeltaFifo<T, M> {
        if !self.fifo.queue.is_tracked() {
            self.fifo.core.applied.untracked();
        }
        self.fifo
    }
}

impl<T, M> DeltaFifo<T, M> {
    /// Returns the slot of a queue entry, or `None` if the entry is stale (`engine/slot/lane.rs`).
    #[inline]
    fn redeem(&self, ticket: Ticket<T>) -> Option<QueuedSlot<T>> {
        ticket.redeem().map_or_else(|stale| self.give_up(stale), Some)
    }

    fn give_up(&self, stale: StaleSlot<T>) -> Option<QueuedSlot<T>> {
        let revived = self.core.table.give_up(stale);
        if revived.is_none() {
            self.queue.repeat_backlog_pop();
        }
        revived
    }
}

impl<T, M> Drop for DeltaFifo<T, M> {
    /// Releases pending deltas, so that the slots can be freed with the table. (A leaked
    /// [`Popped`] leaks its key.)
    fn drop(&mut self) {
        mutant!(DroppedQueueForgets => return);
        // A panicking destructor must not keep other objects from being released.
        let mut panic = FirstPanic::default();
        while let Some(ticket) = self.queue.pop_unhandled() {
            let Some(slot) = self.redeem(ticket) else { continue };
            let (running, taken) = slot.take();
            panic.catch(|| taken.release());
            let idle = running.idle();
            debug_assert!(idle.is_ok(), "no thread pushes on a queue that is being dropped");
        }
        panic.resume();
    }
}

/// The code of a deliberate defect (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::DeltaFifo;

    impl<T, M> DeltaFifo<T, M> {
        /// Closes the queue, with the defect `CloseIsNotifiedFirst`: a waiter that wakes can find
        /// the queue still open.
        pub(super) fn close_announced_first(&self) {
            self.life.announce_close();
            self.queue.close();
        }
    }
}

#[cfg(all(test, not(any(deltafifo_loom, deltafifo_shuttle))))]
mod tests {
    use super::DeltaFifo;
    use crate::engine::room::LEAST_ROOM;
    use crate::engine::sync::{Arc, RUN};
    use crate::{DeltaFifoBuilder, Indexer, KeyFunc, NoMeta};

    /// The number of keys in the tests: more than two runs of the ready queue have room for. A run
    /// is up to [`RUN`] slots that are queued together.
    const MANY: u32 = if cfg!(miri) { 200 } else { 3_000 };

    fn over_a_store() -> DeltaFifoBuilder<u32, NoMeta> {
        let keys = KeyFunc::custom(NoMeta, |number: &u32| Ok(number.to_string()));
        DeltaFifo::over(Indexer::builder(keys).build().unwrap())
    }

    fn apply_all(fifo: &DeltaFifo<u32, NoMeta>) {
        while let Some(mut item) = fifo.try_pop() {
            item.apply(|_| ()).unwrap();
        }
    }

    #[test]
    fn walk_of_many_keys_is_queued_in_runs_of_bounded_length() {
        for live_lane in [false, true] {
            let fifo = over_a_store().live_lane(live_lane).ordered_walks(true).build();
            fifo.replace((0..MANY).map(Arc::new).collect(), "1").unwrap();
            apply_all(&fifo);
            fifo.resync();
            drop(fifo.try_pop());
            assert!((RUN..=RUN + 1).contains(&fifo.queue.room()), "{}", fifo.queue.room());
            apply_all(&fifo);
            fifo.replace(vec![], "2").unwrap();
            fifo.try_pop().unwrap().apply(|_| ()).unwrap();
            assert_eq!(fifo.queue.room(), RUN);
        }
    }

    #[test]
    fn keys_that_were_given_back_keep_no_memory_in_an_empty_queue() {
        for (live_lane, tracks) in [(false, false), (true, false), (false, true), (true, true)] {
            let fifo = over_a_store().live_lane(live_lane).track_applied(tracks).build();
            fifo.replace((0..MANY).map(Arc::new).collect(), "1").unwrap();
            (MANY..2 * MANY).for_each(|number| fifo.add(Arc::new(number)).unwrap());
            drop(fifo.try_pop_batch(2 * MANY as usize));
            assert!(fifo.queue.room() >= MANY as usize);
            apply_all(&fifo);
            assert!(fifo.queue.room() <= LEAST_ROOM, "{}", fifo.queue.room());
            // A batch is taken by another loop.
            (0..MANY).for_each(|number| fifo.add(Arc::new(number)).unwrap());
            drop(fifo.try_pop_batch(MANY as usize));
            while let Some(mut batch) = fifo.try_pop_batch(7) {
                while let Some(mut item) = batch.next() {
                    item.apply(|_| ()).unwrap();
                }
            }
            assert!(fifo.queue.room() <= LEAST_ROOM, "{}", fifo.queue.room());
        }
    }
}
