//! The store: what is known under each key, and the indexes over it. It shares the queue's slots and does not know the
//! queue.
//!
//! Who writes: alone, the [`Indexer`] does, each write under its shard's lock. Attached to a queue (which takes the
//! `Indexer`), only popped items do, each for the one key whose handler it is. Either way one writer per key at a time,
//! so an index never holds an object under two states' values. Index functions are user code and run before any lock.

mod detector;
mod expiration;
mod index;
mod indexer;
mod lister;
mod mutation;
mod reader;
mod undelta;

use std::borrow::Cow;

use crate::applied::Applied;
use crate::error::{StoreError, unharmed};
use crate::slot::RunningSlot;
use crate::sync::{Arc, mutant};
use crate::table::Table;
use crate::{KeyFunc, Meta};
pub use detector::CacheMutationDetector;
pub use expiration::ExpirationCache;
use index::Index;
pub(crate) use index::Values;
pub use indexer::{Indexer, IndexerBuilder};
pub use lister::{Lister, NamespaceLister, Selector};
pub use mutation::{MutationCache, MutationCacheBuilder};
pub use reader::IndexReader;
pub use undelta::UndeltaStore;

/// Name of the built-in index by namespace (client-go `NamespaceIndex`); cluster-scoped objects have the value `""`.
pub const NAMESPACE_INDEX: &str = "namespace";

/// What queue and store share.
pub(crate) struct Core<T, M> {
    // Dropped in this order: a slot that an index still holds a token of is not freed with its table.
    namespaces: Values<T>,
    indexes: Vec<Index<T>>,
    pub(crate) table: Table<T>,
    pub(crate) keys: KeyFunc<T, M>,
    pub(crate) applied: Arc<Applied>,
}

/// How the indexes of one key are to change: made by user code before, carried out around the swap of the object.
#[derive(Default)]
struct Plan {
    /// Namespace to leave and namespace to join.
    namespace: (Option<String>, Option<String>),
    /// Per user index that changes: its place, values to leave, values to join.
    values: Vec<(usize, Leave, Vec<String>)>,
    error: Option<StoreError>,
}

/// What an object leaves of an index.
enum Leave {
    Values(Vec<String>),
    /// Wherever it stands: its function did not say today what it said when the object joined.
    Everything,
}

impl<T, M: Meta<T>> Core<T, M> {
    fn new(keys: KeyFunc<T, M>, indexes: Vec<Index<T>>) -> Self {
        let applied = Arc::new(Applied::new());
        Self { namespaces: Values::new(), indexes, table: Table::new(), keys, applied }
    }

    /// A core whose table serves a queue alone.
    pub(crate) fn bare(keys: KeyFunc<T, M>) -> Self {
        Self::new(keys, Vec::new())
    }

    fn namespace<'a>(&self, key: &'a str, object: &'a T) -> Cow<'a, str> {
        if self.keys.key_has_namespace() {
            return Cow::Borrowed(key.split_once('/').map_or("", |(namespace, _)| namespace));
        }
        self.keys.meta().namespace(object).unwrap_or_default().into()
    }

    /// `entries`: in how many places of all indexes the old object stands.
    fn plan(&self, key: &str, old: Option<&T>, new: Option<&T>, entries: usize) -> Plan {
        let mut plan = Plan::default();
        let before = old.map(|old| self.namespace(key, old));
        let after = new.map(|new| self.namespace(key, new));
        if before != after {
            plan.namespace = (before.map(Cow::into_owned), after.map(Cow::into_owned));
        }
        // `None`: the function fails, and may not have failed when the object joined.
        let leaves: Vec<Option<Vec<String>>> = self
            .indexes
            .iter()
            .map(|index| old.map_or_else(|| Some(Vec::new()), |old| index.values_of(old).ok()))
            .collect();
        let expected = usize::from(old.is_some()) + leaves.iter().flatten().map(Vec::len).sum::<usize>();
        let differs = entries != expected && leaves.iter().all(Option::is_some);
        if differs {
            unharmed(|| {
                tracing::error!(key, "an index function does not say the same twice: all indexes are searched");
            });
        }
        for ((place, index), leave) in self.indexes.iter().enumerate().zip(leaves) {
            let mut join = match new.map(|new| index.values_of(new)).transpose() {
                Ok(values) => values.unwrap_or_default(),
                Err(source) => {
                    plan.error = Some(StoreError::Index { index: index.name.clone(), key: key.to_owned(), source });
                    Vec::new()
                }
            };
            let Some(mut leave) = leave.filter(|_| !differs) else {
                plan.values.push((place, Leave::Everything, join));
                continue;
            };
            leave.retain(|value| match join.binary_search(value) {
                Ok(same) => {
                    join.remove(same);
                    false
                }
                Err(_) => true,
            });
            if !leave.is_empty() || !join.is_empty() {
                plan.values.push((place, Leave::Values(leave), join));
            }
        }
        plan
    }

    /// Leaves old values, swaps the object, joins new values: in between the object is missing from an index, never
    /// found under a value that it does not have.
    fn carry_out(&self, plan: &Plan, running: &mut RunningSlot<T>, new: Option<Arc<T>>) -> Option<Arc<T>> {
        mutant!(OldValuesLeftLate => return self.carry_out_late(plan, running, new));
        if let Some(namespace) = &plan.namespace.0 {
            self.namespaces.remove(namespace, running);
        }
        for (place, leave, _) in &plan.values {
            self.indexes[*place].values.leave(leave, running);
        }
        if new.is_none() && running.index_entries() > 0 {
            // A function says of this object now what it did not say when it joined.
            self.namespaces.leave(&Leave::Everything, running);
            self.indexes.iter().for_each(|index| index.values.leave(&Leave::Everything, running));
        }
        let old = running.swap_known(new);
        if let Some(namespace) = &plan.namespace.1 {
            self.namespaces.insert(namespace, running);
        }
        for (place, _, join) in &plan.values {
            for value in join {
                self.indexes[*place].values.insert(value, running);
            }
        }
        old
    }

    /// Makes `new` what is known under the running key and hands back what was. No lock may be held.
    pub(crate) fn apply(
        &self,
        running: &mut RunningSlot<T>,
        new: Option<Arc<T>>,
    ) -> (Option<Arc<T>>, Option<StoreError>) {
        if self.indexes.is_empty() && self.keys.key_has_namespace() && new.is_some() {
            // The frequent case: the key says the namespace, so an update changes no index.
            let is_new = !running.is_known();
            let old = running.swap_known(new);
            if is_new {
                let namespace = running.key().split_once('/').map_or("", |(namespace, _)| namespace);
                self.namespaces.insert(namespace, running);
            }
            return (old, None);
        }
        let old = running.known();
        let plan = self.plan(running.key(), old.as_deref(), new.as_deref(), running.index_entries());
        drop(old);
        (self.carry_out(&plan, running, new), plan.error)
    }

    fn index(&self, name: &str) -> Option<&Values<T>> {
        if name == NAMESPACE_INDEX {
            return Some(&self.namespaces);
        }
        self.indexes.iter().find(|index| index.name == name).map(|index| &index.values)
    }
}

/// What a mutant does instead (`sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{Arc, Core, Meta, Plan, RunningSlot};

    impl<T, M: Meta<T>> Core<T, M> {
        /// `OldValuesLeftLate`: for a moment the new object is found under values that it does not have.
        pub(super) fn carry_out_late(
            &self,
            plan: &Plan,
            running: &mut RunningSlot<T>,
            new: Option<Arc<T>>,
        ) -> Option<Arc<T>> {
            let old = running.swap_known(new);
            let (left, joined) = &plan.namespace;
            left.iter().for_each(|namespace| self.namespaces.remove(namespace, running));
            joined.iter().for_each(|namespace| self.namespaces.insert(namespace, running));
            for (place, leave, join) in &plan.values {
                self.indexes[*place].values.leave(leave, running);
                join.iter().for_each(|value| self.indexes[*place].values.insert(value, running));
            }
            old
        }
    }
}
