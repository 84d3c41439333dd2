//! Every engine that runs in this process, behind one trait, so that all are driven by the same
//! code. Dispatch is static: an engine's loops are compiled with the handler inside.

pub mod dashmap;
pub mod deltafifo;
pub mod floor;
#[cfg(feature = "peers")]
pub mod kube_writer;
pub mod mutex_engine;
#[cfg(feature = "peers")]
pub mod mutex_workqueue;
mod ready;
#[cfg(feature = "peers")]
pub mod workqueue;

use std::sync::Arc;

/// What a handler is told, after the store was changed.
pub enum Event<'a, T> {
    /// The key was not known.
    Added(&'a Arc<T>),
    /// The key was known.
    Updated {
        /// What was known.
        old: &'a Arc<T>,
        /// What is known now.
        new: &'a Arc<T>,
    },
    /// The key is known no more; this is its last state, if anybody saw it.
    Deleted(Option<&'a Arc<T>>),
}

/// What handlers do in all workloads but stall: they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that were not known.
    pub adds: usize,
    /// Keys that were.
    pub updates: usize,
    /// Keys that are no more.
    pub deletes: usize,
}

impl Counts {
    /// Takes an event in.
    pub fn note<T>(&mut self, event: &Event<'_, T>) {
        match event {
            Event::Added(_) => self.adds += 1,
            Event::Updated { .. } => self.updates += 1,
            Event::Deleted(_) => self.deletes += 1,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.adds += other.adds;
        self.updates += other.updates;
        self.deletes += other.deletes;
    }
}

/// What takes lists: enough for the workloads initial, relist and churn.
pub trait ListEngine<T>: Send + Sync {
    /// Whether objects that a relist brings in the version that is known are left out.
    const SKIPS_UNCHANGED: bool = false;

    /// Whether its handler is told of anything at all.
    const MAKES_DELTAS: bool = true;

    /// Whether it keeps a list's objects themselves, so that they are freed when nobody else has
    /// them.
    const OWNS_LISTS: bool = true;

    /// A list as the engine takes it; made of the objects outside every clock.
    type List: for<'a> From<&'a [Arc<T>]> + Clone + Send + Sync;

    /// Takes a whole list, in as many threads as the engine likes. Every object has a name.
    fn replace(&self, list: Self::List, version: &str);

    /// Applies all that is pending to the store and counts it, by as many consumers as the engine
    /// likes; returns when the last one has ended.
    fn drain(&self) -> Counts;

    /// Shows every object in the store.
    fn for_each_known(&self, see: impl FnMut(&T));
}

/// What also answers for single keys, to any number of threads, whatever is done to it meanwhile.
pub trait StoreEngine<T>: ListEngine<T> {
    /// A key as the engine is asked for it; made outside every clock.
    type Key: Send + Sync;

    /// The key of an object.
    fn key(&self, object: &Arc<T>) -> Self::Key;

    /// The object that is known under a key, shared with the store.
    fn get(&self, key: &Self::Key) -> Option<impl AsRef<T>>;
}

/// What also finds objects by the node that they run on, in an index that it was made with, and by
/// namespace.
pub trait IndexEngine<T>: StoreEngine<T> {
    /// The objects of a node, in no order.
    fn by_node(&self, node: &str) -> Vec<Arc<T>>;

    /// The objects of a namespace, in no order.
    fn by_namespace(&self, namespace: &str) -> Vec<Arc<T>>;
}

/// What also takes single updates, from several producers, for several consumers that wait for
/// them.
pub trait QueueEngine<T>: ListEngine<T, List = Vec<Arc<T>>> {
    /// Offers one update.
    fn update(&self, object: Arc<T>);

    /// Offers many updates in one call.
    fn update_burst(&self, objects: Vec<Arc<T>>) {
        for object in objects {
            self.update(object);
        }
    }

    /// Pops one key, applies it to the store and calls the handler; false when nothing is pending.
    fn try_pop(&self, handler: impl FnMut(&Event<'_, T>)) -> bool;

    /// Pops, applies to the store and calls the handler until the queue is closed and empty; says
    /// how often it popped. Several threads may be in here at once.
    fn consume(&self, handler: impl FnMut(&Event<'_, T>)) -> usize;

    /// Lets the consumers end when nothing is left.
    fn close(&self);
}
