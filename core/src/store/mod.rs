//! The store: what is known under each key, and the indexes over it. It shares the queue's slots
//! and does not know the queue.
//!
//! Who writes: alone, the [`Indexer`] does, each write with its key's slot claimed (`sole.rs`).
//! Attached to a queue (which takes the `Indexer`), only popped items do, each for the one key
//! whose handler it is. Either way one writer per key at a time, so an index never holds an object
//! under two states' values; and no lock of the table is held while a writer waits for who reads
//! an index. Index functions are user code and run before any lock.

pub(crate) mod applied;
mod apply;
mod build;
mod detector;
mod expiration;
mod index;
mod indexer;
mod indexes;
mod lister;
mod mutation;
mod reader;
mod sole;
pub(crate) mod transform;
mod undelta;
mod walk;

use crate::engine::release::UserCode;
use crate::engine::sync::Arc;
use crate::engine::table::Table;
use crate::error::{BoxError, IndexError, StoreError, fallible};
use crate::store::applied::Applied;
use crate::{KeyFunc, Meta};
pub use detector::CacheMutationDetector;
pub use expiration::ExpirationCache;
pub(crate) use index::Values;
pub(crate) use indexer::Parts;
pub use indexer::{Indexer, IndexerBuilder, Transaction};
pub use indexes::Indexers;
use indexes::Indexes;
pub use lister::{Lister, NamespaceLister, Selector};
pub use mutation::{MutationCache, MutationCacheBuilder};
pub use reader::IndexReader;
pub use undelta::UndeltaStore;
pub use walk::{WalkPosition, WalkStep};

/// Name of the built-in index by namespace (client-go `NamespaceIndex`); cluster-scoped objects
/// have the value `""`.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Changes an object before it is queued or stored.
pub(crate) type Transformer<T> = UserCode<Box<dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync>>;

/// The user's `transformer`, which may fail in any way.
pub(crate) fn transformer<T>(
    transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
) -> Transformer<T> {
    UserCode::new(Box::new(move |object| fallible(|| transformer(object))))
}

/// What queue and store share.
pub(crate) struct Core<T, M> {
    // Dropped in this order: a slot that an index still holds a token of is not freed with its
    // table.
    namespaces: Values<T>,
    indexes: Indexes<T>,
    pub(crate) table: Table<T>,
    pub(crate) keys: KeyFunc<T, M>,
    pub(crate) applied: Arc<Applied>,
}

impl<T, M: Meta<T>> Core<T, M> {
    fn new(keys: KeyFunc<T, M>, indexers: Indexers<T>) -> Result<Self, IndexError> {
        let applied = Arc::new(Applied::new());
        Ok(Self { namespaces: Values::new(), indexes: Indexes::new(indexers)?, table: Table::new(), keys, applied })
    }

    /// A core whose table serves a queue alone.
    pub(crate) fn bare(keys: KeyFunc<T, M>) -> Self {
        let applied = Arc::new(Applied::new());
        Self { namespaces: Values::new(), indexes: Indexes::none_yet(), table: Table::new(), keys, applied }
    }

    /// What an index has, if there is one of that name.
    fn values<R>(&self, name: &str, of: impl FnOnce(&Values<T>) -> R) -> Result<R, IndexError> {
        if name == NAMESPACE_INDEX {
            return Ok(of(&self.namespaces));
        }
        self.indexes.with(name, |index| of(&index.values))
    }

    /// Whether every index function can say the values of `object`.
    fn check_indexes(&self, key: &str, object: &T) -> Result<(), StoreError> {
        self.indexes.load().iter().try_for_each(|index| {
            let failed = |source| StoreError::Index {
                index: index.name.clone(),
                key: key.to_owned(),
                version: self.version_of(object),
                source,
            };
            index.values_of(object).map(drop).map_err(failed)
        })
    }

    /// The version that `object` has, for what is told of it.
    fn version_of(&self, object: &T) -> Option<String> {
        self.keys.meta().version(object).map(str::to_owned)
    }

    /// The values that an index has for `object`, stored or not.
    fn values_of(&self, name: &str, object: &T) -> Result<Vec<String>, IndexError> {
        if name == NAMESPACE_INDEX {
            return Ok(vec![self.keys.meta().namespace(object).unwrap_or_default().to_owned()]);
        }
        let values = self.indexes.with(name, |index| index.values_of(object))?;
        values.map_err(|source| IndexError::Function { index: name.to_owned(), source })
    }
}
