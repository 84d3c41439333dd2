//! The store: the known object of each key, and the indexes over them. The store shares its slots
//! with the queue, and does not depend on the queue.
//!
//! A store without a queue is written by its [`Indexer`]; each write claims the slot of its key
//! (`sole.rs`). A store that was given to a queue is written by popped items only, each for its
//! own key. So a key has one writer at a time. While it writes, an index has the key under the
//! values of the old and of the new object; at any other time under those of the known object. No
//! lock of the table is held while a writer waits for readers of an index. Index functions are
//! user code, and run before any lock is taken, or after it is released.

pub(crate) mod applied;
mod apply;
mod build;
mod find;
mod index;
mod indexer;
mod indexes;
mod lister;
mod reader;
mod roles;
mod slots;
mod sole;
pub(crate) mod transform;
mod walk;

use crate::engine::release::UserCode;
use crate::engine::sync::Arc;
use crate::engine::table::Table;
use crate::error::{BoxError, IndexError, StoreError};
use crate::panics::fallible;
use crate::store::applied::Applied;
use crate::{KeyFunc, Meta};
pub(crate) use index::Values;
pub(crate) use indexer::Parts;
pub use indexer::{Indexer, IndexerBuilder, Transaction};
pub use indexes::Indexers;
use indexes::Indexes;
pub use lister::{Lister, NamespaceLister, Selector};
pub use reader::IndexReader;
pub use walk::{WalkPosition, WalkStep};

/// The name of the built-in index by namespace (client-go `NamespaceIndex`); cluster-scoped
/// objects have the value `""`.
#[doc(alias = "MetaNamespaceIndexFunc")]
pub const NAMESPACE_INDEX: &str = "namespace";

/// The name of the optional index by the uids of an object's owners: see [`Indexers::owners`].
pub const OWNER_INDEX: &str = "owner";

/// A function that changes an object before it is queued or stored.
pub(crate) type Transformer<T> =
    UserCode<Box<dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync>>;

/// Wraps the user's `transformer`, whose panic becomes an error.
pub(crate) fn transformer<T>(
    transformer: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static,
) -> Transformer<T> {
    UserCode::new(Box::new(move |object| fallible(|| transformer(object))))
}

/// The parts that queue and store share.
pub(crate) struct Core<T, M> {
    // The fields are dropped in this order, because the table does not free a slot while an index
    // has a token of it.
    namespaces: Values<T>,
    indexes: Indexes<T>,
    pub(crate) table: Table<T>,
    pub(crate) keys: KeyFunc<T, M>,
    pub(crate) applied: Arc<Applied>,
}

impl<T, M: Meta<T>> Core<T, M> {
    fn new(keys: KeyFunc<T, M>, indexers: Indexers<T>) -> Result<Self, IndexError> {
        let applied = Arc::new(Applied::new());
        Ok(Self {
            namespaces: Values::new(),
            indexes: Indexes::new(indexers)?,
            table: Table::new(),
            keys,
            applied,
        })
    }

    /// Creates a core for a queue without a store.
    pub(crate) fn bare(keys: KeyFunc<T, M>) -> Self {
        let applied = Arc::new(Applied::new());
        Self {
            namespaces: Values::new(),
            indexes: Indexes::none_yet(),
            table: Table::new(),
            keys,
            applied,
        }
    }

    /// Fails if an index function fails for `object`.
    fn check_indexes(&self, key: &str, object: &T) -> Result<(), StoreError> {
        self.indexes.load().iter().try_for_each(|index| {
            let failed = |source: BoxError| {
                let source = UserCode::new(source);
                let version = self.version_of(object);
                let (index, key) = (index.name.clone(), key.to_owned());
                StoreError::Index { index, key, version, source: source.into_inner() }
            };
            index.values_of(object).map(drop).map_err(failed)
        })
    }

    /// Returns the version of `object`, for error messages.
    fn version_of(&self, object: &T) -> Option<String> {
        self.keys.meta().version(object).map(str::to_owned)
    }

    /// Returns the sorted values of an index for `object`, which need not be stored.
    pub(crate) fn values_of(&self, name: &str, object: &T) -> Result<Vec<String>, IndexError> {
        if name == NAMESPACE_INDEX {
            return Ok(vec![self.keys.namespace(object).to_owned()]);
        }
        let values = self.indexes.with(name, |index| index.values_of(object))?;
        values.map_err(|source| IndexError::Function { index: name.to_owned(), source })
    }
}
