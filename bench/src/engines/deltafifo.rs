//! The engine of this project: a queue fused with its store. It joins the objects of a relist with
//! its table, and drains the relist, on every core.

use std::sync::Arc;

use deltafifo::{
    Change, DeltaFifo, Indexer, IndexerBuilder, KeyFunc, Labels, Lister, Meta, NAMESPACE_INDEX,
    Popped, Selector, SelectorError,
};

use super::{
    Counts, Event, IndexEngine, ListEngine, QueueEngine, SelectorEngine, StoreEngine, drain_on,
};
use crate::data::{APP, AppSelector, node};
use crate::process::cores;

/// Number of keys that a consumer pops at a time while it drains a relist.
const BATCH: usize = 1024;
/// Number of keys that a consumer pops at a time while it handles updates. It is smaller than
/// `BATCH`, because no other consumer can pop these keys any more.
const BURST: usize = 64;

/// The smallest backlog of a relist for which a second consumer is started.
const WORTH_THREADS: usize = 32_768;

/// The name of the index of [`DeltaFifoEngine::with_nodes`].
const NODE_INDEX: &str = "node";

/// The engine of this project. With `SKIP`, relists skip unchanged objects.
pub struct DeltaFifoEngine<T, M, const SKIP: bool> {
    fifo: DeltaFifo<T, M>,
    threads: usize,
    /// Whether a consumer of updates pops one key at a time.
    singly: bool,
}

impl<T: Send + Sync, M: Meta<T>, const SKIP: bool> DeltaFifoEngine<T, M, SKIP> {
    /// Creates an empty engine that uses a thread for each core.
    pub fn new(meta: M) -> Self {
        Self::with(store(meta), cores(), false)
    }

    /// Creates an empty engine that joins the objects of a relist with its table, and drains the
    /// relist, on one thread.
    pub fn one_thread(meta: M) -> Self {
        Self::with(store(meta), 1, false)
    }

    /// Creates an empty engine with a lane in which live events pass the backlog of a relist.
    pub fn with_lane(meta: M) -> Self {
        Self::with(store(meta), cores(), true)
    }

    /// Creates an empty engine whose consumers of updates pop one key at a time, as in most other
    /// engines.
    pub fn single(meta: M) -> Self {
        Self { singly: true, ..Self::new(meta) }
    }

    /// Creates an empty engine with an index by node.
    pub fn with_nodes(meta: M) -> Self
    where
        M: Copy + 'static,
    {
        let store = store(meta).index(NODE_INDEX, move |object| Ok(vec![node(&meta, object)]));
        Self::with(store, cores(), false)
    }

    /// Creates an empty engine with an index of the label `app`.
    pub fn with_apps(meta: M) -> Self
    where
        M: Labels<T> + Clone,
    {
        Self::with(store(meta).label(APP), cores(), false)
    }

    fn with(store: IndexerBuilder<T, M>, threads: usize, live_lane: bool) -> Self {
        let store = store.build().expect("no index is given twice");
        let fifo = DeltaFifo::over(store)
            .relist_threads(threads)
            .skip_unchanged(SKIP)
            .live_lane(live_lane)
            .build();
        Self { fifo, threads, singly: false }
    }
}

fn store<T, M: Meta<T>>(meta: M) -> IndexerBuilder<T, M> {
    Indexer::builder(KeyFunc::meta_namespace(meta))
}

fn apply<T: Send + Sync, M: Meta<T>>(
    mut item: Popped<'_, T, M>,
    handler: &mut impl FnMut(&Event<'_, T>),
) {
    let applied = item.apply(|change| {
        handler(&match change {
            Change::Added { .. } => Event::Added,
            Change::Updated { new, .. } => Event::Updated(new),
            Change::Deleted { .. } => Event::Deleted,
        });
    });
    assert!(applied.is_ok(), "the store is fused and its index cannot fail: {applied:?}");
}

impl<T: Send + Sync, M: Meta<T>, const SKIP: bool> ListEngine<T> for DeltaFifoEngine<T, M, SKIP> {
    const SKIPS_UNCHANGED: bool = SKIP;

    type List = Vec<Arc<T>>;

    fn replace(&self, list: Vec<Arc<T>>, version: &str) {
        let replaced = self.fifo.replace(list, version);
        assert!(replaced.is_ok(), "every object has a name, and one thread lists: {replaced:?}");
    }

    fn drain(&self) -> Counts {
        let threads = if self.fifo.pending_deltas() < WORTH_THREADS { 1 } else { self.threads };
        drain_on(threads, || {
            let mut counts = Counts::default();
            while let Some(mut batch) = self.fifo.try_pop_batch(BATCH) {
                while let Some(item) = batch.next() {
                    apply(item, &mut |event| counts.record(event));
                }
            }
            counts
        })
    }

    fn for_each_known(&self, mut visit: impl FnMut(&T)) {
        for object in self.fifo.store().list() {
            visit(&object);
        }
    }
}

impl<T: Send + Sync, M: Meta<T>, const SKIP: bool> StoreEngine<T> for DeltaFifoEngine<T, M, SKIP> {
    type Key = String;

    fn key(&self, object: &Arc<T>) -> String {
        self.fifo.key_of(&**object).expect("every object has a name")
    }

    fn get(&self, key: &String) -> Option<impl AsRef<T>> {
        self.fifo.store().get_by_key(key)
    }
}

impl<T: Send + Sync, M: Meta<T>, const SKIP: bool> IndexEngine<T> for DeltaFifoEngine<T, M, SKIP> {
    fn by_node(&self, node: &str) -> Vec<Arc<T>> {
        self.fifo.store().by_index(NODE_INDEX, node).expect("the engine was made with it")
    }

    fn by_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.fifo.store().by_index(NAMESPACE_INDEX, namespace).expect("every store has it")
    }
}

impl<T: Send + Sync, M: Labels<T>, const SKIP: bool> SelectorEngine<T>
    for DeltaFifoEngine<T, M, SKIP>
{
    type Selector = Selector;
    type Found = Arc<T>;

    fn selector(selector: &AppSelector) -> Result<Selector, SelectorError> {
        selector.to_string().parse()
    }

    fn select(&self, selector: &Selector) -> Vec<Arc<T>> {
        Lister::new(self.fifo.store()).select(selector)
    }
}

impl<T: Send + Sync, M: Meta<T>, const SKIP: bool> QueueEngine<T> for DeltaFifoEngine<T, M, SKIP> {
    fn update(&self, object: Arc<T>) {
        let updated = self.fifo.update(object);
        assert!(updated.is_ok(), "every object has a name: {updated:?}");
    }

    fn update_burst(&self, objects: Vec<Arc<T>>) {
        let updated = self.fifo.update_batch(objects);
        assert!(updated.is_ok(), "every object has a name: {updated:?}");
    }

    fn consume(&self, mut handler: impl FnMut(&Event<'_, T>)) -> usize {
        let mut pops = 0;
        if self.singly {
            while let Ok(item) = self.fifo.pop() {
                apply(item, &mut handler);
                pops += 1;
            }
            return pops;
        }
        while let Ok(mut batch) = self.fifo.pop_batch(BURST) {
            while let Some(item) = batch.next() {
                apply(item, &mut handler);
                pops += 1;
            }
        }
        pops
    }

    fn close(&self) {
        self.fifo.close();
    }
}
