//! The engines that run in this process, behind common traits, so that one piece of code drives
//! all of them. Dispatch is static: the loops of an engine are compiled together with the handler.

pub mod dashmap;
pub mod deltafifo;
pub mod floor;
#[cfg(feature = "peers")]
pub mod kube_writer;
pub mod mutex_engine;
mod ready;
#[cfg(feature = "peers")]
pub mod workqueue;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread;

use ::deltafifo::SelectorError;

use crate::data::AppSelector;

/// A change of the store, of which a handler is notified.
pub enum Event<'a, T> {
    /// A key that was not known was added.
    Added,
    /// A known key got this object.
    Updated(&'a Arc<T>),
    /// A key was deleted.
    Deleted,
}

/// Counts of events, which are the result of the handlers of all workloads except `stall`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub adds: usize,
    pub updates: usize,
    pub deletes: usize,
}

impl Counts {
    /// Returns the counts of a handler that was notified of this many updates.
    pub fn of_updates(updates: usize) -> Self {
        Self { updates, ..Self::default() }
    }

    pub fn record<T>(&mut self, event: &Event<'_, T>) {
        match event {
            Event::Added => self.adds += 1,
            Event::Updated(_) => self.updates += 1,
            Event::Deleted => self.deletes += 1,
        }
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, counts| Self {
            adds: sum.adds + counts.adds,
            updates: sum.updates + counts.updates,
            deletes: sum.deletes + counts.deletes,
        })
    }
}

/// An engine that takes lists, for the workloads `initial`, `relist` and `churn`.
pub trait ListEngine<T>: Send + Sync {
    /// Whether a relist skips objects whose version is already known.
    const SKIPS_UNCHANGED: bool = false;

    /// Whether the engine notifies a handler.
    const MAKES_DELTAS: bool = true;

    /// Whether only the store of the engine holds the objects of a list, so that replacing them
    /// can free them. If false, the variant `owned` of a relist is not measured.
    const OWNS_LISTS: bool = true;

    /// A list in the engine's form. It is created outside the measured time.
    type List: for<'a> From<&'a [Arc<T>]> + Clone + Send + Sync;

    /// Takes a whole list, on as many threads as the engine wants. Every object has a name.
    fn replace(&self, list: Self::List, version: &str);

    /// Applies everything that is pending to the store, with as many consumers as the engine
    /// wants. Returns the counts when the last consumer has ended.
    fn drain(&self) -> Counts;

    /// Calls `visit` with every object in the store.
    fn for_each_known(&self, visit: impl FnMut(&T));
}

/// An engine whose store any number of threads can read, also during writes.
pub trait StoreEngine<T>: ListEngine<T> {
    /// A key in the engine's form. It is created outside the measured time.
    type Key: Send + Sync;

    /// Returns the key of an object.
    fn key(&self, object: &Arc<T>) -> Self::Key;

    /// Returns the object of a key, shared with the store. Returns `None` if the key is not known.
    fn get(&self, key: &Self::Key) -> Option<impl AsRef<T>>;
}

/// An engine that returns objects by namespace, and by node if it was created with that index.
pub trait IndexEngine<T>: StoreEngine<T> {
    /// Returns the objects of a node, in no particular order.
    fn by_node(&self, node: &str) -> Vec<Arc<T>>;

    /// Returns the objects of a namespace, in no particular order.
    fn by_namespace(&self, namespace: &str) -> Vec<Arc<T>>;
}

/// An engine that returns objects by a label selector.
pub trait SelectorEngine<T>: ListEngine<T> {
    /// A selector in the engine's form. It is created outside the measured time.
    type Selector;
    /// An object, shared with the store.
    type Found: AsRef<T>;

    /// Creates a selector. Returns an error if the value of a label is not valid.
    fn selector(selector: &AppSelector) -> Result<Self::Selector, SelectorError>;

    /// Returns the objects that a selector matches, in no particular order.
    fn select(&self, selector: &Self::Selector) -> Vec<Self::Found>;
}

/// An engine that takes single updates from several producers, for several blocking consumers.
pub trait QueueEngine<T>: ListEngine<T, List = Vec<Arc<T>>> {
    /// Offers one update.
    fn update(&self, object: Arc<T>);

    /// Offers many updates in one call.
    fn update_burst(&self, objects: Vec<Arc<T>>) {
        for object in objects {
            self.update(object);
        }
    }

    /// Pops keys, applies their deltas to the store, and calls the handler for each change, until
    /// the queue is closed and empty. Returns how often this call has popped a key. Several threads
    /// may call it at the same time.
    fn consume(&self, handler: impl FnMut(&Event<'_, T>)) -> usize;

    /// Closes the queue: consumers end when it is empty.
    fn close(&self);
}

/// Runs consumers on this many threads, and returns the sum of their counts.
fn drain_on(threads: usize, drain: impl Fn() -> Counts + Sync) -> Counts {
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&drain)).collect();
        let own = drain();
        others.into_iter().map(|other| other.join().unwrap_or_default()).chain([own]).sum()
    })
}
